"""Pure functions over results tables: tables in, tables out."""

from tune_cd.analysis.comparison import mean_curve, summary
from tune_cd.analysis.curves import Curve, auc_at, best_so_far, curves_of, n_to_reach
from tune_cd.analysis.gain import balance_gain, reachable
from tune_cd.analysis.grids import Grid, grid
from tune_cd.analysis.means import best_trial, means_over_seeds
from tune_cd.analysis.parts import comparable, parts_of
from tune_cd.analysis.recipes import on_diagonal
from tune_cd.analysis.sublosses import sublosses

__all__ = [
    "Curve", "Grid", "auc_at", "balance_gain", "best_so_far", "best_trial", "comparable", "curves_of",
    "grid", "mean_curve", "means_over_seeds", "n_to_reach", "on_diagonal", "parts_of", "reachable",
    "sublosses", "summary",
]  # fmt: skip
