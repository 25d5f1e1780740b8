"""How both terms of the loss relate to the score (`fig:sublosses`)."""

import numpy as np
import pandas as pd

from tune_cd.analysis.scores import completed, require_one, score_column, settings

TERMS = ("positive_term", "entropy_term")


def sublosses(trials: pd.DataFrame, score: str = "val_score") -> pd.DataFrame:
    """The settings whose completed trainings measured both terms.

    Columns positive_term, entropy_term and score (means over seeds), Lambda_p, Lambda_e, batch_size, trial_id of the
    first training, and `front`: whether no other setting has both terms lower (or one lower and the other equal).
    trials: of one dataset, task, loss, metric and set-up. Raises ValueError for a mixture or an unknown score.
    """
    require_one(trials)
    rows = completed(trials).reset_index(drop=True)  # labels of tables that were put together repeat
    scores = score_column(rows, score) if len(rows) else pd.Series(dtype=float)
    rows = rows.assign(score=scores)
    rows = rows[np.isfinite(rows[[*TERMS, "score"]].to_numpy(dtype=float)).all(axis=1)]
    table: pd.DataFrame = rows[[*TERMS, "score", "Lambda_p", "Lambda_e", "batch_size", "trial_id"]]
    if len(table):
        setting = settings(rows).apply(tuple, axis=1)
        means = table.groupby(setting, sort=False)[[*TERMS, "score"]].transform("mean")
        table = table.assign(**means)[~setting.duplicated()]
    table = table.reset_index(drop=True)
    return table.assign(front=_front(table[list(TERMS)].to_numpy(dtype=float)))


def subloss_statistics(table: pd.DataFrame) -> pd.DataFrame:
    """Of a table of `sublosses`, one row a term: its correlation with the score, and its rank in the best settings.

    correlation: Spearman's; NaN below three settings. rank_of_best: the term's mean rank in the best tenth of settings,
    0 the lowest of all, 1 the highest. There is no p-value, since the settings of a search are not a random sample.
    "Good retrieval requires both terms to be low" shows as a best tenth with both ranks below 0.5.
    """
    rows = []
    best = table["score"].rank(pct=True, method="first") > 0.9
    for term in TERMS:
        enough = len(table) > 2 and table[term].nunique() > 1 and table["score"].nunique() > 1
        correlation = table[term].rank().corr(table["score"].rank()) if enough else np.nan
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
    front, lowest, kept = np.zeros(len(points), dtype=bool), np.inf, None
    for index in np.lexsort((points[:, 1], points[:, 0])):
        point = tuple(points[index])
        if point[1] < lowest or point == kept:
            front[index], lowest, kept = True, point[1], point
    return front
