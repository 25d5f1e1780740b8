"""Omniglot: handwritten characters of many alphabets (https://github.com/brendenlake/omniglot), split by alphabet.

There is no standard split for retrieval. Ours: test = the evaluation alphabets, validation = VALIDATION_ALPHABETS,
training = the other background alphabets. Images are greyscale, ink = 255 on 0 (the files have ink = 0).
"""

import re
from functools import partial
from pathlib import Path

from trainables.datasets.download import fetch, of_digest
from trainables.datasets.source import Source, missing_data
from trainables.datasets.structure import Plan, SplitPlan, published_name

# Ours: 148 of the 964 background classes (15 %), of different families of scripts. Of these omniglot-small.zip
# has Balinese alone, which leaves 131 of its 155 background classes for training: enough for batches of 256 in pairs.
VALIDATION_ALPHABETS = ("Balinese", "Futurama", "Grantha", "Hebrew", "N_Ko")
PUBLISHED_CLASSES = (964, 659)  # images_background, images_evaluation

PARTS = ("images_background", "images_evaluation")
LAYOUT = (
    "images_background/<Alphabet>/characterNN/*.png and images_evaluation/<Alphabet>/characterNN/*.png, as directories "
    "or as images_background.zip and images_evaluation.zip, directly there, in omniglot/ or in omniglot-py/ "
    "(torchvision's place), or both in omniglot.zip"
)
URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
MD5 = {  # as in torchvision's datasets/omniglot.py
    "images_background": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811",
}
ORIGIN = "https://github.com/brendenlake/omniglot (python/images_background.zip and python/images_evaluation.zip)"

_IMAGE = re.compile(
    r"^(?P<prefix>.*/)?(?P<part>images_background|images_evaluation)/(?P<alphabet>[^/]+)/(?P<character>character\d+)/"
    r"[^/]+\.png$"
)


def plan(roots: list[Path], task: str | None = None) -> Plan:
    """Find Omniglot below the roots (directories, or the archive itself). Raises FileNotFoundError, ValueError."""
    source = Source(tuple(_find(roots)), _IMAGE)
    splits: dict[str, dict[str, list[str]]] = {"train": {}, "validation": {}, "test": {}}
    prefixes = set()
    for name in sorted(source.members):
        match = _IMAGE.search(name)
        prefixes.add(match["prefix"] or "./")
        split = "validation" if match["alphabet"] in VALIDATION_ALPHABETS else "train"
        classes = splits["test" if match["part"] == "images_evaluation" else split]
        classes.setdefault(f"{match['alphabet']}/{match['character']}", []).append(name)
    if len(prefixes) > 1:
        raise ValueError(f"{source.location}: several copies of Omniglot, below {sorted(prefixes)}; one is allowed")
    for split, what in (("validation", "validation"), ("train", "training"), ("test", "evaluation")):
        if not splits[split]:
            raise ValueError(
                f"{source.location}: no {what} alphabet; expected {LAYOUT}, validation alphabets {VALIDATION_ALPHABETS}"
            )
    count = (len(splits["train"]) + len(splits["validation"]), len(splits["test"]))
    name = published_name("omniglot", sum(count), count == PUBLISHED_CLASSES)
    plans = {split: SplitPlan(classes, images_per_class=2) for split, classes in splits.items()}
    return Plan(
        name, 1, plans, source.location, source.identity(), partial(source.photographs, mode="L", negative=True)
    )


def download(root: Path) -> None:
    """Fetch the archives (9.5 and 6.5 MB) that are missing below the root. Raises as `fetch` does."""
    place = next((place for place in _places(root) if _parts(place)), root / "omniglot")
    for part in PARTS:
        if part not in _parts(place):
            fetch(f"{URL}{part}.zip", place / f"{part}.zip", of_digest(MD5[part]))


def _places(root: Path) -> list[Path]:
    return [root / folder for folder in ("", "omniglot-py", "omniglot", "omniglot/omniglot-py", "omniglot/python")]


def _parts(place: Path) -> dict[str, Path]:
    """{part: its directory or archive} of those that are there."""
    return {part: path for part in PARTS for path in (place / f"{part}.zip", place / part) if path.exists()}


def _find(roots: list[Path]) -> list[Path]:
    """The archive, or the two parts, of the first place that has them."""
    for root in roots:
        for archive in (root, root / "omniglot.zip", root / "omniglot-small.zip"):
            if archive.is_file():
                return [archive]
        for place in _places(root):
            if len(parts := _parts(place)) == len(PARTS):
                return list(parts.values())
    raise missing_data("omniglot", roots, LAYOUT, f"{ORIGIN}, or add --download")
