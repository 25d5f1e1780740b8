"""Image datasets as memory-mapped uint8 arrays, by name: glyphs, omniglot, tinyimagenet."""

import os
from dataclasses import dataclass
from pathlib import Path

from trainables.datasets import cache, glyphs, omniglot, tinyimagenet
from trainables.datasets.structure import Dataset, Recipe, Split

__all__ = ["DATASETS", "Dataset", "SourceSummary", "Split", "check_source", "data_roots", "load_dataset"]

DATASETS = {"glyphs": glyphs.recipe, "omniglot": omniglot.recipe, "tinyimagenet": tinyimagenet.recipe}
IMAGE_SIZES = range(8, 1025)  # px


@dataclass(frozen=True)
class SourceSummary:
    """What `check_source` found: the name that results will carry, how much there is to train on, and the data's place."""

    name: str
    training_classes: int
    training_images: int
    location: str


def load_dataset(name: str, data_root: str | os.PathLike | None = None, *, image_size: int) -> Dataset:
    """The dataset with square images of image_size px: decoded into the cache the first time, memory-mapped afterwards.

    name: one of DATASETS.  data_root: see `data_roots`.
    Raises FileNotFoundError where there is no data (it says what was looked for), and ValueError for an unknown name,
    a size outside of IMAGE_SIZES, a wrong layout and damaged data.
    """
    if isinstance(image_size, bool) or image_size not in IMAGE_SIZES:
        raise ValueError(
            f"image_size={image_size!r} is not allowed, whole pixels from {IMAGE_SIZES[0]} to {IMAGE_SIZES[-1]} are"
        )
    return cache.load(_recipe(name, data_root), int(image_size))


def check_source(name: str, data_root: str | os.PathLike | None = None) -> SourceSummary:
    """Check that the data is there and laid out as expected; no image is decoded. Raises as `load_dataset` does."""
    recipe = _recipe(name, data_root)
    plan = recipe.plan()
    train = plan.splits["train"]
    return SourceSummary(plan.name, len(train.class_names), len(train.items), recipe.location)


def data_roots(data_root: str | os.PathLike | None = None) -> list[Path]:
    """Where data is looked for, in order: data_root alone if given (a directory, or the archive itself), else
    $TUNE_CD_DATA (where set) and ~/.cache/tune_cd."""
    standard = [place for place in (os.environ.get("TUNE_CD_DATA"), "~/.cache/tune_cd") if place]
    places = standard if data_root is None else [data_root]
    return [Path(place).expanduser().absolute() for place in places]


def _recipe(name: str, data_root: str | os.PathLike | None) -> Recipe:
    if name not in DATASETS:
        raise ValueError(f"dataset {name!r} is not known, these are: {', '.join(DATASETS)}")
    return DATASETS[name](data_roots(data_root))
