"""The definition of a study and of one call: frozen values that the command line is parsed into.

A `StudyConfig` defines a study. It is stored with the results, as JSON in `study.json`, and a continued study keeps it,
except for the fields in EXTENSIBLE. A `Call` belongs to one invocation, on one cluster.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from trainables.losses import Loss, find_loss
from trainables.training.setup import TASKS, Setup, override
from trainables.training.setups import BATCH_SIZES, SEARCH_RANGE, SETUPS, SMALL_RANGE, XBM, XBM_RANGE, find_setup
from tune_cd.run.budget import parse_budget
from tune_cd.run.limits import SEEDS, check_fields, option_of
from tune_cd.run.starts import usual_rate, usual_weights
from tune_cd.search.registry import OPTIMISERS
from tune_cd.search.space import Axis, Domain, Space

Found = TypeVar("Found")

EXPERIMENTS = ("balance", "xbm")
FORMS = ("small", "paper")
CHOICES = {
    "dataset": sorted(SETUPS), "task": (*TASKS, None), "setup": (*FORMS, None), "experiment": EXPERIMENTS,
    "search": list(OPTIMISERS),
}  # fmt: skip
USUAL_BATCH_SIZE = 64
BELOW, ABOVE = 1000.0, 100.0
"""Usual range of the weights of a loss other than the paper's two: from 1/BELOW of the conventional start's smallest
weight to ABOVE times its largest. Published weights carry over to other networks within a factor of some hundreds
(`tune_cd.balance.terms`)."""

GROWTH = 10.0
"""Octaves by which a usual range of the weights may grow at either end, in searches that grow it (`Axis.growth`)."""

EXTENSIBLE = ("num_samples", "baseline", "baseline_trials", "confirm")
"""Fields that --resume may change; all others stay as the study was started."""


@dataclass(frozen=True)
class StudyConfig:
    """Everything that defines a study; each field is the option of `python -m tune_cd.run` of that name.

    setup: small or paper; None until the cluster is known. assignments: FIELD=VALUE of `--set`. range: of every weight
    Lambda_<term>; None: the usual one, which then grows (range_grows). data_sha256: the digest of data behind a URI.
    data_content: `Plan.content` of a folder.
    Raises ValueError, naming the option, for a value that is impossible with any data and on any cluster.
    """

    dataset: str = "glyphs"
    task: str | None = None
    loss: str | None = None
    setup: str | None = None
    assignments: tuple[str, ...] = ()
    weights: str | None = None
    experiment: str = "balance"
    images_seen: int | None = None
    data_root: str | None = None
    data_sha256: str | None = None
    data_content: str | None = None
    search: str = "cd"
    full_length: bool = False
    num_samples: int | None = None
    grid_step: float = 2.0
    start: str = "conventional"
    range: tuple[float, float] | None = None
    range_grows: bool = False
    batch_size: int | None = None
    tune_batch_size: bool = False
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    baseline: bool = True
    baseline_trials: int | None = None
    seed: int = 0
    replicates: int = 1
    confirm: int = 0

    def __post_init__(self):
        check_fields(self)
        for name, values in CHOICES.items():
            if getattr(self, name) not in values:
                raise ValueError(f"--{name} {getattr(self, name)!r}: one of {[one for one in values if one]}")
        if not 0 <= self.seed <= SEEDS - self.replicates - self.confirm:
            raise ValueError(
                f"--seed {self.seed}: at least 0, and the last seed of --replicates and --confirm below 2**63"
            )
        if self.confirm and self.experiment != "balance":
            raise ValueError(
                f"--confirm {self.confirm}: with --experiment balance only; --replicates trains every setting"
            )
        object.__setattr__(self, "batch_size", self._fixed_batch_size())
        if self.range is None:
            object.__setattr__(self, "range", self._usual_range())
            object.__setattr__(self, "range_grows", True)

    @property
    def space(self) -> Space:
        """The searched box, with room to grow unless --range fixes it. Raises ValueError for an impossible one."""
        assert self.range is not None
        growth = GROWTH if self.range_grows else 0.0
        box: dict[str, Domain] = {name: Axis(name, *self.range, growth=growth) for name in self.weighted.weights}
        return Space(**box, batch_size=sorted(self.batch_sizes)) if self.tune_batch_size else Space(**box)

    @cached_property
    def weighted(self) -> Loss:
        """The loss whose weights are searched. Raises ValueError for an unknown one."""
        return find_loss(self.loss or find_setup(self.dataset, "small", self.task).loss)

    @property
    def pauses(self) -> bool:
        """Whether the search also decides how long to train. With a memory that is used from some iteration on (xbm), a
        short training is not the beginning of a long one."""
        return self.search == "cd" and self.experiment == "balance" and not self.full_length

    @property
    def trained_batch_sizes(self) -> list[int]:
        """The batch sizes that a trial may have."""
        return list(self.batch_sizes) if self.tune_batch_size else [self.batch_size]

    @property
    def forms(self) -> tuple[str, ...]:
        """The possible forms of the set-up. If the command line names none, the cluster decides between them."""
        return (self.setup,) if self.setup else FORMS

    def setup_for(self, form: str) -> Setup:
        """The set-up table's entry, changed as the command line says. form: small or paper. Raises ValueError as
        `override`."""
        setup = find_setup(self.dataset, form, self.task, self.loss)
        if self.experiment == "xbm":
            setup = replace(setup, **XBM[form])
        setup = override(setup, list(self.assignments))
        given = {name: value for name in ("images_seen", "weights") if (value := getattr(self, name)) is not None}
        return replace(setup, **given)

    def first_form(self, check: Callable[[Setup], Found]) -> Found:
        """What `check` returns for the first form that it accepts: while the cluster is not known, either may do.

        Raises the ValueError or OSError of the first form if it accepts none.
        """
        errors = []
        for form in self.forms:
            try:
                return check(self.setup_for(form))
            except (ValueError, OSError) as error:
                errors.append(error)
        raise errors[0]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; the inverse of `from_json`."""
        kept = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        found = ("data_sha256", "data_content")  # of some data only: left out if None
        return {name: value for name, value in kept.items() if value is not None or name not in found}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises ValueError for an unknown or missing field and for an impossible value."""
        names = {field.name for field in fields(cls)}
        if unknown := sorted(set(stored) - names):
            raise ValueError(f"options {unknown} are not known to this release")
        if missing := sorted(names - set(stored) - {"data_sha256", "data_content"}):
            raise ValueError(f"options {missing} are missing")
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()})

    def continued(self, written: Mapping[str, Any], study: str) -> Self:
        """This study with the EXTENSIBLE options among `written`, those that a new command line names.

        Raises ValueError naming another one that differs.
        """
        for name, value in written.items():
            was = getattr(self, name)
            same = sorted(value) == sorted(was) if name == "assignments" else value == was
            if name not in EXTENSIBLE and not same:
                said = option_of(name) if name == "assignments" else name
                raise ValueError(
                    f"study {study!r} was started with {said} = {was!r}; --resume cannot change it to {value!r}"
                )
        return replace(self, **{name: value for name, value in written.items() if name in EXTENSIBLE})

    def _fixed_batch_size(self) -> int:
        """The batch size: --batch-size, else that of `--start`, else the usual; with --tune-batch-size the start's
        default."""
        named = re.search(r"(?:^|,)\s*(?:b|batch_size)\s*=\s*(\d+)\s*(?:,|$)", self.start)
        size = USUAL_BATCH_SIZE if self.batch_size is None else self.batch_size
        if named is None or self.tune_batch_size or int(named[1]) == size:
            return size
        if self.batch_size is not None:
            raise ValueError(
                f"--start {self.start!r} and --batch-size {size} name two batch sizes; --tune-batch-size searches "
                "over them"
            )
        return int(named[1])

    def _usual_range(self) -> tuple[float, float]:
        """The usual range of every weight. Under Adam the weights are without its learning rate."""
        if self.experiment == "xbm" and self.setup_for(self.setup or "small").optimizer != "sgd":
            return XBM_RANGE
        if self.weighted.pairwise:
            return SEARCH_RANGE if self.setup == "paper" else SMALL_RANGE
        start = usual_weights(self.weighted, usual_rate(self.setup_for(self.setup or "small"))).values()
        return min(start) / BELOW, max(start) * ABOVE


@dataclass(frozen=True)
class Call:
    """One invocation of `python -m tune_cd.run`; each field is the option of that name.

    ondemand_after, trial_timeout: seconds; None: never. Raises ValueError for counts below 1 and an unreadable budget.
    """

    results: str = "results"
    study: str | None = None
    resume: bool = False
    retry_failed: bool = False
    address: str | None = None
    gpus_per_trial: float | str | None = None
    pack: int | None = None
    cpus_per_trial: int = 1
    workers: int | None = None
    ondemand_after: float | None = 60.0
    trial_timeout: float | None = None
    budget: str | None = None
    max_failures: int = 2
    checkpoint_seconds: float = 300.0
    tune_dir: str | None = None
    download: bool = False
    dry_run: bool = False
    verbose: bool = False

    def __post_init__(self):
        check_fields(self)
        if self.budget is not None:
            parse_budget(self.budget)


@dataclass(frozen=True)
class Request:
    """A parsed command line. written: the options of the study that it names, by field."""

    config: StudyConfig
    call: Call
    written: Mapping[str, Any]
