"""Savings by pausing, compared with other early-stopping methods, on learning curves.

python tests/benchmarks/pausing.py pausing pausing-256     # 17 minutes on two cores
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from harness import command
from lengths import (
    LOOKS,
    Alternating,
    Asha,
    FullLength,
    MedianStop,
    PausingOptimiser,
    Rule,
    ShortThenBest,
    Spent,
    spend,
)
from pruners import Pruned

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import measured
from tune_cd.landscapes.curves import CurveLandscape, curves_of
from tune_cd.landscapes.find import BATCH_SIZE
from tune_cd.landscapes.measured import IN_VIEW, JUDGES
from tune_cd.landscapes.simulation import over_processes
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.registry import OPTIMISERS
from tune_cd.search.space import Configuration, Space

SHARES = (0.90, 0.95, 0.98)  # of the best
COSTS = (2.5, 5.0, 10.0, 20.0)  # full trainings' worth
RESAMPLES = 1000
BUDGET = 20.0
FULL = "cd, full length"
OURS = "cd, pausing"

PausingMethod = Callable[[Space, int, float, int], PausingOptimiser]
"""(space, seed, budget, workers) -> a search. With equal seeds all begin at the same blind start."""


def _pausing(space: Space, seed: int, budget: float, workers: int) -> PausingOptimiser:
    return PausingDescent(space, seed=seed, workers=workers, budget=budget)


def _ruled(
    space: Space, seed: int, budget: float, workers: int, *, rule: type[Rule], method: str, **how: Any
) -> PausingOptimiser:
    """A method of `OPTIMISERS` for the proposals, and a rule for the lengths of their trainings."""
    return rule(OPTIMISERS[method](space, seed=seed, workers=workers), workers=workers, **how)


def _pruned(space: Space, seed: int, budget: float, workers: int, *, sampler: str, pruner: str) -> PausingOptimiser:
    return Pruned(space, sampler=sampler, pruner=pruner, seed=seed, start=_blind(space, seed))


def _blind(space: Space, seed: int) -> Configuration:
    return space.sample(np.random.default_rng(seed))


RAY = {"lengths": (1 / LOOKS, 4 / LOOKS, 1.0), "factor": 4}
"""Ray's defaults of ASHA, a grace period of one report and a reduction factor of 4. Without them its rungs are those at
which `cd` pauses, and the factor is 2."""

METHODS: dict[str, PausingMethod] = {
    OURS: _pausing,
    FULL: partial(_ruled, rule=FullLength, method="cd"),
    **{
        f"{method}, a quarter, then the best (of {plan:g})": partial(
            _ruled, rule=ShortThenBest, method=method, short=1 / 4, plan=plan
        )
        for method, plan in product(("cd", "random"), COSTS[1:])
    },
    "cd, an eighth, best to its end": partial(_ruled, rule=Alternating, method="cd", short=1 / 8),
    "cd, a quarter, best to its end": partial(_ruled, rule=Alternating, method="cd", short=1 / 4),
    "cd, ASHA": partial(_ruled, rule=Asha, method="cd"),
    "cd, ASHA (Ray)": partial(_ruled, rule=Asha, method="cd", **RAY),
    "cd, median rule": partial(_ruled, rule=MedianStop, method="cd"),
    "random, ASHA": partial(_ruled, rule=Asha, method="random"),
    "random, ASHA (Ray)": partial(_ruled, rule=Asha, method="random", **RAY),
    "tpe, full length": partial(_ruled, rule=FullLength, method="tpe"),
    "tpe, ASHA": partial(_ruled, rule=Asha, method="tpe"),
    "tpe, ASHA (Ray)": partial(_ruled, rule=Asha, method="tpe", **RAY),
    "tpe, halving (Optuna)": partial(_pruned, sampler="tpe", pruner="halving"),
    "tpe, Hyperband (Optuna)": partial(_pruned, sampler="tpe", pruner="hyperband"),
    "tpe, median (Optuna)": partial(_pruned, sampler="tpe", pruner="median"),
}

BAYESIAN: dict[str, PausingMethod] = {
    OURS: METHODS[OURS],
    FULL: METHODS[FULL],
    "gp, Hyperband (Optuna)": partial(_pruned, sampler="gp", pruner="hyperband"),
    "botorch, ASHA": partial(_ruled, rule=Asha, method="botorch"),
    "botorch, ASHA (Ray)": partial(_ruled, rule=Asha, method="botorch", **RAY),
}
"""Rivals that take up to a second per suggestion; ASHA over BoTorch's proposals is Syne Tune's ASHABO."""


def run(
    methods: Mapping[str, PausingMethod], landscapes: Sequence[CurveLandscape], seeds: Sequence[int], *,
    workers: int = 1, budget: float = BUDGET, processes: int | None = None,
) -> list[Spent]:  # fmt: skip
    """Run every method on every landscape from every seed."""
    jobs = list(product(landscapes, methods.items(), seeds))
    one = partial(_one, workers=workers, budget=budget)
    return over_processes(one, jobs, processes)


def _one(job: tuple[CurveLandscape, tuple[str, PausingMethod], int], *, workers: int, budget: float) -> Spent:
    landscape, (name, make), seed = job
    search = make(landscape.space, seed, budget, workers)
    return spend(search, landscape, budget=budget, workers=workers, seed=seed, name=name)


PARTS = {
    "pausing": IN_VIEW, "pausing-judged": JUDGES, "pausing-256": IN_VIEW, "pausing-bayesian": IN_VIEW
}  # fmt: skip
"""Part of the benchmark -> its landscapes; those that do not come with the package are skipped."""

SIZES = {"pausing-256": 256}
"""Part -> batch size of its landscapes, where it is not BATCH_SIZE."""

ALONE = {"pausing-bayesian": BAYESIAN}
"""Part -> its methods, with one worker only, where they are not METHODS and PARALLEL."""

_PARALLEL = (OURS, FULL, "cd, an eighth, best to its end", "cd, ASHA", "cd, ASHA (Ray)", "tpe, ASHA", "tpe, ASHA (Ray)")
PARALLEL = {name: METHODS[name] for name in _PARALLEL}
SEARCHES = 40


def methods_of(part: str) -> dict[int, dict[str, PausingMethod]]:
    """Number of workers -> the methods that a part compares."""
    return {1: ALONE[part]} if part in ALONE else {1: METHODS, 4: PARALLEL, 8: PARALLEL}


def landscapes_of(part: str) -> Iterator[CurveLandscape]:
    """Landscapes of a part that come with the package and have its batch size."""
    size = SIZES.get(part, BATCH_SIZE)
    for landscape in map(measured.load, filter(measured.MEASURED.__contains__, PARTS[part])):
        if size in landscape.axes["batch_size"]:
            yield curves_of(landscape, size)


def sections(parts: Sequence[str], searches: int | None = None, processes: int | None = None) -> Iterator[str]:
    """Tables of the parts, one text per number of workers. Raises ImportError where a rival is missing."""
    for part in parts:
        yield from _sections(part, searches or SEARCHES, processes)


def _sections(part: str, searches: int, processes: int | None) -> Iterator[str]:
    landscapes = list(landscapes_of(part))
    for workers, methods in methods_of(part).items():
        begun = perf_counter()
        rows = table(run(methods, landscapes, range(searches), workers=workers, processes=processes), landscapes)
        head = f"## {part}: {workers} worker{'s' * (workers > 1)}, budget of {BUDGET:g} full trainings"
        tables = [head, f"{searches} searches each, {perf_counter() - begun:.0f} s"]
        for landscape, group in rows.groupby("landscape", sort=False):
            tables.append(markdown(_printed(group).set_index("method").rename_axis(landscape)))
        yield "\n\n".join(tables)


def _printed(rows: pd.DataFrame) -> pd.DataFrame:
    """Table to print: each ratio and its interval in one column; costs and scores rounded."""
    shown = rows.drop(columns=["landscape", "searches"]).copy()
    for share in SHARES:
        name, cost = f"{share:.0%}", f"to {share:.0%}"
        there = np.isfinite(shown[cost])
        shown[cost] = [f"{value:.1f}" if np.isfinite(value) else f">{BUDGET:g}" for value in shown[cost]]
        if f"ratio {name}" in shown:
            low, high = shown.pop(f"ratio {name} low"), shown.pop(f"ratio {name} high")
            ratios = zip(there, shown.pop(f"ratio {name}"), low, high)
            shown[f"of {FULL}'s {name}"] = [_ratio_cell(*values) for values in ratios]
    return shown.round(3)


def _ratio_cell(there: bool, ratio: float, low: float, high: float) -> str:
    """A ratio and its interval as text; "-" unless the method gets `there`. 0: it gets there and FULL does not."""
    return f"{ratio:.2f} ({low:.2f} to {f'{high:.2f}' if np.isfinite(high) else '-'})" if there else "-"


def table(spent: Iterable[Spent], landscapes: Sequence[CurveLandscape]) -> pd.DataFrame:
    """One row per landscape and method.

    Columns: the mean over seeds after COSTS, as a share of the best; the share of searches below 95 % at the end; the
    cost until the mean reaches SHARES of the best, inf where it does not; and the ratio of this cost to FULL's, with a
    95 % interval (pairs of seeds, resampled), see `_of`.
    """
    by_name = {landscape.name: landscape for landscape in landscapes}
    groups: dict[tuple[str, str], dict[int, Spent]] = {}
    for one in spent:
        groups.setdefault((one.landscape, one.method), {})[one.seed] = one
    grid = np.arange(1, round(LOOKS * BUDGET) + 1) / LOOKS
    shares = {of: _shares(by_seed, grid, by_name[of[0]]) for of, by_seed in groups.items()}
    rows = []
    for (landscape, method), reached in shares.items():
        row = {"landscape": landscape, "method": method, "searches": len(reached)}
        row |= {f"{cost:g}": float(reached[:, np.searchsorted(grid, cost)].mean()) for cost in COSTS}
        row["below 95 %"] = float((reached[:, -1] < 0.95).mean())
        for share in SHARES:
            row[f"to {share:.0%}"] = _cost(reached.mean(0), grid, share)
            if (full := shares.get((landscape, FULL))) is not None:
                row |= _ratio(reached, full, grid, share)
        rows.append(row)
    return pd.DataFrame(rows)


def _shares(by_seed: Mapping[int, Spent], grid: np.ndarray, landscape: CurveLandscape) -> np.ndarray:
    """Share of the best reached by each cost [n_seeds, n_costs]; the lowest score before the first look."""
    low = float(np.nanmin(landscape.values))
    return np.array([by_seed[seed].at(grid, low) for seed in sorted(by_seed)]) / landscape.best


def _cost(mean: np.ndarray, grid: np.ndarray, share: float) -> float:
    reached = np.flatnonzero(mean >= share)
    return float(grid[reached[0]]) if len(reached) else np.inf


def _ratio(ours: np.ndarray, full: np.ndarray, grid: np.ndarray, share: float) -> dict[str, float]:
    """Ratio of two methods' costs until their means reach a share, with its 95 % interval.

    ours, full: shares of the best [n_seeds, n_costs].
    """
    n = len(ours)
    weights = np.random.default_rng(0).multinomial(n, [1 / n] * n, RESAMPLES) / n
    drawn = [_of(_cost(a, grid, share), _cost(b, grid, share)) for a, b in zip(weights @ ours, weights @ full)]
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    ratio = _of(_cost(ours.mean(0), grid, share), _cost(full.mean(0), grid, share))
    name = f"ratio {share:.0%}"
    return {name: ratio, f"{name} low": float(low), f"{name} high": float(high)}


def _of(ours: float, full: float) -> float:
    """Ratio of two costs: inf if only full length gets there, 0 if only we do, 1 (no information) if neither does."""
    if np.isinf(ours) and np.isinf(full):
        return 1.0
    return 0.0 if np.isinf(full) else ours / full


if __name__ == "__main__":
    command(__doc__, PARTS, ["pausing"], sections)
