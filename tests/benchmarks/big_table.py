"""How fast rows are written, and a large table is read and drawn: python tests/benchmarks/big_table.py [--trials 3750]

Printed, medians of --turns: milliseconds of one `write_trial` into an empty study, beside 900 files, and beside
--trials compacted rows; seconds to read and compact those files; of the compacted rows the seconds to read them (plain
`pandas.read_parquet` beside it), to compute the grid and the best-so-far curve, and to write the report, with its size.
3,750 trials are the paper's grid of 25 x 25 x 6. Rows have 20 scores and 30 options of random digits, which do not
compress.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd import results
from tune_cd.analysis import best_so_far, grid
from tune_cd.landscapes.formulas import BATCH_SIZES, LANDSCAPES
from tune_cd.report.page import render
from tune_cd.report.writing import content
from tune_cd.results import parquet

FILES = 900
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(number: int, study: str = "big") -> Iterator[dict]:
    """Trials of a grid over the landscape with a batch size, again and again; one in fifty has failed."""
    pick, landscape = random.Random(0), LANDSCAPES["batch"]
    weights = np.clip(np.geomspace(1e-6, 17.0, 25), 1e-6, 17.0).tolist()
    cells = list(product(weights, weights, BATCH_SIZES))
    for index in range(number):
        h = dict(zip(("Lambda_p", "Lambda_e", "batch_size"), cells[index % len(cells)]))
        score, failed = landscape.score(h), pick.random() < 0.02
        yield {
            "study": study, "dataset": "omniglot", "task": "dml", "loss": "margin", "search": "grid", "search_seed": 0,
            "seed": index // len(cells), "trial_id": f"grid-{index:06d}", "trial_index": index, "attempt": 0,
            "direction": "sampled", "params": h, **h, "status": "failed" if failed else "completed",
            "metric_name": "r_map", "val_score": None if failed else score + pick.gauss(0, 0.01),
            "test_score": None if failed else score,
            "scores": {} if failed else {f"test_recall_at_{2**n}": pick.random() for n in range(20)},
            "positive_term": pick.random(), "entropy_term": pick.random(), "images_seen": 64_000,
            "train_seconds": 10.0, "gpus": 1.0, "started_at": START + timedelta(seconds=10 * index),
            "ended_at": START + timedelta(seconds=10 * index + 10), "hostname": f"node-{index % 7}",
            "device": "NVIDIA H200", "error": "out of memory" if failed else None,
            "config": json.dumps({f"option_{n}": hash((n, h["Lambda_p"])) for n in range(30)} | h), "software": "{}",
        }  # fmt: skip


def fill(folder: Path, number: int) -> None:
    """So many trials in one compacted file."""
    checked = [results.check_trial(row) for row in rows(number)]
    listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in checked]
    data = parquet.serialise_many(pa.Table.from_pylist(listed, results.TRIALS))
    results.publish(folder / parquet.compacted_name("trials", "big", data), data)


def seconds(call: Callable[[], object], turns: int = 1) -> float:
    """The median time of a call."""
    times = []
    for _ in range(turns):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return median(times)


def measured(folder: Path, trials: int, turns: int) -> Iterator[tuple[str, float]]:
    """What was done, and the seconds it took."""
    small, large, written = folder / "small", folder / "large", rows(FILES + 2 * turns, "small")

    def write() -> None:
        results.write_trial(small, next(written))

    yield "write a row, empty study", seconds(write, turns)
    for _ in range(FILES):
        write()
    yield f"write a row, beside {FILES} files", seconds(write, turns)
    yield "read these files", seconds(lambda: results.read(small), turns)
    yield "compact them", seconds(lambda: results.compact(small))
    fill(large, trials)
    more = rows(turns, "big-2")
    yield f"write a row, beside {trials} compacted", seconds(lambda: results.write_trial(large, next(more)), turns)
    yield "read them", seconds(lambda: results.read(large, "big"), turns)
    yield "read them, plain pandas", seconds(lambda: pd.read_parquet(large / "trials" / "big"), turns)
    table, page = results.read(large, "big"), folder / "report.html"
    yield "grid", seconds(lambda: grid(table, "test_score"), turns)
    yield "best-so-far curve", seconds(lambda: best_so_far(table), turns)
    took = seconds(lambda: page.write_text(render(content(large)), encoding="utf-8"), turns)
    yield f"report, {page.stat().st_size / 1e6:.1f} MB", took


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3750, help="compacted rows; default: %(default)s")
    parser.add_argument("--turns", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        for what, took in measured(Path(folder), options.trials, options.turns):
            print(f"{what:<40} {1000 * took:10.1f} ms", flush=True)


if __name__ == "__main__":
    main()
