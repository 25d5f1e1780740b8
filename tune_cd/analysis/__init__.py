"""Pure functions over results tables: tables in, tables out."""

from tune_cd.analysis.curves import auc_at, best_so_far, best_trial, means_over_seeds, n_to_reach

__all__ = ["auc_at", "best_so_far", "best_trial", "means_over_seeds", "n_to_reach"]
