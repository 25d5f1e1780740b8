"""Image datasets as memory-mapped uint8 arrays: glyphs, omniglot, sop, landmarks, tinyimagenet, or a folder."""

import logging
import os
import warnings
from pathlib import Path

from trainables.datasets import cache, folder, glyphs, landmarks, omniglot, sop, tinyimagenet
from trainables.datasets.remote import materialise, pinned
from trainables.datasets.structure import Dataset, Plan, Split
from trainables.datasets.uri import Address, is_uri, local_path, parse

__all__ = [
    "DATASETS", "DOWNLOADS", "Dataset", "Plan", "Split", "check_source", "data_roots", "load_dataset",
    "pin_source", "source_sha256",
]  # fmt: skip

DATASETS = {
    "glyphs": glyphs.plan, "omniglot": omniglot.plan, "sop": sop.plan, "landmarks": landmarks.plan,
    "tinyimagenet": tinyimagenet.plan, "folder": folder.plan,
}  # fmt: skip
DOWNLOADS = {  # dataset with a public archive -> function that fetches it into a root
    "omniglot": omniglot.download, "sop": sop.download, "landmarks": landmarks.download,
    "tinyimagenet": tinyimagenet.download,
}  # fmt: skip
DRAWN = ("glyphs",)  # made on the spot, so that data roots are ignored

log = logging.getLogger(__name__)


def load_dataset(
    name: str, data_root: str | os.PathLike | None = None, *, image_size: int, task: str | None = None,
    download: bool = False, distortion: float = 1.0,
) -> Dataset:  # fmt: skip
    """Load a dataset with square images of image_size px: decoded into the cache once, memory-mapped afterwards.

    name: one of DATASETS.  data_root: see `data_roots`.  task: "dml", "ssl" or None for the dataset's usual task.
    download: fetch missing data into the first of the data roots; see DOWNLOADS.  distortion: of glyphs, see
    `glyphs.distorted`; 0 draws them plain.
    Raises FileNotFoundError if there is no data (it names the places tried), ConnectionError if it cannot be fetched,
    OSError if it does not fit the disk, and ValueError for an unknown name, a URI that is not allowed, a wrong layout,
    damaged data, data with another digest than the URI's, and for a download of a dataset that has none.
    """
    plan = check_source(name, data_root, task=task, download=download, distortion=distortion)
    return cache.load(plan, image_size)


def check_source(
    name: str, data_root: str | os.PathLike | None = None, *, task: str | None = None, download: bool = False,
    distortion: float = 1.0,
) -> Plan:  # fmt: skip
    """Check that the data is present (a URI's is fetched, other data if `download` asks for it) and laid out as
    expected; decodes no image. Warns of data that are left out. Arguments and errors as in `load_dataset`."""
    if name not in DATASETS:
        raise ValueError(f"dataset {name!r} is not known, these are: {', '.join(DATASETS)}")
    if download and name not in DOWNLOADS:
        raise ValueError(f"there is no public archive of dataset {name!r} to download, only of {', '.join(DOWNLOADS)}")
    address = _address(data_root, download)
    if name == "folder" and data_root is None and address is None:
        raise ValueError("the dataset 'folder' is your own images: name their place with --data-root")
    if name in DRAWN:
        return glyphs.plan([], task, distortion)
    roots = data_roots(data_root, download)
    plan = None
    try:
        plan = DATASETS[name](roots, task)
    except FileNotFoundError as error:
        if not download:
            raise
        log.info("%s", error)
    if plan is None or (download and plan.incomplete):
        DOWNLOADS[name](roots[0])
        plan = DATASETS[name](roots, task)
    if plan.left_out:
        warnings.warn(f"{plan.location}: {plan.left_out}", stacklevel=3)
    return plan


def data_roots(data_root: str | os.PathLike | None = None, download: bool = False) -> list[Path]:
    """The places to look for data, in order.

    They are data_root alone if given (a directory, or the archive itself), else $TUNE_CD_DATA (if set) and
    ~/.cache/tune_cd. If either is a URI (see `uri.parse`), the only place is its local copy, which is fetched unless
    this machine has it.
    download: whether data may be fetched into the first place. Raises ValueError if that is a URI's copy, and as
    `materialise`.
    """
    address = _address(data_root, download)
    if address is not None:
        return [materialise(address)]
    if data_root is not None:
        return [local_path(data_root, "the data root")]
    shelf = os.environ.get("TUNE_CD_DATA")
    return [local_path(place, "TUNE_CD_DATA") for place in (shelf, "~/.cache/tune_cd") if place]


def pin_source(name: str, data_root: str | os.PathLike | None, download: bool = False) -> str | None:
    """The data root for every node, so that all use the same bytes.

    The data behind a URI (in $TUNE_CD_DATA, if data_root is None) are fetched here once, and the URI gets their digest:
    a node that finds other data raises ValueError. A path is returned as it is. Warns of a data root that the dataset
    does not read. Raises as `data_roots`.
    """
    address = _address(data_root, download)
    if name in DRAWN and data_root is not None:
        said = f"--data-root {data_root} is not read: {name} is drawn on the spot; your own images are --dataset folder"
        warnings.warn(said, stacklevel=2)
    if address is None or name in DRAWN:
        return data_root if data_root is None else os.fspath(data_root)
    return pinned(address)


def source_sha256(data_root: str | os.PathLike | None) -> str | None:
    """The digest in a data root's URI, 64 hexadecimal digits, or None. Raises ValueError as `uri.parse`."""
    return parse(data_root).sha256 if data_root is not None and is_uri(data_root) else None


def _address(data_root: str | os.PathLike | None, download: bool) -> Address | None:
    """The URI that `data_roots` uses, checked; None if it uses paths."""
    place, what = (
        (data_root, "the data root") if data_root is not None else (os.environ.get("TUNE_CD_DATA"), "TUNE_CD_DATA")
    )
    if not place or not is_uri(place):
        return None
    address = parse(place, what)
    if download:
        raise ValueError(
            f"data at {address.uri} and a download of published data exclude each other: leave out --download, or "
            "name a folder"
        )
    return address
