"""Relation of the loss's terms to the score (`fig:sublosses`)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import BALANCE, maps_of, parameter, score_column, settings, weights_of
from tune_cd.balance import TERM, WEIGHT

TERMS = ("positive_term", "entropy_term")
"""The terms of the paper's losses, which have columns in the table; terms of other losses are scores `term_<name>`."""


FEWEST = 3
"""Fewest settings of a batch size among which terms and scores are ranked."""


def sublosses(trials: pd.DataFrame, score: str = "val_score") -> pd.DataFrame:
    """The settings whose completed trainings measured all terms of their loss.

    Columns: the terms (TERMS, or `term_<name>` in the loss's order) and score (means over seeds), the terms' weights,
    batch_size, trial_id of the first training, and `front`: whether the setting is on the Pareto front of its batch
    size (no other has a term lower and none higher). trials: of one dataset, task, loss, metric and set-up. Raises
    ValueError for a mixture or an unknown score.
    """
    require_one(trials)
    rows = trials[trials["status"] == "completed"].reset_index(drop=True)  # concatenated tables repeat index labels
    terms, weights = _terms_of(rows)
    measured = [*terms, "score"]
    scores = score_column(rows, score) if len(rows) else pd.Series(dtype=float)
    rows = rows.assign(score=scores)
    if terms != list(TERMS):
        own = {term: score_column(rows, term) for term in terms}
        rows = rows.assign(**own, **{name: parameter(rows, name) for name in weights})
    rows = rows[np.isfinite(rows[measured].to_numpy(dtype=float)).all(axis=1)]
    table: pd.DataFrame = rows[[*measured, *weights, "batch_size", "trial_id"]]
    if len(table):
        setting = settings(rows).apply(tuple, axis=1)
        means = table.groupby(setting, sort=False)[measured].transform("mean")
        table = table.assign(**means)[~setting.duplicated()]
    table = table.reset_index(drop=True)
    front = pd.Series(False, index=table.index)
    for _, group in table.groupby("batch_size", dropna=False):
        front[group.index] = _front(group[terms].to_numpy(dtype=float))
    return table.assign(front=front)


def terms_in(table: pd.DataFrame) -> list[str]:
    """The columns of terms in a table of `sublosses`: those before the score."""
    columns = list(table.columns)
    return columns[: columns.index("score")]


def subloss_statistics(table: pd.DataFrame) -> pd.DataFrame:
    """One row per term of a table of `sublosses`: its correlation with the score, and its rank in the best settings.

    Settings are ranked within their batch size if it has FEWEST of them, because InfoNCE's entropy term grows with its
    logarithm. correlation: of ranks, Spearman's if there is one batch size. rank_of_best: the term's mean rank in the
    best tenth of settings, from 0 (lowest) to 1 (highest). place_of_best: likewise for its value, between the lowest
    and the highest. All are NaN with fewer settings. There is no p-value, since the settings of a search are not a
    random sample. "Good retrieval requires both terms to be low" would show as a best tenth with both places below 0.5.
    Ranks depend on the settings that were tried: most of a grid has one term at its lowest and the other at its
    highest.
    """
    rows = []
    compared = table[table.groupby("batch_size", dropna=False)["score"].transform("size") >= FEWEST]
    sizes = compared.groupby("batch_size", dropna=False)
    best = sizes["score"].rank(pct=True, method="first") > 0.9
    scores = sizes["score"].transform(ranks)
    for term in terms_in(table):
        ranked = sizes[term].transform(ranks)
        told = ranked.nunique() > 1 and scores.nunique() > 1
        rows.append({
            "term": term, "correlation": ranked.corr(scores) if told else np.nan,
            "rank_of_best": float(ranked[best].mean()),
            "place_of_best": float(sizes[term].transform(places)[best].mean()),
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("term")


def ranks(values: pd.Series) -> pd.Series:
    """The share of the other values that are lower: 0 for the lowest, 1 for the highest."""
    return (values.rank() - 1) / max(1, len(values) - 1)


def places(values: pd.Series) -> pd.Series:
    """Values scaled from 0 (the lowest) to 1 (the highest); 0 if all are equal."""
    spread = values.max() - values.min()
    return (values - values.min()) / spread if spread else values * 0.0


def terms_of(weights: Sequence[str]) -> list[str]:
    """The names of these weights' terms in results, in the same order."""
    return list(TERMS) if tuple(weights) == BALANCE[:2] else [f"{TERM}{name.removeprefix(WEIGHT)}" for name in weights]


def _terms_of(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The terms that these rows measured, and their weights; TERMS if they name no others."""
    weights = weights_of(rows)
    terms = terms_of(weights)
    scored = {name for scores in maps_of(rows, "scores") for name in scores}
    if scored.issuperset(terms) and terms:
        return terms, weights
    return list(TERMS), list(BALANCE[:2])


def _front(points: np.ndarray) -> np.ndarray:
    """The points [n, n_terms] that are not dominated by another: booleans [n]."""
    front, kept = np.zeros(len(points), dtype=bool), points[:0]
    for index in np.lexsort(points.T[::-1]):  # sorted so that dominating points come first
        point = points[index]
        if not ((kept <= point).all(1) & (kept < point).any(1)).any():
            front[index], kept = True, np.vstack([kept, point])
    return front
