"""A Tune trial's results as the outcome in its row of the results table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tune_cd.results.rows import finite
from tune_cd.search.space import is_number

TUNE_KEYS = {
    "time_this_iter_s", "time_total_s", "time_since_restore", "timestamp", "pid", "iterations_since_restore",
    "training_iteration", "timesteps_since_restore",
}  # fmt: skip
"""What Tune adds to every result by itself: no score."""


def stopped_early(result: Mapping[str, Any] | None, full_length: tuple[str, float] | None) -> bool:
    """Whether a trial's last result has less of what `full_length` names than a complete trial has."""
    if full_length is None or not result:
        return False
    key, amount = full_length
    reached = finite(result.get(key))
    return reached is not None and reached < amount


def place_of(trial: Any, trials: Sequence[Any]) -> int:
    """The trial's place in the experiment, from 0, in the order of asking.

    Tune counts trials in their tags, and keeps those when it restores an experiment, unlike their order in its list.
    """
    counts = [re.match(r"\d+", str(other.experiment_tag or "")) for other in [trial, *trials]]
    numbers = [int(count[0]) for count in counts if count]
    return numbers[0] - min(numbers[1:]) if len(numbers) == len(counts) else trials.index(trial)


def outcome(
    result: Mapping[str, Any],
    metric: str,
    sign: float,
    failure: tuple[str, str] | None,
    full_length: tuple[str, float] | None,
    best: float | None = None,
    cut: bool = False,
) -> dict[str, Any]:
    """The outcome of a training, from its last result, which has flat keys.

    A metric that is NaN or infinite is a divergence; one that is absent or no number is a failure.
    sign: -1 where smaller is better.  failure: (failure_kind, error) of one that failed.
    best: the best score of all results, the larger the better, where that counts and not the last.
    cut: the experiment ended before the training: it is complete only if `full_length` says so.
    """
    value = result.get(metric)
    if failure is None and not is_number(value):
        said = f"{metric} = {repr(value)[:200]} ({type(value).__name__}), which is no number"
        failure = "error", f"it reported {said if metric in result else f'no {metric}'}"
    kind, error = failure or (None, None)
    last = finite(value) if failure is None else None
    score = None if last is None else sign * last if best is None else best
    unfinished = stopped_early(result, full_length) or (cut and full_length is None)
    if failure is not None:
        status = "failed"
    elif score is None:
        status = "diverged"
    else:
        status = "stopped" if unfinished else "completed"
    return {
        "status": status,
        "val_score": score,
        "scores": {name: float(v) for name, v in result.items() if is_number(v) and _is_score(name, full_length)},
        "train_seconds": finite(result.get("time_total_s")),
        "error": error and error.encode("utf-8", "replace").decode(),  # a lone surrogate could not be stored
        "failure_kind": kind,
    }


def _is_score(name: str, full_length: tuple[str, float] | None) -> bool:
    """Whether the table keeps it: how far a training is says its row, whoever counts that."""
    if full_length is not None and name == full_length[0]:
        return True
    return name not in TUNE_KEYS and not name.startswith("config/")
