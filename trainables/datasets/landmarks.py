"""Landmarks-clean (Gordo et al., ECCV 2016): photographs of landmarks, RGB.

Training = annotation_clean_train.txt, validation = annotation_clean_val.txt, of the same classes. There is no test
split: models trained on it are tested on revisited Oxford and Paris. The lists give links to other people's
photographs (`URL class x1 x2 y1 y2`), many of them dead by now; `download` fetches what is left. The landmark's box in
a photo (x1 x2 y1 y2) is not used.
"""

import itertools
import logging
import re
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock
from tqdm import tqdm

from trainables.datasets.download import AHEAD, CHUNK, THREADS, Interrupted, chunks, opened
from trainables.datasets.source import MAX_MEMBER_BYTES, Source, decode_image, find_place
from trainables.datasets.structure import Plan, SplitPlan, in_order, preview, published_name

PUBLISHED_CLASSES = 586  # of 42,410 training and 6,382 validation images
MAX_UNTRIED = 0.5  # of the images may be missing without a known dead link; more means a missing download
IMAGES_PER_CLASS = 2

LISTS = {"train": "annotation_clean_train.txt", "validation": "annotation_clean_val.txt"}  # ours
LAYOUT = (
    f"{' and '.join(LISTS.values())} (lines `URL class x1 x2 y1 y2`) in landmarks/ or landmarks-clean/, the photos in "
    "images/ there"
)
# The authors' answer in issue 1 of github.com/naver/deep-image-retrieval. The address of the file is not certain.
ORIGIN = (
    "the authors' annotation lists from http://download.europe.naverlabs.com/Computer-Vision-CodeandModels/ "
    "(put them there by hand), then the photos with --download"
)

_WANTED = re.compile(r"(^|/)(images/[0-9a-f]{32}\.jpg|annotation_clean_(train|val)\.txt)$")

log = logging.getLogger(__name__)


def plan(roots: list[Path], task: str | None = None) -> Plan:
    """Find Landmarks-clean below the roots. Raises ValueError for a malformed list, and FileNotFoundError without the
    lists, if over half of the photos are missing without a known dead link, or if a list has no class with enough."""
    folder = _find(roots)
    source = Source((folder,), _WANTED)
    listed, missing = read_lists(folder), set()
    found: dict[str, dict[str, list[str]]] = {split: defaultdict(list) for split in LISTS}
    for url, (split, name) in listed.items():
        images, member = found[split][name], f"{folder.name}/{image_name(url)}"
        if member in source.members:
            images.append(member)
        else:
            missing.add(url)
    untried = missing - read_dead(folder).keys()
    kept: dict[str, dict[str, list[str]]] = {}
    for split, classes in found.items():
        enough = [name for name, images in classes.items() if len(images) >= IMAGES_PER_CLASS]
        kept[split] = {name: classes[name] for name in sorted(enough, key=lambda name: (len(name), name))}
    if len(untried) > MAX_UNTRIED * len(listed) or not all(kept.values()):
        raise FileNotFoundError(
            f"{folder}: {len(missing):,} of {len(listed):,} images are missing, {len(untried):,} of them not known to "
            "be dead links; fetch them with --download"
        )
    notes = [f"{len(missing):,} of {len(listed):,} images are missing"] if missing else []
    if few := [f"{split} {name}" for split, classes in found.items() for name in classes if name not in kept[split]]:
        notes.append(f"{len(few)} classes have fewer than {IMAGES_PER_CLASS} images and are left out: {preview(few)}")
    count = len(kept["train"])
    name = published_name("landmarks", count, count == PUBLISHED_CLASSES)
    plans = {split: SplitPlan(classes, IMAGES_PER_CLASS) for split, classes in kept.items()}
    return Plan(
        name, 3, plans, source.location, source.identity(), source.photographs,
        left_out="; ".join(notes), incomplete=bool(untried),
    )  # fmt: skip


def download(root: Path) -> None:
    """Fetch the missing photos, except those of known dead links (in dead.txt; delete it to try those again).

    Can be interrupted and called again. A link without an answer is not dead, as our own network may be the cause.
    Raises FileNotFoundError without the lists, and ConnectionError if there is no photo and no server answered.
    """
    folder = _find([root])
    (folder / "images").mkdir(exist_ok=True)
    with FileLock(folder / "images.lock"), (folder / "dead.txt").open("a") as file:
        listed, dead = read_lists(folder), read_dead(folder)
        wanted = [url for url in listed if url not in dead and not (folder / image_name(url)).exists()]
        log.info("%s: fetching %d of %d images", folder, len(wanted), len(listed))
        outcomes = in_order(lambda url: _fetch_image(url, folder / image_name(url)), wanted, THREADS, AHEAD)
        silent: dict[str, str] = {}
        for url, error in zip(wanted, tqdm(outcomes, total=len(wanted), disable=None), strict=True):
            if isinstance(error, Interrupted):
                silent[url] = str(error)
            elif error is not None:
                file.write(f"{url}\t{' '.join(str(error).split()) or type(error).__name__}\n")
                file.flush()
    if silent and not any((folder / "images").glob("*.jpg")):
        raise ConnectionError(
            f"{folder}: none of {len(wanted):,} images could be fetched; {next(iter(silent.items()))}"
        )
    log.info("%s lists %d dead links; %d more gave no answer", folder / "dead.txt", len(read_dead(folder)), len(silent))


def read_lists(folder: Path) -> dict[str, tuple[str, str]]:
    """{URL: (split, class)} of both lists; of a repeated URL its first place. Raises ValueError naming the first
    malformed line."""
    listed: dict[str, tuple[str, str]] = {}
    for split, file in LISTS.items():
        for number, line in enumerate((folder / file).read_text(errors="replace").splitlines(), start=1):
            fields = line.rsplit(maxsplit=5)  # from the right, as some URL may hold a space
            if fields and (len(fields) != 6 or not re.match(r"https?://", fields[0])):
                said = f"{line!r} is not `URL class x1 x2 y1 y2` with an http(s) URL"
                raise ValueError(f"{folder / file}, line {number}: {said}")
            if fields:
                listed.setdefault(fields[0].strip(), (split, fields[1]))
    return listed


def read_dead(folder: Path) -> dict[str, str]:
    """{URL: reason} of the links found dead by earlier downloads."""
    path = folder / "dead.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("\t", 1) for line in lines if "\t" in line)  # no tab: the last line of a killed process


def image_name(url: str) -> str:
    """The name of a link's photo, relative to the dataset's folder."""
    return f"images/{blake2b(url.encode(), digest_size=16).hexdigest()}.jpg"


def _find(roots: list[Path]) -> Path:
    folders, marks = ("landmarks", "landmarks-clean"), tuple(LISTS.values())
    return find_place("landmarks", roots, folders=folders, marks=marks, layout=LAYOUT, origin=ORIGIN)


def _fetch_image(url: str, path: Path) -> Exception | None:
    """Fetch a photo that decodes. Returns the error if there is none: Interrupted if no server answered, else a final
    refusal, no image, or a malformed URL."""
    try:
        with opened(quote(url, safe="%/:?#[]@!$&'()*+,;=~")) as response:
            if "unavailable" in response.url:  # Flickr's photo_unavailable.png is a picture too, with status 200
                # its query may be a signature
                raise ValueError(f"redirected to {response.url.partition('?')[0]}")
            data = b"".join(itertools.islice(chunks(response), 1 + MAX_MEMBER_BYTES // CHUNK))
        if len(data) > MAX_MEMBER_BYTES:
            raise ValueError("the file is too large")
        decode_image(data, "RGB", 8)
    except (OSError, ValueError) as error:
        return error
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.rename(path)
    return None
