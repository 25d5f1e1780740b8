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


def studies_table(trials: pd.DataFrame) -> str:
    """One line a study: how many trials, and how they ended; the best completed one, and when the study ran (UTC)."""
    counts = " ".join(f"{name:>{max(6, len(name))}}" for name in ("trials", *STATUSES))
    scores = f"{'best val':>9} {'its test':>9}  {'metric':<14}"
    lines = [f"{'study':<34} {counts} {scores} {'from':<16} to"]
    for study, rows in trials.groupby("study"):
        statuses = rows["status"].value_counts()
        completed = int(statuses.get("completed", 0))
        numbers = {"trials": len(rows)} | {status: int(statuses.get(status, 0)) for status in STATUSES}
        counts = " ".join(f"{number:>{max(6, len(name))}}" for name, number in numbers.items())
        best: Mapping[Any, Any] = {"val_score": None, "test_score": None, "metric_name": "-"}
        if completed:
            ended = rows[rows["status"] == "completed"]
            best = ended.iloc[[int(_worth(ended).argmax())]].to_dict("records")[0]
        scores = f"{_number(best['val_score']):>9} {_number(best['test_score']):>9}  {best['metric_name']:<14}"
        times = f"{_minute(rows['started_at'].min()):<16} {_minute(rows['ended_at'].max())}"
        lines.append(f"{study!s:<34} {counts} {scores} {times}")
    return "\n".join(lines)


def trials_table(trials: pd.DataFrame) -> str:
    """One line a trial: completed ones first, then the others, the best first, else in the order of asking."""
    ordered = trials.assign(_completed=trials["status"] == "completed", _worth=_worth(trials)).sort_values(
        ["_completed", "_worth", "search", "trial_index"], ascending=[False, False, True, True], na_position="last"
    )
    settings = [{**row["params"], **choices_in(row)} for row in ordered.to_dict("records")]
    params = sorted({name for setting in settings for name in setting})
    width = max(10, *(len(trial) for trial in trials["trial_id"]))
    names = " ".join(f"{name:>11}" for name in params)
    lines = [f"{'trial':<{width}} {'status':<9} {'val':>9} {'test':>9} {'seconds':>8}  {names}  error"]
    for row, setting in zip(ordered.to_dict("records"), settings):
        values = " ".join(f"{_number(setting.get(name)):>11}" for name in params)
        seconds = f"{row['train_seconds']:.0f}" if pd.notna(row["train_seconds"]) else "-"
        scores = f"{_number(row['val_score']):>9} {_number(row['test_score']):>9}"
        ending = f"{row['status']:<9} {scores} {seconds:>8}"
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
        elif pd.isna(value) and field.name not in ("val_score", "test_score"):
            continue
        else:
            shown = _number(value) if isinstance(value, float) else value
            lines.append(f"{field.name}: {shown}" + (f"   [{unit}]" if unit not in ("none", "UTC") else ""))
    return "\n".join(lines)


def _worth(trials: pd.DataFrame) -> pd.Series:
    """Validation scores [n_trials], larger is better."""
    return trials["val_score"].astype(float) * trials["mode"].map(sign_of).astype(float)


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None or pd.isna(value) else f"{value:.4g}"


def _minute(time: Any) -> str:
    return "-" if pd.isna(time) else f"{time:%Y-%m-%d %H:%M}"


def _short(error: Any) -> str:
    text = "" if error is None or pd.isna(error) else " ".join(error.split())
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1] + "…"
