"""Landmarks-clean (Gordo et al., ECCV 2016): photographs of landmarks, RGB.

Training = annotation_clean_train.txt, validation = annotation_clean_val.txt, of the same classes. There is no test
split: models trained on it are tested on revisited Oxford and Paris. The lists give links to other people's
photographs (`URL class x1 x2 y1 y2`), many of them dead by now; `download` fetches what is left. The landmark's box in
a photo (x1 x2 y1 y2) is not used.
"""

import logging
import re
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock
from tqdm import tqdm

from trainables.datasets.download import TIMEOUT, Interrupted, body, opened
from trainables.datasets.source import MAX_MEMBER_BYTES, Source, decode_image, find_place
from trainables.datasets.structure import Plan, Recipe, SplitPlan, in_order, preview, published_name

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

THREADS = 16  # photos fetched at a time
AHEAD = 1024  # results that may wait for a slow link

_WANTED = re.compile(r"(^|/)(images/[0-9a-f]{32}\.jpg|annotation_clean_(train|val)\.txt)$")

log = logging.getLogger(__name__)


def recipe(roots: list[Path], task: str | None = None) -> Recipe:
    """Find Landmarks-clean below the roots. Raises ValueError for a malformed list, and FileNotFoundError without the
    lists, if over half of the photos are missing without a known dead link, or if a list has no class with enough."""
    folder = _find(roots)
    source = Source((folder,), _WANTED)
    lists = {split: read_list(folder / file) for split, file in LISTS.items()}
    urls = {url for entries in lists.values() for url, _ in entries}
    missing = {url for url in urls if f"{folder.name}/{image_name(url)}" not in source.members}
    untried = missing - read_dead(folder).keys()
    classes = _classes(folder, lists, missing)
    kept = {split: {name: images for name, images in found.items() if len(images) >= IMAGES_PER_CLASS}
            for split, found in classes.items()}  # fmt: skip
    if len(untried) > MAX_UNTRIED * len(urls) or not all(kept.values()):
        raise FileNotFoundError(
            f"{folder}: {len(missing):,} of {len(urls):,} images are missing, {len(untried):,} of them not known to be "
            "dead links; fetch them with --download"
        )
    notes = [f"{len(missing):,} of {len(urls):,} images are missing"] if missing else []
    if few := [f"{split} {name}" for split, found in classes.items() for name in found if name not in kept[split]]:
        notes.append(f"{len(few)} classes have fewer than {IMAGES_PER_CLASS} images and are left out: {preview(few)}")
    return Recipe(
        "landmarks", source.location, source.identity(), lambda: _plan(kept), source.photographs,
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
        dead = read_dead(folder)
        urls = list(dict.fromkeys(url for name in LISTS.values() for url, _ in read_list(folder / name)))
        wanted = [url for url in urls if url not in dead and not (folder / image_name(url)).exists()]
        log.info("%s: fetching %d of %d images", folder, len(wanted), len(urls))
        outcomes = in_order(lambda url: _fetch_image(url, folder / image_name(url)), wanted, THREADS, AHEAD)
        silent: dict[str, str] = {}
        for url, (answered, reason) in zip(wanted, tqdm(outcomes, total=len(wanted), disable=None), strict=True):
            if reason and not answered:
                silent[url] = reason
            elif reason:
                file.write(f"{url}\t{' '.join(reason.split())}\n")
                file.flush()
    if silent and not any((folder / "images").glob("*.jpg")):
        raise ConnectionError(
            f"{folder}: none of {len(wanted):,} images could be fetched; {next(iter(silent.items()))}"
        )
    log.info("%s lists %d dead links; %d more gave no answer", folder / "dead.txt", len(read_dead(folder)), len(silent))


def read_list(path: Path) -> list[tuple[str, str]]:
    """[(URL, class)] of a list. Raises ValueError naming the first malformed line."""
    entries = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        fields = line.rsplit(maxsplit=5)  # from the right, as some URL may hold a space
        if fields and (len(fields) != 6 or not re.match(r"https?://", fields[0])):
            raise ValueError(f"{path}, line {number}: {line!r} is not `URL class x1 x2 y1 y2` with an http(s) URL")
        if fields:
            entries.append((fields[0].strip(), fields[1]))
    return entries


def read_dead(folder: Path) -> dict[str, str]:
    """{URL: reason} of the links found dead by earlier downloads."""
    path = folder / "dead.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("\t", 1) for line in lines if "\t" in line)  # no tab: the last line of a killed process


def _fetch_image(url: str, path: Path) -> tuple[bool, str]:
    """Fetch a photo that decodes: (whether a server answered, the reason of failure or "")."""
    try:
        with opened(quote(url, safe="%/:?#[]@!$&'()*+,;=~"), timeout=TIMEOUT) as response:
            if "unavailable" in response.url:  # Flickr's photo_unavailable.png is a picture too, with status 200
                return True, f"redirected to {response.url.partition('?')[0]}"  # its query may be a signature
            data = body(response, MAX_MEMBER_BYTES)
        decode_image(data, "RGB", 8)
    except Interrupted as error:
        return False, str(error)
    except (OSError, ValueError) as error:  # a final refusal, no image, or a malformed URL
        return True, str(error) or type(error).__name__
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.rename(path)
    return True, ""


def _find(roots: list[Path]) -> Path:
    folders, marks = ("landmarks", "landmarks-clean"), tuple(LISTS.values())
    return find_place("landmarks", roots, folders=folders, marks=marks, layout=LAYOUT, origin=ORIGIN)


def image_name(url: str) -> str:
    """The name of a link's photo, relative to the dataset's folder."""
    return f"images/{blake2b(url.encode(), digest_size=16).hexdigest()}.jpg"


def _classes(
    folder: Path, lists: dict[str, list[tuple[str, str]]], missing: set[str]
) -> dict[str, dict[str, list[str]]]:
    """{split: {class: its images in the Source}}; a repeated URL counts only once."""
    classes: dict[str, dict[str, list[str]]] = {}
    seen = set(missing)
    for split, entries in lists.items():
        names = sorted({name for _, name in entries}, key=lambda name: (len(name), name))
        classes[split] = {name: [] for name in names}
        for url, name in entries:
            if url not in seen:
                classes[split][name].append(f"{folder.name}/{image_name(url)}")
            seen.add(url)
    return classes


def _plan(classes: dict[str, dict[str, list[str]]]) -> Plan:
    count = len(classes["train"])
    name = published_name("landmarks", count, count == PUBLISHED_CLASSES)
    return Plan(name, 3, {split: SplitPlan(found, IMAGES_PER_CLASS) for split, found in classes.items()})
