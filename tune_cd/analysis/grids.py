"""Landscapes as labelled grids: M(h) over (Lambda_p, Lambda_e, b), averaged over seeds (`fig:hp_omniglot`).

landscape = grid(results.read("results", "my-grid"), "test_score")
landscape.top(8, batch_size=64)         # the blue squares of fig:hp_omniglot
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.choices import choice_names, signs, texts_of
from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import (
    SPLITS,
    own_column,
    parameter,
    parameter_names,
    places,
    require_parameters,
    score_column,
    score_words,
    settings,
)

MEASURED = ("value", "count", "spread", "lost", "trials")
"""The columns of a table of cells besides the parameters."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A score over the product of the values of its parameters. All arrays have the shape of the axes: [n_p, n_e, n_b].

    score: its name. names, ticks: the axes and their values, ascending (NaN for trials that do not say their value); of
    a category its texts (`choice`). sign: 1 if a larger score is better, -1 if a smaller one is.
    values: means over completed trainings, NaN for a hole. counts: number of those trainings. spread: the standard
    deviation of those whose seed is known, NaN for fewer than two. lost: number of trainings that ended without the
    score (diverged, failed, stopped). words: the score's label on an axis.
    """

    score: str
    names: tuple[str, ...]
    ticks: tuple[np.ndarray, ...]
    values: np.ndarray
    counts: np.ndarray
    spread: np.ndarray
    lost: np.ndarray
    words: str = ""
    sign: float = 1.0

    @property
    def steps(self) -> tuple[float, ...]:
        """Median octaves between neighbours on each axis; NaN for an axis of one value, with one of 0 or less, or of a
        category."""
        told = (len(tick) > 1 and tick.dtype != object and tick[0] > 0 for tick in self.ticks)
        return tuple(float(np.median(np.diff(np.log2(tick)))) if t else np.nan for tick, t in zip(self.ticks, told))

    def frame(self) -> pd.DataFrame:
        """One row per cell: the parameters, then value, count, spread and lost."""
        names = [own_column(name, MEASURED) for name in self.names]
        cells = pd.MultiIndex.from_product(self.ticks, names=names).to_frame(index=False)
        return cells.assign(
            value=self.values.ravel(), count=self.counts.ravel(), spread=self.spread.ravel(), lost=self.lost.ravel()
        )

    def top(self, k: int = 8, batch_size: float | None = None) -> pd.DataFrame:
        """The k best cells, of one batch size or of all, best first; ties go to the smaller parameters.

        Columns as in `frame`. Raises ValueError for k < 1 and for a batch size that is not in the grid.
        """
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        frame = self.frame()
        if batch_size is not None:
            if batch_size not in self.ticks[-1]:
                raise ValueError(f"{self.names[-1]} {batch_size}: one of {self.ticks[-1].tolist()}")
            frame = frame[frame.iloc[:, len(self.names) - 1] == batch_size]
        return (
            frame[frame["count"] > 0]
            .sort_values("value", key=lambda values: -self.sign * values, kind="stable")
            .head(k)
            .reset_index(drop=True)
        )


def grid(trials: pd.DataFrame, score: str = "val_score", axes: Sequence[str] | None = None) -> Grid:
    """The grid of a score: a column of the table, or a name in its `scores` map.

    trials: of one dataset, task, loss and metric, from one study or several; a training that two searches asked for
    (the same setting and seed) counts once. Rows that lack a value on an axis are left out; a missing batch size is NaN
    instead. axes: names of parameters; None: (Lambda_p, Lambda_e, batch_size) if trials have them, otherwise every
    searched one. Every setting that occurs is a cell. Raises ValueError for a mixture, an unknown score or axis, and
    for axes that span more than LARGEST cells. The trials of a search soon span that many; `cells` has a row only for
    each setting that was tried.
    """
    placed = _place(trials, axes)
    shape = tuple(map(len, placed.ticks))
    if prod(shape) > LARGEST:
        size = f"{' x '.join(map(str, shape))} cells of {len(trials)} trials"
        raise ValueError(f"{size}: more than {LARGEST:,}; take `cells`")

    def dense(tried: np.ndarray, hole: float) -> np.ndarray:
        """Values of the tried cells as an array over all cells."""
        array = np.full(shape, hole, dtype=tried.dtype)
        array[tuple(placed.at.T)] = tried
        return array

    means, counts, spread, lost = placed.aggregated(score)
    arrays = dense(means, np.nan), dense(counts, 0), dense(spread, np.nan), dense(lost, 0)
    sign = float(signs(trials)[0]) if len(trials) and score in SPLITS else 1.0
    return Grid(score, placed.names, placed.ticks, *arrays, score_words(trials, score), sign)


def cells(trials: pd.DataFrame, score: str = "val_score", axes: Sequence[str] | None = None) -> pd.DataFrame:
    """The cells of `grid` with at least one training, one row each, in the order of the axes.

    Columns: the parameters, then value, count, spread, lost, and `trials`, the index of the rows in the cell. Arguments
    and errors: as for `grid`, except that the number of cells is not limited.
    """
    return cells_of(trials, [score], axes)[score]


def cells_of(
    trials: pd.DataFrame, scores: Collection[str], axes: Sequence[str] | None = None
) -> dict[str, pd.DataFrame]:
    """`cells` of several scores; trials are assigned to cells once."""
    placed = _place(trials, axes)
    columns = zip(placed.names, placed.ticks, placed.at.T)
    table = pd.DataFrame({own_column(name, MEASURED): tick[at] for name, tick, at in columns})
    members = pd.Series(placed.members, index=table.index, dtype=object)
    tables = {}
    for score in scores:
        means, counts, spread, lost = placed.aggregated(score)
        tables[score] = table.assign(value=means, count=counts, spread=spread, lost=lost, trials=members)
    return tables


LARGEST = 4_000_000
"""Largest number of cells of a dense grid: a thousand times the paper's."""


@dataclass(frozen=True, eq=False)
class _Placed:
    """Trainings assigned to cells.

    at [n_cells, n_axes]: each cell's index on every axis, ascending. trials, where [n_trainings]: the rows, and the
    cell of each. repeats [n_trainings]: equal for rows of one setting and seed, -1 if the seed is not known.
    members [n_cells]: index labels of the rows in each cell, including repeated trainings.
    """

    names: tuple[str, ...]
    ticks: tuple[np.ndarray, ...]
    at: np.ndarray
    trials: pd.DataFrame
    where: np.ndarray
    repeats: np.ndarray
    members: list[tuple[Any, ...]]

    def aggregated(self, score: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """values, counts, spread and lost of every cell [n_cells]."""
        scores = np.empty(0)
        if len(self.trials):
            scores = score_column(self.trials, score).where(self.trials["status"] == "completed").to_numpy(dtype=float)
        counted = _once(self.repeats, scores)
        at, scores = self.where[counted], scores[counted]
        size, finite = len(self.at), np.isfinite(scores)
        seeded = finite & (self.repeats[counted] >= 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means, counts = _means(at[finite], scores[finite], size)
            own, n = _means(at[seeded], scores[seeded], size)
            squares = np.bincount(at[seeded], (scores[seeded] - own[at[seeded]]) ** 2, minlength=size)
            spread = np.where(n > 1, np.sqrt(squares / (n - 1)), np.nan)
        return means, counts, spread, np.bincount(at[~finite], minlength=size)


def _means(where: np.ndarray, values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the values in each cell [size], and their number. where: the cell of each value."""
    counts = np.bincount(where, minlength=size)
    return np.bincount(where, values, minlength=size) / counts, counts


def _place(trials: pd.DataFrame, axes: Sequence[str] | None) -> _Placed:
    require_one(trials)
    names = tuple(axes or parameter_names(trials))
    if axes is not None and len(trials):
        require_parameters(trials, names)
    all_trials = trials = trials.sort_values([n for n in ("study", "trial_id") if n in trials], kind="stable")
    columns = np.array([parameter(trials, name) for name in names]) if len(trials) else np.empty((len(names), 0))
    required = columns[[name != "batch_size" for name in names]]
    missing: np.ndarray = np.logical_or.reduce(np.isnan(required))
    trials, columns = trials.loc[~missing], columns[:, ~missing]
    texts = {name: np.array(texts_of(all_trials, name), dtype=object) for name in choice_names(all_trials)}
    ticks, codes = zip(*(_ticks(column, name, texts.get(name)) for column, name in zip(columns, names)))
    at, where = np.unique(np.array(codes, dtype=int).T, axis=0, return_inverse=True)
    members: list[list[Any]] = [[] for _ in at]
    for row, place in zip(trials.index, where.tolist()):
        members[place].append(row)
    return _Placed(names, ticks, at, trials, where, _repeats(trials), [tuple(rows) for rows in members])


def _ticks(column: np.ndarray, name: str, texts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of an axis, ascending, and each trial's index on it. texts: of a category, by the places in the column."""
    _, first, codes = np.unique(places(column), return_index=True, return_inverse=True)
    values = column[first]  # the value itself rather than the rounded result of log2 and back
    if texts is not None:
        return texts[values.astype(int)], codes
    whole = name == "batch_size" and np.isfinite(values).all()
    return values.astype(int) if whole else values, codes


def _repeats(trials: pd.DataFrame) -> np.ndarray:
    """Group numbers [n]: equal for rows of equal seed and parameters, axes or not; -1 for an unknown seed."""
    seeds = trials["seed"].astype(float) if "seed" in trials else np.full(len(trials), np.nan)
    keys = pd.DataFrame(np.column_stack([settings(trials), seeds]))
    groups = keys.groupby(list(keys.columns), dropna=False, sort=False).ngroup().to_numpy()
    return np.where(np.isnan(seeds), -1, groups)


def _once(repeats: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Indices of the rows that count: among repeated ones the first with a value."""
    order = np.argsort(np.isnan(values), kind="stable")
    repeated = pd.Series(repeats[order]).duplicated().to_numpy() & (repeats[order] >= 0)
    counted: np.ndarray = order[~repeated]
    return counted
