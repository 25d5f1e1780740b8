"""The results in words: studies, trials, one trial; and as one plain file."""

import json
from math import isfinite
from pathlib import Path

import pandas as pd
import pyarrow as pa

from tune_cd.results.schema import TRIALS
from tune_cd.results.store import publish

ERROR_LENGTH = 60  # characters of an error in the table of trials
JSON_FIELDS = ("config", "software")
FORMATS = (".csv", ".parquet", ".json")


def studies_table(trials: pd.DataFrame) -> str:
    """One line a study: how its trials ended, its best completed one, and when it ran (UTC)."""
    lines = [
        f"{'study':<34} {'trials':>6} {'completed':>9} {'failed':>6} {'best val':>9} {'its test':>9}  {'metric':<14} {'from':<16} to"
    ]
    for study, rows in trials.groupby("study"):
        completed = rows[rows["status"] == "completed"]
        best = completed.loc[completed["val_score"].idxmax()] if len(completed) else None
        val, test, metric = (
            (best["val_score"], best["test_score"], best["metric_name"]) if best is not None else (None, None, "-")
        )
        first, last = rows["started_at"].min(), rows["ended_at"].max()
        lines.append(
            f"{study:<34} {len(rows):>6} {len(completed):>9} {int((rows['status'] == 'failed').sum()):>6} {_number(val):>9} {_number(test):>9}  "
            f"{metric:<14} {_minute(first):<16} {_minute(last)}"
        )
    return "\n".join(lines)


def trials_table(trials: pd.DataFrame) -> str:
    """One line a trial, the best completed one first, then by score, those without one last in the order of asking."""
    ordered = trials.assign(_completed=trials["status"] == "completed").sort_values(
        ["_completed", "val_score", "search", "trial_index"], ascending=[False, False, True, True], na_position="last"
    )
    params = sorted({name for row in trials["params"] for name in row})
    width = max(10, *(len(trial) for trial in trials["trial_id"]))
    lines = [
        f"{'trial':<{width}} {'status':<9} {'val':>9} {'test':>9} {'seconds':>8}  "
        + " ".join(f"{name:>11}" for name in params)
        + "  error"
    ]
    for row in ordered.itertuples():
        values = " ".join(f"{_number(row.params.get(name)):>11}" for name in params)
        seconds = f"{row.train_seconds:.0f}" if pd.notna(row.train_seconds) else "-"
        line = f"{row.trial_id:<{width}} {row.status:<9} {_number(row.val_score):>9} {_number(row.test_score):>9} {seconds:>8}  {values}"
        lines.append(f"{line}  {_short(row.error)}".rstrip())
    return "\n".join(lines)


def trial_card(trial: pd.Series) -> str:
    """Everything the table has of one trial, a field a line, with its unit."""
    lines = []
    for field in TRIALS:
        value, unit = trial[field.name], field.metadata[b"unit"].decode()
        if field.name in JSON_FIELDS:
            lines += [
                f"{field.name}:",
                *(f"    {line}" for line in json.dumps(json.loads(value), indent=1).splitlines()[1:-1]),
            ]
        elif isinstance(value, dict):
            lines += [f"{field.name}:", *(f"    {name} = {_number(number)}" for name, number in value.items())]
        elif pd.isna(value) and field.name not in ("val_score", "test_score"):
            continue
        else:
            shown = _number(value) if isinstance(value, float) else value
            lines.append(f"{field.name}: {shown}" + (f"   [{unit}]" if unit not in ("none", "UTC") else ""))
    return "\n".join(lines)


def flatten(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column for every name in a map: params.Lambda_p, scores.r_map, …"""
    columns = {}
    for name in table.columns:
        if name not in ("params", "scores"):
            columns[name] = table[name]
            continue
        keys = sorted({key for row in table[name] for key in row})
        columns |= {
            f"{name}.{key}": pd.Series([row.get(key) for row in table[name]], index=table.index, dtype="float64")
            for key in keys
        }
    return pd.DataFrame(columns, index=table.index)


def check_export(path: Path) -> Path:
    """`path`, if a table can be exported there; else ValueError."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"--output {path}: the name must end in {', '.join(FORMATS)}")
    if path.is_dir():
        raise ValueError(f"--output {path} is a folder")
    return path


def export(table: pd.DataFrame, path: Path) -> None:
    """Write the flat table as CSV, Parquet or JSON (a list of objects), by the name's end. Raises ValueError, OSError."""
    suffix, flat = check_export(path).suffix.lower(), flatten(table)
    if suffix == ".parquet":
        data = flat.to_parquet(index=False)
    elif suffix == ".csv":
        data = flat.to_csv(index=False).encode()
    else:
        data = _as_json(flat).encode()
    publish(path, data)


def _as_json(flat: pd.DataFrame) -> str:
    """A list of objects, numbers to their last digit; JSON has no NaN and no infinity, so they are null like what is missing."""
    rows = pa.Table.from_pandas(flat, preserve_index=False).to_pylist()
    finite = [
        {name: None if isinstance(v, float) and not isfinite(v) else v for name, v in row.items()} for row in rows
    ]
    return json.dumps(finite, default=str, indent=1, allow_nan=False)


def _number(value: float | None) -> str:
    return "-" if value is None or pd.isna(value) else f"{value:.4g}"


def _minute(time: pd.Timestamp) -> str:
    return "-" if pd.isna(time) else f"{time:%Y-%m-%d %H:%M}"


def _short(error: str | None) -> str:
    text = "" if error is None or pd.isna(error) else " ".join(error.split())
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1] + "…"
