"""Searches on other people's functions, which nobody here tunes to: python tests/benchmarks/bbob.py [--workers 4]

The 24 noiseless functions of the BBOB suite (Hansen et al. 2021; `pip install -e .[bbob]`), in the box [-5, 5]^d:
separable, badly scaled, multi-modal, with a few or many basins. They span up to ten orders of magnitude, unlike scores.
Searches begin blind, and are told -f as it is.

Printed, after 5, 10, 20 and 30 trials: in how small a share of the box f is lower than the best so far, in halvings
(each is what twice as many trials gain random search); the mean over functions, of the mean over instances, and the
difference to the last method in pairs, with 95 % intervals over functions; then on how many functions either is ahead.
--searches is the number of instances of each function: turned and moved.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from harness import mean, options_of, run
from scipy.stats import qmc

from tune_cd import Linear, Space
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.simulation import replay
from tune_cd.search.methods import OPTIMISERS

FUNCTIONS, DIMENSIONS = range(1, 25), (2, 3)
METHODS = ("random", "tpe", "cmaes", "cd-paper", "cd")
AT = (5, 10, 20, 30)
SAMPLE = 2**14  # points of the box, of which a share is lower than the best so far


@dataclass(frozen=True)
class Function:
    """-f over coordinates x [..., n_axes] of the box's space: larger is better."""

    number: int
    dimension: int
    instance: int

    @property
    def space(self) -> Space:
        return Space(**{f"x{axis}": Linear(-5.0, 5.0) for axis in range(self.dimension)})

    def __call__(self, x: np.ndarray) -> np.ndarray:
        low, high = self.space.low, self.space.high
        points = -5.0 + 10.0 * (np.asarray(x, float) - low) / (high - low)
        return np.apply_along_axis(lambda point: -_problem(self)(point), -1, points)

    def landscape(self) -> Landscape:
        sample = _sampled(self)
        name = f"f{self.number}-{self.dimension}d-{self.instance}"
        return Landscape(name, self.space, self, {}, float(sample[0]), -float(_problem(self).best_value()))


@cache
def _problem(function: Function):
    import cocoex

    return cocoex.BareProblem("bbob", function.number, function.dimension, function.instance)


@cache
def _sampled(function: Function) -> np.ndarray:
    """Values all over the box [SAMPLE], ascending."""
    unit = qmc.Sobol(function.dimension, seed=0).random(SAMPLE)
    space = function.space
    return np.sort(function(space.low + unit * (space.high - space.low)))


def halvings(curve: np.ndarray, function: Function) -> list[float]:
    """After AT trials: -log2 of the share of the box that is better than what was reached."""
    reached = [curve[min(at, len(curve)) - 1] for at in AT]
    better = SAMPLE - np.searchsorted(_sampled(function), reached, side="right")
    return (-np.log2(np.maximum(better, 1) / SAMPLE)).tolist()


def searched(job: tuple) -> list[float]:
    """`halvings` of one search. job: (method, dimension, function, instance, workers)."""
    method, dimension, number, instance, workers = job
    function = Function(number, dimension, instance)
    make, how = OPTIMISERS[method], {"trials": max(AT), "workers": workers}
    return halvings(replay(method, make, function.landscape(), instance, **how).curve, function)


def table(means: pd.DataFrame, dimension: int) -> pd.DataFrame:
    """One row a method: halvings, in pairs less the last one's, and on how many functions it is ahead and behind.

    means: by dimension, method and function, a column for each of AT.
    """
    of = means.loc[dimension]
    methods = list(dict.fromkeys(of.index.get_level_values("method")))
    rows = {}
    for method in methods:
        own, less = of.loc[method], of.loc[method] - of.loc[methods[-1]]
        row = {f"{at}": f"{own[at].mean():.2f}" for at in AT}
        if method != methods[-1]:
            row |= {f"less {methods[-1]}, {at}": mean(less[at], 2) for at in AT}
            row["ahead, behind at 20"] = f"{(less[20] > 0).sum()}, {(less[20] < 0).sum()}"
        rows[method] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("").rename_axis(f"{dimension} axes")


def main(argv: list[str] | None = None) -> None:
    parser = options_of(__doc__, 5)
    parser.add_argument("--methods", nargs="+", choices=OPTIMISERS, default=list(METHODS))
    parser.add_argument("--workers", type=int, default=1, help="trials at a time; default: %(default)s")
    options = parser.parse_args(argv)
    instances = range(1, options.searches + 1)
    jobs = list(product(options.methods, DIMENSIONS, FUNCTIONS, instances, [options.workers]))
    rows = pd.DataFrame(jobs, columns=["method", "dimension", "function", "instance", "workers"])
    rows = rows.join(pd.DataFrame(run(searched, jobs, options), columns=list(AT)))
    means = rows.groupby(["dimension", "method", "function"], sort=False)[list(AT)].mean()
    for dimension in DIMENSIONS:
        print(markdown(table(means, dimension)), end="\n\n")


if __name__ == "__main__":
    main()
