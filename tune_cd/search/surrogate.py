"""The surrogate model of the default search: a Gaussian process of all trainings so far.

It predicts their values at full length, and so the leader. Every training counts: a failed one as the worst value, a
running one at its predicted value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.bracket import FAILED
from tune_cd.search.directions import Plan
from tune_cd.search.prior import Prior, draws_of
from tune_cd.search.process import Draws, Process, factors_of, likely
from tune_cd.search.space import NEGLIGIBLE, Array
from tune_cd.search.training import Training

MOST_TOLD = 200
"""The processes are told at most about so many values, so that a step's cost is bounded. Of more, half are those of the
trainings nearest to the best; the others are spread over the box, each next one the farthest from all before. Given up
is detail around any other peak, and the mean of many noisy values at one place."""

TAIL = 4.0
"""A value further below the median than TAIL times the distance from the median to the best is raised to that limit.
Very bad values say nothing about the optimum's location, and a metric without a lower bound would hide the differences
at the top."""

DOUBT = 1.0
"""A trial may fail by chance. So a failure's value has noise of DOUBT times the process's variance: a single one among
good values is hardly believed, several beside each other are."""


@dataclass(frozen=True)
class Surrogate:
    """The model of these trainings.

    trainings: at least one, in the order of asking. lengths: shares of the full length at which trainings pause.
    """

    plan: Plan
    prior: Prior
    trainings: Sequence[Training]
    lengths: tuple[float, ...]

    @cached_property
    def points(self) -> Array:
        """Coordinates of the trainings [n_trainings, n_axes]."""
        x = [[axis.coordinate(one.h[axis.name]) for axis in self.plan.space.axes] for one in self.trainings]
        return np.array(x).reshape(len(x), -1)

    @cached_property
    def process(self) -> Process:
        points, shares, _ = self._places
        return Process(points, shares, self.values, self._draws, self._factors)

    @cached_property
    def leader(self) -> int:
        """Index of the training with the best final value, known or predicted. One that failed or was left before its
        end leads only if all did."""
        failed = np.array([one.failed for one in self.trainings])
        return int(np.argmax(np.where(failed | self._stopped, -inf, self.ends)))

    @cached_property
    def ends(self) -> Array:
        """Values of all trainings at full length [n_trainings], predicted for those not yet there."""
        predicted = self.process.averaged(self.expected)
        whole = [one.last if one.share == 1 and not one.failed else np.nan for one in self.trainings]
        return np.where(np.isnan(whole), predicted, whole)

    @cached_property
    def expected(self) -> Array:
        """Predicted values of all trainings at full length, in the process's units [n_draws, n_trainings]."""
        return self.process.ends(self.points)

    def is_new(self, x: Array) -> NDArray[np.bool_]:
        """Which x [n, n_axes] are neither among the trainings nor alike one (`Axis.apart`), [n]."""
        alike = np.ones((len(x), len(self.points)), dtype=np.bool_)
        for axis, apart in enumerate(self.plan.space.apart):
            alike &= np.abs(x[:, None, axis] - self.points[:, axis]) < apart
        return np.logical_not(alike.any(axis=1))

    def best_of(self, ends: Array) -> Array:
        """The best reachable final value [n_draws, 1], from all final values `ends` [n_draws, n_trainings]."""
        return (ends if self._stopped.all() else ends[:, ~self._stopped]).max(1, keepdims=True)

    @cached_property
    def values(self) -> Array:
        """The data's values [n]: the worst for a failure, the predicted one for a running training."""
        points, shares, _ = self._places
        n = len(self._told)
        if n in (0, len(points)):
            return np.append(self._told, np.zeros(len(points) - n))
        process = Process(points[:n], shares[:n], self._told, self._draws, self._factors)
        return np.append(self._told, process.mean(points[n:], shares[n:]))

    @cached_property
    def _told(self) -> Array:
        """All values of the learning curves."""
        told = raised(np.array([value for one in self.trainings for value in one.curve.values()]))
        return told[[at in self._data for at, one in enumerate(self.trainings) for _ in one.curve]]

    @cached_property
    def _places(self) -> tuple[Array, Array, Array]:
        """The data's places: points [n, n_axes], shares [n] and doubt [n] of all values told, then of running
        trainings. A failure counts at full length."""
        told = [
            (at, 1.0, DOUBT) if value == FAILED else (at, share, 0.0)
            for at, one in self._data.items()
            for share, value in one.curve.items()
        ]  # fmt: skip
        under_way = [(at, one.until, 0.0) for at, one in self._data.items() if one.until is not None]
        places, shares, doubt = zip(*told, *under_way)
        return self.points[list(places)], np.array(shares), np.array(doubt)

    @cached_property
    def _data(self) -> dict[int, Training]:
        """The trainings that the processes are told about, by index: see MOST_TOLD."""
        sizes = np.array([len(one.curve) + (one.until is not None) for one in self.trainings])
        chosen = np.arange(len(sizes))
        if sizes.sum() > MOST_TOLD:
            space, x = self.plan.space, self.plan.space.features(self.points)
            x[:, : len(space.numeric)] /= np.maximum(space.high - space.low, NEGLIGIBLE)[space.ordered]
            best = np.argmax([one.best for one in self.trainings])
            near = np.argsort(((x - x[best]) ** 2).sum(1), kind="stable")
            chosen = near[np.cumsum(sizes[near]) <= MOST_TOLD // 2]
            gaps = ((x[:, None] - x[chosen]) ** 2).sum(-1).min(1)
            while sizes[chosen].sum() < MOST_TOLD:
                chosen = np.append(chosen, np.argmax(gaps))
                gaps = np.minimum(gaps, ((x - x[chosen[-1]]) ** 2).sum(1))
        return {at: self.trainings[at] for at in sorted(chosen.tolist())}

    @cached_property
    def _stopped(self) -> NDArray[np.bool_]:
        """Which trainings are `stopped` [n_trainings]."""
        return np.array([one.stopped for one in self.trainings])

    @cached_property
    def _draws(self) -> Draws:
        n, (points, shares, doubt) = len(self._told), self._places
        return likely(points[:n], shares[:n], self._told, draws_of(self.prior, self.plan, self.lengths), doubt[:n])

    @cached_property
    def _factors(self) -> Array:
        """Cholesky factors of all values; they begin with those of the told values alone."""
        points, shares, doubt = self._places
        return factors_of(points, shares, self._draws, doubt)


def raised(values: Array) -> Array:
    """Values [n] with a shortened lower tail (`TAIL`); failures get the lowest value that remains, or if all
    are equal a lower one."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best, worst = float(np.median(numbers)), float(numbers.max()), float(numbers.min())
    if worst == best:
        return np.maximum(values, best - max(1.0, abs(best)))
    return np.maximum(values, max(worst, median - TAIL * (best - median)))
