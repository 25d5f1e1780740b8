"""Slices of measured landscapes at one batch size, and intervals of differences between their cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, log2, nan, sqrt

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import Grid, grid, reachable
from tune_cd.analysis.intervals import student
from tune_cd.landscapes.measured import Measured

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
VERDICTS = (HOLDS, FAILS, OPEN)

Cell = tuple[int, ...]
"""Indices of a cell on a slice's grid, one per weight."""


@dataclass(frozen=True, eq=False)
class Slice:
    """A measured landscape at one batch size."""

    landscape: Measured
    batch_size: int

    @cached_property
    def rows(self) -> pd.DataFrame:
        return self.landscape.at(self.batch_size).rows()

    @cached_property
    def validation(self) -> Grid:
        return grid(self.rows, "val_score")

    @cached_property
    def test(self) -> Grid:
        return grid(self.rows, "test_score")

    @cached_property
    def noise(self) -> tuple[float, int]:
        """Standard deviation of test scores between seeds near the best, and its degrees of freedom."""
        return self.landscape.noise_and_freedom(self.batch_size, score="test_score")

    @property
    def k(self) -> int:
        return int(self.landscape.about["setup"].get("k", 2))

    @property
    def averages(self) -> tuple[str, ...]:
        return balance.averages_of(self.landscape.about["loss"], self.landscape.pairwise)

    def on(self, average: str) -> np.ndarray:
        """Mask [n_p, n_e] of cells that an average reaches by its learning rate alone, to half the finest step."""
        step = float(np.diff(np.log2(self.test.ticks[1])).min())
        if average != balance.PUBLISHED:
            return reachable(self.test, average, self.k, within=step / 2)[..., 0]
        published = self.landscape.published
        rates = [np.log2(tick / published[name]) for name, tick in zip(self.test.names, self.test.ticks[:-1])]
        first, *others = np.meshgrid(*rates, indexing="ij")
        near: np.ndarray = np.all([np.abs(other - first) <= step / 2 + 1e-9 for other in others], axis=0)
        return near

    def away(self, cell: Cell, average: str) -> float:
        """Signed octaves from a cell to the diagonal of an average: positive with more weight on the entropy term.

        For other losses: of the weight that is furthest from its published ratio to the first.
        """
        weights = self.weights(cell)
        if average != balance.PUBLISHED:
            return balance.off_diagonal(weights, average, self.batch_size, self.k)
        first, *others = (log2(weights[name] / coefficient) for name, coefficient in self.landscape.published.items())
        return max((other - first for other in others), key=abs)

    def best(self, among: np.ndarray | None = None) -> Cell:
        """The cell with the best validation score. among: mask [n_p, n_e] of cells to choose from; None: all."""
        scores = self.validation.values[..., 0]
        scores = scores if among is None else np.where(among, scores, np.nan)
        return tuple(map(int, np.unravel_index(np.nanargmax(scores), scores.shape)))

    def weights(self, cell: Cell) -> dict[str, float]:
        return {name: float(tick[at]) for name, tick, at in zip(self.landscape.weights, self.test.ticks, cell)}

    def said(self, cell: Cell) -> str:
        """A cell's weights as text for tables."""
        return ", ".join(f"{value:.3g}" for value in self.weights(cell).values())

    def nearest(self, weights: Mapping[str, float]) -> Cell:
        """The trained cell nearest to some weights, in octaves; it may have diverged."""
        trained = np.argwhere(self.test.counts[..., 0] + self.test.lost[..., 0] > 0)
        at = np.column_stack([np.log2(tick[cells]) for tick, cells in zip(self.test.ticks, trained.T)])
        wanted = np.log2([weights[name] for name in self.landscape.weights])
        return tuple(map(int, trained[np.linalg.norm(at - wanted, axis=1).argmin()]))

    def score(self, cell: Cell) -> float:
        """Test score of a cell; 0 where training diverged."""
        return float(np.nan_to_num(self.test.values[(*cell, 0)]))

    def variance(self, cell: Cell) -> float:
        """Variance of a cell's mean test score over its seeds."""
        return self.noise[0] ** 2 / max(1, int(self.test.counts[(*cell, 0)]))


def slices(landscapes: Sequence[Measured]) -> list[Slice]:
    """One slice for every landscape and batch size."""
    return [Slice(one, size) for one in landscapes for size in one.axes["batch_size"].tolist()]


def above(value: float, half: float, least: float, alike: float) -> str:
    """HOLDS where a value ± half is above `least`, FAILS where it is below `alike`, else OPEN; OPEN for NaN."""
    if isnan(half):
        return OPEN
    return HOLDS if value - half > least else FAILS if value + half < alike else OPEN


def below(value: float, half: float, most: float) -> str:
    """HOLDS where a value ± half is below `most`, FAILS where it is above, else OPEN; OPEN for NaN."""
    if isnan(half):
        return OPEN
    return HOLDS if value + half < most else FAILS if value - half > most else OPEN


def half_of(parts: Sequence[Slice], cells: Sequence[Cell], share: float = 1.0) -> float:
    """Half the 95 % interval of the first cell's test score less `share` of the second's; parts: their slices.

    0 for a cell and itself, NaN where the noise is unknown.
    """
    if parts[0] is parts[1] and cells[0] == cells[1]:
        return 0.0
    freedom = min(part.noise[1] for part in parts)
    if not freedom:
        return nan
    return student(freedom) * sqrt(parts[0].variance(cells[0]) + share**2 * parts[1].variance(cells[1]))
