"""Would other constants of the default search have been chosen, and helped: python tests/benchmarks/constants.py

Each candidate changes a constant of `beliefs` or `model_guided` in `tune_cd.search`, and is replayed on every
family of landscapes from equal blind starts, without noise. Printed for BALANCE and for GENERAL, in hundredths of the
range of the scores:

- AUC@20 by candidate and family, less that of the constants as they are, in pairs, with 95 % intervals;
- leave one family out: the candidate that is best in the mean over the other families, and what choosing it would
  change on the family left out.

Judging measured landscapes (`JUDGES`) are not among them. Constants were not chosen by these tables.
"""

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from harness import found as find

from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.simulation import replay
from tune_cd.search import beliefs, model_guided
from tune_cd.search.registry import OPTIMISERS

TRIALS = 20
MODULES = (beliefs, model_guided)
NOW = "as they are"

Change = Mapping[str, Any]
"""Constants of MODULES by name; in lower case, fields of the belief itself."""

CANDIDATES: dict[str, dict[str, Change]] = {
    "BALANCE": {
        NOW: {},
        "TRADING, SCALING 2, 4": {"TRADING": 2.0, "SCALING": 4.0},
        "TRADING, SCALING 3, 6": {"TRADING": 3.0, "SCALING": 6.0},
        "TRADING, SCALING 6, 12": {"TRADING": 6.0, "SCALING": 12.0},
        "TRADING, SCALING 6, 6": {"TRADING": 6.0, "SCALING": 6.0},
        "NOISES up to .01": {"NOISES": (1e-4, 1e-3, 1e-2)},
        "CLOSER 1/8": {"CLOSER": 1 / 8},
        "CLOSER 1/2": {"CLOSER": 1 / 2},
        "CENTRE 0": {"CENTRE": 0.0},
        "CENTRE 4": {"CENTRE": 4.0},
        "fades_from 2": {"fades_from": 2},
        "EXPLOIT_TURNS 1": {"EXPLOIT_TURNS": 1},
    },
    "GENERAL": {
        NOW: {},
        "SCALE 0.35": {"SCALE": 0.35},
        "SCALE 0.7": {"SCALE": 0.7},
        "TOGETHER, EACH 1, 0": {"EACH": 0.0},
        "TOGETHER, EACH 1, 0.6": {"EACH": 0.6},
        "TOGETHER, EACH 0.5, 0.3": {"TOGETHER": 0.5},
        "NOISE up to .1": {"NOISE": (1e-6, 1e-1)},
        "CLOSER 1/8": {"CLOSER": 1 / 8},
        "CLOSER 1/2": {"CLOSER": 1 / 2},
        "CENTRE 0": {"CENTRE": 0.0},
        "CENTRE 4": {"CENTRE": 4.0},
        "fades_from 5": {"fades_from": 5},
        "EXPLOIT_TURNS 1": {"EXPLOIT_TURNS": 1},
        "pairs no": {"pairs": False},
    },
}

FAMILIES: dict[str, dict[str, tuple[str, ...]]] = {
    "BALANCE": {
        "fitted ridges": ("omniglot", "sop", "landmarks", "tinyimagenet"),
        "turned and bent": ("rotated", "narrow", "curved"),
        "a cliff, a batch size": ("cliff", "batch"),
        "margin, measured": ("glyphs-margin", "omniglot-242-margin", "omniglot-242-margin-b256"),
        "InfoNCE, measured": ("omniglot-242-infonce", "omniglot-242-infonce-b256"),
    },
    "GENERAL": {
        "bowls": tuple(f"box-{side}-bowl" for side in (4, 6, 8, 12, 16, 24)),
        "ridges": tuple(f"box-{side}-ridge" for side in (4, 6, 8, 12, 16, 24)),
        "three and four axes": ("box-8-bowl-3d", "box-8-bowl-4d", "box-8-ridge-3d", "box-8-ridge-4d"),
        "SVM": ("svm-breast-cancer", "svm-digits", "svm-wine"),
        "boosting": ("boosting-breast-cancer", "boosting-wine"),
        "networks": ("network-digits", "network-wine"),
    },
}
"""belief -> family -> landscapes."""


@contextmanager
def changed(belief: str, change: Change) -> Iterator[None]:
    """The search with other constants, in this process."""
    fields = {name: value for name, value in change.items() if name.islower()}
    new = {name: value for name, value in change.items() if name not in fields}
    new[belief] = replace(getattr(beliefs, belief), **fields)
    homes = {name: next(module for module in MODULES if hasattr(module, name)) for name in new}
    before = {name: getattr(home, name) for name, home in homes.items()}
    try:
        for name, home in homes.items():
            setattr(home, name, new[name])
        beliefs.prior_of.cache_clear()
        yield
    finally:
        for name, home in homes.items():
            setattr(home, name, before[name])
        beliefs.prior_of.cache_clear()


def auc(landscape: Landscape, seed: int) -> float:
    """Mean of what was reached over the first TRIALS trials, as a share of the range of the scores."""
    curve = replay("cd", OPTIMISERS["cd"], landscape, seed, trials=TRIALS).curve
    whole = np.append(curve, [curve[-1]] * (TRIALS - len(curve)))  # a search that has ended keeps what it has
    return float((whole.mean() - landscape.low) / (landscape.high - landscape.low))


def aucs(job: tuple[str, str], belief: str, searches: int) -> list[float]:
    """Of one candidate on one landscape, by start [searches]."""
    candidate, name = job
    landscape = find(name)
    with changed(belief, CANDIDATES[belief][candidate]):
        return [auc(landscape, seed) for seed in range(searches)]


def differences(belief: str, searches: int, processes: int) -> dict[tuple[str, str], np.ndarray]:
    """(candidate, family) -> less the constants as they are, by start and landscape: a mean over landscapes of equal
    weight [searches]."""
    names = [name for family in FAMILIES[belief].values() for name in family]
    jobs = [(candidate, name) for candidate in CANDIDATES[belief] for name in names]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        found = dict(zip(jobs, pool.map(partial(aucs, belief=belief, searches=searches), jobs)))
    return {
        (candidate, family): np.mean(
            [np.subtract(found[candidate, name], found[NOW, name]) for name in names_of], axis=0
        )
        for candidate in CANDIDATES[belief]
        for family, names_of in FAMILIES[belief].items()
    }


def by_family(belief: str, less: Mapping[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """One row a candidate, one column a family."""
    return pd.DataFrame(
        [
            {"constants": candidate} | {family: said(less[candidate, family]) for family in FAMILIES[belief]}
            for candidate in CANDIDATES[belief] if candidate != NOW
        ]
    )  # fmt: skip


def left_out(belief: str, less: Mapping[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """One row a family: what is best on the others, and what that changes on it."""
    rows = []
    for family in FAMILIES[belief]:
        others = [one for one in FAMILIES[belief] if one != family]
        means = {c: float(np.mean([less[c, one].mean() for one in others])) for c in CANDIDATES[belief]}
        best = max(means, key=lambda candidate: means[candidate])
        rows.append({
            "left out": family, "best on the others": best, "gain there": f"{100 * means[best]:+.1f}",
            "on the one left out": said(less[best, family]) if best != NOW else "-",
        })  # fmt: skip
    return pd.DataFrame(rows)


def said(values: np.ndarray) -> str:
    """In hundredths of the range."""
    return f"{100 * values.mean():+.1f} ±{100 * half_interval_of(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beliefs", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--searches", type=int, default=20, help="of each candidate on each landscape; default: 20")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    for belief in options.beliefs:
        less = differences(belief, options.searches, options.processes)
        print(f"{belief}, {options.searches} searches a landscape\n")
        for table in (by_family(belief, less), left_out(belief, less)):
            print(markdown(table.set_index(table.columns[0])), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
