"""Coordinate descent whose next line and point are chosen from the data: the default search.

Like `algo:cd`, each step moves along one line through the best point found so far. Unlike there, the line is not fixed
by turn and budget: a small Gaussian process (`gaussian_process`) compares all points of all lines, along the directions
of A and along the single axes, and the largest expected improvement is evaluated next. Directions of A alone get stuck
on measured landscapes, axes alone are slow on smooth ridges; which one helps is only seen in the data. What the
process believes before it has seen any value is in `beliefs`.

Any number of trials may be live. Each counts as evaluated, at the value the process believes it to have, but no better
than the best told; lines through the likeliest of them are compared too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.beliefs import Belief, along_rows, trades
from tune_cd.search.gaussian_process import Prior, Surrogate
from tune_cd.search.golden_section import FAILED
from tune_cd.search.line_search import Plan
from tune_cd.search.lines import Line, candidates, lines_through, locate
from tune_cd.search.protocol import Proposal
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Key, Space

APART = 0.02
"""Nothing is evaluated within so many octaves, on every axis, of an evaluated point."""

CENTRE, BALANCED = 2.0, 2.0
"""The expected improvement is weighted by exp(-(CENTRE·|u|² + BALANCED·(a·u)²)/2), u = ±1 at the ends of each axis and
a any direction that trades parameters. A box is drawn around what seems likely, extreme balances least so, while a
Gaussian process prefers the corners, of which it knows least. Without the weight (both 0) AUC@20 falls by .06 on both
measured landscapes, .03 on omniglot's ridge, .04 on the narrow one."""

AROUND_TRADING, AROUND_SCALING = 6.0, 4.0
"""Where a start is given, half the weight is a Gaussian around it, so many octaves wide along directions that trade and
all others: a recipe in use has a tuned learning rate more often than a tuned balance. From equal weights AUC@10 rises
by .06 to .13 on the smooth ridges, .03 on the margin grid, .39 on a rotated needle ridge. All of the weight there would
gain no more, and where the start is a random point it loses .06 to .13 of AUC@20 (half of the weight: .02 to .04)."""

CLOSE_FROM, CLOSE_EVERY = 15, 3
"""From 15 trials on, `Belief.close_turns` in three look closely: with short length scales, and by any improvement
however small. From 12 on instead, AUC@20 is .006 higher on the InfoNCE grid, but n-95 on the margin grid is 18 instead
of 15; from 18 on, .006 lower and the same."""

PROMISE, PATIENCE = 1e-3, 9
"""Finished when each of the last PATIENCE trials promised to gain less than PROMISE of the range of the values. Smooth
ridges without noise end after 50 to 77 trials, the measured grids after 39 to 79. Of 40 runs on a needle ridge none
ended on its floor, of 2e-3 one, after 68. Without patience it is 2 of 5."""

LIVE_LINES, LIVE_MARGIN = 3, 0.3
"""While trials are live, the lines through so many of them, the likeliest, are compared with the best's. With none,
n-95 with 8 workers is 26 instead of 18 on the margin grid and 25 instead of 17 on the narrow ridge; all would be no
better. And an improvement counts from at least LIVE_MARGIN above the best, which will have risen before this trial
ends: from 0.1, n-95 with 4 workers is 13 instead of 10 on the narrowest fitted ridge."""

FIRST_WEIGHT = 0.25
"""While only failures are told, the point of largest uncertainty is asked, times the weight to this power: workers
start far apart. AUC@20 with 8 workers for 1, 0.5, 0.25, 0: narrow ridge .61 .64 .66 .61, margin grid .53 .54 .54
.51."""

TAIL = 4.0
"""Values further below the median than TAIL times what the best is above it count as that far below. Very bad values
say nothing of where the best is, and a metric without a lower bound would hide the differences at the top."""


@dataclass(frozen=True)
class Guided:
    """A state of the search: what was told and what is live, both in asking order, and what follows from it.

    starts: configurations to be evaluated before anything is modelled. told: (h, value), FAILED for a failure.
    live: asked and not yet told. blind: the starts say nothing of where the best is.
    """

    plan: Plan
    belief: Belief
    starts: tuple[Configuration, ...]
    told: tuple[tuple[Configuration, float], ...] = ()
    live: tuple[Configuration, ...] = ()
    blind: bool = True

    @property
    def finished(self) -> bool:
        """True when no line promises more than the noise (`PROMISE`), or everything on all of them is evaluated."""
        return self._next is None

    def proposal(self) -> Proposal:
        """Raises ValueError when finished."""
        if self._next is None:
            raise ValueError("nothing is left to propose: the search is finished")
        return self._next

    @cached_property
    def _next(self) -> Proposal | None:
        known = {self.plan.space.key(h) for h in self._asked}
        for h in self.starts:
            if self.plan.space.key(h) not in known:
                return Proposal(h, "start", 0.0)
        if self._settled:
            return None
        through = (self._best_through(group) for group in self._incumbents())
        return next((proposal for proposal in through if proposal is not None), None)

    @cached_property
    def _asked(self) -> list[Configuration]:
        return [*(h for h, _ in self.told), *self.live]

    def _incumbents(self) -> Iterator[Sequence[Configuration]]:
        """Whose lines are compared; the next group counts only where the one before has nothing left.

        First the best told and the likeliest live ones (`LIVE_LINES`), or all there are while no trial has a value.
        """
        if not self._any_value:
            yield self._asked
            return
        ranked = [h for h, _ in sorted(self.told, key=lambda pair: -pair[1])]  # of equals the first asked
        likeliest = np.argsort(-self._values[len(self.told) :], kind="stable")
        live = [self.live[at] for at in likeliest]
        yield [*ranked[:1], *live[:LIVE_LINES]]
        yield from ([h] for h in [*ranked[1:], *live[LIVE_LINES:]])

    def _best_through(self, incumbents: Sequence[Configuration]) -> Proposal | None:
        """The most promising new configuration on the lines through `incumbents`; None if there is none."""
        through = [line for h in incumbents for line in lines_through(self.plan, h, self.belief.pairs)]
        score, line, position = self._most(through)
        if score < 0:
            return None
        finer, _, fine = self._most([line.around(position)])
        return line.at(fine if finer > score else position)

    def _most(self, lines: Sequence[Line]) -> tuple[float, Line, float]:
        """The largest score on any of the lines, of equals the first, with its line and position; -1: no point is
        new."""
        x = candidates(lines)
        score = np.where(self._is_new(x), self._score(x), -1.0)
        at = int(np.argmax(score))
        return float(score[at]), *locate(lines, at)

    def _is_new(self, x: Array) -> NDArray[np.bool_]:
        return is_new(x, self._points)

    def _score(self, x: Array) -> Array:
        """By which x [n, n_axes] are chosen [n]: the weighted expected improvement; at first, see FIRST_WEIGHT."""
        if not self._any_value:
            return self._surrogate.posterior(x)[1] * self._weight(x) ** FIRST_WEIGHT
        return self._improvement(x, self._margin) * self._weight(x)

    def _improvement(self, x: Array, margin: float) -> Array:
        return self._surrogate.expected_improvement(x, margin)

    @cached_property
    def _settled(self) -> bool:
        """Whether nothing was promised to the last PATIENCE told, this one included. The first ones do not count."""
        n = len(self.told)
        if n - PATIENCE < CLOSE_FROM - 1:
            return False
        return all(self._after(m)._promise < PROMISE for m in range(n, n - PATIENCE, -1))

    def _after(self, told: int) -> "Guided":
        """The state when so many were told and nothing was live."""
        return self if told == len(self.told) and not self.live else replace(self, told=self.told[:told], live=())

    @cached_property
    def _promise(self) -> float:
        """The largest expected improvement on any line, whatever its weight, as a share of the range of the values."""
        best, _ = max(self.told, key=lambda pair: pair[1])
        x = candidates(lines_through(self.plan, best, self.belief.pairs))
        gain = np.where(self._is_new(x), self._improvement(x, 0.0), 0.0).max()
        return float(gain * self._surrogate.spread / (np.ptp(self._values) or 1.0))

    def _weight(self, x: Array) -> Array:
        """How likely the best was at x [n, n_axes] before anything was told, [n], as far as that still counts:
        see `Belief.fades_from`."""
        start = None if self.blind else self._start
        return first_weight(self.plan, x, start) ** min(1.0, self.belief.fades_from / max(1, len(self.told)))

    @cached_property
    def _start(self) -> Array | None:
        """Coordinates [n_axes] of the best of the starts that did not fail; None where all did."""
        return start_left(self.plan.space, self.starts, {self.plan.space.key(h): value for h, value in self.told})

    @cached_property
    def _any_value(self) -> bool:
        return any(value > FAILED for _, value in self.told)

    @cached_property
    def _points(self) -> Array:
        """Coordinates [n_told + n_live, n_axes]."""
        return np.array([self.plan.space.to_coordinates(h) for h in self._asked])

    @cached_property
    def _values(self) -> Array:
        """What the model is told of each point [n_told + n_live]: of live ones its own belief, at most the best told.

        The least or the median value told instead cost .002 to .026 of AUC@20 on ridges, with 4 workers.
        """
        told = raised(np.array([value for _, value in self.told]))
        if not self.told or not self.live:
            return np.append(told, np.zeros(len(self.live)))
        points = self._points
        believed = Surrogate(points[: len(told)], told, self._prior).mean(points[len(told) :])
        return np.append(told, np.minimum(believed, told.max()))

    @cached_property
    def _surrogate(self) -> Surrogate:
        return Surrogate(self._points, self._values, self._prior)

    @cached_property
    def _prior(self) -> Prior:
        return self.belief.prior(self.plan, self._closely)

    @cached_property
    def _closely(self) -> bool:
        """Whether this trial looks closely (CLOSE_FROM); none does while all values are equal: nothing suggests a
        ridge."""
        turn = len(self.told) >= CLOSE_FROM and len(self._asked) % CLOSE_EVERY < self.belief.close_turns
        return turn and len({value for _, value in self.told}) > 1

    @property
    def _margin(self) -> float:
        """What an improvement has to exceed: see `Belief.margin_until` and LIVE_MARGIN."""
        if self._closely:
            return 0.0
        n = len(self.told) if self.blind else inf
        margin = 1 / min(n, self.belief.margin_until)
        return max(margin, LIVE_MARGIN) if self.live else margin


def is_new(x: Array, points: Array) -> NDArray[np.bool_]:
    """Which x [n, n_axes] lie APART from all points [n_points, n_axes], [n]."""
    near = [np.abs(ours[:, None] - theirs) < APART for ours, theirs in zip(x.T, points.T)]
    known: NDArray[np.bool_] = np.logical_and.reduce(near).any(1)
    return ~known


def raised(values: Array) -> Array:
    """Values [n] with a short lower tail (`TAIL`); failures count as the worst that is left."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best = np.median(numbers), numbers.max()
    return np.maximum(values, max(float(numbers.min()), float(median - TAIL * (best - median))))


def first_weight(plan: Plan, x: Array, start: Array | None) -> Array:
    """How likely the best was at x [n, n_axes] before anything was told, [n]: see CENTRE and AROUND_TRADING.

    start: coordinates [n_axes] of a start that someone chose, or None.
    """
    low, high = plan.space.low, plan.space.high
    u = (2 * x - low - high) / np.maximum(high - low, NEGLIGIBLE)
    trading = [row / np.abs(row).max() for row in plan.directions if trades(row)]
    unbalance = u @ np.array(trading).reshape(-1, x.shape[1]).T  # [n, trading directions]
    central: Array = np.exp(-(CENTRE * (u**2).sum(-1) + BALANCED * (unbalance**2).sum(-1)) / 2)
    if start is None:
        return central
    away = (x - start) @ along_rows(plan, AROUND_TRADING, AROUND_SCALING).T
    around: Array = np.exp(-(away**2).sum(-1) / 2)
    return (central + around) / 2


def start_left(space: Space, starts: Sequence[Configuration], values: Mapping[Key, float]) -> Array | None:
    """Coordinates [n_axes] of the best of the starts that did not fail, by their values; None where all did."""
    left = [h for h in starts if values.get(space.key(h)) != FAILED]
    best = max(left, key=lambda h: values.get(space.key(h), FAILED), default=None)
    return None if best is None else space.to_coordinates(best)
