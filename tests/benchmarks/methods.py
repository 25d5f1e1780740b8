"""Every claim about the search methods, part by part, as tables.

python tests/benchmarks/methods.py                     # all parts but `bayesian`, 20 minutes on two cores
python tests/benchmarks/methods.py corners bayesian    # some of them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import pandas as pd
from boxes import BOXES
from corners import CORNERS
from harness import command, found

from tune_cd.analysis import summary
from tune_cd.analysis.tables import compared, markdown
from tune_cd.landscapes.ablation import ABLATION, ABLATION_3D, notes_of
from tune_cd.landscapes.find import GENERAL, MEASURED, with_noise
from tune_cd.landscapes.formulas import LANDSCAPES, PRINTED
from tune_cd.landscapes.simulation import Method, Trajectory, replay_all
from tune_cd.search.registry import OPTIMISERS

FITTED, FORMULAS = tuple(PRINTED), tuple(LANDSCAPES)
RIVALS = ("random", "tpe", "cmaes", "cd-paper")


@dataclass(frozen=True)
class Entry:
    """A row of a table: a method, and how it is run. variant: a row of the ablation; None: the named method."""

    method: str
    workers: int = 1
    start: str = "blind"
    variant: Method | None = None

    @property
    def label(self) -> str:
        """The row's name in tables, such as "cd x4" or "cd, near:2"."""
        workers = f" x{self.workers}" if self.workers > 1 else ""
        return self.method + workers + (f", {self.start}" if self.start != "blind" else "")

    @property
    def make(self) -> Method:
        """Constructor of the search."""
        return self.variant or OPTIMISERS[self.method]


@dataclass(frozen=True)
class Part:
    """One table. reference: label of the entry subtracted from the others, in pairs of equal seeds."""

    title: str
    entries: tuple[Entry, ...]
    landscapes: tuple[str, ...]
    columns: tuple[str, ...]
    reference: str = "cd"
    noise: tuple[float, ...] = (0.0,)
    durations: str = "equal"
    trajectories: int = 80
    trials: int = 50


def _entries(methods: Iterable[str], **how) -> tuple[Entry, ...]:
    return tuple(Entry(method, **how) for method in methods)


def _ablation(variants: dict[str, Method]) -> tuple[Entry, ...]:
    return tuple(Entry(name, variant=variant) for name, variant in variants.items())


def _in_parallel(workers: int, durations: str, title: str) -> Part:
    columns = ("n-95", "t-95", "GPU time")
    landscapes = FITTED if durations == "equal" else FITTED + MEASURED
    entries = (Entry("cd"), *_entries(("cd", "cd-paper", "random", "tpe", "cmaes"), workers=workers))
    return Part(f"{workers} workers, {title}", entries, landscapes, columns, durations=durations, trials=64)


AUCS = ("AUC@10", "AUC@20", "n-95")
COMPARED = _entries(("cd", *RIVALS))
MODELLED = (
    *MEASURED, "omniglot", "narrow", "cliff", "box-4-bowl", "box-4-ridge", "box-6-ridge", "box-8-ridge-3d",
    "box-8-bowl-4d", "box-8-ridge-4d", "boosting-wine", "network-digits", "svm-digits",
)  # fmt: skip
"""A few landscapes of each kind, for rivals that take a second per suggestion."""

MODEL_COLUMNS = ("AUC@5", "AUC@10", "AUC@20", "ΔAUC@5", "ΔAUC@10", "ΔAUC@20")

PARTS: dict[str, Part] = {
    "paper": Part(
        "tab:hp_res on the ridges fitted to its Random rows",
        _entries(("random", "tpe-paper", "cd-paper", "cd")), FITTED, AUCS, "cd-paper",
    ),
    "ablation": Part("tab:ablation", _ablation(ABLATION), FITTED, AUCS, "A_O (3,3)"),
    "ablation-3d": Part(
        "the appendix's directions, with a batch size", _ablation(ABLATION_3D), ("batch",), AUCS, "A_O (3,3,3)"
    ),
    "formulas": Part(
        "one worker, blind starts, formulas", COMPARED, FORMULAS,
        ("AUC@10", "AUC@20", "ΔAUC@10", "ΔAUC@20", "ΔAUC@50", "n-95"), noise=(0.0, 0.02, 0.05),
    ),
    "measured": Part(
        "one worker, blind starts, real trainings", COMPARED, MEASURED,
        ("AUC@10", "AUC@20", "ΔAUC@10", "ΔAUC@20", "n-95", "stuck"), trajectories=200,
    ),
    "conventional": Part(
        "real trainings, from equal weights of 0.1", _entries(("cd", *RIVALS), start="conventional"), MEASURED,
        ("AUC@5", "ΔAUC@5", "ΔAUC@10", "ΔAUC@20"), "cd, conventional",
    ),
    "stuck": Part(
        "below 95 % of the best after 50 trials, of 1,000 blind starts", _entries(("cd",)), FORMULAS + MEASURED,
        ("stuck", "AUC@20"), trajectories=1000,
    ),
    **{f"workers-{n}": _in_parallel(n, "equal", "trials of equal length") for n in (4, 8, 16)},
    **{f"workers-{n}-varied": _in_parallel(n, "fourfold", "trials of half to double length") for n in (4, 8, 16)},
    "boxes": Part(
        "parameters that are no balance, in boxes of 4 to 24 octaves", COMPARED, tuple(BOXES),
        ("AUC@5", "AUC@10", "AUC@20", "ΔAUC@5", "ΔAUC@10", "ΔAUC@20", "n-95", "stuck"), trajectories=40, trials=30,
    ),
    "general": Part(
        "other models than a contrastive network, measured", COMPARED, GENERAL,
        ("AUC@5", "AUC@10", "AUC@20", "ΔAUC@5", "ΔAUC@10", "ΔAUC@20", "n-95", "stuck"), trajectories=40, trials=30,
    ),
    "corners": Part(
        "the best an octave from a corner of a box of 16 octaves", COMPARED, CORNERS,
        ("AUC@20", "ΔAUC@20", "n-95", "stuck"), trajectories=20, trials=20,
    ),
    "warm": Part(
        "begun 2, 4 and 8 octaves from the optimum",
        (Entry("cd"), *(Entry("cd", start=f"near:{k}") for k in (2, 4, 8))), FITTED + MEASURED,
        ("AUC@10", "ΔAUC@10", "ΔAUC@20"),
    ),
    "bayesian": Part(
        "Gaussian processes: Optuna's and BoTorch's", _entries(("cd", "gp", "botorch")), MODELLED,
        MODEL_COLUMNS, trajectories=10, trials=20,
    ),
}  # fmt: skip
"""All parts. "bayesian" runs only on request, since it takes long."""

USUAL = tuple(name for name in PARTS if name != "bayesian")


def benchmark(names: Sequence[str], trajectories: int | None = None, processes: int | None = None) -> Iterable[str]:
    """Tables of the named parts, each as soon as it is ready. trajectories: None: each part's own number.

    Raises ImportError where a rival is not installed.
    """
    for name in names:
        part = PARTS[name]
        if trajectories is not None:
            part = replace(part, trajectories=trajectories)
        begun = perf_counter()
        table = summary([trajectory.as_curve() for trajectory in run(part, processes)], part.reference)
        seconds = perf_counter() - begun
        notes = [f"- {note}" for note in notes_of(entry.method for entry in part.entries)]
        head = [f"## {name}: {part.title}", f"{part.trajectories} trajectories, {seconds:.0f} s"]
        yield "\n\n".join([*head, _by_landscape(table, part.columns), *notes])


def _by_landscape(table: pd.DataFrame, columns: Sequence[str]) -> str:
    """A Markdown table per column: landscapes down, methods across."""
    cells = compared(table, columns, across="method")
    return "\n\n".join(markdown(cells[column].rename_axis(column)) for column in columns)


def run(part: Part, processes: int | None = None) -> list[Trajectory]:
    """All trajectories of a part; the labels of its entries are the methods' names."""
    landscapes = [with_noise(found(name), noise, part.durations) for name in part.landscapes for noise in part.noise]
    trajectories = []
    for (workers, start), entries in _by_conditions(part.entries).items():
        methods = {entry.label: entry.make for entry in entries}
        how = {"trials": part.trials, "workers": workers, "start": start, "processes": processes}
        trajectories += replay_all(methods, landscapes, range(part.trajectories), **how)
    return trajectories


def _by_conditions(entries: Iterable[Entry]) -> dict[tuple[int, str], list[Entry]]:
    groups: dict[tuple[int, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.workers, entry.start), []).append(entry)
    return groups


if __name__ == "__main__":
    command(__doc__, PARTS, USUAL, benchmark)
