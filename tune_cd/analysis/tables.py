"""The paper's tables from results tables, as DataFrames, Markdown or LaTeX.

print(markdown(compared(summary(curves_of(trials)))))     tab:hp_res; with columns=["AUC@20"] tab:ablation
print(markdown(best_values(trials)))                      the best balances, ssec:best_hp_values
print(markdown(base_numbers(trials)))                     table:baselines
print(markdown(memory(trials)))                           table:xbm
"""

import re
from collections.abc import Callable, Sequence
from math import floor, isfinite, log10, nan
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis import best_trial, comparable
from tune_cd.analysis.comparison import BUDGETS
from tune_cd.analysis.confirmation import by_seed
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.means import alike, means_over_settings, setting_numbers
from tune_cd.analysis.memory_table import memory as memory
from tune_cd.analysis.parts import PROBLEM
from tune_cd.analysis.scores import searching

BASE_NUMBERS = [
    ("sop", "Song et al. 2016", "margin", {"P@1": 0.62}),
    ("sop", "Musgrave et al. 2020", "margin", {"P@1": 0.73, "MAP@R": 0.44}),
    ("sop", "Venkataramanan et al. 2021", "margin", {"P@1": 0.75}),
    ("sop", "the paper", "margin", {"P@1": 0.73, "MAP@R": 0.44}),
    ("landmarks", "Revaud et al. 2019, GeM", "margin", {"mAP": 0.65}),
    ("landmarks", "Radenović et al. 2018, R-GeM", "margin", {"mAP": 0.65}),
    ("landmarks", "the paper", "margin", {"mAP": 0.66}),
    ("tinyimagenet", "Patacchiola and Storkey 2020, SimCLR", "infonce", {"accuracy": 0.26}),
    ("tinyimagenet", "the paper", "infonce", {"accuracy": 0.30}),
]
"""`table:baselines`: dataset, source, loss, scores on the test split. The two numbers of 0.44 are printed as R-mAP;
Musgrave et al. report MAP@R, and the paper's own 0.44 stands beside theirs."""

BASE_SCORES = {
    "P@1": "test_precision_at_1", "R-mAP": "test_r_map", "MAP@R": "test_map_at_r",
    "mAP": "test_roxford5k_medium_map", "accuracy": "test_probe_accuracy",
}  # fmt: skip
"""Column of the table -> its name among a trial's scores."""


# Search methods -----------------------------------------------------------------------------------------------


def _at(k: int) -> dict[str, Callable[[Any], str]]:
    """The columns of the first k trials; "-" for searches of fewer."""

    def cell(text: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda row: text(row) if row.trials >= k else "-"

    return {
        f"AUC@{k}": cell(lambda row: _mean(row, f"auc{k}")),
        f"ΔAUC@{k}": cell(lambda row: _mean(row, f"d{k}", "+")),
        f"p@{k}": cell(lambda row: f"{row[f'd{k}_p']:.2g}" if isfinite(row[f"d{k}_p"]) else "-"),
    }


CELLS: dict[str, Callable[[Any], str]] = {
    "searches": lambda row: f"{row.trajectories}",
    "n-95": lambda row: _counts(row.n95, row.n95_low, row.n95_high, row.trials),
    "t-95": lambda row: _time(row.t95),
    "stuck": lambda row: f"{row.stuck:.1%}",
} | {name: cell for k in BUDGETS for name, cell in _at(k).items()}
"""Column of a printed table -> function from a row of `analysis.summary` to the cell's text. "-" means not known, such
as AUC@k of searches with fewer than k trials."""


def compared(table: pd.DataFrame, columns: Sequence[str] = ("AUC@10", "AUC@20", "n-95")) -> pd.DataFrame:
    """A summary's cells as text: methods down, (landscape, column) across as in `tab:hp_res`.

    columns: names in CELLS; raises ValueError for any other.
    """
    unknown = [column for column in columns if column not in CELLS]
    if unknown:
        raise ValueError(f"columns {unknown}: any of {list(CELLS)}")
    if table.empty:
        return pd.DataFrame(index=pd.Index([], name="method"), columns=pd.MultiIndex.from_arrays([[], []]))
    index = pd.MultiIndex.from_frame(table[["landscape", "method"]])
    landscapes, methods = index.unique("landscape"), index.unique("method")
    texts = {column: pd.Series([CELLS[column](row) for _, row in table.iterrows()], index) for column in columns}
    wide = pd.concat({one: rows.unstack("landscape") for one, rows in texts.items()}, axis=1).fillna("")
    return wide.swaplevel(axis=1).reindex(index=methods, columns=pd.MultiIndex.from_product([landscapes, columns]))


# Trainings ----------------------------------------------------------------------------------------------------


def best_values(trials: pd.DataFrame) -> pd.DataFrame:
    """The best (Lambda_p, Lambda_e) of every problem and set-up (`ssec:best_hp_values`, there with batch size 64).

    Chosen by the validation score, means over the seeds of a setting. Columns: set_up, the fields that tell a row's
    set-up from the others, only if there are several. seeds: trainings of the best setting. test_ci: half the 95 %
    interval of its mean test score over those tested (Student's t), NaN for fewer than two. alike: how many settings
    have a score within ALIKE of the best, itself included. alike_Lambda_p, alike_Lambda_e: the ranges of their weights.
    Parts without a completed trial that has both, as of losses of other weights, have no row.
    """
    found = ((part, _best_of(part.trials)) for part in comparable(trials))
    rows = [part.problem | {"set_up": part.set_up} | best for part, best in found if best is not None]
    table = pd.DataFrame(rows, columns=[*PROBLEM, "set_up", *BEST])
    return table if table["set_up"].any() else table.drop(columns="set_up")


BEST = [
    "Lambda_p", "Lambda_e", "batch_size", "val_score", "test_score", "seeds", "test_ci", "alike", "alike_Lambda_p",
    "alike_Lambda_e",
]  # fmt: skip


def _best_of(trials: pd.DataFrame) -> dict[str, Any] | None:
    """The fields BEST of one part's trials; None if no trial with both weights completed."""
    weighted = searching(trials[trials["Lambda_p"].notna() & trials["Lambda_e"].notna()]).reset_index(drop=True)
    weighted = weighted.assign(setting=setting_numbers(weighted))
    means = means_over_settings(weighted)
    best = best_trial(means)
    if best is None:
        return None
    near, tested = alike(means, best), by_seed(weighted, best, "test_score").dropna().to_numpy(dtype=float)
    found = {name: best[name] for name in BEST if name in best}
    found |= {"test_ci": half_interval_of(tested), "alike": len(near)}
    return found | {f"alike_{name}": (near[name].min(), near[name].max()) for name in ("Lambda_p", "Lambda_e")}


def base_numbers(trials: pd.DataFrame) -> pd.DataFrame:
    """`table:baselines`: scores of published implementations with the same loss, and this table's own.

    One row per source; columns: dataset, source, loss, set_up if the table has several of one problem, and BASE_SCORES,
    NaN if not given. Published rows are those of the table's datasets. A subset keeps its own name (`name-<classes>`)
    and is listed with the whole dataset's published rows. The table's own rows are its best balance of each problem and
    set-up by validation, means over seeds, if that has one of BASE_SCORES.
    """
    rows = []
    for part in comparable(trials):
        best = best_trial(means_over_settings(searching(part.trials)))
        measured = {} if best is None else best["scores"]
        scores = {column: measured[name] for column, name in BASE_SCORES.items() if isfinite(measured.get(name, nan))}
        problem = {name: part.problem[name] for name in ("dataset", "loss")}
        rows += [problem | {"source": "this table", "set_up": part.set_up} | scores] if scores else []
    datasets = {published_name(row["dataset"]) for row in rows}
    published = [
        {"dataset": dataset, "source": source, "loss": loss, "set_up": "", **scores}
        for dataset, source, loss, scores in BASE_NUMBERS
        if dataset in datasets
    ]
    columns = ["dataset", "source", "loss", "set_up", *BASE_SCORES]
    table = pd.DataFrame([*published, *rows], columns=columns).sort_values("dataset", kind="stable", ignore_index=True)
    return table if table["set_up"].any() else table.drop(columns="set_up")


def published_name(dataset: str | None) -> str:
    """The name of the whole dataset; a subset is called `name-<classes>`."""
    return re.sub(r"-\d+$", "", str(dataset))


# As text ------------------------------------------------------------------------------------------------------


PER_TABLE = 4  # groups of columns side by side


def markdown(table: pd.DataFrame) -> str:
    """A table as Markdown; columns of two levels are split into tables of at most PER_TABLE groups."""
    if table.columns.nlevels == 1:
        return _aligned(_text(table))
    groups = list(dict.fromkeys(table.columns.get_level_values(0)))
    parts = [table[groups[first : first + PER_TABLE]] for first in range(0, len(groups), PER_TABLE)]
    return "\n\n".join(_aligned(_text(part)) for part in parts)


def _aligned(rows: list[list[str]]) -> str:
    rows = [[cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    rule = ["-" * width for width in widths]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in (rows[0], rule, *rows[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


LATEX = {"Λ": r"$\Lambda$", "Δ": r"$\Delta$", "±": r"$\pm$"}


def latex(table: pd.DataFrame, caption: str) -> str:
    """A table as LaTeX (booktabs), by pandas, which needs jinja2 for it."""
    head, *rows = _text(table)
    words = re.sub("[&%$#_]", r"\\\g<0>", caption)  # which pandas leaves as it is
    text = pd.DataFrame(rows, columns=head).to_latex(index=False, escape=True, caption=words)
    return re.sub("|".join(LATEX), lambda found: LATEX[found[0]], text)


def _text(table: pd.DataFrame) -> list[list[str]]:
    """Header and rows as text; an index with a name or of texts is the first column."""
    heads = table.columns if table.columns.nlevels == 1 else [" ".join(name) for name in table.columns]
    named = table.set_axis(heads, axis=1)
    if table.index.name or pd.api.types.is_string_dtype(table.index):
        named = named.reset_index(names=table.index.name or "")
    return [list(map(str, named.columns)), *([*map(cell_text, row)] for row in named.itertuples(index=False))]


def cell_text(value: Any) -> str:
    """A table cell as text: floats with four digits, ranges as "low to high" if they differ, "-" if missing."""
    if isinstance(value, tuple):
        return " to ".join(dict.fromkeys(map(cell_text, value)))
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def decimals(score: float) -> int:
    """How many decimals a score of this size is written with: 3, or more for a small loss."""
    return max(3, 2 - floor(log10(abs(score) or 1)))


def _mean(row: Any, name: str, sign: str = "") -> str:
    value, half = row[name], row[f"{name}_ci"]
    if not isfinite(value):
        return "-"
    form = f".{decimals(row.best)}f"
    return f"{value:{sign}{form}} ±{half:{form}}" if isfinite(half) else f"{value:{sign}{form}}"


def _time(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1f}" if isfinite(value) else "never"


def _counts(n: float, low: float, high: float, trials: int) -> str:
    count, least, most = (f"{value:.0f}" if isfinite(value) else f">{trials}" for value in (n, low, high))
    return count if np.isnan(low) else f"{count} ({least} to {most})"
