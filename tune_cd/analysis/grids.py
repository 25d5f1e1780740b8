"""Landscapes as labelled grids: M(h) over (Lambda_p, Lambda_e, b), averaged over seeds (`fig:hp_omniglot`).

landscape = grid(results.read("results", "my-grid"), "test_score")
landscape.top(8, batch_size=64)         # the blue squares of fig:hp_omniglot
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pandas as pd

from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import (
    categories,
    coded,
    parameter,
    parameter_names,
    places,
    score_column,
    score_words,
    settings,
    sign_of_score,
)

MEASURED = ("value", "count", "spread", "lost")
"""The columns of a table of cells besides the parameters."""

SEED = "seed of the training"
"""A column beside those of parameters, of which one may be called seed."""


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
        """Median octaves between neighbours on each axis; NaN for one value, one of 0 or less, or a category."""
        told = (len(tick) > 1 and tick.dtype != object and tick[0] > 0 for tick in self.ticks)
        return tuple(float(np.median(np.diff(np.log2(tick)))) if t else np.nan for tick, t in zip(self.ticks, told))

    def frame(self) -> pd.DataFrame:
        """One row per cell: the parameters, then value, count, spread and lost."""
        names = [f"{name} (parameter)" if name in MEASURED else name for name in self.names]  # a user's own "value"
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
            sizes = dict(zip(self.names, self.ticks)).get("batch_size", np.array([]))
            if batch_size not in sizes:
                raise ValueError(f"batch_size {batch_size}: one of {sizes.tolist()}")
            frame = frame[frame["batch_size"] == batch_size]
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
    for axes that span more than LARGEST cells, as the trials of a search soon do; `means_over_seeds` has a row for each
    of their settings.
    """
    require_one(trials)
    names = tuple(axes or parameter_names(trials))
    texts = {name: np.array(coded(own)[0], dtype=object) for name, own in categories(trials).items()}
    trials = trials.sort_values([name for name in ("study", "trial_id") if name in trials], kind="stable")
    columns = np.array([parameter(trials, name) for name in names]) if len(trials) else np.empty((len(names), 0))
    for name, column in zip(names, columns if axes is not None and len(trials) else ()):
        if name != "batch_size" and np.isnan(column).all():
            raise ValueError(f"parameter {name!r}: one of {parameter_names(trials)}")
    known = np.flatnonzero(~np.isnan(columns[[name != "batch_size" for name in names]]).any(axis=0))
    trials, columns = trials.iloc[known], columns[:, known]
    ticks, codes = zip(*(_ticks(column, name, texts.get(name)) for column, name in zip(columns, names)))
    shape = tuple(map(len, ticks))
    if prod(shape) > LARGEST:
        raise ValueError(f"{' x '.join(map(str, shape))} cells of {len(trials)} trials: at most {LARGEST:,}")
    where = np.ravel_multi_index(np.array(codes), shape) if len(trials) else np.empty(0, dtype=int)
    found = _measured(trials, score, np.asarray(where))

    def dense(name: str, hole: float) -> np.ndarray:
        """A column of the tried cells as an array over all cells."""
        column = found[name].to_numpy()
        array = np.full(shape, hole, dtype=column.dtype)
        array.flat[found.index.to_numpy(dtype=int)] = column
        return array

    arrays = dense("value", np.nan), dense("count", 0), dense("spread", np.nan), dense("lost", 0)
    return Grid(score, names, ticks, *arrays, score_words(trials, score), sign_of_score(trials, score))


def grid_rows(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that may make up a grid: those of the search `grid` if it was run, else all."""
    asked = trials[trials["search"] == "grid"] if "search" in trials else trials
    return asked if len(asked) else trials


def is_grid(trials: pd.DataFrame, names: Sequence[str]) -> bool:
    """Whether the trials are a grid's over two or more parameters: of the search `grid`, whose cells may be coarser
    where little is to be seen, or at least half of the product of the values."""
    columns = {name: parameter(trials, name) for name in names}
    if len(names) < 2 or not len(trials) or any((column <= 0).any() for column in columns.values()):
        return False
    at = pd.DataFrame({name: places(column) for name, column in columns.items()}).dropna()
    sizes = [at[name].nunique() for name in names]
    full = len(at.drop_duplicates()) >= 0.5 * prod(sizes)
    return bool(min(sizes[:2]) >= 3 and (full or (trials["search"] == "grid").all()))


LARGEST = 4_000_000
"""Largest number of cells of a dense grid: a thousand times the paper's."""


def _measured(trials: pd.DataFrame, score: str, where: np.ndarray) -> pd.DataFrame:
    """MEASURED of each cell; where: the cell of each training. Among repeated trainings the first with a score counts,
    those of an unknown seed all."""
    rows = pd.DataFrame({"cell": where, "value": np.nan, "seeded": False})
    if len(trials):
        rows["value"] = score_column(trials, score).where(trials["status"] == "completed").to_numpy(dtype=float)
        rows["seeded"] = trials["seed"].notna().to_numpy() if "seed" in trials else False
    repeats = settings(trials).assign(**{SEED: trials.get("seed")}).set_axis(rows.index)
    first = rows.assign(gap=rows["value"].isna()).sort_values("gap", kind="stable").index
    rows = rows.loc[first[~(repeats.loc[first].duplicated() & rows["seeded"].loc[first])]]
    scores, cell = rows["value"].where(np.isfinite(rows["value"])), rows["cell"]
    with np.errstate(over="ignore", invalid="ignore"):
        found = pd.DataFrame({"value": scores.groupby(cell).mean(), "count": scores.groupby(cell).count()})
        found["spread"] = scores.where(rows["seeded"]).groupby(cell).std()
    return found.assign(lost=cell.groupby(cell).size() - found["count"])


def _ticks(column: np.ndarray, name: str, texts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of an axis, ascending, and each trial's index on it. texts: of a category, by the places in the column."""
    _, first, codes = np.unique(places(column), return_index=True, return_inverse=True)
    values = column[first]  # the value itself rather than the rounded result of log2 and back
    if texts is not None:
        return texts[values.astype(int)], codes
    whole = name == "batch_size" and np.isfinite(values).all()
    return values.astype(int) if whole else values, codes
