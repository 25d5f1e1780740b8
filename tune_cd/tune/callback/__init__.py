"""Writes rows of the results table from Tune's events, for trainables that do not write their own.

results_callback   ResultsCallback: a row for each trial
rows               the outcome fields of a row, from a trial's results or its failure
curves             the learning curves, from its reports
writer             stores a row under a free number and attempt
row_store          stores rows, also while the store does not take them
"""

from tune_cd.tune.callback.results_callback import ResultsCallback

__all__ = ["ResultsCallback"]
