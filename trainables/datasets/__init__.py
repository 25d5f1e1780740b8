"""Image datasets as memory-mapped uint8 arrays, by name: glyphs, omniglot, sop, landmarks, tinyimagenet, and a folder of one's own."""

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from trainables.datasets import cache, folder, glyphs, landmarks, omniglot, sop, tinyimagenet
from trainables.datasets.structure import Dataset, Recipe, Split, local_path
from trainables.tasks import IMAGE_SIZES

__all__ = ["DATASETS", "DOWNLOADS", "Dataset", "SourceSummary", "Split", "check_source", "data_roots", "load_dataset"]

DATASETS = {
    "glyphs": glyphs.recipe,
    "omniglot": omniglot.recipe,
    "sop": sop.recipe,
    "landmarks": landmarks.recipe,
    "tinyimagenet": tinyimagenet.recipe,
    "folder": folder.recipe,
}
DOWNLOADS = {  # root -> None; of the datasets that are published on the web
    "omniglot": omniglot.download,
    "sop": sop.download,
    "landmarks": landmarks.download,
    "tinyimagenet": tinyimagenet.download,
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceSummary:
    """What `check_source` found: the name that results will carry, how much there is to train on, the data's place, the
    images' channels (1 or 3) and how many there are to test on (0: the dataset has no test split)."""

    name: str
    training_classes: int
    training_images: int
    location: str
    channels: int
    test_images: int


def load_dataset(
    name: str,
    data_root: str | os.PathLike | None = None,
    *,
    image_size: int,
    task: str | None = None,
    download: bool = False,
) -> Dataset:
    """The dataset with square images of image_size px: decoded into the cache the first time, memory-mapped afterwards.

    name: one of DATASETS.  data_root: see `data_roots`.  task: "dml", "ssl" or None for what is usual with the dataset.
    download: fetch what is not there, into the first of the data roots; see DOWNLOADS.
    Raises FileNotFoundError where there is no data (it says what was looked for), ConnectionError where it cannot be
    fetched, and ValueError for an unknown name, a task that the dataset does not allow, a size outside of IMAGE_SIZES, a
    wrong layout, damaged data, and for a download of a dataset that has none.
    """
    if isinstance(image_size, bool) or image_size not in IMAGE_SIZES:
        raise ValueError(
            f"image_size={image_size!r} is not allowed, whole pixels from {IMAGE_SIZES[0]} to {IMAGE_SIZES[-1]} are"
        )
    return cache.load(_recipe(name, data_root, task, download), int(image_size))


def check_source(
    name: str, data_root: str | os.PathLike | None = None, *, task: str | None = None, download: bool = False
) -> SourceSummary:
    """Check that the data is there and laid out as expected; no image is decoded. Raises as `load_dataset` does."""
    recipe = _recipe(name, data_root, task, download)
    plan = recipe.plan()
    train = plan.splits["train"]
    test = plan.splits.get("test")
    return SourceSummary(plan.name, len(train.class_names), len(train.items), recipe.location, plan.channels, len(test.items) if test else 0)


def data_roots(data_root: str | os.PathLike | None = None) -> list[Path]:
    """Where data is looked for, in order: data_root alone if given (a directory, or the archive itself), else
    $TUNE_CD_DATA (where set) and ~/.cache/tune_cd. Raises ValueError for a URI."""
    if data_root is not None:
        return [local_path(data_root, "the data root")]
    shelf = os.environ.get("TUNE_CD_DATA")
    return [local_path(place, "TUNE_CD_DATA") for place in (shelf, "~/.cache/tune_cd") if place]


def _recipe(name: str, data_root: str | os.PathLike | None, task: str | None, download: bool) -> Recipe:
    """The recipe, after a download if one is asked for and needed; warns of what is left out."""
    if name not in DATASETS:
        raise ValueError(f"dataset {name!r} is not known, these are: {', '.join(DATASETS)}")
    if download and name not in DOWNLOADS:
        raise ValueError(f"there is no public archive of dataset {name!r} to download, only of {', '.join(DOWNLOADS)}")
    roots = data_roots(data_root)
    try:
        recipe = DATASETS[name](roots, task)
        missing = recipe.incomplete
    except FileNotFoundError as error:
        if not download:
            raise
        log.info("%s", error)
        missing = True
    if download and missing:
        DOWNLOADS[name](roots[0])
        recipe = DATASETS[name](roots, task)
    if recipe.left_out:
        warnings.warn(f"{recipe.location}: {recipe.left_out}", stacklevel=3)
    return recipe
