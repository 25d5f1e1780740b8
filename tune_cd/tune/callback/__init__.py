"""Rows of the results table from Tune's events, for trainables that do not write their own.

results_callback   ResultsCallback: Tune's events
rows               a trial's results as the outcome in its row
failures           failure_kind and error of a failed trial
writer             the number and the attempt under which a row is stored
retries            the thread that writes, and waits for a store that does not answer
"""

from typing import Any

from tune_cd.results.rows import trial_name

__all__ = ["ResultsCallback", "trial_name", "write_spooled"]


def __getattr__(name: str) -> Any:  # modules that need Ray are imported at their first use
    if name not in ("ResultsCallback", "write_spooled"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tune_cd.tune.callback import results_callback

    return getattr(results_callback, name)
