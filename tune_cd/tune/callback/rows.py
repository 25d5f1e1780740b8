"""Converts a Tune trial's results to the outcome fields of its row in the results table."""

from collections.abc import Mapping
from typing import Any

from tune_cd.results.rows import finite
from tune_cd.search.number import number_of
from tune_cd.tune.reports import Reports, Seen, is_score


def outcome(
    result: Mapping[str, Any], reports: Reports, seen: Seen, failure: tuple[str, str] | None
) -> dict[str, Any]:  # fmt: skip
    """The outcome of a training, of which `reports` knows what it has `seen`.

    A metric that is NaN or infinite in the end is a divergence; one that was never a number is a failure.
    result: the last result, with flat keys.  failure: (failure_kind, error) of a failed training.
    """
    if failure is None and seen.last is None and not seen.diverged:
        said = f"no {reports.metric}" if seen.refused is None else f"{reports.metric} = {seen.refused}"
        failure = "error", f"it reported {said}{', which is no number' if seen.refused else ''}"
    kind, error = failure or (None, None)
    score = None if failure is not None else reports.value(seen)
    share = reports.share(seen)
    ended = "completed" if share is None or share == 1 else "stopped"
    last: dict[str, float] = {}  # the last report may lack either
    if reports.full_length is not None and seen.length is not None:
        last |= {reports.counter: seen.length}
    if failure is None and seen.last is not None:
        last |= {reports.metric: reports.sign * seen.last}
    return {
        "status": "failed" if failure is not None else "diverged" if score is None else ended,
        "val_score": None if score is None else reports.sign * score,  # as it was reported
        "scores": last | scores_in(result),
        "train_seconds": finite(result.get("time_total_s")),
        "error": error and error.encode("utf-8", "replace").decode(),  # a lone surrogate could not be stored
        "failure_kind": kind,
    }


def scores_in(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a result, with flat keys, without those that Tune adds."""
    numbers = {name: number_of(at) for name, at in result.items() if is_score(name)}
    return {name: float(number) for name, number in numbers.items() if number is not None}


def machine_of(trial: Any, share: float = 1.0) -> dict[str, Any]:
    """Where a trial ran, and this share of the GPUs that it reserves, as fields of its row."""
    asked, host = getattr(trial, "placement_group_factory", None), trial.last_result.get("hostname")
    gpus = {} if asked is None else {"gpus": share * float(asked.required_resources.get("GPU", 0.0))}
    return gpus | ({"hostname": host} if isinstance(host, str) else {})
