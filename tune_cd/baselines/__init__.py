"""What coordinate descent is compared with: random search, the full grid and Optuna's samplers, behind one protocol."""

from tune_cd.baselines.methods import NOTES, OFF_LINES, OPTIMISERS, Baseline, given, restore

__all__ = ["NOTES", "OFF_LINES", "OPTIMISERS", "Baseline", "given", "restore"]
