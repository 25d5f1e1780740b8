"""Tiny-ImageNet (http://cs231n.stanford.edu/tiny-imagenet-200.zip): RGB, 64 px, the same classes in every split.

Test = the public validation set (the test set has no labels); validation = 10 % of each class's training images, chosen
once and for all; training = the rest. Greyscale files become three equal channels.
"""

import re
from collections import defaultdict
from pathlib import Path

from trainables.datasets.download import fetch, of_digest
from trainables.datasets.source import Source, find_place
from trainables.datasets.structure import Plan, SplitPlan, fixed_order, preview, published_name

PUBLISHED_CLASSES = 200
VALIDATION_FRACTION = 0.1  # sec:exps: a tenth makes its 36M steps 200 epochs; the share itself is not said

LAYOUT = (
    "wnids.txt, train/<wnid>/images/*.JPEG, val/images/*.JPEG and val/val_annotations.txt in tiny-imagenet-200/, as a "
    "directory or as the original tiny-imagenet-200.zip (images of val/ not sorted into folders)"
)
ORIGIN = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
# Stanford publishes none; this is the one that the loaders of several libraries (Avalanche's among them) pin.
MD5 = "90528d7ca1a48142e341f4ef8d21d0de"

_WANTED = re.compile(
    r"^(.*/)?(train/(?P<wnid>n\d+)/images/[^/]+\.JPEG|val/images/(?P<test>[^/]+\.JPEG)|"
    r"val/val_annotations\.txt|wnids\.txt)$"
)


def plan(roots: list[Path], task: str | None = None) -> Plan:
    """Find Tiny-ImageNet below the roots (directories, or the archive itself). Raises FileNotFoundError, ValueError."""
    found = find_place(
        "tinyimagenet", roots, folders=("tiny-imagenet-200",), marks=("wnids.txt",),
        archives=("tiny-imagenet-200.zip", "tiny-imagenet-20.zip"), layout=LAYOUT, origin=ORIGIN,
    )  # fmt: skip
    source = Source((found,), _WANTED)
    prefix = source.top(("wnids.txt", "val/val_annotations.txt"), LAYOUT)
    with source.reader() as read:
        wnids = sorted(read(f"{prefix}wnids.txt").decode(errors="replace").split())
        annotations = read(f"{prefix}val/val_annotations.txt").decode(errors="replace").splitlines()
    training = _training_images(source, wnids)
    train, validation = {}, {}
    for wnid, images in training.items():
        held_out = max(1, round(VALIDATION_FRACTION * len(images)))
        shuffled = fixed_order((image.removeprefix(prefix) for image in images), "tinyimagenet validation")
        validation[wnid] = sorted(prefix + image for image in shuffled[:held_out])
        train[wnid] = sorted(prefix + image for image in shuffled[held_out:])
    test = _test_images(source, prefix, wnids, annotations)
    splits = {"train": SplitPlan(train, 2), "validation": SplitPlan(validation, 1), "test": SplitPlan(test, 1)}
    name = published_name("tinyimagenet", len(wnids), len(wnids) == PUBLISHED_CLASSES)
    return Plan(name, 3, splits, source.location, source.identity(), source.photographs)


def download(root: Path) -> None:
    """Fetch the archive (248 MB) into the root. Raises as `fetch` does."""
    fetch(ORIGIN, root / "tiny-imagenet-200.zip", of_digest(MD5))


def _training_images(source: Source, wnids: list[str]) -> dict[str, list[str]]:
    """{wnid: member names}; ValueError unless these are exactly the classes of wnids.txt."""
    images = defaultdict(list)
    for name in sorted(source.members):
        if wnid := _WANTED.search(name)["wnid"]:
            images[wnid].append(name)
    if odd := sorted(set(images) ^ set(wnids)):
        raise ValueError(
            f"{source.location}: wnids.txt and train/ must have the same classes; in one only: {preview(odd)}"
        )
    return {wnid: images[wnid] for wnid in wnids}


def _test_images(source: Source, prefix: str, wnids: list[str], annotations: list[str]) -> dict[str, list[str]]:
    """{wnid: member names} of val/ by val_annotations.txt (tab separated: file, wnid, box)."""
    images = {wnid: [] for wnid in wnids}
    for line in annotations:
        file, wnid, *_ = [*line.split("\t"), ""]
        if wnid not in images:
            raise ValueError(
                f"{source.location}: val_annotations.txt: {line!r} has no class of wnids.txt in its second column"
            )
        images[wnid].append(f"{prefix}val/images/{file}")
    annotated = {name for names in images.values() for name in names}
    present = {name for name in source.members if _WANTED.search(name)["test"]}
    if odd := sorted(annotated ^ present):
        raise ValueError(f"{source.location}: in only one of val/images and val/val_annotations.txt: {preview(odd)}")
    return images
