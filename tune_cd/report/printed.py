"""The tables of `--figures` in printed form: headings, definitions, Markdown and LaTeX."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from tune_cd.analysis import Curve, comparable, curves_of, summary, tables
from tune_cd.analysis.comparison import BUDGETS, FEWEST, grouped
from tune_cd.analysis.confirmation import RECIPES, gains
from tune_cd.analysis.scores import SPLITS
from tune_cd.report.words import LETTERS

HEADS = LETTERS | SPLITS | {
    "best_Lambda_p": "its Λp", "best_Lambda_e": "its Λe", "gain_separate": "gain over separate",
    "gain_global": "gain over global", "gain_published": "gain over published", "alike": "within 1 %",
    "alike_Lambda_p": "their Λp", "alike_Lambda_e": "their Λe", "recall_at_1": "R@1", "metric_name": "metric",
    "set_up": "set-up", "batch_size": "b", "tuned": "balance tuned", "separate": "separate average",
    "global": "global average", "published": "published weights",
}  # fmt: skip
"""Column of a table -> its heading."""

GAINS = [f"gain_{name}" for name in RECIPES]
SCORES = ("val_score", "test_score", "recall_at_1", "best", "tuned", *RECIPES, *GAINS)
"""Columns with four decimals."""

WITHIN = (
    f"within {100 * tables.ALIKE:.0f} %: settings, the best included, whose validation score is at most so much below "
    "the best one's, and the range of their weights."
)
"""Definition of the columns `alike`."""


Printed = tuple[pd.DataFrame, str, str]
"""A table with its caption and its label in LaTeX."""


def tables_of(trials: pd.DataFrame) -> dict[str, Callable[[], dict[str, str]]]:
    """File name -> function that returns its texts by file ending; {} if the trials lack the needed data."""
    made = {"methods": _methods, "best-values": _best, "base-numbers": _base, "memory": _memory, "gains": _gains}
    return {name: partial(_texts, make, trials) for name, make in made.items()}


def _texts(make: Callable[[pd.DataFrame], list[Printed]], trials: pd.DataFrame) -> dict[str, str]:
    """A maker's tables one after the other, in Markdown and in LaTeX; from the second on labels have a number."""
    made = [
        (frame, caption, f"{label}-{n}" if n > 1 else label)
        for n, (frame, caption, label) in enumerate(make(trials), 1)
    ]
    texts = {
        "md": "\n".join(f"{tables.markdown(frame)}\n\n{caption}\n" for frame, caption, _ in made),
        "tex": "\n".join(f"{tables.latex(*table)}\n" for table in made),
    }
    return texts if made else {}


def searched(curves: Sequence[Curve]) -> list[Curve]:
    """The curves of searches that choose the next trial; the order of a grid's cells says nothing about a method."""
    return [curve for curve in curves if curve.method != "grid"]


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of numbers in printed form: headings, intervals behind their means, no empty columns."""
    shown = frame.astype(object)
    for name in set(SCORES).intersection(frame):
        sign = "+" * (name in GAINS)
        shown[name] = [f"{score:{sign}.4f}" if pd.notna(score) else score for score in frame[name]]
    if "test_ci" in shown:
        cells = zip(shown["test_score"], frame["test_ci"])
        shown["test_score"] = [f"{mean} ±{half:.4f}" if pd.notna(half) else mean for mean, half in cells]
        shown = shown.drop(columns="test_ci")
    empty = [name for name in shown if shown[name].map(tables.cell_text).eq("-").all()]
    return shown.drop(columns=[name for name in empty if name not in ("val_score", "test_score")]).rename(columns=HEADS)


MEMORY_SEARCHES = {search for searches in tables.MEMORY_MODES.values() for search in searches}
COLUMNS = ("searches", *(f"AUC@{k}" for k in BUDGETS), "n-95", "ΔAUC@20", "p@20")


def methods(curves: Sequence[Curve]) -> tuple[pd.DataFrame, str] | None:
    """A comparison of the search methods on one landscape, and the definitions of its columns; empty ones are left out.

    None if nothing can be compared: a single search, only a grid or searches of `table:xbm` (which know each other's
    trials), or no completed trial.
    """
    shown = [curve for curve in searched(curves) if curve.method not in MEMORY_SEARCHES]
    best = max((np.nanmax(curve.reached, initial=-np.inf) for curve in curves), default=-np.inf)
    if len(shown) < 2 or not np.isfinite(best):
        return None
    reference = "cd" if any(curve.method == "cd" for curve in shown) else None
    numbers = summary(curves, reference)
    numbers = numbers[numbers["method"].isin({curve.method for curve in shown})].reset_index(drop=True)
    long = numbers["trials"].clip(upper=numbers.loc[numbers["method"] == reference, "trials"].max())
    for k in BUDGETS:  # a search of fewer trials has no AUC@k and no difference of it
        numbers.loc[long < k, [f"d{k}", f"d{k}_ci", f"d{k}_p"]] = np.nan
    paired = numbers[[f"d{k}_ci" for k in BUDGETS]].notna().any(axis=None)  # a single pair's difference has no interval
    useful = [name for name in COLUMNS if name != "searches" or (numbers["trajectories"] > 1).any()]
    cells = tables.compared(numbers, [name for name in useful if paired or name[0] not in "Δp"]).droplevel(0, axis=1)
    cells = cells[[name for name in cells if cells[name].ne("-").any()]]
    return cells, " ".join(_definitions(cells, numbers["trajectories"].max(), curves, best, reference))


def _definitions(
    cells: pd.DataFrame, most: int, curves: Sequence[Curve], best: float, reference: str | None
) -> Iterator[str]:
    """Definitions of the columns of a table of methods, one sentence each. most: searches of one method."""
    split = SPLITS.get(curves[0].score, curves[0].score)
    yield f"Reached: the {split} score of the trial that was best by validation so far."
    if any(name.startswith("AUC") for name in cells):
        several = ", ± half the 95 % interval over searches (Student's t)" if most > 1 else ", of one search each"
        yield f"AUC@k: mean of that over the first k trials{several}; - for searches of fewer trials."
    grid = ", the grid's cells included" if any(curve.method == "grid" for curve in curves) else ""
    averaged = ", averaged over searches," if most > 1 else ""
    target = f"{best - 0.05 * abs(best):.4f}, 95 % of the best that any reached{grid}"
    yield f"n-95: trials until that{averaged} is at {target}; > n: not within n trials."
    if most >= FEWEST:
        yield f"In brackets 95 % of bootstrap resamples of the searches, where there are {FEWEST} or more."
    if "ΔAUC@20" in cells:
        yield f"Δ: less {reference}'s, over pairs of equal seeds."
    if "p@20" in cells:
        yield "p: two-sided, of Wilcoxon's signed-rank test over those pairs, not corrected for how many there are."


def _methods(trials: pd.DataFrame) -> list[Printed]:
    """`tab:hp_res`, one table per landscape."""
    compared = {landscape: methods(curves) for landscape, curves in grouped(curves_of(trials), "landscape").items()}
    return [
        (table[0], f"Search methods on {landscape}. {table[1]}", "tab:hp_res")
        for landscape, table in compared.items()
        if table is not None
    ]


def _best(trials: pd.DataFrame) -> list[Printed]:
    """The best balances, `ssec:best_hp_values`."""
    best = tables.best_values(trials)
    over = " ± half the 95 % interval (Student's t over them)" if best["test_ci"].notna().any() else ""
    caption = (
        f"The best setting of each problem and set-up, chosen by validation, scores means over its seeds{over}. "
        f"Weights are already multiplied by the learning rate and have no unit; b: images of a batch. {WITHIN}"
    )
    return [(readable(best), caption, "tab:best_values")] if len(best) else []


def _base(trials: pd.DataFrame) -> list[Printed]:
    """`table:baselines`, if the table has a dataset with published numbers."""
    numbers = tables.base_numbers(trials)
    known = {dataset for dataset, *_ in tables.BASE_NUMBERS}
    numbers = numbers[[tables.published_name(dataset) in known for dataset in numbers["dataset"]]]
    caption = (
        "Scores on the test split: as published, and of this table's best setting of each problem and set-up by "
        "validation, means over its seeds. A dataset with a number behind its name is a subset of so many classes, "
        "whose scores compare with no published one."
    )
    return [(readable(numbers), caption, "table:baselines")] if len(numbers) else []


def _gains(trials: pd.DataFrame) -> list[Printed]:
    """The gains of balancing, one row per study; empty if no study has a search besides its recipes."""
    found = gains(trials)
    if not len(found):
        return []
    shown = readable(found.drop(columns=["fresh", *(name for name in found if name.startswith(("low_", "high_")))]))
    for gain in filter(found.columns.__contains__, GAINS):
        ends = zip(shown[HEADS[gain]], found[gain.replace("gain", "low")], found[gain.replace("gain", "high")])
        shown[HEADS[gain]] = [
            f"{text} ({low:+.4f} to {high:+.4f}{', within noise' if low <= 0 <= high else ''})" if low == low else text
            for text, low, high in ends
        ]
    seeds = (
        "seeds that had no part in choosing"
        if found["fresh"].all()
        else "seeds; where there is 1, it is the one that chose"
    )
    caption = (
        "What the search found beside the usual averages or published weights, whose learning rate alone was tuned: "
        "scores on the test split, "
        f"means over {seeds}; in brackets 95 % intervals of the gain (Student's t over pairs of equal seeds)."
    )
    return [(shown, caption, "tab:gains")]


def _memory(trials: pd.DataFrame) -> list[Printed]:
    """`table:xbm` for every problem and set-up with the experiment's searches."""
    words = (
        "R@1 on the test split of each mode's best setting by validation, means over its seeds; without / with "
        "learning rate decay, - where it was not run."
    )
    return [
        (
            tables.memory(part.trials),
            f"Cross-batch memory{f' on {part.words}' * bool(part.words)}: {words}",
            "table:xbm",
        )
        for part in comparable(trials, but=tables.MEMORY_FIELDS)
        if set(part.trials["search"]) >= {"S1", "S3"}
    ]
