"""The tables of `--figures`: what stands in them, with captions, in Markdown and LaTeX."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from tune_cd.analysis import Curve, comparable, curves_of, summary, tables
from tune_cd.analysis.comparison import BUDGETS, FEWEST, grouped
from tune_cd.analysis.means import ALIKE
from tune_cd.analysis.memory_table import MEMORY_FIELDS, MEMORY_MODES

CAPTIONS = {
    "methods": "Search methods on {}. Reached: the reported score of the trial that was best by validation so far. "
    "AUC@k: mean of that over the first k trials, averaged over searches, ± half the 95 % interval over them "
    "(Student's t). n-95: trials until the mean is at 95 % of the best that any search or grid reached; in brackets "
    f"95 % of bootstrap resamples, of {FEWEST} searches or more. Δ: less the reference's, over pairs of equal seeds; "
    "p: two-sided, of Wilcoxon's signed-rank test over those pairs, not corrected for how many there are. Where "
    "trainings pause, a full training's worth of images counts as a trial, and all scores are of validation.",
    "best-values": "The best setting of each problem and set-up over Lambda_p and Lambda_e (no row for "
    "losses of other weights), chosen by validation, scores means over its seeds; "
    "test_ci: half the 95 % interval (Student's t over them). Weights are already multiplied by the learning rate. "
    "alike: settings, the best included, whose validation score differs from the best one's by at most "
    f"{100 * ALIKE:.0f} % of it, and the range of their weights.",
    "base-numbers": "Scores on the test split: as published, and of this table's best setting of each problem and "
    "set-up by validation, means over its seeds. A dataset with a number behind its name is a subset of so many "
    "classes, whose scores compare with no published one.",
    "memory": "Cross-batch memory on {}: R@1 on the test split of each mode's best setting by validation, means over "
    "its seeds; without / with learning rate decay, - where it was not run.",
}
MEMORY_SEARCHES = {search for searches in MEMORY_MODES.values() for search in searches}
COLUMNS = ("searches", *(f"AUC@{k}" for k in BUDGETS), "n-95", "ΔAUC@20", "p@20")


def printed(name: str, trials: pd.DataFrame) -> dict[str, str]:
    """The texts of the table `name`, of TABLES, by file ending; {} if the trials lack the needed data. Several, as of
    several landscapes, stand one after the other."""
    made = {CAPTIONS[name].format(of): table for of, table in TABLES[name](trials).items() if len(table)}
    plain = [f"{tables.markdown(table)}\n\n{caption}\n" for caption, table in made.items()]
    return {"md": "\n".join(plain), "tex": "\n".join(tables.latex(made[one], one) for one in made)} if made else {}


def searched(curves: Sequence[Curve]) -> list[Curve]:
    """The curves of searches that choose the next trial; the order of a grid's cells says nothing about a method."""
    return [curve for curve in curves if curve.method != "grid"]


def methods(curves: Sequence[Curve]) -> pd.DataFrame | None:
    """A comparison of the search methods on one landscape; columns that say nothing are left out.

    None if nothing can be compared: a single search, only a grid or searches of `table:xbm` (which know each other's
    trials), or no completed trial.
    """
    shown = [curve for curve in searched(curves) if curve.method not in MEMORY_SEARCHES]
    if len(shown) < 2 or not np.isfinite(max(np.nanmax(curve.reached, initial=-np.inf) for curve in curves)):
        return None
    reference = "cd" if any(curve.method == "cd" for curve in shown) else None
    numbers = summary(curves, reference)
    numbers = numbers[numbers["method"].isin({curve.method for curve in shown})].reset_index(drop=True)
    long = numbers["trials"].clip(upper=numbers.loc[numbers["method"] == reference, "trials"].max())
    for k in BUDGETS:  # a search of fewer trials has no AUC@k and no difference of it
        numbers.loc[long < k, [f"d{k}", f"d{k}_ci", f"d{k}_p"]] = np.nan
    cells = tables.compared(numbers, COLUMNS).droplevel(0, axis=1)
    return cells[[name for name in cells if cells[name].ne("-").any()]]


def _methods(trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """`tab:hp_res`, one table per landscape."""
    compared = {landscape: methods(curves) for landscape, curves in grouped(curves_of(trials), "landscape").items()}
    return {landscape: table for landscape, table in compared.items() if table is not None}


def _base_numbers(trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """`table:baselines`: the rows of datasets with published numbers."""
    numbers, known = tables.base_numbers(trials), {dataset for dataset, *_ in tables.BASE_NUMBERS}
    return {"": numbers[[tables.published_name(dataset) in known for dataset in numbers["dataset"]]]}


def _memory(trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """`table:xbm` for every problem and set-up with the experiment's searches."""
    parts = comparable(trials, but=MEMORY_FIELDS)
    made = {part.words: tables.memory(part.trials) for part in parts if {*part.trials["search"]} >= {"S1", "S3"}}
    return {words or "the trials": table for words, table in made.items()}


TABLES: dict[str, Callable[[pd.DataFrame], dict[str, pd.DataFrame]]] = {
    "methods": _methods,
    "best-values": lambda trials: {"": tables.best_values(trials)},
    "base-numbers": _base_numbers,
    "memory": _memory,
}
"""Name of a table -> function that returns each of its tables, by what its caption says that it is of."""
