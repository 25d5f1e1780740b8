"""A user's own images: a directory or a zip archive with one sub-folder a class, read as RGB.

Without a split of the user's own (sub-folders `train`, `test` and perhaps `val` or `validation` at the top) the images
are split once and for all, by hashes of their names:

dml: classes are disjoint, 60 % for training, 15 % validation, 25 % test, at least MIN_CLASSES each.
ssl: every class is in every split, 80 % of its images for training, 10 % validation, 10 % test, at least one each.
"""

import re
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from trainables.datasets.source import Source, missing_data
from trainables.datasets.structure import Plan, Recipe, SplitPlan, allowed_task, fixed_order, preview
from trainables.training.setup import TASKS

CLASS_FRACTIONS = {"validation": 0.15, "test": 0.25}  # dml; the rest is for training
IMAGE_FRACTIONS = {"validation": 0.1, "test": 0.1}  # ssl, of each class
MIN_CLASSES = 2  # of a split: with one class there is nothing to tell apart
SPLIT_FOLDERS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}

LAYOUT = (
    "a directory or a zip archive with one sub-folder a class and its .jpg, .jpeg or .png images in it, at any depth; "
    "or sub-folders train and test (and perhaps val or validation) with one sub-folder a class in each"
)

_IMAGE = re.compile(r"\.(jpe?g|png)$", re.IGNORECASE)

Classes = dict[str, list[str]]  # class -> names relative to the top, sorted


def recipe(roots: list[Path], task: str | None = None) -> Recipe:
    """The images of the one root, split for the task. Raises FileNotFoundError, ValueError."""
    task = allowed_task("folder", task, TASKS)
    if len(roots) != 1:
        raise ValueError(
            f"the dataset 'folder' is one place that you name as data root; here are {len(roots)}: {roots}"
        )
    root = roots[0]
    if not root.exists():
        raise missing_data("folder", [root], LAYOUT, "your own images")
    source = Source((root,), _IMAGE)
    name = f"folder-{_cleaned(root)}"
    # The task because the splits differ, the name because an archive's identity does not cover it.
    identity = blake2b(repr((source.identity(), task, name)).encode(), digest_size=16).hexdigest()

    return Recipe("folder", source.location, identity, lambda: _plan(source, task, name), source.photographs)


def _cleaned(root: Path) -> str:
    """The directory's or archive's name with only letters, digits, '_', '.' and '-'."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", root.stem if root.is_file() else root.name) or "images"


def _plan(source: Source, task: str, name: str) -> Plan:
    prefix = _prefix(source)
    images = sorted(member.removeprefix(prefix) for member in source.members)
    if not images:
        raise ValueError(f"{source.location}: no images found. Expected: {LAYOUT}")
    if at_top := [image for image in images if "/" not in image]:
        raise ValueError(f"{source.location}: images directly at the top: {preview(at_top)}. Expected: {LAYOUT}")
    tops = {image.split("/")[0] for image in images}
    if {"train", "test"} <= tops and tops <= set(SPLIT_FOLDERS):
        splits = _own_split(source, images, task)
    else:
        classes = _classes(source, images, depth=1)
        splits = _split_classes(classes) if task == "dml" else _split_images(source, classes)
    _check_splits(source, splits, task)
    return Plan(
        name=name,
        channels=3,
        splits={
            split: SplitPlan.of(
                {label: [prefix + image for image in images] for label, images in splits[split].items()},
                images_per_class=2 if task == "dml" else 1,
            )
            for split in ("train", "validation", "test")
        },
    )


def _prefix(source: Source) -> str:
    """The common beginning of all names, before class or split: the directory's name, or an archive's one folder."""
    root = source.roots[0]
    if not root.is_file():
        return f"{root.name}/"
    tops = {name.split("/")[0] for name in source.members}
    # A dataset has two classes or more, so a single top folder is a wrapper around them.
    return f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in source.members) else ""


def _classes(source: Source, images: list[str], depth: int) -> Classes:
    """Images by the folder at `depth` (1: the first). ValueError for images that lie above it."""
    classes = defaultdict(list)
    for image in images:
        parts = PurePosixPath(image).parts
        if len(parts) <= depth:
            raise ValueError(f"{source.location}: {image} lies in no class folder. Expected: {LAYOUT}")
        classes[parts[depth - 1]].append(image)
    return dict(sorted(classes.items()))


def _own_split(source: Source, images: list[str], task: str) -> dict[str, Classes]:
    """The user's split; without a validation split, one is taken out of train in the usual proportions."""
    found = defaultdict(list)
    for image in images:
        found[image.split("/")[0]].append(image)
    if {"val", "validation"} <= set(found):
        raise ValueError(f"{source.location}: both val and validation are there, one of them is allowed")
    splits = {SPLIT_FOLDERS[top]: _classes(source, members, depth=2) for top, members in found.items()}
    if task == "ssl":  # before anything is taken out of train, so that the message speaks of the user's folders
        _check_same_classes(source, splits)
    if "validation" not in splits:
        parts = _validation_classes(splits["train"]) if task == "dml" else _validation_images(source, splits["train"])
        splits["train"], splits["validation"] = parts
    return splits


def _split_classes(classes: Classes) -> dict[str, Classes]:
    rest, test = _take_classes(classes, CLASS_FRACTIONS["test"], "folder test")
    train, validation = _validation_classes(rest)
    return {"train": train, "validation": validation, "test": test}


def _validation_classes(classes: Classes) -> tuple[Classes, Classes]:
    """(for training, for validation), where the test classes are already taken."""
    share = CLASS_FRACTIONS["validation"] / (1 - CLASS_FRACTIONS["test"])
    return _take_classes(classes, share, "folder validation")


def _split_images(source: Source, classes: Classes) -> dict[str, Classes]:
    if short := [f"{label} ({len(images)})" for label, images in classes.items() if len(images) < 3]:
        raise ValueError(
            f"{source.location}: classes need at least 3 images, but {len(short)} have fewer: {preview(short)}"
        )
    rest, test = _take_images(source, classes, IMAGE_FRACTIONS["test"], "folder test")
    train, validation = _validation_images(source, rest)
    return {"train": train, "validation": validation, "test": test}


def _validation_images(source: Source, classes: Classes) -> tuple[Classes, Classes]:
    """(for training, for validation), where the test images are already taken."""
    share = IMAGE_FRACTIONS["validation"] / (1 - IMAGE_FRACTIONS["test"])
    return _take_images(source, classes, share, "folder validation")


def _take_classes(classes: Classes, share: float, purpose: str) -> tuple[Classes, Classes]:
    """(the other classes, `share` of the classes, at least MIN_CLASSES)."""
    count = max(MIN_CLASSES, round(share * len(classes)))
    taken = set(fixed_order(classes, purpose)[:count])
    rest = {label: images for label, images in classes.items() if label not in taken}
    return rest, {label: classes[label] for label in classes if label in taken}


def _take_images(source: Source, classes: Classes, share: float, purpose: str) -> tuple[Classes, Classes]:
    """(the other images, `share` of every class's images, at least one). ValueError where a class has only one."""
    if short := [label for label, images in classes.items() if len(images) < 2]:
        raise ValueError(
            f"{source.location}: classes need at least 2 images to share with validation: {preview(short)}"
        )
    rest, taken = {}, {}
    for label, images in classes.items():
        shuffled = fixed_order(images, purpose)
        count = max(1, round(share * len(images)))
        rest[label], taken[label] = sorted(shuffled[count:]), sorted(shuffled[:count])
    return rest, taken


def _check_same_classes(source: Source, splits: dict[str, Classes]) -> None:
    everywhere = set.intersection(*(set(classes) for classes in splits.values()))
    if odd := sorted(set().union(*splits.values()) - everywhere):
        raise ValueError(
            f"{source.location}: in ssl every class must be in {', '.join(splits)}; these are not: {preview(odd)}"
        )


def _check_splits(source: Source, splits: dict[str, Classes], task: str) -> None:
    """ValueError where a split has fewer than MIN_CLASSES classes."""
    for split, classes in splits.items():
        if len(classes) < MIN_CLASSES:
            least = "; a folder without a split of its own needs 6 classes" if task == "dml" else ""
            raise ValueError(
                f"{source.location}: {len(classes)} classes for {split}, at least {MIN_CLASSES} are needed{least}. "
                f"Expected: {LAYOUT}"
            )
