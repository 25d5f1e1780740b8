"""Formats the results as text: studies, trials, one trial."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tune_cd.results.json_text import as_json
from tune_cd.results.rows import choices_in, sign_of
from tune_cd.results.schema import STATUSES, TRIALS

ERROR_LENGTH = 60  # longest error in the table of trials, in characters
JSON_FIELDS = ("config", "software")
NO_SCORE: Mapping[Any, Any] = {"val_score": None, "test_score": None, "metric_name": "-"}


def studies_table(trials: pd.DataFrame) -> str:
    """One line a study: how many trials, and how they ended; the best completed one, and when the study ran (UTC)."""
    columns = {name: max(6, len(name)) for name in ("trials", *STATUSES)}
    heads = " ".join(f"{name:>{width}}" for name, width in columns.items())
    lines = [f"{'study':<34} {heads} {'best val':>9} {'its test':>9}  {'metric':<14} {'from':<16} to"]
    for study, rows in trials.groupby("study"):
        numbers = {"trials": len(rows)} | rows["status"].value_counts().to_dict()
        counts = " ".join(f"{numbers.get(name, 0):>{width}}" for name, width in columns.items())
        ended = rows[rows["status"] == "completed"]
        best = ended.iloc[[int(_worth(ended).argmax())]].to_dict("records")[0] if len(ended) else NO_SCORE
        times = f"{_minute(rows['started_at'].min()):<16} {_minute(rows['ended_at'].max())}"
        lines.append(f"{study!s:<34} {counts} {_scores(best)}  {best['metric_name']:<14} {times}")
    return "\n".join(lines)


def trials_table(trials: pd.DataFrame) -> str:
    """One line a trial: completed ones first, then the others, the best first, else in the order of asking."""
    ordered = trials.assign(_completed=trials["status"] == "completed", _worth=_worth(trials)).sort_values(
        ["_completed", "_worth", "search", "trial_index"], ascending=[False, False, True, True], na_position="last"
    )
    rows = [row | {"setting": {**row["params"], **choices_in(row)}} for row in ordered.to_dict("records")]
    params = sorted({name for row in rows for name in row["setting"]})
    width = max(10, *(len(trial) for trial in trials["trial_id"]))
    names = " ".join(f"{name:>11}" for name in params)
    lines = [f"{'trial':<{width}} {'status':<9} {'val':>9} {'test':>9} {'seconds':>8}  {names}  error"]
    for row in rows:
        values = " ".join(f"{_number(row['setting'].get(name)):>11}" for name in params)
        seconds = f"{row['train_seconds']:.0f}" if pd.notna(row["train_seconds"]) else "-"
        ending = f"{row['status']:<9} {_scores(row)} {seconds:>8}"
        lines.append(f"{row['trial_id']:<{width}} {ending}  {values}  {_short(row['error'])}".rstrip())
    return "\n".join(lines)


def trial_card(trial: Mapping[Any, Any]) -> str:
    """All fields of one trial that are not empty, one a line, with units."""
    lines: list[str] = []
    for field in TRIALS:
        value, unit = trial[field.name], field.metadata[b"unit"].decode()
        if field.name in JSON_FIELDS:
            kept = [*trial["params"], *choices_in(trial)]
            content = as_json(json.loads(value), kept=kept, indent=1).splitlines()[1:-1]
            lines += [f"{field.name}:", *(f"    {line}" for line in content)]
        elif isinstance(value, dict):
            lines += [f"{field.name}:", *(f"    {name} = {_number(number)}" for name, number in value.items())]
        elif pd.notna(value) or field.name in ("val_score", "test_score"):
            shown = _number(value) if isinstance(value, float) else value
            lines.append(f"{field.name}: {shown}" + (f"   [{unit}]" if unit not in ("none", "UTC") else ""))
    return "\n".join(lines)


def _worth(trials: pd.DataFrame) -> pd.Series:
    """Validation scores [n_trials], larger is better."""
    return trials["val_score"].astype(float) * trials["mode"].map(sign_of).astype(float)


def _scores(row: Mapping[Any, Any]) -> str:
    return f"{_number(row['val_score']):>9} {_number(row['test_score']):>9}"


def _number(value: Any) -> str:
    return value if isinstance(value, str) else "-" if pd.isna(value) else f"{value:.4g}"


def _minute(time: Any) -> str:
    return "-" if pd.isna(time) else f"{time:%Y-%m-%d %H:%M}"


def _short(error: Any) -> str:
    text = "" if pd.isna(error) else " ".join(error.split())
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1] + "…"
