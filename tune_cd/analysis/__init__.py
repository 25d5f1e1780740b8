"""Pure functions over results tables: tables in, tables out."""

from tune_cd.analysis.curves import auc_at, best_so_far, best_trial, means_over_seeds, n_to_reach
from tune_cd.analysis.gain import balance_gain, reachable
from tune_cd.analysis.grids import Grid, grid
from tune_cd.analysis.ridge import A_O, A_TH, Ridge, alignment, coupling, ridge
from tune_cd.analysis.sublosses import subloss_statistics, sublosses

__all__ = [
    "A_O", "A_TH", "Grid", "Ridge", "alignment", "auc_at", "balance_gain", "best_so_far", "best_trial", "coupling", "grid",
    "means_over_seeds", "n_to_reach", "reachable", "ridge", "subloss_statistics", "sublosses",
]  # fmt: skip
