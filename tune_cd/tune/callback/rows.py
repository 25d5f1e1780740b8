"""A Tune trial -> the fields of its row in the results table."""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from tune_cd.results.provenance import git_commit, software

TUNE_KEYS = ("config/", "time_", "timestamp", "pid", "iterations_since_restore", "training_iteration", "done")


def is_number(value: Any) -> bool:
    """Whether a reported value is one, finite or not. True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def finite(value: Any) -> float | None:
    """The finite number that `value` is; None where it is anything else."""
    return float(value) if is_number(value) and isfinite(value) else None


def stopped_early(result: Mapping[str, Any] | None, full_length: tuple[str, float] | None) -> bool:
    """Whether a trial's last result has less of what `full_length` names than a complete trial has."""
    if full_length is None or not result:
        return False
    key, amount = full_length
    return key in result and result[key] < amount


def place_of(trial: Any, trials: Sequence[Any]) -> int:
    """Which of the experiment's trials it is, from 0, in the order of asking: Tune counts them in their tags, and keeps those
    when it restores an experiment, unlike their order in its list."""
    counts = [re.match(r"\d+", str(other.experiment_tag or "")) for other in trials]
    if None in counts:
        return trials.index(trial)
    return int(re.match(r"\d+", trial.experiment_tag)[0]) - min(int(count[0]) for count in counts)


def reported(config: Mapping[str, Any], result: Mapping[str, Any]) -> dict:
    """What a row says of a training's configuration and last result, which has flat keys."""
    host = result.get("hostname")
    return {
        **{name: float(config[name]) for name in ("Lambda_p", "Lambda_e") if is_number(config.get(name))},
        "batch_size": config["batch_size"] if isinstance(config.get("batch_size"), int) else None,
        "scores": {name: float(value) for name, value in result.items() if _is_score(name, value)},
        "train_seconds": finite(result.get("time_total_s")),
        "hostname": host if isinstance(host, str) else socket.gethostname(),
        "config": _as_json(config),
        "software": json.dumps(software()),
        "git_commit": git_commit(),
    }


def outcome(
    result: Mapping[str, Any], metric: str, sign: float, error: str | None, full_length: tuple[str, float] | None
) -> dict:
    """status, val_score and error of a training.  sign: -1 where smaller is better.  error: why it failed, if it did.

    A metric that is NaN or infinite is a divergence; one that is absent or no number is a failure.
    """
    value = result.get(metric)
    if error is None and not is_number(value):
        error = f"it reported {f'{metric} = {repr(value)[:200]} ({type(value).__name__}), which is no number' if metric in result else f'no {metric}'}"
    score = None if error else finite(value)
    if error:
        status = "failed"
    elif score is None:
        status = "diverged"
    else:
        status = "stopped" if stopped_early(result, full_length) else "completed"
    return {
        "status": status,
        "val_score": None if score is None else sign * score,
        "error": error and _printable(error),
    }


def _is_score(name: str, value: Any) -> bool:
    return is_number(value) and not name.startswith(TUNE_KEYS)


def _as_json(config: Mapping[str, Any]) -> str:
    try:
        return json.dumps(config, default=str)
    except (TypeError, ValueError):  # keys that are no text, a circle
        return json.dumps({"config": repr(config)})


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
