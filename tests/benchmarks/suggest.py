"""What a suggestion costs, and what it costs once much is known.

    python tests/benchmarks/suggest.py

Prints CPU time and memory of one thread, every case in its own process:
- of eight suggestions in a row after 50, 500 and 2,000 known rows: the first beside no live trial, the last beside
  seven. Rows are whole trainings, or looks at trainings that pause.
- the same for a search that was told 1,000 rows before its first suggestion.
- of a first wave: suggestions without any value, until so many trials are live.
"""

import math
import multiprocessing
import os
import random
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tune_cd import LENGTHS, CoordinateDescent, Space
from tune_cd.landscapes.landscape import knowledge

WIDE = (1e-6, 17.0)
SPACES = {
    "balance": ("Lambda_p", "Lambda_e"),
    "4 weights": ("Lambda_a", "Lambda_b", "Lambda_c", "Lambda_d"),
    "2 others": ("lr", "weight_decay"),
    "4 others": ("lr", "weight_decay", "eps", "warmup"),
}
KNOWN, LIVE, WAVES = (50, 500, 2000), 8, (64, 256, 512)


def value(h: dict, share: float = 1.0) -> float:
    """A ridge like the paper's over the first two parameters, and noise, so that no search has come to its end."""
    p, e = (math.log2(one / best) for one, best in zip(h.values(), (8e-3, 2.0)))
    return share**0.1 * math.exp(-(((e - p) / 10) ** 2) - ((e + p) / 20) ** 2) + 0.02 * math.sin(1e3 * (p + e))


def searching(name: str, pausing: bool, rows: int, started: bool = True) -> CoordinateDescent:
    """A search that knows so many rows. started: it had asked for its start before."""
    rng, space = random.Random(0), Space(**dict.fromkeys(SPACES[name], WIDE))
    search = CoordinateDescent(space, **knowledge(space), lengths=LENGTHS if pausing else (1.0,))
    if started and rows and (h := search.ask()) is not None:
        search.tell(h, value(h))
        rows -= 1
    while rows > 0:
        h = {axis: WIDE[1] * 2 ** -rng.uniform(0, 24) for axis in space.names}
        looks = (
            [{"share": share} for share in LENGTHS[: min(rng.choice([1, 1, 1, 2, 3, 4]), rows)]] if pausing else [{}]
        )
        for look in looks:
            search.tell(h, value(h, **look), **look)
        rows -= len(looks)
    return search


def suggestion(name: str, pausing: bool, rows: int, started: bool = True) -> tuple[float, float]:
    """Milliseconds of LIVE suggestions in a row: median and costliest."""
    searching(name, pausing, 40).ask()  # what is computed once in a process
    search, times = searching(name, pausing, rows, started), []
    for _ in range(LIVE):
        begun = time.process_time()
        search.ask()
        times.append(1000 * (time.process_time() - begun))
    return statistics.median(times), max(times)


def wave(name: str, live: int) -> float:
    """Seconds of a first wave."""
    search, begun = searching(name, False, 0), time.process_time()
    for _ in range(live):
        search.ask()
    return time.process_time() - begun


def measured(of: Callable[..., Any], *case: object) -> tuple[Any, float]:
    """(result, MiB of memory beyond that before)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = of(*case)
    return found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def apart(of: Callable[..., Any], *case: object) -> tuple[Any, float]:
    """`measured` in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, of, *case).result()


def main() -> None:
    print(f"ms of {LIVE} suggestions in a row: median, costliest; MiB")
    print("| | " + " | ".join(f"{rows:,} rows" for rows in KNOWN) + " | 1,000 told before |\n|---|" + "---|" * 4)
    for name, pausing in product(SPACES, (False, True)):
        costs = [apart(suggestion, name, pausing, rows) for rows in KNOWN]
        costs.append(apart(suggestion, name, pausing, 1000, False))
        cells = " | ".join(f"{median:.3g}, {most:.3g}; {mib:.0f}" for (median, most), mib in costs)
        print(f"| {name + ', pausing' * pausing} | {cells} |", flush=True)
    print(
        "\ns of a first wave, MiB\n| | " + " | ".join(f"{live}" for live in WAVES) + " |\n|---|" + "---|" * len(WAVES)
    )
    for name in SPACES:
        waves = [apart(wave, name, live) for live in WAVES]
        print(f"| {name} | " + " | ".join(f"{s:.2f}, {mib:.0f}" for s, mib in waves) + " |", flush=True)


if __name__ == "__main__":
    main()
