"""How both terms of the loss relate to the score (`fig:sublosses`)."""

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from tune_cd.analysis.scores import completed, require_one, score_column, settings

TERMS = ("positive_term", "entropy_term")


def sublosses(trials: pd.DataFrame, score: str = "val_score") -> pd.DataFrame:
    """The settings whose completed trainings measured both terms: positive_term, entropy_term, score (means over seeds), Lambda_p,
    Lambda_e, batch_size, trial_id of the first training, and `front`: whether no other has both terms lower (or one lower and
    the other equal).

    trials: of one dataset, task, loss, metric and set-up. Raises ValueError for a mixture or an unknown score.
    """
    require_one(trials)
    rows = completed(trials).reset_index(drop=True)  # labels of tables that were put together repeat
    scores = score_column(rows, score) if len(rows) else np.nan
    table = rows.assign(score=scores)[[*TERMS, "score", "Lambda_p", "Lambda_e", "batch_size", "trial_id"]]
    table = table[np.isfinite(table[[*TERMS, "score"]].astype(float)).all(axis=1)]
    if len(table):
        setting = settings(rows.loc[table.index]).apply(tuple, axis=1)
        means = table.groupby(setting, sort=False)[[*TERMS, "score"]].transform("mean")
        table = table.assign(**means)[~setting.duplicated()]
    table = table.reset_index(drop=True)
    return table.assign(front=_front(table[list(TERMS)].to_numpy(dtype=float)))


def subloss_statistics(table: pd.DataFrame) -> pd.DataFrame:
    """Of a table of `sublosses`, one row a term: Spearman's rank correlation with the score (NaN below three
    settings), and how low the term lies in the best tenth of settings: its mean rank there, 0 the lowest of all, 1 the highest.

    No p-value: settings that a search asked for are no random sample of anything. "Good retrieval requires both terms to be
    low" shows as a best tenth with both ranks below 0.5.
    """
    rows = []
    best = table["score"].rank(pct=True, method="first") > 0.9 if len(table) else []
    for term in TERMS:
        enough = len(table) > 2 and table[term].nunique() > 1 and table["score"].nunique() > 1
        correlation = spearmanr(table[term], table["score"]).statistic if enough else np.nan
        ranks = (table[term].rank() - 1) / max(1, len(table) - 1)
        rows.append(
            {
                "term": term,
                "correlation": correlation,
                "rank_of_best": float(ranks[best].mean()) if len(table) else np.nan,
            }
        )
    return pd.DataFrame(rows).set_index("term")


def _front(points: np.ndarray) -> np.ndarray:
    """Which points [n, 2] no other point dominates: booleans [n]."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    front, lowest = np.zeros(len(points), dtype=bool), np.inf
    kept = None
    for index in order:
        first, second = points[index]
        if second < lowest or (kept is not None and np.array_equal(points[index], kept)):
            front[index], lowest, kept = True, second, points[index]
    return front
