"""Converts a Tune trial's results to the outcome fields of its row in the results table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tune_cd.results.rows import finite
from tune_cd.search.space import is_number

TUNE_KEYS = {
    "time_this_iter_s", "time_total_s", "time_since_restore", "timestamp", "pid", "iterations_since_restore",
    "training_iteration", "timesteps_since_restore",
}  # fmt: skip
"""Keys that Tune adds to every result; they are not scores."""


def stopped_early(result: Mapping[str, Any] | None, full_length: tuple[str, float] | None) -> bool:
    """Whether a trial's last result is below full_length = (key, amount). False if the result lacks the key."""
    if full_length is None or not result:
        return False
    key, amount = full_length
    reached = finite(result.get(key))
    return reached is not None and reached < amount


def place_of(trial: Any, trials: Sequence[Any]) -> int:
    """The trial's place in the experiment, from 0, in the order of asking.

    Tune numbers trials in their tags and, unlike their order in its list, keeps these when it restores an experiment.
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
    """The outcome of a training.

    A metric that is NaN or infinite is a divergence; a metric that is absent or not a number is a failure.
    result: the last result, with flat keys.  sign: -1 if smaller is better.
    failure: (failure_kind, error) of a failed training.
    best: the best score of all results (larger is better), if it counts instead of the last.
    cut: the experiment ended before the training, which is then complete only if it has reached `full_length`.
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
    """Whether the row keeps a result's number as a score. The key of full_length is kept, even if Tune counts it."""
    if full_length is not None and name == full_length[0]:
        return True
    return name not in TUNE_KEYS and not name.startswith("config/")
