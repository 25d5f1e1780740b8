"""How fast a whole landscape is looked at: `python tests/benchmarks/report.py [--steps 25] [--turns 3] [--browser]`.

A study of steps x steps x 6 trials (25: the paper's 3,750) with 20 scores each, read from one compacted file. Printed,
as medians of the turns: the grid and the best-so-far curves beside pandas' pivot_table and a loop; the report, from
reading the table to the file on disk, and its size, beside what Optuna makes of the same trials (three of its plots:
contour, history, timeline) in the same run; with --browser also the time from opening the page to the last chart drawn.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median

import numpy as np
import optuna
import pandas as pd
import pyarrow as pa

sys.path.append(str(Path(__file__).parent))  # they are commands, not a package

from results import START

from tune_cd import results
from tune_cd.analysis import best_so_far, grid
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.report.page import render
from tune_cd.report.writing import content
from tune_cd.results import parquet

SIZES = (16, 32, 64, 128, 256, 512)


def rows(steps: int) -> list[dict]:
    """A full grid of the landscape with a batch size, noisy; one trial in fifty has failed."""
    rng, landscape, made = np.random.default_rng(0), LANDSCAPES["batch"], []
    weights = np.clip(np.geomspace(1e-6, 17.0, steps), 1e-6, 17.0)
    for index, (positive, entropy, size) in enumerate((p, e, b) for p in weights for e in weights for b in SIZES):
        h = {"Lambda_p": float(positive), "Lambda_e": float(entropy), "batch_size": size}
        score, failed = landscape.score(h), rng.random() < 0.02
        made.append(
            results.check_trial(
                {
                    "study": "big",
                    "dataset": "omniglot",
                    "task": "dml",
                    "loss": "margin",
                    "search": "grid",
                    "search_seed": 0,
                    "seed": 0,
                    "trial_id": f"grid-{index:05d}",
                    "trial_index": index,
                    "attempt": 0,
                    "direction": "sampled",
                    "params": h,
                    **h,
                    "status": "failed" if failed else "completed",
                    "metric_name": "r_map",
                    "val_score": None if failed else score + 0.01 * rng.standard_normal(),
                    "test_score": None if failed else score,
                    "scores": {} if failed else {f"test_recall_at_{2**n}": float(rng.random()) for n in range(20)},
                    "positive_term": float(rng.random()),
                    "entropy_term": float(rng.random()),
                    "images_seen": 64_000,
                    "train_seconds": 10.0,
                    "gpus": 1.0,
                    "started_at": START + timedelta(seconds=10 * index),
                    "ended_at": START + timedelta(seconds=10 * index + 10),
                    "hostname": "n",
                    "device": "NVIDIA H200",
                    "error": "out of memory" if failed else None,
                    "config": json.dumps({"k": 2, **h}),
                    "software": "{}",
                }
            )
        )
    return made


def store(folder: Path, made: list[dict]) -> None:
    """One compacted file."""
    listed = [
        {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()} for row in made
    ]
    data = parquet.serialise_many(pa.Table.from_pylist(listed, results.TRIALS))
    results.publish(folder / parquet.compacted_name("trials", "big", data), data)


def pivoted(trials: pd.DataFrame) -> None:
    """The grid and the curve as one would write them down."""
    trials.pivot_table(
        index="Lambda_p",
        columns=["batch_size", "Lambda_e"],
        values="test_score",
        aggfunc=["mean", "count", "std"],
        dropna=False,
    )
    best, curve = -np.inf, []
    for value in trials.sort_values("trial_index")["val_score"]:
        best = max(best, value) if value == value else best
        curve.append(best)


def optunas(trials: pd.DataFrame) -> str:
    """Three of Optuna's figures in one page with plotly's library."""
    study = optuna.create_study(direction="maximize")
    spans = {
        "Lambda_p": optuna.distributions.FloatDistribution(1e-6, 17.0, log=True),
        "Lambda_e": optuna.distributions.FloatDistribution(1e-6, 17.0, log=True),
        "batch_size": optuna.distributions.CategoricalDistribution(SIZES),
    }
    for row in trials.itertuples(index=False):
        done = row.status == "completed"
        study.add_trial(
            optuna.trial.FrozenTrial(
                number=row.trial_index,
                trial_id=row.trial_index,
                state=optuna.trial.TrialState.COMPLETE if done else optuna.trial.TrialState.FAIL,
                value=row.val_score if done else None,
                params={"Lambda_p": row.Lambda_p, "Lambda_e": row.Lambda_e, "batch_size": int(row.batch_size)},
                distributions=spans,
                user_attrs={},
                system_attrs={},
                intermediate_values={},
                datetime_start=row.started_at.to_pydatetime(),
                datetime_complete=row.ended_at.to_pydatetime(),
            )
        )
    drawn = [
        optuna.visualization.plot_contour(study, params=["Lambda_p", "Lambda_e"]),
        optuna.visualization.plot_optimization_history(study),
        optuna.visualization.plot_timeline(study),
    ]
    return "".join(figure.to_html(full_html=False, include_plotlyjs=number == 0) for number, figure in enumerate(drawn))


def opened(page: Path) -> float:
    """Seconds from opening a page in a browser to the last of its charts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        begun = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]", state="attached")
        took = time.perf_counter() - begun
        browser.close()
    return took


def seconds(call: Callable[[], object], turns: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(turns):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return median(times)


def main(argv: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=25, help="values of each weight; default: %(default)s")
    parser.add_argument("--turns", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--browser", action="store_true", help="also open the page")
    options = parser.parse_args(argv)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as place:
        folder, page = Path(place), Path(place) / "report.html"
        store(folder, rows(options.steps))
        trials = results.read(folder)
        ours = seconds(lambda: (grid(trials, "test_score"), best_so_far(trials)), options.turns)
        theirs = seconds(lambda: pivoted(trials), options.turns)
        print(
            f"{len(trials)} trials\ngrid and curve: {ours:.3f} s; pivot_table and a loop {theirs:.3f} s, ratio "
            f"{theirs / ours:.2f}"
        )
        ours = seconds(lambda: page.write_text(render(content(folder)), encoding="utf-8"), options.turns)
        sizes = [page.stat().st_size / 1e6]
        other = Path(place) / "optuna.html"
        theirs = seconds(lambda: other.write_text(optunas(trials), encoding="utf-8"), options.turns)
        sizes.append(other.stat().st_size / 1e6)
        print(
            f"report: {ours:.2f} s, {sizes[0]:.1f} MB; Optuna's three plots {theirs:.2f} s, {sizes[1]:.1f} MB, ratio "
            f"{theirs / ours:.2f}"
        )
        if options.browser:
            print(f"opened and drawn: {seconds(lambda: opened(page), options.turns):.2f} s")


if __name__ == "__main__":
    main()
