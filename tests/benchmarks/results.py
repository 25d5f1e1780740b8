"""How fast the results are: `python tests/benchmarks/results.py [--trials 100000] [--keep DIR]`.

Prints the median of one `write_trial` into an empty study, beside 1,000 files and beside 10,000 compacted rows; the
time to compact 1,000 files and to read them before and after; and of `--trials` compacted rows the time to read them
and pivot them to a Lambda_p x Lambda_e grid, with the peak memory of the process that does, beside plain
`pandas.read_parquet`. Configurations have 30 options of random digits, about 1 kB a row, which do not compress.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pandas as pd
import pyarrow as pa

from tune_cd import results
from tune_cd.results import parquet

WRITES = 100
START = datetime(2026, 1, 1, tzinfo=UTC)


def trial(index: int, pick: random.Random, study: str = "big") -> dict:
    """A row as `tune_cd.run` writes it, on one of 15 x 15 balances."""
    h = {"Lambda_p": 2.0 ** pick.randrange(-10, 5), "Lambda_e": 2.0 ** pick.randrange(-10, 5)}
    scores = {f"score_{n}": pick.random() for n in range(8)}
    return {
        "study": study,
        "dataset": "glyphs",
        "task": "dml",
        "loss": "margin",
        "search": "cd",
        "search_seed": 0,
        "seed": 0,
        "trial_id": f"cd-{index:06d}",
        "trial_index": index,
        "attempt": 0,
        "direction": "balance",
        "line_position": pick.random(),
        "params": h,
        **h,
        "batch_size": 64,
        "status": "completed",
        "metric_name": "r_map",
        "val_score": pick.random(),
        "test_score": pick.random(),
        "scores": scores,
        "positive_term": pick.random(),
        "entropy_term": pick.random(),
        "images_seen": 64_000,
        "best_at": 32_000,
        "train_seconds": pick.random(),
        "gpus": 1.0,
        "started_at": START,
        "ended_at": START + timedelta(seconds=index),
        "hostname": f"node-{index % 7}",
        "device": "NVIDIA H200",
        "config": json.dumps({f"option_{n}": pick.random() for n in range(30)}),
        "software": json.dumps({"python": "3.11.7", "torch": "2.15.0", "ray": "2.60.0"}),
    }


def fill(folder: Path, number: int) -> None:
    """So many trials of the study `big` in one compacted file."""
    pick, tables = random.Random(0), []
    for start in range(0, number, 10_000):
        rows = [results.check_trial(trial(index, pick)) for index in range(start, min(number, start + 10_000))]
        listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
        tables.append(pa.Table.from_pylist(listed, results.TRIALS))
    data = parquet.serialise_many(pa.concat_tables(tables))
    results.publish(folder / parquet.compacted_name("trials", "big", data), data)


def write_milliseconds(folder: Path, first: int) -> float:
    """The median time of a write, of WRITES trials of the study `big`."""
    pick, times = random.Random(first), []
    for index in range(first, first + WRITES):
        row = trial(index, pick)
        started = time.perf_counter()
        results.write_trial(folder, row)
        times.append(1000 * (time.perf_counter() - started))
    return median(times)


def seconds(function, *arguments) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def peak_memory() -> float:
    """Of this process so far, in MB. (What getrusage says begins with the parent's.)"""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def read_and_pivot(how: str, folder: Path) -> None:
    """Print the seconds for reading and for the grid, and this process's peak memory, in MB, before and after."""
    before = peak_memory()
    started = time.perf_counter()
    table = results.read(folder) if how == "results.read" else pd.read_parquet(folder / "trials")
    read = time.perf_counter()
    grid = table.pivot_table(index="Lambda_p", columns="Lambda_e", values="val_score", aggfunc="mean")
    done = time.perf_counter()
    peak = peak_memory()
    shape = " x ".join(map(str, grid.shape))
    print(
        f"{how:<20} {len(table):>7} rows read in {read - started:.2f} s, grid {shape} in {done - read:.2f} s, "
        f"{done - started:.2f} s together; peak memory {peak:.0f} MB, of which {before:.0f} MB before reading",
        flush=True,
    )


def measure(folder: Path, trials: int) -> None:
    empty, large = folder / "small", folder / "large"
    print(f"write, empty study            {write_milliseconds(empty, 0):6.1f} ms (median of {WRITES})", flush=True)
    for index in range(WRITES, 1000 - WRITES):
        results.write_trial(empty, trial(index, random.Random(index)))
    print(f"write, beside 900 files       {write_milliseconds(empty, 1000 - WRITES):6.1f} ms", flush=True)
    print(f"read 1,000 files              {seconds(results.read, empty):6.2f} s", flush=True)
    print(f"read them with plain pandas   {seconds(pd.read_parquet, empty / 'trials'):6.2f} s", flush=True)
    print(f"compact 1,000 files           {seconds(results.compact, empty):6.2f} s", flush=True)
    print(f"read them compacted           {seconds(results.read, empty):6.2f} s", flush=True)
    fill(folder / "medium", 10_000)
    print(f"write, beside 10,000 compacted{write_milliseconds(folder / 'medium', 10_000):6.1f} ms", flush=True)
    if not (large / "trials").exists():
        fill(large, trials)
    for how in ("results.read", "pandas.read_parquet"):  # in a process of its own, whose memory is its own
        for _ in range(3):
            subprocess.run([sys.executable, __file__, "--read", how, "--keep", folder], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000, help="compacted rows that are read (default: 100000)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="an empty folder to measure in (default: a temporary one)"
    )
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_and_pivot(options.read, options.keep / "large")
    elif options.keep:
        measure(options.keep, options.trials)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), options.trials)


if __name__ == "__main__":
    main()
