"""Rows of the results table from Tune's events, for trainables that do not write their own.

tune        ResultsCallback: what Tune says
rows        a trial's configuration and results as the fields of a row
failures    why a trial failed
filing      the number and the attempt under which a row is stored
patient     the thread that writes, and waits for a store that is away
"""

from typing import Any

from tune_cd.tune.callback.writer import trial_name

__all__ = ["ResultsCallback", "trial_name", "write_spooled"]


def __getattr__(name: str) -> Any:  # what needs Ray is imported when it is asked for
    if name not in ("ResultsCallback", "write_spooled"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tune_cd.tune.callback import results_callback as tune

    return getattr(tune, name)
