"""What the table says a configuration is worth: what a search is told when it continues."""

from math import fsum

import pandas as pd

from tune_cd.search.protocol import Told


def history(trials: pd.DataFrame) -> list[Told]:
    """What every configuration of these rows of the results table was found to be worth, a search's in asking order.

    Of several trials of one configuration (with other seeds), the mean of those that completed; where none did, the
    best score at which one was stopped, censored; else None.
    """
    rows = trials.sort_values(["study", "search", "trial_index"])
    configurations: dict[tuple, list] = {}
    for row in rows.itertuples():
        configurations.setdefault(tuple(sorted(row.params.items())), []).append(row)
    return [_worth(dict(params), repeats) for params, repeats in configurations.items()]


def _worth(params: dict, repeats: list) -> Told:
    scores = {status: [row.val_score for row in repeats if row.status == status] for status in ("completed", "stopped")}
    if scores["completed"]:
        return Told(params, fsum(scores["completed"]) / len(scores["completed"]))  # in whatever order they ended
    return Told(params, max(scores["stopped"]), censored=True) if scores["stopped"] else Told(params, None)
