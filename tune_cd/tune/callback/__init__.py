"""Writes rows of the results table from Tune's events, for trainables that do not write their own.

results_callback   ResultsCallback, which takes Tune's events
rows               the outcome fields of a row, from a trial's results
failures           failure_kind and error of a failed trial
writer             stores a row under a free number and attempt
retries            the writing thread, which retries while the store does not answer
"""

from typing import Any

from tune_cd.results.rows import trial_name

__all__ = ["ResultsCallback", "trial_name"]


def __getattr__(name: str) -> Any:  # modules that need Ray are imported at their first use
    if name != "ResultsCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tune_cd.tune.callback.results_callback import ResultsCallback

    return ResultsCallback
