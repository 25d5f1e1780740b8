"""What each constant of the default search is worth: varied alone, in pairs of searches, on landscapes in view.

    python tests/benchmarks/constants.py balance --kept FILE    # weights of a loss: pausing, whole, from given starts
    python tests/benchmarks/constants.py general --kept FILE    # other parameters, whole trainings

Judges are refused. Printed for each constant: how it was varied, in which searches, and what that changed, as
hundredths of the landscape's range: the mean of the best so far over the search, and the best at its end, with 95 %
intervals over landscapes and seeds, and the end on the landscape that lost most.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from harness import found, mean, options_of, run
from methods import searched as replayed
from pausing import OURS
from pausing import searched as spent

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import IN_VIEW, JUDGES
from tune_cd.search import prior

PLANES = IN_VIEW
RIDGES = ("omniglot", "narrow", "rotated")
OTHERS = (
    "network-digits", "svm-digits", "boosting-wine", "kinds-digits", "box-4-bowl", "box-12-bowl", "box-6-ridge",
    "box-16-ridge", "box-8-ridge-3d", "box-8-bowl-4d", "box-8-ridge-4d",
)  # fmt: skip
SEARCHES = {
    "pausing, blind": (OURS, PLANES, 10, "blind"),
    "pausing, equal weights": (OURS, PLANES, 10, "conventional"),
    "pausing, known": (OURS, PLANES, 5, "known"),
    "at full length, blind": ("cd", PLANES, 30, "blind"),
    "formulas, blind": ("cd", RIDGES, 30, "blind"),
    "formulas, equal weights": ("cd", RIDGES, 20, "conventional"),
    "others": ("cd", OTHERS, 30, "blind"),
}
"""Kind of search -> method, landscapes, trainings' worth and start."""

BLIND = ("pausing, blind", "at full length, blind", "formulas, blind")
PAUSING, OTHER = BLIND[:1], ("others",)
GIVEN = ("pausing, equal weights", "formulas, equal weights")
ENDS = ("formulas, blind", "at full length, blind")
_ROWS = {
    "balance": [
        (BLIND, ("prior.TRADING", "prior.SCALING"), (3.0, 6.0), (6.0, 12.0), (6.0, 6.0)),
        (BLIND, "prior.NARROW", 1.0, 0.5), (BLIND, "prior.NOISES", (1e-2,) * 3, (1e-2, 1e-1, 1.0)),
        (BLIND, "prior.CENTRE", 1.0, 4.0), (ENDS, "guided.PROMISE", 1e-3, 1e-7),
        ((*PAUSING, *GIVEN), "guided.MARGIN", 0.0, 0.2), (BLIND, "guided.FADES_FROM", 2.5, np.inf),
        (PAUSING, "balance.alike", (8.0,), (16.0,), (32.0,)), (BLIND, "surrogate.TAIL", 1e9, 2.0),
        (BLIND, "process.PRIOR_POINTS", 0.1), (BLIND, "lines.STEP", 1.0, 0.25),
        ((*GIVEN, "pausing, known"), "prior.AROUND", 3.0, 6.0),
    ],
    "general": [
        (OTHER, "prior.SCALE", 0.35, 0.7), (OTHER, "prior.TOGETHER", 0.5, 1.5), (OTHER, "prior.EACH", 0.0, 0.6),
        (OTHER, "prior.NOISE", (1e-6, 1e-2), (1e-4, 1e-1)), (OTHER, "prior.DRAWS", 16),
        (OTHER, "prior.CENTRE", 0.0, 4.0), (OTHER, "guided.FADES_FROM", 2.5, np.inf), (OTHER, "lines.RANDOM", 0, 1),
        (OTHER, "guided.ENOUGH", 12, 1000), (OTHER, "surrogate.TAIL", 1e9), (OTHER, "process.PRIOR_POINTS", 0.1),
        (OTHER, "lines.FEWEST", 16),
    ],
}  # fmt: skip
"""Part -> (kinds of searches, MODULE.CONSTANT or PRIOR.FIELD, its other values); of several names a value each."""


def _varied(kinds: tuple[str, ...], names: Any, *values: Any) -> Iterator[tuple[str, tuple]]:
    for value in values:
        changes = {names: value} if isinstance(names, str) else dict(zip(names, value))
        yield f"{', '.join(name.split('.')[1] for name in changes)} = {value}", (kinds, changes)


VARIED: dict[str, dict[str, tuple[tuple[str, ...], Mapping[str, Any]]]] = {
    part: dict(varied for row in rows for varied in _varied(*row)) for part, rows in _ROWS.items()
}
"""Part -> how a constant is varied -> (kinds of searches, changes)."""


@contextmanager
def changed(changes: Mapping[str, Any]) -> Iterator[None]:
    """The search with other constants."""
    with ExitStack() as stack:
        stack.callback(prior.draws_of.cache_clear)
        for name, value in changes.items():
            owner, attribute = name.split(".")
            if owner in prior.PRIORS:
                other = replace(prior.PRIORS[owner], **{attribute: value})
                stack.enter_context(patch.dict(prior.PRIORS, {owner: other}))
            else:
                stack.enter_context(patch(f"tune_cd.search.{name}", value))
        prior.draws_of.cache_clear()
        yield


def searched(job: tuple) -> list[float]:
    """(mean, end) of the best so far of one search, as shares of the landscape's range. job: (part, how a constant is
    varied or None, kind of search, landscape, seed)."""
    part, how, kind, name, seed = job
    method, _, budget, start = SEARCHES[kind]
    landscape = found(name)
    with changed(VARIED[part][how][1] if how else {}):
        if landscape.curves is not None:
            reached = np.array(spent((method, name, budget, 1, start, seed))) * landscape.high
        else:
            reached = np.array(replayed((method, name, budget, start, seed)))
    shares = (np.maximum(reached, landscape.low) - landscape.low) / (landscape.high - landscape.low)
    shares = np.append(shares, np.full(max(0, budget - len(shares)), shares[-1]))  # a search that has ended
    return [float(shares.mean()), float(shares[-1])]


def table(part: str, options: Any) -> pd.DataFrame:
    """One row a variation and kind of search."""
    wanted = [(how, kind) for how, (kinds, _) in VARIED[part].items() for kind in kinds]
    usual = [(None, kind) for kind in dict.fromkeys(kind for _, kind in wanted)]
    jobs = [
        (part, how, kind, name, seed)
        for how, kind in [*usual, *wanted]
        for name, seed in product(SEARCHES[kind][1], range(options.searches))
    ]
    refused = sorted({job[3] for job in jobs} & set(JUDGES))
    if refused:
        raise ValueError(f"landscapes {refused}: judges choose no constant")
    ran = dict(zip(jobs, map(np.array, run(searched, jobs, options))))
    rows = []
    for how, kind in wanted:
        gains = {
            name: np.array([ran[part, how, kind, name, seed] - ran[part, None, kind, name, seed]
                            for seed in range(options.searches)]) * 100
            for name in SEARCHES[kind][1]
        }  # fmt: skip
        every = np.concatenate(list(gains.values()))
        worst = min(gains, key=lambda name: gains[name][:, 1].mean())
        rows.append({
            "varied": f"`{how}`", "searches": kind, "mean": mean(every[:, 0], 1), "end": mean(every[:, 1], 1),
            "lost most": f"{worst} {mean(gains[worst][:, 1], 1)}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def main(argv: list[str]) -> None:
    parser = options_of(__doc__, 20)
    parser.add_argument("parts", nargs="+", choices=VARIED, metavar="PART", help="balance, general")
    options = parser.parse_args(argv)
    for part in options.parts:
        print(f"## {part}, {options.searches} searches a landscape\n\n{markdown(table(part, options))}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
