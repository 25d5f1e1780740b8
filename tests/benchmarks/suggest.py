"""What a suggestion costs: CoordinateDescentSearch beside OptunaSearch, in the same process, turn by turn.

    python tests/benchmarks/suggest.py

Prints the median time of `suggest` in milliseconds after 20 and after 100 finished trials, with none and with 15
live ones, and how many times as long OptunaSearch takes.
"""

import math
import os
import random
import statistics
import time
import warnings

# ruff: noqa: E402, the environment is read when these are imported
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import optuna
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from tune_cd import CoordinateDescentSearch

REPEATS = 9
PARAM_SPACE = {"Lambda_p": tune.loguniform(1e-6, 17.0), "Lambda_e": tune.loguniform(1e-6, 17.0)}
SEARCHES = {
    "cd": lambda seed: CoordinateDescentSearch(seed=seed),
    "cd-paper": lambda seed: CoordinateDescentSearch(settings="paper", seed=seed),
    "OptunaSearch": lambda seed: OptunaSearch(seed=seed),
}


def value(config: dict) -> float:
    """A ridge like the paper's."""
    p, e = math.log2(config["Lambda_p"] / 8e-3), math.log2(config["Lambda_e"] / 2.0)
    return math.exp(-(((e - p) / 10) ** 2) - ((e + p) / 20) ** 2)


def seconds(name: str, finished: int, live: int, seed: int) -> float:
    """One suggestion's time, in a search of so many finished and live trials."""
    searcher, rng = SEARCHES[name](seed), random.Random(seed)
    searcher.set_search_properties("score", "max", PARAM_SPACE)
    searcher.set_max_concurrency(live + 1)
    for _ in range(finished):  # anywhere in the box, so that no search has come to its end
        config = {name: 17.0 * 2 ** -rng.uniform(0, 24) for name in PARAM_SPACE}
        searcher.add_evaluated_point(config, value(config))
    for i in range(live):
        searcher.suggest(f"live{i}")
    begun = time.perf_counter()
    searcher.suggest("next")
    return time.perf_counter() - begun


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"{'finished':>8} {'live':>4}" + "".join(f"{name:>14}" for name in SEARCHES) + f"{'OptunaSearch / cd':>20}")
    for finished, live in ((20, 0), (20, 15), (100, 0), (100, 15)):
        times = {name: [] for name in SEARCHES}
        for repeat in range(REPEATS):
            for name in SEARCHES:
                times[name].append(1000 * seconds(name, finished, live, repeat))
        medians = {name: statistics.median(of) for name, of in times.items()}
        cells = "".join(f"{medians[name]:>11.2f} ms" for name in SEARCHES)
        print(f"{finished:>8} {live:>4}{cells}{medians['OptunaSearch'] / medians['cd']:>20.2f}")


if __name__ == "__main__":
    main()
