"""What the command line is parsed into: a `StudyConfig` defines a study, is stored with it as JSON in `study.json`, and
stays when it is continued, except for the fields in EXTENSIBLE; a `Call` belongs to one invocation, on one cluster."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from math import inf, log2
from typing import Any, Self, TypeVar

from trainables.losses import LOSSES, Loss, find_loss
from trainables.training.setup import TASKS, Setup, override
from trainables.training.setups import BATCH_SIZES, SEARCH_RANGE, SETUPS, SMALL_RANGE, XBM, XBM_RANGE, find_setup
from tune_cd.run import fields as read
from tune_cd.run.budget import parse_budget
from tune_cd.run.fields import SECONDS, check_fields, option, option_of
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.space import Axis, Domain, Space

Found = TypeVar("Found")
FORMS = ("small", "paper")
USUAL_BATCH_SIZE = 64
DEFAULT_TRIALS = 20
DEFAULT_WORTH = 10
"""Default budget, in full trainings' worth, of a search that pauses trainings: with half the images it is ahead of 20
full trainings on the measured landscapes (`tests/benchmarks/RESULTS.md`)."""
WORTH_FROM_KNOWN = 5
"""The same where the start is a known best, which is within a few per cent of the best already."""
# Of a loss other than the paper's two, the usual range is from 1/BELOW of the conventional start's smallest weight to
# ABOVE times its largest: published weights carry over to other networks within a factor of some hundreds.
BELOW, ABOVE = 1000.0, 100.0
GROWTH = 10.0  # octaves by which a usual range may grow at either end, in searches that grow it (`Axis.growth`)
EXTENSIBLE = ("num_samples", "baseline", "baseline_trials", "confirm", "data_root")  # by --resume; all else stays
OF_SETUP = ("task", "loss", "assignments", "weights", "images_seen")  # compared by the set-up that they lead to
MANY = 10**6
trained = partial(option, "what is trained")
searched = partial(option, "how it is searched")
called = partial(option, "where it runs and what it leaves")


@dataclass(frozen=True)
class StudyConfig:
    """Everything that defines a study; each field is the option of `python -m tune_cd.run` of that name.

    Raises ValueError, naming the option, for a value that is impossible with any data and on any cluster.
    """

    # fmt: off
    dataset: str = trained("glyphs", "glyphs are made offline from fonts", choices=sorted(SETUPS))
    task: str | None = trained(None, "default: the dataset's", choices=TASKS)
    loss: str | None = trained(None,
        f"{', '.join(LOSSES)}, or module:function, your own; default: the dataset's usual one")
    setup: str | None = trained(None, "default: paper where trials get a GPU, else small", choices=FORMS)
    assignments: tuple[str, ...] = trained((), "override fields of the set-up, e.g. margin=0.3 k=4",
        metavar="FIELD=VALUE", type=read.assignment, nargs="+", action="extend")
    weights: str | None = trained(None,
        "the network's before training: none, imagenet, or a file; default: the set-up's", type=read.weights)
    experiment: str = trained("balance",
        "balance: the set-up as it is; xbm: table:xbm, without and with cross-batch memory, its balance as published "
        "(S1), fixed (S2) and tuned (S3), without and with learning rate decay", choices=("balance", "xbm"))
    images_seen: int | None = trained(None, "images of a full training; default: the set-up's")
    data_root: str | None = trained(None,
        "the dataset's directory or zip, which all nodes see; or what each fetches once: s3://BUCKET/KEY.zip, "
        "s3://BUCKET/PREFIX/ (gs:// likewise) or http[s]://HOST/FILE.zip, with #sha256=DIGEST behind it or not; "
        "default: $TUNE_CD_DATA, then ~/.cache/tune_cd",
        metavar="PATH_OR_URI", type=read.path_or_uri)
    data_found: str | None = None  # the SHA-256 of data behind a URI, the `content` of a folder
    search: str = searched("cd",
        "cd-paper: Algorithms 1 and 2, repeated points free; cd-local: the same with brackets around the incumbent; "
        "tpe, cmaes, gp and botorch need the extra `baselines`", choices=OPTIMISERS)
    full_length: bool = searched(False,
        "train every setting to its end; by default cd pauses trainings at an eighth, a quarter and a half of it")
    num_samples: int | None = searched(None,
        "full trainings' worth of images that the search may spend, those of a resumed study included; default: "
        f"{DEFAULT_WORTH}, {WORTH_FROM_KNOWN} from a known start; where nothing pauses {DEFAULT_TRIALS} trials, or all "
        "of a grid", limits=(1, MANY))
    grid_step: float = searched(2.0, "factor between two cells of --search grid, 2 in the paper")
    start: str = searched("known",
        "known (the best weights found elsewhere for the loss, the task and the kind of network, else conventional), "
        "conventional (equal or published weights at the usual learning rate), blind (drawn in the box), paper (its "
        "best for the dataset and loss), Lambda_p=...,Lambda_e=...[,b=...] (a Lambda_TERM for each term of the loss), "
        "or your recipe: lr=...,average=separate|global[,b=...], and of losses of other terms lr=...[,b=...]")
    range: tuple[float, float] | None = searched(None,
        "of every weight Lambda_TERM, fixed; default: one that grows where cd or an average has its best at an end; at "
        f"first {SMALL_RANGE[0]:g},{SMALL_RANGE[1]:g}, in --setup paper {SEARCH_RANGE[0]:g},{SEARCH_RANGE[1]:g}, in "
        f"--experiment xbm {XBM_RANGE[0]:g},{XBM_RANGE[1]:g}, and for losses of other terms 1/{BELOW:g} of the "
        f"conventional start's smallest weight to {ABOVE:g} times its largest",
        metavar="LO,HI", type=read.two_numbers)
    batch_size: int | None = searched(None,
        f"fixed batch size, and the start's; default: {USUAL_BATCH_SIZE}, the nearest of --batch-sizes, or as --start "
        "says", limits=(1, MANY))
    tune_batch_size: bool = searched(False, "search over batch sizes as well")
    batch_sizes: tuple[int, ...] = searched(BATCH_SIZES,
        f"those allowed with --tune-batch-size; default: {','.join(map(str, BATCH_SIZES))}",
        metavar="B,B,...", type=read.whole_numbers, limits=(1, MANY))
    baseline: bool = searched(True, "leave out the searches that tune the learning rate alone")
    baseline_trials: int | None = searched(None,
        "trials of each of these at most, or trainings' worth where cd pauses; it ends when its best rate has "
        f"neighbours 2/3 of an octave apart; default: {DEFAULT_WORTH} trainings' worth, or {DEFAULT_TRIALS} trials",
        limits=(1, MANY))
    seed: int = searched(0, "of the search and of every training")
    replicates: int = searched(1,
        "train every setting N times, with seeds from --seed on, and search by their mean", limits=(1, 1000))
    confirm: int = searched(0,
        "train the best setting of every search once more with each of N fresh seeds, which tell what tuning gains",
        limits=(0, 1000))
    # fmt: on

    def __post_init__(self):
        check_fields(self)
        if not 0 <= self.seed <= 2**63 - self.replicates - self.confirm:  # as in the table and in torch
            said = "at least 0, and the last seed of --replicates and --confirm below 2**63"
            raise ValueError(f"--seed {self.seed}: {said}")
        if self.confirm and self.experiment != "balance":
            said = "with --experiment balance only; --replicates trains every setting"
            raise ValueError(f"--confirm {self.confirm}: {said}")
        if self.batch_sizes != BATCH_SIZES and not self.tune_batch_size:
            raise ValueError(f"--batch-sizes {','.join(map(str, self.batch_sizes))}: with --tune-batch-size only")
        if self.grid_step != StudyConfig.grid_step and self.search != "grid":
            raise ValueError(f"--grid-step {self.grid_step:g}: with --search grid only")
        if not 1 < self.grid_step < inf:
            raise ValueError(f"--grid-step {self.grid_step:g}: a finite factor above 1")
        if len({*self.batch_sizes}) != len(self.batch_sizes):
            raise ValueError(f"--batch-sizes {','.join(map(str, self.batch_sizes))}: one of them is there twice")
        if self.range is not None and not 0 < self.range[0] < self.range[1] < inf:
            raise ValueError(f"--range {self.range[0]:g},{self.range[1]:g}: two numbers above 0, the lower one first")
        object.__setattr__(self, "batch_size", self._fixed_batch_size())

    @cached_property
    def space(self) -> Space:
        """The searched box, with room to grow unless --range fixes it. Raises ValueError for an impossible one."""
        growth = GROWTH if self.range is None else 0.0
        box: dict[str, Domain] = {name: Axis(name, *self.bounds, growth=growth) for name in self.weighted.weights}
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

    def setup_for(self, form: str) -> Setup:
        """The table's set-up of a form, small or paper, with the options' changes. Raises ValueError as `override`."""
        setup = find_setup(self.dataset, form, self.task, self.loss)
        if self.experiment == "xbm":
            setup = replace(setup, **XBM[form])
        setup = override(setup, list(self.assignments))
        given = {name: value for name in ("images_seen", "weights") if (value := getattr(self, name)) is not None}
        for name in given:
            if any(one.startswith(f"{name}=") for one in self.assignments):
                raise ValueError(f"{option_of(name)} and --set {name}=...: one of them is enough")
        return replace(setup, **given)

    def first_form(self, check: Callable[[Setup], Found]) -> Found:
        """What `check` returns for the first form that it accepts: while the cluster is not known, either may do.
        Raises the ValueError or OSError of the first form if it accepts none."""
        errors = []
        for form in (self.setup,) if self.setup else FORMS:
            try:
                return check(self.setup_for(form))
            except (ValueError, OSError) as error:
                errors.append(error)
        raise errors[0]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """From `asdict`, by way of JSON. Raises ValueError for an unknown or missing field and an impossible value."""
        if wrong := sorted({field.name for field in fields(cls)} ^ stored.keys()):
            raise ValueError(f"options {wrong} are missing, or not known to this release")
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()})

    def continued(self, written: Mapping[str, Any], study: str) -> Self:
        """This study with the EXTENSIBLE options among `written`, those that a new command line names.
        Raises ValueError naming another one that differs."""
        form = self.setup or "small"
        for name, value in written.items():
            was = getattr(self, name)
            if name in EXTENSIBLE or value == was:
                continue
            if name not in OF_SETUP or replace(self, **{name: value}).setup_for(form) != self.setup_for(form):
                absent, listed = was in (None, ()) or was is False, isinstance(value, tuple)
                was, value = (" ".join(map(str, one)) if listed and one else repr(one) for one in (was, value))
                said = f"without {option_of(name)}" if absent else f"with {option_of(name)} {was}"
                said += "; --resume cannot change it to " + value
                said += "; of a file that has moved, put a link in the old place" * (name == "weights")
                raise ValueError(f"study {study!r} was started {said}")
        return replace(self, **{name: value for name, value in written.items() if name in EXTENSIBLE})

    def _fixed_batch_size(self) -> int:
        """--batch-size, else that of `--start`, else the usual; with --tune-batch-size the start's default, the allowed
        one that is nearest to the usual."""
        allowed = sorted(self.batch_sizes) if self.tune_batch_size else [self.batch_size or USUAL_BATCH_SIZE]
        size = self.batch_size or min(allowed, key=lambda size: abs(log2(size / USUAL_BATCH_SIZE)))
        if size not in allowed:
            raise ValueError(f"--batch-size {size}: with --tune-batch-size one of {allowed}")
        named = re.search(r"(?:^|,)\s*(?:b|batch_size)\s*=\s*(\d+)\s*(?:,|$)", self.start)
        if named is None or self.tune_batch_size:
            return size
        if self.batch_size not in (None, int(named[1])):
            said = "name two batch sizes; --tune-batch-size searches over them"
            raise ValueError(f"--start {self.start!r} and --batch-size {size} {said}")
        return int(named[1])

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of every weight, at first: --range, else the usual one. Under Adam the weights are without its
        learning rate."""
        if self.range is not None:
            return self.range
        if self.experiment == "xbm":
            return XBM_RANGE
        if self.weighted.pairwise:
            return SEARCH_RANGE if self.setup == "paper" else SMALL_RANGE
        start = usual_weights(self.weighted, usual_rate(self.setup_for(self.setup or "small"))).values()
        return min(start) / BELOW, max(start) * ABOVE


@dataclass(frozen=True)
class Call:
    """One invocation of `python -m tune_cd.run`; each field is the option of that name.

    Raises ValueError, naming the option, for an impossible value.
    """

    # fmt: off
    download: bool = trained(False, "fetch absent data, on every node, where there is a public archive")
    results: str = called("results", "a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX that all nodes reach",
        metavar="DIR_OR_URI")
    study: str | None = called(None, "default: dataset, loss and time of the start", metavar="NAME")
    resume: bool = called(False, "continue --study where it stopped, or with more --num-samples")
    retry_failed: bool = called(False,
        "with --resume: train again what failed by an error of its own or its time limit, as what was lost anyway")
    address: str | None = called(None,
        "of a Ray cluster; local: start one here; default: Ray's own rule (joins a running one, else starts one)")
    gpus_per_trial: float | str | None = called(None,
        "a fraction: so many trials are trained together on one GPU; auto: as many as fit its memory; default: 1 where "
        "the cluster has or may grow GPUs, else 0", type=read.number_or_auto)
    pack: int | None = called(None,
        "trainings in one process; default: 1, or what --gpus-per-trial says", limits=(1, 1000))
    cpus_per_trial: int = called(1,
        "of a process, and its threads on a CPU, on which scores depend in the last digits", limits=(1, 10**5))
    workers: int | None = called(None,
        "settings trained at a time; default: as many as fit the nodes that the cluster has or may get, but at most a "
        "fifth of the trainings of the longest search, where it learns from trials", limits=(1, 10**5))
    ondemand_after: float | None = called(60.0,
        "seconds for which spot nodes may be short before on-demand nodes are asked for, if the cluster has such a "
        "type; or never", type=read.seconds_or_never, limits=(0, SECONDS))
    budget: str | None = called(None,
        "ask for nothing more once this call has spent this, such as 90min, 2h or 20gpu-hours; what leads, and all of "
        "--confirm, is trained whole, beyond it if need be; default: --num-samples alone ends it")
    trial_timeout: float | None = called(None,
        "seconds after which a training counts as failed, hanging or not; default: no limit", limits=(0.001, SECONDS))
    max_failures: int = called(2,
        "times a trial is begun again whose process or node was lost, from its last saved state", limits=(0, MANY))
    checkpoint_seconds: float = called(300.0, "least time between two saved states of a training", limits=(0, SECONDS))
    tune_dir: str | None = called(None,
        "where Ray Tune keeps its logs, which nothing needs again; default: in the system's temporary folder",
        metavar="DIR", type=read.path)
    log_to: str | None = called(None,
        "every training becomes a run there: for TensorBoard beside the results (in --tune-dir if they are in a "
        "bucket), for MLflow at MLFLOW_TRACKING_URI, for W&B in the project with the study's name; default: nowhere",
        choices=("tensorboard", "mlflow", "wandb"))
    dry_run: bool = called(False, "check everything, say what would be run, its time and cost at most, train nothing")
    verbose: bool = called(False, "show Ray's own tables and messages as well")
    # fmt: on

    def __post_init__(self):
        check_fields(self)
        if self.retry_failed and not self.resume:
            raise ValueError("--retry-failed: with --resume only")
        if self.budget is not None and parse_budget(self.budget)[1] and self.gpus_per_trial == 0:
            raise ValueError(f"--budget {self.budget!r}: with --gpus-per-trial 0 trials have no GPU; give a time")
        share, pack = self.gpus_per_trial, self.pack or 1
        if isinstance(share, float) and share != 0 and not (share >= 1e-3 and share * pack <= 1):
            raise ValueError(
                f"--gpus-per-trial {share:g}, {pack} in a process: 0, or from 0.001 to 1 in all, since a training uses "
                "one GPU (tune_cd/tune/README.md has trials over several, of your own)"
            )


def usual_weights(loss: Loss, rate: float) -> dict[str, float]:
    """Weights in the published ratios; the largest is the rate, the usual one of a loss of weight 1. Plain SGD diverges
    with VICReg's published 25 times 0.1."""
    return {name: rate / max(loss.published) * coefficient for name, coefficient in loss.coefficients.items()}


def usual_rate(setup: Setup) -> float:
    """The learning rate that the usual weights contain; 1 under Adam, which has its own."""
    return setup.learning_rate if setup.optimizer == "sgd" else 1.0
