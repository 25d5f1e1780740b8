"""Relation of the loss's terms to the score (`fig:sublosses`)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import BALANCE, names_in, parameter, score_column, settings, weights_of
from tune_cd.balance import TERM, WEIGHT

TERMS = ("positive_term", "entropy_term")
"""The terms of the paper's losses, which have columns in the table; terms of other losses are scores `term_<name>`."""


def sublosses(trials: pd.DataFrame, score: str = "val_score") -> pd.DataFrame:
    """The settings whose completed trainings measured all terms of their loss.

    Columns: the terms (TERMS, or `term_<name>` in the loss's order) and score (means over seeds), the terms' weights,
    batch_size, and trial_id of the first training. trials: of one dataset, task, loss, metric and set-up. Raises
    ValueError for a mixture or an unknown score.
    """
    require_one(trials)
    rows = trials[trials["status"] == "completed"].reset_index(drop=True)  # concatenated tables repeat index labels
    terms, weights = _terms_of(rows)
    measured = [*terms, "score"]
    rows = rows.assign(score=score_column(rows, score) if len(rows) else pd.Series(dtype=float))
    if terms != list(TERMS):
        own = {term: score_column(rows, term) for term in terms}
        rows = rows.assign(**own, **{name: parameter(rows, name) for name in weights})
    rows = rows[np.isfinite(rows[measured].to_numpy(dtype=float)).all(axis=1)]
    table: pd.DataFrame = rows[[*measured, *weights, "batch_size", "trial_id"]]
    if len(table):
        setting = settings(rows).apply(tuple, axis=1)
        means = table.groupby(setting, sort=False)[measured].transform("mean")
        table = table.assign(**means)[~setting.duplicated()]
    return table.reset_index(drop=True)


def terms_of(weights: Sequence[str]) -> list[str]:
    """The names of these weights' terms in results, in the same order."""
    return list(TERMS) if tuple(weights) == BALANCE[:2] else [f"{TERM}{name.removeprefix(WEIGHT)}" for name in weights]


def _terms_of(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The terms that these rows measured, and their weights; TERMS if they name no others."""
    weights = weights_of(rows)
    terms = terms_of(weights)
    scored = names_in(rows, "scores")
    if scored.issuperset(terms) and terms:
        return terms, weights
    return list(TERMS), list(BALANCE[:2])
