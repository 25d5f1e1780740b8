"""Constants of the default search, varied one at a time: python tests/benchmarks/constants.py

Each candidate changes a constant of `prior` or `guided` in `tune_cd.search`, and is replayed on every family of
landscapes from equal starts, blind unless `--start` says otherwise, without noise. Printed for BALANCE and for GENERAL,
in hundredths of the range of the scores: AUC@20 by candidate and family, less that of the constants as they are, in
pairs, with 95 % intervals. A candidate to adopt is ahead on the mean of the other families for each family left out.
Judging measured landscapes are not among them.

`--pausing` replays searches that pause instead, on the curves of the measured landscapes of BALANCE, with noise: the
best after 10 full trainings' worth, in hundredths of the best there is.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from harness import found, mean, options_of, refuse_judges, run
from pausing import OURS
from pausing import searched as paused

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.simulation import replay
from tune_cd.search import guided
from tune_cd.search import prior as priors
from tune_cd.search.methods import OPTIMISERS

TRIALS, WORTH = 20, 10.0
MODULES = (priors, guided)
NOW = "as they are"

Change = Mapping[str, Any]
"""Constants of MODULES by name; in lower case, fields of the prior itself."""

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
        "NOISE up to .01": {"NOISE": (1e-6, 1e-2)},
        "CLOSER 1/8": {"CLOSER": 1 / 8},
        "CLOSER 1/2": {"CLOSER": 1 / 2},
        "CENTRE 0": {"CENTRE": 0.0},
        "CENTRE 4": {"CENTRE": 4.0},
        "fades_from 5": {"fades_from": 5},
        "EXPLOIT_TURNS 1": {"EXPLOIT_TURNS": 1},
        "random no": {"random": False},
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
"""prior -> family -> landscapes."""


@contextmanager
def changed(prior: str, change: Change) -> Iterator[None]:
    """The search with other constants, in this process."""
    fields = {name: value for name, value in change.items() if name.islower()}
    new = {name: value for name, value in change.items() if name not in fields}
    homes = {name: next(module for module in MODULES if hasattr(module, name)) for name in new}
    before = {name: getattr(home, name) for name, home in homes.items()}
    before_it = priors.PRIORS[prior.lower()]
    try:
        priors.PRIORS[prior.lower()] = replace(before_it, **fields)
        for name, home in homes.items():
            setattr(home, name, new[name])
        priors.draws_of.cache_clear()
        yield
    finally:
        priors.PRIORS[prior.lower()] = before_it
        for name, home in homes.items():
            setattr(home, name, before[name])
        priors.draws_of.cache_clear()


def searched(job: tuple) -> float:
    """Mean of what was reached over the first TRIALS trials, as a share of the range of the scores; of a search that
    pauses, what was reached after WORTH full trainings' worth. job: (prior, candidate, landscape, pausing, start,
    seed)."""
    prior, candidate, name, pausing, start, seed = job
    with changed(prior, CANDIDATES[prior][candidate]):
        if pausing:
            return paused((OURS, name, WORTH, 1, start, seed))[-1]
        landscape = found(name)
        curve = replay("cd", OPTIMISERS["cd"], landscape, seed, trials=TRIALS, start=start).curve
    whole = np.append(curve, [curve[-1]] * (TRIALS - len(curve)))  # a search that has ended keeps what it has
    return float((whole.mean() - landscape.low) / (landscape.high - landscape.low))


def table(prior: str, options) -> pd.DataFrame:
    """One row a candidate, one column a family: less the constants as they are, a mean over its landscapes. Raises
    ValueError for a judge."""
    families = {name: of for name, of in FAMILIES[prior].items() if "measured" in name or not options.pausing}
    refuse_judges(chain.from_iterable(families.values()))
    jobs = [
        (prior, candidate, name, options.pausing, options.start, seed)
        for candidate in CANDIDATES[prior] for of in families.values() for name in of
        for seed in range(options.searches)
    ]  # fmt: skip
    ran: dict[tuple[str, str], list[float]] = {}
    for job, value in zip(jobs, run(searched, jobs, options)):
        ran.setdefault(job[1:3], []).append(value)
    rows = {}
    for candidate in [one for one in CANDIDATES[prior] if one != NOW]:
        less = {name: np.subtract(ran[candidate, name], ran[NOW, name]) for of in families.values() for name in of}
        rows[candidate] = {
            family: mean(100 * np.mean([less[name] for name in of], axis=0), 1) for family, of in families.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("constants")


def main(argv: list[str] | None = None) -> None:
    parser = options_of(__doc__, 20)
    parser.add_argument("--priors", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--pausing", action="store_true", help="searches that pause, over the balance")
    options = parser.parse_args(argv)
    for prior in ["BALANCE"] if options.pausing else options.priors:
        print(f"{prior}, {options.searches} searches a landscape\n\n{markdown(table(prior, options))}\n", flush=True)


if __name__ == "__main__":
    main()
