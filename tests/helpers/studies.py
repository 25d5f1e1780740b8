"""Results tables made by hand or from formulas, with the columns and types of `results.read`, and nothing written to
disk."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd.results import write_trial
from tune_cd.results.reading import frame
from tune_cd.results.schema import TRIALS, check_trial

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BATCH_SIZES = (16, 32, 64, 128, 256, 512)


def row(
    index: int = 0,
    status: str = "completed",
    val: float | None = 0.5,
    *,
    study: str = "s",
    search: str = "grid",
    params: Mapping | None = None,
    times: tuple[float, float] | None = None,
    config: Mapping | None = None,
    **fields,
) -> dict:
    """A row of TRIALS. params: what was searched, also put into the balance's columns; times: seconds since BEGIN.

    fields: any other of TRIALS; `dataset`, `task`, `loss`, `metric_name` and `seed` have usual values.
    """
    params = {"Lambda_p": 1.0, "Lambda_e": 1.0} if params is None else params
    balance = {
        name: int(params[name]) if name == "batch_size" else params[name]
        for name in ("Lambda_p", "Lambda_e", "batch_size")
        if name in params
    }
    began, ended = (BEGIN + timedelta(seconds=at) for at in times) if times else (None, None)
    usual = {"dataset": "glyphs", "task": "dml", "loss": "margin", "metric_name": "r_map", "seed": 0, "search_seed": 0}
    usual |= {"attempt": 0, "scores": {}, "software": "{}"}
    own = {
        "study": study,
        "search": search,
        "trial_index": index,
        "status": status,
        "val_score": val if status in ("completed", "stopped") else None,
    }
    own |= {
        "trial_id": f"{search}-{fields.get('search_seed') or 0}-{index}-{fields.get('seed', 0)}",
        "params": dict(params),
    }
    own |= {"config": json.dumps(config or {})}
    return usual | own | balance | {"started_at": began, "ended_at": ended} | fields


def table(rows: Iterable[dict]) -> pd.DataFrame:
    """Rows as `results.read` gives them, each checked as `results.write_trial` does; in the order given."""
    checked = [check_trial(row) for row in rows]
    listed = [
        {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()}
        for row in checked
    ]
    return frame(pa.Table.from_pylist(listed, TRIALS), TRIALS)


def store(folder: Path, trials: pd.DataFrame) -> None:
    """Write the rows of a table to a results folder."""
    for trial in trials.to_dict("records"):
        gaps = {name: None for name, value in trial.items() if not isinstance(value, dict) and pd.isna(value)}
        write_trial(folder, trial | gaps)


def plain(trials: pd.DataFrame) -> pd.DataFrame:
    """The same as `pandas.read_parquet` gives it: maps are lists of pairs."""
    return trials.assign(**{name: [list(entries.items()) for entries in trials[name]] for name in ("params", "scores")})


def measured(
    score: Callable[[np.ndarray], float],
    places: Sequence[Sequence[float]],
    names: Sequence[str],
    seeds: Sequence[int] = (0,),
    **fields,
) -> pd.DataFrame:
    """A study of a setting a place x [n, d] in octaves and a seed; val_score and test_score are score(x), terms follow
    from x."""
    rows = []
    for index, place in enumerate(places):
        params = dict(zip(names, (2.0 ** np.asarray(place, dtype=float)).tolist()))
        for seed in seeds:
            value = float(score(np.asarray(place, dtype=float)))
            rows.append(row(index, val=value, test_score=value, params=params, seed=seed, **fields))
    return table(rows)


def lattice(*axes: Sequence[float]) -> np.ndarray:
    """All combinations [n, d] of values."""
    return np.array(list(product(*axes)), dtype=float)


def full_grid(
    steps: int = 25, batch_sizes: Sequence[int] = BATCH_SIZES, seeds: Sequence[int] = (0,), seed: int = 0
) -> pd.DataFrame:
    """A study like `fig:hp_omniglot`'s: steps x steps x batch sizes on octaves from -18, a noisy ridge; 3 % diverged, 1
    % failed, 2 % not run; validation and test noise differ, the test score is NaN now and then."""
    rng, rows = np.random.default_rng(seed), []
    for index, (p, e, b) in enumerate(lattice(-18 + np.arange(steps), -18 + np.arange(steps), np.log2(batch_sizes))):
        if rng.random() < 0.02:
            continue
        for training in seeds:
            ended = rng.choice(["completed", "diverged", "failed"], p=[0.96, 0.03, 0.01])
            truth = 0.85 * np.exp(-(((e - p - 8) / 9) ** 2) - ((e + p + 6) / 18) ** 2 - ((b - 6) / 12) ** 2)
            val, test = truth + 0.02 * rng.standard_normal(2)
            test = np.nan if rng.random() < 0.01 else test
            params = {"Lambda_p": 2.0**p, "Lambda_e": 2.0**e, "batch_size": round(2.0**b)}
            reported = {"test_score": test, "scores": {"test_precision_at_1": 1 - test}} if ended == "completed" else {}
            rows.append(row(index, str(ended), float(val), params=params, seed=int(training), **reported))
    return table(rows)


def search_study(
    scores: Sequence[float | None],
    search: str = "cd",
    seed: int = 0,
    *,
    study: str = "s",
    test: Sequence[float] | None = None,
    seconds: float = 10.0,
    workers: int = 1,
    gpus: float | None = 1.0,
    **fields,
) -> pd.DataFrame:
    """A search's trials, each `seconds` long, on so many workers; None: failed. test: reported scores, by default 1 -
    score."""
    rows = []
    for index, value in enumerate(scores):
        began = index // workers * seconds
        reported = None if value is None else (1.0 - value if test is None else test[index])
        params = {"Lambda_p": 2.0 ** (index % 5), "Lambda_e": 2.0 ** (index // 5)}
        status = "failed" if value is None else "completed"
        rows.append(
            row(
                index,
                status,
                value,
                search=search,
                search_seed=seed,
                study=study,
                test_score=reported,
                params=params,
                times=(began, began + seconds),
                gpus=gpus,
                **fields,
            )
        )
    return table(rows)


def empty() -> pd.DataFrame:
    return table([])


def lost(count: int = 3) -> pd.DataFrame:
    """A study in which no trial completed."""
    statuses = ["failed", "diverged", "stopped"]
    return table(
        row(index, statuses[index % 3], 0.9, params={"Lambda_p": 2.0**index, "Lambda_e": 1.0}, search="cd")
        for index in range(count)
    )
