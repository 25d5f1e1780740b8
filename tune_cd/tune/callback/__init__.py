"""Writes rows of the results table from Tune's events, for trainables that do not write their own.

results_callback   ResultsCallback: a row for each trial
row_callback       stores rows, also while the store does not take them
rows               the outcome fields of a row, from a trial's results
curves             the learning curves, from its reports
failures           failure_kind and error of a failed trial
writer             stores a row under a free number and attempt
"""

from tune_cd.tune.callback.results_callback import ResultsCallback

__all__ = ["ResultsCallback"]
