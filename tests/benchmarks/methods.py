"""Search methods compared at full length, on landscapes, part by part.

    python tests/benchmarks/methods.py measured formulas                    # blind starts, one trial at a time
    python tests/benchmarks/methods.py measured --start conventional        # or near:4, or Lambda_p=0.1,Lambda_e=0.1
    python tests/benchmarks/methods.py modelled --methods gp botorch cd --searches 20 --trials 20
    python tests/benchmarks/methods.py box-8-bowl omniglot-242-margin-3d --kept results.jsonl

Printed, one table each, landscapes down and methods across: AUC@5, @10 and @20; these less the last method's in pairs
of equal seeds, with 95 % intervals; trials until the mean is at 95 % of the best; searches that end below it.
`tune_cd.replay` compares with noise, several workers and trials of different durations, or on a user's own grid.
"""

import sys
from itertools import product

import numpy as np
from harness import found, log_judges, options_of, run
from hills import HILLS

from tune_cd.analysis import Curve, summary
from tune_cd.analysis.tables import compared, markdown
from tune_cd.landscapes import IN_VIEW, JUDGES
from tune_cd.landscapes.ablation import notes_of
from tune_cd.landscapes.find import GENERAL
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.simulation import replay
from tune_cd.search.methods import OPTIMISERS

CATEGORIES = tuple(name for name in GENERAL if name.startswith("kinds-"))
PARTS = {
    "measured": IN_VIEW, "judges": JUDGES, "formulas": tuple(LANDSCAPES), "boxes": tuple(HILLS),
    "general": tuple(name for name in GENERAL if name not in CATEGORIES), "categories": CATEGORIES,
    "modelled": (
        *IN_VIEW, "omniglot", "narrow", "cliff", "box-4-bowl", "box-4-ridge", "box-6-ridge", "box-8-ridge-3d",
        "box-8-bowl-4d", "box-8-ridge-4d", "boosting-wine", "network-digits", "svm-digits",
    ),
}  # fmt: skip
"""Part -> its landscapes. modelled: a few of each kind, for rivals that take a second a suggestion."""

METHODS = ("random", "tpe", "cmaes", "cd-paper", "cd")
COLUMNS = ("AUC@5", "AUC@10", "AUC@20", "ΔAUC@5", "ΔAUC@10", "ΔAUC@20", "n-95", "stuck")


def searched(job: tuple) -> list[float]:
    """What one search reached after each trial. job: (method, landscape, trials, start, seed)."""
    method, landscape, trials, start, seed = job
    ran = replay(method, OPTIMISERS[method], found(landscape), seed, trials=trials, start=start)
    return [trial.reached for trial in ran.trials]


def tables(part: str, options) -> str:
    """A part's tables in Markdown. Raises ImportError where a rival is not installed."""
    names, seeds = PARTS.get(part, (part,)), range(options.searches)
    jobs = [
        (method, name, options.trials, options.start, seed)
        for name, method, seed in product(names, options.methods, seeds)
    ]
    curves = []
    for job, reached in zip(jobs, run(searched, jobs, options)):
        curves.append(Curve(job[1], job[0], job[-1], np.array(reached), -np.inf, np.arange(1.0, len(reached) + 1)))
    cells = compared(summary(curves, options.methods[-1]), COLUMNS)
    shown = [markdown(cells.xs(column, axis=1, level=1).T.rename_axis(column)) for column in COLUMNS]
    return "\n\n".join([f"## {part}, {options.searches} searches", *shown, *notes_of(options.methods)])


def main(argv: list[str]) -> None:
    parser = options_of(__doc__, 80)
    parser.add_argument("parts", nargs="+", metavar="PART", help=f"of {', '.join(PARTS)}; or a landscape")
    parser.add_argument("--methods", nargs="+", choices=OPTIMISERS, default=list(METHODS))
    parser.add_argument("--trials", type=int, default=50, help="default: %(default)s")
    options = parser.parse_args(argv)
    log_judges([name for part in options.parts for name in PARTS.get(part, (part,))], ["methods.py", *argv])
    for part in options.parts:
        print(tables(part, options), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
