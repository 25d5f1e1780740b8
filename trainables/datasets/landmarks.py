"""Landmarks-clean (Gordo et al., ECCV 2016): photographs of landmarks, RGB.

Training = annotation_clean_train.txt, validation = annotation_clean_val.txt, of the same classes. There is no test
split: models trained on it are tested on revisited Oxford and Paris. The lists give links to other people's
photographs (`URL class x1 x2 y1 y2`), many of them dead by now; `download` fetches what is left. The landmark's box in
a photo (x1 x2 y1 y2) is not used.
"""

import logging
import re
import time
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock

from trainables.datasets.download import Interrupted, Progress, chunks, opened
from trainables.datasets.source import MAX_MEMBER_BYTES, Source, decode_image, missing_data
from trainables.datasets.structure import (
    Plan,
    Recipe,
    SplitPlan,
    UndecodableImage,
    allowed_task,
    in_order,
    preview,
    published_name,
)

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

THREADS = 16
AHEAD = 1024  # results that may wait for a slow link
TIMEOUT = 30.0  # s for a photo to arrive
ATTEMPTS = 2

_WANTED = re.compile(r"(^|/)(images/[0-9a-f]{32}\.jpg|annotation_clean_(train|val)\.txt)$")

log = logging.getLogger(__name__)


class IncompleteData(FileNotFoundError, ValueError):
    """The lists are present but too few photos: a wrong state of the folder, which a download can repair."""


def recipe(roots: list[Path], task: str | None = None) -> Recipe:
    """Find Landmarks-clean below the roots. Raises FileNotFoundError, ValueError, and both at once (IncompleteData) if
    over half of the photos are missing without a known dead link, or if a list has no class with enough photos."""
    allowed_task("landmarks", task, ("dml",))
    folder = _find(roots)
    source = Source((folder,), _WANTED)
    lists = {split: read_list(folder / file) for split, file in LISTS.items()}
    urls = _urls(lists.values())
    missing = [url for url in urls if _member(folder, url) not in source.members]
    untried = set(missing) - read_dead(folder).keys()
    if len(untried) > MAX_UNTRIED * len(urls):
        raise IncompleteData(
            f"{folder}: {len(missing):,} of {len(urls):,} images are missing, {len(untried):,} of them not known to be "
            "dead links; fetch them with --download"
        )

    classes, few = _classes(folder, lists, source)
    if empty := [LISTS[split] for split, found in classes.items() if not found]:
        raise IncompleteData(
            f"{folder}: no class of {empty[0]} has {IMAGES_PER_CLASS} images; fetch the missing ones with --download"
        )
    notes = [f"{len(missing):,} of {len(urls):,} images are missing"] if missing else []
    if few:
        notes.append(f"{len(few)} classes have fewer than {IMAGES_PER_CLASS} images and are left out: {preview(few)}")
    return Recipe(
        "landmarks", source.location, source.identity(), lambda: _plan(classes), source.photographs,
        left_out="; ".join(notes), incomplete=bool(untried),
    )  # fmt: skip


def download(root: Path, *, threads: int = THREADS, timeout: float = TIMEOUT) -> None:
    """Fetch the missing photos, except those of known dead links (in dead.txt; delete it to try those again).

    Can be interrupted and called again. threads: photos fetched at a time.  timeout: s for each to arrive.
    Raises FileNotFoundError without the lists, and ConnectionError if there is no photo and no server answered.
    """
    folder = _find([root])
    images = folder / "images"
    images.mkdir(exist_ok=True)
    with FileLock(folder / "images.lock"):
        for left_by_a_killed_process in images.glob("*.part"):
            left_by_a_killed_process.unlink()
        urls = _urls(read_list(folder / file) for file in LISTS.values())
        dead = read_dead(folder)
        wanted = [url for url in urls if url not in dead and not _image(folder, url).exists()]
        silent = _fetch_all(folder, wanted, threads, timeout)
        here = sum(_image(folder, url).exists() for url in urls)
    if silent and not here:
        url, reason = next(iter(silent.items()))
        raise ConnectionError(f"{folder}: none of {len(wanted):,} images could be fetched; {url}: {reason}")
    dead_file = folder / "dead.txt"
    log.info("%d of %d images, %d dead links (list in %s)", here, len(urls), len(read_dead(folder)), dead_file)
    if silent:
        log.warning("%d links gave no answer, nor did any after them; they are tried again next time", len(silent))


def read_list(path: Path) -> list[tuple[str, str]]:
    """[(URL, class)] of a list. Raises ValueError naming the first malformed line."""
    entries = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        fields = line.rsplit(maxsplit=5)  # from the right, as some URL may hold a space
        if not fields:
            continue
        if len(fields) != 6 or not re.match(r"https?://", fields[0]):
            raise ValueError(f"{path}, line {number}: {line!r} is not `URL class x1 x2 y1 y2` with an http(s) URL")
        entries.append((fields[0].strip(), fields[1]))
    if not entries:
        raise ValueError(f"{path} lists no image")
    return entries


def read_dead(folder: Path) -> dict[str, str]:
    """{URL: reason} of the links found dead by earlier downloads."""
    path = folder / "dead.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("\t", 1) for line in lines if "\t" in line)  # no tab: the last line of a killed process


def _fetch_all(folder: Path, urls: list[str], threads: int, timeout: float) -> dict[str, str]:
    """Fetch the photos and append dead links to dead.txt. Returns {URL: reason} of links that may still be alive.

    A link without an answer counts as dead once a later link is answered, by any server; before, our own network may
    be the cause.
    """
    silent: dict[str, str] = {}
    answered = False
    progress = Progress(folder, len(urls), "links")
    with (folder / "dead.txt").open("a") as file:
        outcomes = in_order(lambda url: _fetch_image(url, _image(folder, url), timeout), urls, threads, AHEAD)
        for number, (url, (answers, reason)) in enumerate(zip(urls, outcomes, strict=True), start=1):
            answered = answered or answers
            if reason:
                silent[url] = reason
            # Up to one link per thread may lie at the end, without later links.
            if answers or (answered and number == len(urls) and len(silent) <= threads):
                file.writelines(f"{url}\t{' '.join(reason.split())}\n" for url, reason in silent.items())
                file.flush()
                silent.clear()
            progress.add(1)
    return silent


def _fetch_image(url: str, path: Path, timeout: float) -> tuple[bool, str]:
    """Fetch a photo: (whether a server answered, the reason of failure, or "" if the whole image is at the path)."""
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            data = _read_image(url, timeout)
        except Interrupted as error:
            reason = str(error)
        except (ConnectionError, ValueError) as error:  # a final refusal, no image, or a malformed URL
            return True, str(error) or type(error).__name__
        else:
            part = path.with_name(path.name + ".part")
            part.write_bytes(data)
            part.rename(path)
            return True, ""
    return False, reason


def _read_image(url: str, timeout: float) -> bytes:
    """The bytes of a photo that decodes. Raises Interrupted, ConnectionError, ValueError."""
    start, parts, size = time.monotonic(), [], 0
    with opened(quote(url, safe="%/:?#[]@!$&'()*+,;=~"), timeout) as response:
        if "unavailable" in response.url:  # Flickr's photo_unavailable.png is a picture too, with status 200
            raise ValueError(f"redirected to {response.url.partition('?')[0]}")  # its query may be a signature
        for data in chunks(response):
            parts.append(data)
            size += len(data)
            if size > MAX_MEMBER_BYTES:
                raise ValueError(f"more than {MAX_MEMBER_BYTES:,} bytes")
            if time.monotonic() - start > timeout:
                raise Interrupted(f"not complete after {timeout:g} s")
        kind = response.headers["Content-Type"]
    data = b"".join(parts)
    try:
        decode_image(data, "RGB", 8)
    except UndecodableImage as error:
        raise ValueError(f"no image that decodes (Content-Type: {kind})") from error
    return data


def _find(roots: list[Path]) -> Path:
    tried = []
    for root in roots:
        for place in (root, root / "landmarks", root / "landmarks-clean"):
            there = [(place / file).is_file() for file in LISTS.values()]
            if all(there):
                return place
            tried += [place / file for file, found in zip(LISTS.values(), there, strict=True) if not found]
    raise missing_data("landmarks", tried, LAYOUT, ORIGIN, download=True)


def _urls(lists: Iterable[list[tuple[str, str]]]) -> list[str]:
    return list(dict.fromkeys(url for entries in lists for url, _ in entries))


def _file_name(url: str) -> str:
    return f"{blake2b(url.encode(), digest_size=16).hexdigest()}.jpg"


def _image(folder: Path, url: str) -> Path:
    return folder / "images" / _file_name(url)


def _member(folder: Path, url: str) -> str:
    """The image's name in the Source."""
    return f"{folder.name}/images/{_file_name(url)}"


def _classes(
    folder: Path, lists: dict[str, list[tuple[str, str]]], source: Source
) -> tuple[dict[str, dict[str, list[str]]], list[str]]:
    """({split: {class: its images}}, ["<split> <class>" of classes left out]); a repeated URL counts only once."""
    classes: dict[str, dict[str, list[str]]] = {}
    few, seen = [], set()
    for split, entries in lists.items():
        found: dict[str, list[str]] = {
            name: [] for name in sorted({name for _, name in entries}, key=lambda name: (len(name), name))
        }
        for url, name in entries:
            if url not in seen and _member(folder, url) in source.members:
                found[name].append(_member(folder, url))
            seen.add(url)
        classes[split] = {name: names for name, names in found.items() if len(names) >= IMAGES_PER_CLASS}
        few += [f"{split} {name}" for name in found if name not in classes[split]]
    return classes, few


def _plan(classes: dict[str, dict[str, list[str]]]) -> Plan:
    count = len(classes["train"])
    name = published_name("landmarks", count, count == PUBLISHED_CLASSES)
    return Plan(name, 3, {split: SplitPlan.of(found, IMAGES_PER_CLASS) for split, found in classes.items()})
