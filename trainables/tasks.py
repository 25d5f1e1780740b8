"""The paper's set-up as data (`sec:exps`): one entry a dataset, each with a `paper` and a `small` form.

`paper` is what the paper trained, `small` what makes sense on two CPU cores. Every field can be overridden by name
(`--set FIELD=VALUE`), and the whole of it is stored with each trial.
"""

from dataclasses import dataclass, fields, replace
from types import UnionType
from typing import get_args

TASKS = ("dml", "ssl")
LOSSES = ("margin", "infonce")
DISTANCES = ("euclidean", "cosine")


@dataclass(frozen=True)
class Setup:
    """Everything that defines a training, except h = (Lambda_p, Lambda_e, batch_size) and the seed.

    Raises ValueError for values that are not allowed.
    """

    dataset: str
    task: str  # dml: labelled classes, disjoint between splits; ssl: two augmented views, evaluated by a linear probe
    loss: str
    network: str
    image_size: int  # pixels
    images_seen: int  # the paper's "steps": iterations x b, both views of an image count
    evaluations: int  # validation evaluations, evenly spaced; the best one's weights are tested
    learning_rate: float  # the conventional recipe's, at equal weights
    k: int = 2  # items per class (views per image) in a batch
    margin: float = 0.5  # m of eq:contrastive
    temperature: float = 0.1  # tau of eq:infoNCE_onepair
    distance: str | None = None  # None: the loss's usual one, see `loss_distance`
    q: int = 1  # exponent of eq:contrastive
    probe_epochs: int = 100

    def __post_init__(self):
        allowed = {"task": TASKS, "loss": LOSSES, "distance": (None, *DISTANCES), "q": (1, 2)}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} = {getattr(self, name)!r}: one of {list(values)}")
        for name in ("image_size", "images_seen", "evaluations", "probe_epochs", "learning_rate", "margin", "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be > 0")
        if self.k < 2:
            raise ValueError(f"k = {self.k}: at least 2 items per class, or there is no positive pair")

    @property
    def loss_distance(self) -> str:
        """Euclidean is usual for the margin loss, cosine for InfoNCE; both on unit vectors."""
        return self.distance or {"margin": "euclidean", "infonce": "cosine"}[self.loss]

    @property
    def metric(self) -> str:
        """The score that selects weights and drives the search."""
        return {"dml": "r_map", "ssl": "probe_accuracy"}[self.task]


SETUPS: dict[str, dict[str, Setup]] = {
    "glyphs": {  # not in the paper: fonts as a stand-in for Omniglot that needs no download
        "paper": Setup("glyphs", "dml", "margin", "resnet18_gem", 64, 3_000_000, 30, learning_rate=0.1),
        "small": Setup("glyphs", "dml", "margin", "small_conv", 28, 25_600, 4, learning_rate=0.1),
    },
    "omniglot": {
        "paper": Setup("omniglot", "dml", "margin", "resnet18_gem", 64, 3_000_000, 30, learning_rate=0.1),
        "small": Setup("omniglot", "dml", "margin", "small_conv", 28, 32_000, 5, learning_rate=0.1),
    },
    "tinyimagenet": {
        "paper": Setup("tinyimagenet", "ssl", "infonce", "resnet32", 64, 36_000_000, 36, learning_rate=0.1),
        "small": Setup("tinyimagenet", "ssl", "infonce", "small_conv", 32, 32_000, 4, learning_rate=0.1, probe_epochs=30),
    },
}

SEARCH_RANGE = (1e-6, 17.0)
"""Lambda_p and Lambda_e, "HPO ranges" in `sec:exps`."""

BATCH_SIZES = (16, 32, 64, 128, 256, 512)


def find_setup(dataset: str, form: str, task: str | None = None, loss: str | None = None) -> Setup:
    """The table's entry, with another task or loss where given (`ssec:switching`). Raises ValueError naming what exists."""
    if dataset not in SETUPS:
        raise ValueError(f"dataset {dataset!r}: one of {sorted(SETUPS)}")
    if form not in SETUPS[dataset]:
        raise ValueError(f"setup {form!r}: one of {sorted(SETUPS[dataset])}")
    setup = SETUPS[dataset][form]
    if task is not None and task != setup.task:
        raise ValueError(f"task {task!r}: {dataset} is split for {setup.task!r}")
    return replace(setup, loss=loss) if loss is not None else setup


def override(setup: Setup, assignments: list[str]) -> Setup:
    """`setup` with FIELD=VALUE assignments applied, values read as the field's type. Raises ValueError naming the fields."""
    kinds = {field.name: field.type for field in fields(Setup) if field.name not in ("dataset", "task")}
    changes = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or name not in kinds:
            raise ValueError(f"--set {assignment!r}: FIELD=VALUE with one of {sorted(kinds)}")
        kind = get_args(kinds[name])[0] if isinstance(kinds[name], UnionType) else kinds[name]
        try:
            changes[name] = kind(text)
        except ValueError:
            raise ValueError(f"--set {assignment!r}: {name} takes a value of type {kind.__name__}") from None
    return replace(setup, **changes)
