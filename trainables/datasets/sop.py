"""Stanford Online Products (Song et al., CVPR 2016): photographs of products from eBay, RGB, split by product.

Test = Ebay_test.txt; validation = a tenth of the classes of Ebay_train.txt, chosen once and for all; training = the
rest. The classes of the three splits are disjoint.
"""

import re
from pathlib import Path

from trainables.datasets.download import fetch, of_digest
from trainables.datasets.source import Source, find_place
from trainables.datasets.structure import Plan, SplitPlan, fixed_order, preview, published_name

PUBLISHED_CLASSES = (11_318, 11_316)  # Ebay_train.txt (59,551 images), Ebay_test.txt (60,502)
VALIDATION_FRACTION = 0.1  # ours, of the training classes

FOLDER = "Stanford_Online_Products"
LISTS = ("Ebay_train.txt", "Ebay_test.txt")
HEADER = "image_id class_id super_class_id path"
LAYOUT = f"Ebay_train.txt, Ebay_test.txt and */*.JPG in {FOLDER}/, as a directory or as the original {FOLDER}.zip"
ORIGIN = "https://github.com/rksltnl/Deep-Metric-Learning-CVPR16"
URL = "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip"  # it announces ftp:// but has http:// as well
# tensorflow_datasets/url_checksums/stanford_online_products.txt, for 3,083,860,082 bytes of the ftp:// place
SHA256 = "b04fa78210e69fab050ce73939550e1cd0f96890bdd98ec9fee732c3b756ef48"

_WANTED = re.compile(r"^(.*/)?(?:Ebay_(?:train|test)\.txt|[^/]+/[^/]+\.(?i:jpe?g|png))$")


def plan(roots: list[Path], task: str | None = None) -> Plan:
    """Find SOP below the roots (directories, or the archive itself). Raises FileNotFoundError, ValueError."""
    found = find_place(
        "sop", roots, folders=(FOLDER,), marks=LISTS, archives=(f"{FOLDER}.zip",), layout=LAYOUT, origin=ORIGIN
    )
    source = Source((found,), _WANTED)
    prefix = source.top(LISTS, LAYOUT)
    with source.reader() as read:
        training, test = (_read_list(source, prefix, file, read(prefix + file)) for file in LISTS)
    images = [name for classes in (training, test) for names in classes.values() for name in names]
    if both := sorted(training.keys() & test.keys()):
        raise ValueError(f"{source.location}: classes both in {LISTS[0]} and in {LISTS[1]}: {preview(both)}")
    if missing := [name for name in images if name not in source.members]:
        raise ValueError(
            f"{source.location}: {len(missing):,} of the {len(images):,} images of the lists are not there: "
            f"{preview(missing)}"
        )
    held_out = set(fixed_order(training, "sop validation")[: max(1, round(VALIDATION_FRACTION * len(training)))])
    splits = {
        "train": {name: found for name, found in training.items() if name not in held_out},
        "validation": {name: found for name, found in training.items() if name in held_out},
        "test": test,
    }
    count = (len(training), len(test))
    name = published_name("sop", sum(count), count == PUBLISHED_CLASSES)
    plans = {split: SplitPlan(classes, images_per_class=2) for split, classes in splits.items()}
    return Plan(name, 3, plans, source.location, source.identity(), source.photographs)


def download(root: Path) -> None:
    """Fetch the archive (3.1 GB) into the root. Raises as `fetch` does."""
    fetch(URL, root / f"{FOLDER}.zip", of_digest(SHA256))


def _read_list(source: Source, prefix: str, file: str, data: bytes) -> dict[str, list[str]]:
    """{class_id: member names}, by class number; ValueError where a line has not `HEADER`'s four columns."""
    header, *rows = [line.split(maxsplit=3) for line in data.decode(errors="replace").splitlines() if line] or [[]]
    wrong = next((row for row in rows if len(row) != 4 or not all(field.isdecimal() for field in row[:3])), None)
    if header != HEADER.split() or not rows or wrong:
        raise ValueError(f"{source.location}: {file}: '{HEADER}' and lines of it are expected, not {wrong or header}")
    images: dict[str, list[str]] = {}
    for _, label, _, path in rows:
        images.setdefault(label, []).append(prefix + path.rstrip())
    return dict(sorted(images.items(), key=lambda item: int(item[0])))
