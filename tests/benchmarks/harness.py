"""What the benchmarks of search methods share: landscapes by name, options, replays over processes that a file keeps,
means with intervals."""

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from hills import HILLS

from tune_cd.analysis.intervals import half_interval_of
from tune_cd.landscapes import JUDGES
from tune_cd.landscapes.find import find
from tune_cd.landscapes.landscape import Landscape
from tune_cd.results.rows import git_commit

JUDGED = Path(__file__).with_name("judged.jsonl")
"""The log of every run on a judge."""


def found(name: str) -> Landscape:
    """A landscape by its name: one of `hills`, or one that `tune_cd.replay` knows."""
    return HILLS.get(name) or find(name)


def log_judges(names: Iterable[str], argv: Sequence[str], log: Path = JUDGED) -> None:
    """Add a line to the log of every run on a judge: when, of which commit, which command. Planes at another batch size
    and volumes are judges too."""
    if judges := [name for name in names if re.sub(r"-(b\d+|3d)$", "", name) in JUDGES]:
        line = {"at": f"{datetime.now(UTC):%Y-%m-%d}", "commit": git_commit(), "judges": judges, "command": [*argv]}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def options_of(doc: str, searches: int) -> argparse.ArgumentParser:
    """A parser with the options that all have. searches: the default number."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=searches, help="from seeds 0, 1, ...; default: %(default)s")
    parser.add_argument(
        "--start", default="blind", help="blind, conventional, near:OCTAVES from the best, NAME=VALUE,..."
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one a core")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="results of an earlier run, which this one continues")
    return parser


def run(measure: Callable[[Any], Any], jobs: Sequence[tuple], options: argparse.Namespace) -> list[Any]:
    """measure(job) of every job, in their order, over processes. Jobs and results are JSON.

    options.kept: a file with a line a job; what it has is not measured again. It does not know the code: another
    version of a search needs another file.
    """
    kept: dict[str, Any] = {}
    if options.kept and options.kept.exists():
        lines = options.kept.read_text(encoding="utf-8").splitlines()
        kept = dict(json.loads(line) for line in lines if line.endswith("]"))  # the last one may be cut off
    names = {json.dumps([measure.__name__, *job]): job for job in jobs}
    left = {name: job for name, job in names.items() if name not in kept}
    for name, result in zip(left, _over_processes(measure, list(left.values()), options.processes)):
        kept[name] = result
        if options.kept:
            with options.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, result]) + "\n")
    return [kept[name] for name in names]


def _over_processes(measure: Callable[[Any], Any], jobs: list[tuple], processes: int):
    if processes == 1 or len(jobs) < 2:
        yield from map(measure, jobs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(measure, jobs, chunksize=max(1, min(20, len(jobs) // (4 * processes))))


def mean(values: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    """A mean with its sign, ± half its 95 % interval where there are several values."""
    half = f" ±{half_interval_of(np.asarray(values)):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.{digits}f}{half}"
