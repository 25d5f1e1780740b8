"""What a suggestion costs: CoordinateDescentSearch beside OptunaSearch, in the same process, turn by turn.

    python tests/benchmarks/suggest.py

Prints the median time of `suggest` in milliseconds after 20, 50 and 100 finished trials, with none and with 15 live
ones, over the balance and over two and four other parameters.
"""

import math
import os
import random
import statistics
import time
import warnings
from itertools import product

# ruff: noqa: E402, the environment is read when these are imported
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import optuna
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from tune_cd import CoordinateDescentSearch

REPEATS = 9
SPACES = {
    "balance": ("Lambda_p", "Lambda_e"),
    "2 others": ("lr", "weight_decay"),
    "4 others": ("lr", "weight_decay", "eps", "warmup"),
}
SEARCHES = {
    "cd": lambda seed: CoordinateDescentSearch(seed=seed),
    "cd-paper": lambda seed: CoordinateDescentSearch(settings="paper", seed=seed),
    "OptunaSearch": lambda seed: OptunaSearch(seed=seed),
}


def value(config: dict) -> float:
    """A ridge like the paper's, over the first two parameters."""
    p, e = (math.log2(one / best) for one, best in zip(config.values(), (8e-3, 2.0)))
    return math.exp(-(((e - p) / 10) ** 2) - ((e + p) / 20) ** 2)


def seconds(name: str, parameters: tuple[str, ...], finished: int, live: int, seed: int) -> float:
    """One suggestion's time, in a search of so many finished and live trials."""
    searcher, rng = SEARCHES[name](seed), random.Random(seed)
    searcher.set_search_properties("score", "max", {name: tune.loguniform(1e-6, 17.0) for name in parameters})
    searcher.set_max_concurrency(live + 1)
    for _ in range(finished):  # anywhere in the box, so that no search has come to its end
        config = {name: 17.0 * 2 ** -rng.uniform(0, 24) for name in parameters}
        searcher.add_evaluated_point(config, value(config))
    for i in range(live):
        searcher.suggest(f"live{i}")
    begun = time.perf_counter()
    searcher.suggest("next")
    return time.perf_counter() - begun


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"{'':<10}{'finished':>8} {'live':>4}" + "".join(f"{name:>14}" for name in SEARCHES))
    for (space, parameters), finished, live in product(SPACES.items(), (20, 50, 100), (0, 15)):
        times: dict[str, list[float]] = {name: [] for name in SEARCHES}
        for repeat, name in product(range(REPEATS), SEARCHES):
            times[name].append(1000 * seconds(name, parameters, finished, live, repeat))
        cells = "".join(f"{statistics.median(of):>11.2f} ms" for of in times.values())
        print(f"{space:<10}{finished:>8} {live:>4}{cells}", flush=True)


if __name__ == "__main__":
    main()
