"""A user's own images: a directory or a zip archive with one sub-folder a class, or for ssl with images alone; in RGB.

Without a split of the user's own (sub-folders `train`, `val` and `test` at the top, see SPLIT_FOLDERS) the images are
split once and for all, by hashes of their names:

dml: classes are disjoint, 60 % for training, 15 % validation, 25 % test, at least MIN_CLASSES each.
ssl: every class is in every split, 80 % of its images for training, 10 % validation, 10 % test, at least one each.
     Images without classes are split alike.

The dataset is called folder-NAME-DIGEST, with the place's name and a digest of the images' relative names and sizes.
So other images in the same place are another dataset, and a copy of that name elsewhere is the same one.
"""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from trainables.datasets.source import Source, missing_data
from trainables.datasets.structure import Plan, SplitPlan, composed, fixed_order, preview

# of the classes (dml), or of each class's images (ssl); the rest is for training
FRACTIONS = {"dml": {"validation": 0.15, "test": 0.25}, "ssl": {"validation": 0.1, "test": 0.1}}
DIGITS = 4  # of the digest, in the dataset's name
LONGEST = 100  # part of the place's name in the dataset's, which names files
MIN_CLASSES = 2  # of a split: with one class there is nothing to tell apart
SPLIT_FOLDERS = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
"""Name of a top folder, in small letters -> its split."""

LAYOUT = (
    "as --data-root, a directory or a zip archive with one sub-folder a class and its .jpg, .jpeg, .jfif, .png, .webp, "
    ".bmp, .tif, .tiff or .gif images in it, at any depth; or sub-folders train, and test, val or both, with one "
    "sub-folder a class in each; for task ssl without classes the images alone"
)
NO_CLASS = "none"
"""The class of all images that have none."""

IMAGES = re.compile(r"\.(jpe?g|jfif|png|webp|bmp|tiff?|gif)$", re.IGNORECASE)
_UNREAD = re.compile(  # archives, and files without an ending, but not README or LICENSE
    r"\.(?i:avif|hei[cf]|jxl|jp2|j2k|jpx|tga|psd|exr|hdr|p[bgnp]m|dng|cr[23w]|nef|arw|orf|rw2|raf|zip|rar|7z|tar|t?gz)$"
    r"|(^|/)(?![A-Z]+$)[^./]+$"
)

Classes = dict[str, list[str]]  # class -> names relative to the top, sorted


def plan(roots: list[Path], task: str | None = None) -> Plan:
    """The images of the only root, split for the task. Raises FileNotFoundError, ValueError."""
    task = task or "dml"
    [root] = roots
    if not root.exists():
        raise missing_data("folder", [root], LAYOUT, "your own images")
    source = Source((root,), IMAGES)
    prefix = _prefix(source)
    try:
        images = [name.removeprefix(prefix) for name in images_of(source)]
    except ValueError as error:
        raise ValueError(f"{error}. Expected: {LAYOUT}") from None
    own = any(image.partition("/")[0].casefold() in SPLIT_FOLDERS for image in images if "/" in image)
    above, inner = [one for one in images if "/" not in one], prefix.count("/") > root.is_dir()
    try:
        if task == "dml" and inner and above:  # all lie in one folder of the root, and some directly in it
            of_it = f"of it in no class folder: {preview(above)}; --task ssl needs none"
            raise ValueError(f"all images are in one folder, {prefix}, and {of_it}")
        splits = _completed(_own_split(images, task) if own else {"train": _classes(images, 1, task)}, task)
    except ValueError as error:
        raise ValueError(f"{source.location}: {error}. Expected: {LAYOUT}") from None
    sizes = sorted((composed(image), source.members[prefix + image].size) for image in images)
    digest = blake2b(repr(sizes).encode(), digest_size=8).hexdigest()
    plans = {}
    for split in ("train", "validation", "test"):
        members = {label: [prefix + image for image in images] for label, images in splits[split].items()}
        plans[split] = SplitPlan(members, images_per_class=2 if task == "dml" else 1)
    content = f"{len(sizes):,} images of {sum(size for _, size in sizes):,} bytes, digest {digest}"
    place = re.sub(r"[^A-Za-z0-9_.-]+", "_", root.stem if root.is_file() else root.name)[:LONGEST] or "images"
    identity = f"{source.identity()}-{task}"  # of which the splits differ
    return Plan(
        f"folder-{place}-{digest[:DIGITS]}", 3, plans, source.location, identity, source.photographs, content=content
    )


def images_of(source: Source) -> list[str]:
    """The names of the images, sorted. Warns of files that may be images of kinds that are not read, as "2 .heic, 1
    .avif"; ValueError where there is no image."""
    found = Counter(PurePosixPath(name).suffix.lower() for name, _ in sorted(source.listing) if _UNREAD.search(name))
    others = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in found.most_common())
    if not source.members:
        raise ValueError(f"{source.location}: no images found{', but ' * bool(others)}{others}")
    if others:
        warnings.warn(f"{source.location}: {others} files are not read and are left out", stacklevel=3)
    return sorted(source.members)


def _prefix(source: Source) -> str:
    """The common beginning of all names, before class or split: the directory's name, and folders around the rest."""
    prefix = "" if source.roots[0].is_file() else f"{source.roots[0].name}/"
    while True:
        tops = {tuple(name.removeprefix(prefix).split("/")[:2][:-1]) for name in source.members}
        if len(tops) != 1 or tops == {()} or (top := tops.pop()[0]).casefold() in SPLIT_FOLDERS:
            return prefix
        prefix += f"{top}/"


def _classes(images: list[str], depth: int, task: str) -> Classes:
    """Images by the folder at `depth` (1: the first). Where one lies above it, all are of NO_CLASS in ssl, and in dml
    there is a ValueError. Classes of too few images are left out with a warning."""
    classes = defaultdict(list)
    above = [image for image in images if image.count("/") < depth]
    if above and task == "dml":
        raise ValueError(f"images in no class folder: {preview(above)}; --task ssl needs none")
    if above and len(above) < len(images):
        warnings.warn(f"{preview(above)} in no class folder, so that no image has a class", stacklevel=2)
    for image in images:
        classes[NO_CLASS if above else composed(image.split("/")[depth - 1])].append(image)
    least = 2 if task == "dml" else 3 if depth == 1 else 1  # a pair; or one image in each split that is made of them
    if few := [label for label in sorted(classes) if len(classes[label]) < least and label != NO_CLASS]:
        said = preview([f"{label} ({len(classes.pop(label))})" for label in few])
        warnings.warn(f"{len(few)} classes have fewer than {least} images and are left out: {said}", stacklevel=2)
    return dict(sorted(classes.items()))


def _own_split(images: list[str], task: str) -> dict[str, Classes]:
    """The user's split. Without a test split, val is the test split."""
    found = defaultdict(list)
    for image in images:
        found[image.split("/")[0]].append(image)
    splits = {split: _classes(found[top], 2, task) for split, top in _split_places(found).items()}
    train = set(splits["train"])
    for split, classes in splits.items():
        if task == "ssl" and (odd := sorted(train ^ set(classes))):
            raise ValueError(f"in ssl every class must be in every split; these are not: {preview(odd)}")
        if task == "dml" and split != "train" and (shared := sorted(train & set(classes))):
            warnings.warn(
                f"{len(shared)} of the {len(classes)} classes for {split} are in training as well ({preview(shared)}): "
                "dml is measured on classes that were trained on",
                stacklevel=2,
            )
    return splits


def _split_places(tops: Iterable[str]) -> dict[str, str]:
    """{split: its top folder}, always with train and test. Raises ValueError if the folders are ambiguous."""
    places = defaultdict(list)
    for top in sorted(tops):
        places[SPLIT_FOLDERS.get(top.casefold(), "no split")].append(top)
    if "no split" in places or "train" not in places or len(places) < 2 or any(len(put) > 1 for put in places.values()):
        raise ValueError(
            f"the folders {preview(sorted(tops), 10)} at the top are neither classes nor a split. A split is train, "
            "and test, val or both, and no other folder of images; train may be training, val may be valid, "
            "validation or dev, and test testing, in any case. Move other folders, and rename classes of these names"
        )
    split_of = {split: put for split, [put] in places.items()}
    if "test" not in split_of:
        split_of["test"] = split_of.pop("validation")
    return split_of


def _completed(splits: dict[str, Classes], task: str) -> dict[str, Classes]:
    """The splits, with those that are missing taken out of train. ValueError where one has fewer than MIN_CLASSES
    classes."""
    rest = 1.0
    for split, least in (("test", 3), ("validation", 2)):
        if split not in splits:
            share = FRACTIONS[task][split] / rest
            splits["train"], splits[split] = _take(splits["train"], task, share, f"folder {split}", least)
        rest -= FRACTIONS[task][split]
    for split in ("train", "validation", "test"):
        if len(splits[split]) < MIN_CLASSES and NO_CLASS not in splits[split]:
            hint = f"; {MIN_CLASSES} or more go to each split without a folder, and --task ssl needs none"
            said = f"{len(splits[split])} classes are left for {split}, at least {MIN_CLASSES} are needed"
            raise ValueError(said + hint * (task == "dml"))
    return splits


def _take(classes: Classes, task: str, share: float, purpose: str, least: int) -> tuple[Classes, Classes]:
    """Split into (the others, `share`): in dml of the classes, at least MIN_CLASSES; in ssl of the images of each
    class, at least one, with ValueError if a class has less than `least`."""
    if task == "dml":
        taken = set(fixed_order(classes, purpose)[: max(MIN_CLASSES, round(share * len(classes)))])
        rest = {label: images for label, images in classes.items() if label not in taken}
        return rest, {label: images for label, images in classes.items() if label in taken}
    if short := [f"{label} ({len(images)})" for label, images in classes.items() if len(images) < least]:
        few = f"{len(short)} have fewer: {preview(short)}"
        raise ValueError(f"classes need at least {least} images to share with a split, but {few}")
    parts: tuple[Classes, Classes] = {}, {}
    for label, images in classes.items():
        shuffled, count = fixed_order(images, purpose), max(1, round(share * len(images)))
        parts[0][label], parts[1][label] = sorted(shuffled[count:]), sorted(shuffled[:count])
    return parts
