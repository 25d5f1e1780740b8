"""`Setup`, which defines a training: its fields, their allowed values, and their values on a command line.

Every field but `dataset`, `task` and `loss` can be overridden by `--set FIELD=VALUE`. The whole set-up is stored with
each trial.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from types import UnionType
from typing import Any, get_args

from trainables.losses import find_loss
from trainables.losses.registry import MINING, NEGATIVES, REMEMBERED

TASKS = ("dml", "ssl")
WEIGHTS = ("none", "imagenet")  # initial ones that are no file
AUGMENTATIONS = ("none", "crop", "simclr")
UNLABELLED = ("view_retrieval", "rankme")
"""Scores that need no classes. The first selects where there are none."""

SELECTIONS = {
    "dml": ("r_map", "map_at_r", "recall_at_1", "r_precision"), "ssl": ("probe_accuracy", "knn_accuracy", *UNLABELLED)
}  # fmt: skip
"""task -> scores that may select weights and drive the search; the first is the paper's."""

ALLOWED = {
    "task": TASKS, "distance": (None, "euclidean", "cosine"), "q": (1, 2), "optimizer": ("sgd", "adam"),
    "augmentation": (None, *AUGMENTATIONS), "schedule": ("constant", "cosine", "step", "plateau"),
    "precision": ("float32", "bfloat16"), "memory": ("none", "variable", "fixed"),
    "test": ("split", "roxford5k", "rparis6k"), "step": (None, "graph", "eager"), "projection": ("relu", "leaky_relu"),
    "probe_features": ("raw", "standardised"), "negatives": NEGATIVES, "mining": MINING,
}  # fmt: skip
ONLY_WITH = {
    "learning_rate": {"optimizer": ("adam",)}, "margin": {"loss": ("margin",)}, "q": {"loss": ("margin",)},
    "temperature": {"loss": ("infonce", "siglip")}, "bias": {"loss": ("siglip",)},
    "distance": {"loss": ("margin", "infonce")}, "mining": {"loss": ("margin", "infonce")},
    "negatives": {"loss": ("infonce",)}, "projection": {"task": ("ssl",), "projector": ("",)},
    **{f"probe_{name}": {"task": ("ssl",)} for name in ("epochs", "steps", "rate", "features")},
    "crop_scale": {"views": ("crop",)}, "distortion": {"dataset": ("glyphs",)},
    "memory_size": {"memory": ("variable", "fixed")},
    "memory_start": {"memory": ("variable", "fixed")}, "test_image_size": {"test": ("roxford5k", "rparis6k")},
}  # fmt: skip
"""Field -> other fields, each with the values with which the first has an effect on a training. Other fields always
have one, but for `step`: how a training is computed."""
IMAGE_SIZES = range(8, 1025)  # px
LARGEST_INTEGER = 10**12
PLATEAU_FROM = 7  # evaluations: it waits for a first one and five without progress, and acts before the next
ADAM_RATE = 1e-3  # torch.optim.Adam's default
MOST = 10**6  # an embedding has fewer dimensions, as PROJECTOR says of a layer's width
PROJECTOR = re.compile(r"([1-9][0-9]{0,5}(-[1-9][0-9]{0,5})*)?")


@dataclass(frozen=True)
class Setup:
    """Everything that defines a training, except h (the weights of the loss's terms, batch_size) and the seed.

    Raises ValueError for values that are not allowed. A loss or network of the user's own is neither imported nor
    checked: `losses.find_loss` and `models.networks.build_network` do that. Behind the semicolon of a default that is
    the paper's stands its source, as in `training.setups`.
    """

    dataset: str
    task: str  # dml: labelled classes, disjoint between splits; ssl: two augmented views, evaluated by a linear probe
    loss: str  # one of `losses.LOSSES`, or the user's own as module:function
    network: str  # one of `models.NETWORKS`, or the user's own as module:function
    image_size: int  # pixels
    images_seen: int  # the paper's "steps": iterations x b, both views of an image count
    evaluations: int  # validation evaluations, evenly spaced; the best one's weights are tested
    selected_by: str | None = None  # the validation score that selects them, one of SELECTIONS; None: `for_classes`'s
    learning_rate: float = 0.1  # where a search with sgd begins, or Adam's rate; ours, the conventional recipe's
    k: int = 2  # items per class (views per image) in a batch; sec:exps, Sampling
    margin: float = 0.5  # m of eq:contrastive; sec:exps, Networks and training
    temperature: float = 0.1  # tau of eq:infoNCE_onepair, 1 / t of siglip; sec:exps, Networks and training
    bias: float = -10.0  # of siglip's logits
    distance: str | None = None  # of margin and infonce; None: the usual one of eq:contrastive and eq:infoNCE_onepair
    q: int = 1  # exponent; eq:contrastive
    negatives: str = "others"  # K_ij of infonce, see `losses.terms.infonce_terms`; eq:infoNCE_means
    mining: str = "none"  # which pairs count in margin and infonce, see `losses.mining.mined`; sec:balance
    distortion: float = 1.0  # of glyphs' images, 0: plain fonts; ours: 12 faces draw a letter nearly alike
    probe_epochs: int = 100  # of the linear probe; relational, train_linear_evaluation.py: Adam, batches of 128
    probe_steps: int = 0  # least number of its steps, for few images; relational has epochs alone
    probe_rate: float = 1e-3  # its learning rate; relational, train_linear_evaluation.py
    probe_features: str = "raw"  # or standardised: mean 0, deviation 1; relational, train_linear_evaluation.py
    weights: str = "none"  # the network's initial ones: none (from scratch), imagenet, or a file
    embedding: int = 0  # of a linear head (dml; sec:exps has none) or the projection (ssl; relational: 64); 0: as there
    augmentation: str | None = None  # None: none for dml; ours, simclr for ssl; relational, datamanager.py: no blur
    crop_scale: float = 0.25  # of augmentation crop: least area of a crop / area of the image
    crop_size: int = 0  # pixels of the network's input: random crops in training, else the centre; 0: image_size
    projection: str = "relu"  # between the two layers of the usual projection head (ssl)
    projector: str = ""  # widths of a projector that replaces it, "256-256-256", as in barlow_twins and vicreg
    optimizer: str = "sgd"  # learning rate 1 on Lambda, no momentum; subsec:pipeline. adam: for published figures
    weight_decay: float = 0.0  # of adam, added to the gradient as torch.optim.Adam does; subsec:pipeline: none
    schedule: str = "constant"  # or cosine, step, plateau, see `training.assembly`; ours
    precision: str = "float32"  # of the forward pass in training, on a GPU TF32 in convolutions; ours, torch's default
    step: str | None = None  # on a GPU a recorded CUDA graph, or eager; None: graph, but eager for a user's own parts
    memory: str = "none"  # balance of its loss: variable (S1) or fixed (S2, S3); sec:xbm, used there alone
    memory_size: int = 55_000  # embeddings kept, first in, first out
    memory_start: int = 1000  # iterations before the memory is used
    test: str = "split"  # the dataset's own, or a revisited benchmark; sec:exps, Datasets and metrics
    test_image_size: int = 1024  # pixels of a revisited benchmark's images, their longer side

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = ALLOWED.get(field.name)
            if allowed is not None and value not in allowed:
                raise ValueError(f"{field.name} = {value!r}: one of {list(allowed)}")
            if field.type is int and (type(value) is not int or abs(value) > LARGEST_INTEGER):
                raise ValueError(f"{field.name} = {value!r}: must be a whole number of at most {LARGEST_INTEGER:,}")
        if ":" not in str(self.loss) and self.task not in (loss := find_loss(self.loss)).tasks:  # one's own takes any
            raise ValueError(f"loss = {self.loss!r} with task = {self.task!r}: it trains {', '.join(loss.tasks)}")
        for names, right, words in RULES:
            if not right(self):
                values = ", ".join(f"{name} = {getattr(self, name)!r}" for name in names.split())
                raise ValueError(f"{values}: {words}")
        if self.metric not in SELECTIONS[self.task]:
            scores = list(SELECTIONS[self.task])
            raise ValueError(f"selected_by = {self.selected_by!r}: one of {scores} with task {self.task!r}")

    @property
    def loss_distance(self) -> str:
        """`distance`, or the usual one on unit vectors: euclidean for the margin loss, cosine for InfoNCE."""
        return self.distance or ("euclidean" if self.loss == "margin" else "cosine")

    @property
    def views(self) -> str:
        """The augmentation in effect."""
        return self.augmentation or {"dml": "none", "ssl": "simclr"}[self.task]

    @property
    def metric(self) -> str:
        """The validation score that selects weights and drives the search."""
        return self.selected_by or SELECTIONS[self.task][0]

    @property
    def input_size(self) -> int:
        """Side of the network's input in pixels."""
        return self.crop_size or self.image_size

    @property
    def digest(self) -> dict[str, Any]:
        """The value in effect of every field that has an effect on this training. Trainings with equal digests have one
        set-up; their scores may be averaged."""
        resolved = {"selected_by": self.metric, "distance": self.loss_distance, "augmentation": self.views}
        told = vars(self) | resolved | {"crop_size": self.input_size}
        return {name: value for name, value in told.items() if name != "step" and not missing_for(name, [self])}

    @property
    def test_metric(self) -> str:
        """The score reported for the test: `metric`, or the medium mAP on a revisited benchmark."""
        return self.metric if self.test == "split" else f"{self.test}_medium_map"


POSITIVE = ("images_seen", "evaluations", "probe_epochs", "probe_rate", "learning_rate", "temperature", "memory_size")
RULES: list[tuple[str, Callable[[Setup], bool], str]] = [
    *((name, lambda s, name=name: 0 < getattr(s, name) < inf, "must be > 0 and finite") for name in POSITIVE),
    ("margin", lambda s: 0 < s.margin <= 2, "must be > 0, and at most 2, the largest distance of unit vectors; finite"),
    ("bias", lambda s: isfinite(s.bias), "must be finite"),
    ("k", lambda s: s.k >= 2, "at least 2 items per class, or there is no positive pair"),
    ("k loss", lambda s: ":" in s.loss or find_loss(s.loss).k in (None, s.k), "this loss takes 2 views of an image"),
    ("probe_steps", lambda s: s.probe_steps >= 0, "0 or more"),
    ("memory_start", lambda s: s.memory_start >= 0, "0 or more"),
    ("memory_size", lambda s: s.memory_size < MOST**2, f"below {MOST**2:g}"),
    ("embedding", lambda s: 0 <= s.embedding < MOST, f"0 or more, and below {MOST:g}"),
    ("weight_decay", lambda s: 0 <= s.weight_decay < inf, "must be >= 0 and finite"),
    ("weight_decay optimizer", lambda s: not s.weight_decay or s.optimizer != "sgd", "sgd is bare, adam takes one"),
    ("image_size", lambda s: s.image_size in IMAGE_SIZES, f"from {IMAGE_SIZES[0]} to {IMAGE_SIZES[-1]} pixels"),
    ("test_image_size", lambda s: s.test_image_size >= IMAGE_SIZES[0], f"at least {IMAGE_SIZES[0]} pixels"),
    ("crop_scale", lambda s: 0 < s.crop_scale <= 1, "above 0, at most 1"),
    ("crop_size image_size augmentation",
     lambda s: not s.crop_size or (s.views == "crop" and IMAGE_SIZES[0] <= s.crop_size <= s.image_size),
     f"crop_size is 0, or from {IMAGE_SIZES[0]} to image_size pixels with augmentation = 'crop'"),
    ("distortion", lambda s: 0 <= s.distortion <= 4, "from 0, plain, to 4; with 2 nothing is learned"),
    ("memory test augmentation",
     lambda s: s.task != "ssl" or (s.memory == "none" and s.test == "split" and s.views != "none"),
     "ssl has 'none', 'split' and an augmentation"),
    ("memory loss", lambda s: s.memory == "none" or s.loss in REMEMBERED, f"with {' and '.join(REMEMBERED)} alone"),
    ("memory negatives mining",
     lambda s: s.memory == "none" or (s.negatives, s.mining) == ("others", "none"), "'others', 'none' with a memory"),
    ("mining k", lambda s: s.mining != "easy_positive" or s.k > 2,
     "it chooses among an anchor's k - 1 positives: k = 3 or more"),
    ("projector", lambda s: PROJECTOR.fullmatch(s.projector) is not None, "widths of layers, as '256-256-256', or ''"),
    ("projector task embedding", lambda s: not s.projector or (s.task == "ssl" and not s.embedding),
     "a projector is for task 'ssl' alone, with embedding = 0, its last width"),
]  # fmt: skip
"""(fields, whether they fit each other, what is allowed)."""


def override(setup: Setup, assignments: list[str]) -> Setup:
    """Apply FIELD=VALUE assignments to `setup`, read as the field's type. Raises ValueError naming the allowed fields.
    `loss` is not allowed, because other losses have other set-ups in the table. SGD's rate is no rate for Adam, which
    gets ADAM_RATE if none is assigned."""
    kinds = {field.name: field.type for field in fields(Setup) if field.name not in ("dataset", "task", "loss")}
    changes = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if name == "loss":
            raise ValueError(f"--set {assignment!r}: --loss {text} names the loss, which has a projector of its own")
        if not equals or name not in kinds:
            raise ValueError(f"--set {assignment!r}: FIELD=VALUE with one of {sorted(kinds)}")
        kind = get_args(kinds[name])[0] if isinstance(kinds[name], UnionType) else kinds[name]
        try:
            changes[name] = kind(text)
        except ValueError:
            raise ValueError(f"--set {assignment!r}: {name} takes a value of type {kind.__name__}") from None
    if changes.get("optimizer") == "adam" != setup.optimizer:
        changes.setdefault("learning_rate", ADAM_RATE)
    return replace(setup, **changes)


def for_classes(setup: Setup, classes: int) -> Setup:
    """The set-up for data of so many training classes. Without classes (1) a score that needs none selects. Raises
    ValueError for another `selected_by` then."""
    if classes > 1 or setup.selected_by in UNLABELLED:
        return setup
    if setup.selected_by is not None:
        usable = " or ".join(UNLABELLED)
        raise ValueError(f"selected_by = {setup.selected_by!r}: the images have no classes; {usable} needs none")
    return replace(setup, selected_by=UNLABELLED[0])


def missing_for(field: str, setups: Sequence[Setup]) -> dict[str, tuple[str, ...]]:
    """What ONLY_WITH asks for a field to have an effect, and none of these set-ups has; {}: it has an effect."""
    asked = ONLY_WITH.get(field, {})
    return {
        other: values for other, values in asked.items() if not any(getattr(setup, other) in values for setup in setups)
    }


def without_effect(setups: Sequence[Setup], assignments: Sequence[str], gpu: bool) -> list[str]:
    """Messages on the FIELD=VALUE assignments that change none of these trainings (at least one) on a GPU, or without,
    with the reason."""
    said = [f"--set {one} has no effect without a GPU" for one in assignments if one.startswith("step=") and not gpu]
    most = max((setup.evaluations for setup in setups if setup.schedule == "plateau"), default=PLATEAU_FROM)
    if most < PLATEAU_FROM:
        said.append(f"schedule = 'plateau' has no effect with evaluations = {most}, only with {PLATEAU_FROM} or more")
    for assignment in assignments:
        for other, values in missing_for(assignment.partition("=")[0], setups).items():
            has = f"{other} = {getattr(setups[0], other)!r}"
            said.append(f"--set {assignment} has no effect with {has}, only with {' or '.join(map(repr, values))}")
    return said
