"""Searches on other people's functions, which nobody here tunes to.

    pip install coco-experiment
    python tests/benchmarks/bbob.py --searches 10 --kept bbob.jsonl

The 24 noiseless functions of the BBOB suite (Hansen et al. 2021) in the box [-5, 5]^d: separable, badly scaled,
multi-modal, with a few or many basins. They span up to ten orders of magnitude, unlike scores. A search is told -f.
Search i is on instance i + 1 of each function, turned and moved anew.

Printed: -log2 of the share of the box where f is lower than the best so far, after AT trials; twice as many trials
gain random search 1. Means over functions; then the last method's less each other's after 20 trials, with 95 %
intervals over functions, and on how many functions it is ahead.
"""

import sys
from itertools import product

import cocoex
import numpy as np
import pandas as pd
from harness import options_of, run
from scipy.stats import qmc

from tune_cd import Linear, Space
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.simulation import replay
from tune_cd.search.methods import OPTIMISERS

AT = (5, 10, 20, 30)
SAMPLE = 2**14  # points of the box


def halvings(job: tuple) -> list[float]:
    """What one search reached, at each of AT. job: (method, function, dimensions, workers, seed)."""
    method, number, dimensions, workers, seed = job
    space = Space(**{f"x{axis}": Linear(-5.0, 5.0) for axis in range(dimensions)})
    problem = cocoex.BareProblem("bbob", number, dimensions, seed + 1)

    def surface(x: np.ndarray) -> np.ndarray:
        points = 10.0 * (np.asarray(x, float) - space.low) / (space.high - space.low) - 5.0
        return np.apply_along_axis(lambda point: -problem(point), -1, points)

    sample = np.sort(surface(space.low + qmc.Sobol(dimensions, seed=0).random(SAMPLE) * (space.high - space.low)))
    landscape = Landscape(f"f{number}", space, surface, {}, float(sample[0]), -float(problem.best_value()))
    curve = replay(method, OPTIMISERS[method], landscape, seed, trials=max(AT), workers=workers).curve
    better = SAMPLE - np.searchsorted(sample, [curve[min(at, len(curve)) - 1] for at in AT], side="right")
    return list(-np.log2(np.maximum(better, 1) / SAMPLE))


def main(argv: list[str]) -> None:
    parser = options_of(__doc__, 10)
    parser.add_argument(
        "--methods", nargs="+", choices=OPTIMISERS, default=["random", "tpe", "cmaes", "cd-paper", "cd"]
    )
    parser.add_argument("--dimensions", type=int, nargs="+", choices=(2, 3, 5), default=[2, 3])
    parser.add_argument("--workers", type=int, default=1, help="trials at a time; default: 1")
    options = parser.parse_args(argv)
    for dimensions in options.dimensions:
        jobs = list(product(options.methods, range(1, 25), [dimensions], [options.workers], range(options.searches)))
        reached = pd.DataFrame(run(halvings, jobs, options), columns=[f"{at} trials" for at in AT])
        means = reached.groupby([[job[0] for job in jobs], [job[1] for job in jobs]], sort=False).mean()
        rows = means.groupby(level=0, sort=False).mean().map("{:.2f}".format)
        after = means["20 trials"].unstack(0)[options.methods]
        less = after.rsub(after.iloc[:, -1], axis=0)
        rows["less it"] = [f"{less[name].mean():+.2f} ±{half_interval_of(less[name]):.2f}" for name in options.methods]
        rows["ahead"] = (less > 0).sum()
        print(markdown(rows.rename_axis(f"{dimensions} axes")), end="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
