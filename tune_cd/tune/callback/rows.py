"""Converts a Tune trial's results to the outcome fields of its row in the results table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tune_cd.results.rows import finite
from tune_cd.search.number import number_of
from tune_cd.tune.reports import Reports, Seen, is_score


def place_of(trial: Any, trials: Sequence[Any]) -> int:
    """The trial's place in the experiment, from 0, in the order of asking.

    Tune numbers trials in their tags and, unlike their order in its list, keeps these when it restores an experiment.
    """
    counts = [re.match(r"\d+", str(other.experiment_tag or "")) for other in [trial, *trials]]
    numbers = [int(count[0]) for count in counts if count]
    return numbers[0] - min(numbers[1:]) if len(numbers) == len(counts) else trials.index(trial)


def outcome(
    result: Mapping[str, Any], reports: Reports, seen: Seen, failure: tuple[str, str] | None, short: bool
) -> dict[str, Any]:
    """The outcome of a training, of which `reports` knows what it has `seen`.

    A metric that is NaN or infinite in the end is a divergence; one that was never a number is a failure.
    result: the last result, with flat keys.  failure: (failure_kind, error) of a failed training.  short: it ended
    before its full length.
    """
    metric, full_length = reports.metric, reports.full_length
    if failure is None and seen.last is None and not seen.diverged:
        said = f"no {metric}" if seen.refused is None else f"{metric} = {seen.refused}, which is no number"
        failure = "error", f"it reported {said}"
    kind, error = failure or (None, None)
    score = None if failure is not None else reports.value(seen)
    score = None if score is None else reports.sign * score  # as it was reported
    scores = {name: number for name, at in result.items() if (number := number_of(at)) is not None}
    if failure is None and seen.last is not None:  # the last report may lack either
        scores = {metric: reports.sign * seen.last} | scores
    if full_length is not None and seen.length is not None:
        scores = {full_length[0]: seen.length} | scores
    if failure is not None:
        status = "failed"
    elif score is None:
        status = "diverged"
    else:
        status = "stopped" if short else "completed"
    kept = {full_length[0]} if full_length is not None else set()  # even if Tune counts it
    return {
        "status": status,
        "val_score": score,
        "scores": {name: float(number) for name, number in scores.items() if name in kept or is_score(name)},
        "train_seconds": finite(result.get("time_total_s")),
        "error": error and error.encode("utf-8", "replace").decode(),  # a lone surrogate could not be stored
        "failure_kind": kind,
    }
