"""Coordinate descent that also decides how long to train: short first, then on with what is worth it.

A training can pause at some shares of its full length, and go on later. Each step is a new configuration on a line
through the best, trained to the shortest share, or a paused training that goes on. Of all of them the one is taken that
is expected to raise most, per image, what the best is believed to reach at full length (`curve_process`). So cheap
trials explore while little is known, and as the search narrows lengths grow by themselves: once short trainings of
neighbours tell nothing new, only longer ones do.

A paused training is never given up: it goes on whenever that has become the best use of the next images. What is asked
next depends on how far each training is and which are under way, and on nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.beliefs import Belief, over_lengths
from tune_cd.search.curve_process import CurveProcess
from tune_cd.search.gaussian_process import Prior
from tune_cd.search.golden_section import FAILED
from tune_cd.search.line_search import Plan
from tune_cd.search.lines import Line, candidates, lines_through, locate
from tune_cd.search.model_guided import (
    CLOSE_EVERY,
    CLOSE_FROM,
    FIRST_WEIGHT,
    LIVE_LINES,
    LIVE_MARGIN,
    PATIENCE,
    PROMISE,
    first_weight,
    is_new,
    raised,
    start_left,
)
from tune_cd.search.protocol import Proposal
from tune_cd.search.space import Array, Configuration

LENGTHS = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the full length at which trainings pause."""

CLOSE_AFTER = 5.0
"""From so many full trainings' worth on, some steps look closely (`model_guided.CLOSE_FROM`). Counted in short
trainings they would begin too soon, and wander about the first promising place."""


@dataclass(frozen=True)
class Paused:
    """A training so far. looks: (share of the full length, value) ascending, FAILED for a training that failed or
    diverged, which ends it; until: the share that it is being trained to, None where it is paused or at its end."""

    h: Configuration
    looks: tuple[tuple[float, float], ...] = ()
    until: float | None = None

    @property
    def failed(self) -> bool:
        return bool(self.looks) and self.looks[-1][1] == FAILED

    @property
    def share(self) -> float:
        """How much of it is done; all of it where it failed."""
        return 1.0 if self.failed else self.looks[-1][0] if self.looks else 0.0


@dataclass(frozen=True)
class Step:
    """What to train next: a configuration, new or paused, until a share of the full length."""

    proposal: Proposal
    until: float


@dataclass(frozen=True)
class Thawing:
    """A state of the search, and what follows from it.

    lengths: see LENGTHS, ascending, the last is 1. trainings: in the order of asking. left: what may still be asked
    for, in full trainings. blind: the starts say nothing of where the best is.
    """

    plan: Plan
    belief: Belief
    lengths: tuple[float, ...]
    starts: tuple[Configuration, ...]
    trainings: tuple[Paused, ...] = ()
    left: float = inf
    blind: bool = True

    @cached_property
    def step(self) -> Step | None:
        """What to train next; None: nothing, until a training under way has ended, or at all."""
        known = {self.plan.space.key(training.h) for training in self.trainings}
        for h in self.starts:
            if self.plan.space.key(h) not in known:
                return self._affordable(h)
        if not self._any_value:
            return self._first()
        if self._settled:
            return self._finish()
        found = max(self._steps(), key=lambda scored: scored[0], default=(0.0, None))[1]
        return self._finish() if found is None else found

    def _affordable(self, h: Configuration) -> Step | None:
        return Step(Proposal(h, "start", 0.0), self.lengths[0]) if self.lengths[0] <= self.left else None

    def _first(self) -> Step | None:
        """While only failures are told, as in `model_guided.FIRST_WEIGHT`."""
        if self.lengths[0] > self.left:
            return None
        through = [line for training in self.trainings for line in lines_through(self.plan, training.h)]
        x = candidates(through)
        deviation = self._process.deviation(x)
        score = np.where(self._is_new(x), deviation * self._weight(x) ** FIRST_WEIGHT, -1.0)
        line, position = locate(through, int(np.argmax(score)))
        return Step(line.at(position), self.lengths[0])

    def _steps(self) -> Iterator[tuple[float, Step]]:
        """Steps that can be paid for, each with what it is worth an image: every paused training's, and the best new
        one."""
        shares = np.array([one.share for one in self.trainings])
        for share in self.lengths:
            on = [at for at in self._waiting if 0 < share - shares[at] <= self.left - self._reserve(at)]
            for at, worth in zip(on, self._worth(self._points[on], share) if on else ()):
                yield worth / (share - shares[at]), Step(self._again(at), share)
        if self.lengths[0] <= self.left - self._reserve(None):
            worth, proposal = self._newest()
            if proposal is not None:
                yield worth / self.lengths[0], Step(proposal, self.lengths[0])

    def _worth(self, x: Array, share: float) -> Array:
        """Of training configurations x [n, n_axes] to this length, [n]: the weighted gain that is expected."""
        worth: Array = self._process.gain(x, share, self._above) * self._weight(x)
        return worth

    def _newest(self) -> tuple[float, Proposal | None]:
        """The new configuration on the lines through the best that is worth most, and its worth."""
        best = [self.trainings[at].h for at in self._incumbents]
        through = [line for h in best for line in lines_through(self.plan, h, self.belief.pairs)]
        worth, line, position = self._most(through)
        if worth < 0:
            return worth, None
        finer, _, fine = self._most([line.around(position)])
        return max(worth, finer), line.at(fine if finer > worth else position)

    def _most(self, lines: Sequence[Line]) -> tuple[float, Line, float]:
        x = candidates(lines)
        score = np.where(self._is_new(x), self._worth(x, self.lengths[0]), -1.0)
        at = int(np.argmax(score))
        return float(score[at]), *locate(lines, at)

    def _finish(self) -> Step | None:
        """The best believed to its end, where it is not there yet. That was kept of the budget."""
        at = self.leader
        if self.trainings[at].share == 1 or self.trainings[at].until is not None:
            return None
        return Step(self._again(at), 1.0)

    @cached_property
    def _settled(self) -> bool:
        """Whether no step promises more than PROMISE of the range of the values."""
        return len(self.trainings) >= CLOSE_FROM + PATIENCE and not self._closely and self._promise < PROMISE

    @cached_property
    def _promise(self) -> float:
        """The largest gain of any step, whatever its weight and cost, as a share of the range of the values."""
        x = candidates(lines_through(self.plan, self.trainings[self.leader].h, self.belief.pairs))
        known = self._points[self._waiting]
        gains = [
            np.where(self._is_new(x), self._process.gain(x, 1.0, self._best_end), 0.0),
            self._process.gain(known, 1.0, self._best_end) if len(known) else np.zeros(0),
        ]
        return float(np.concatenate(gains).max()) * self._process.spread / (np.ptp(self._data[2]) or 1.0)

    def _reserve(self, at: int | None) -> float:
        """What is kept to finish the leader, unless this training is it."""
        leader = self.trainings[self.leader]
        if at == self.leader:
            return 0.0
        return 1 - max(leader.share, leader.until or 0.0)

    def _again(self, at: int) -> Proposal:
        return Proposal(self.trainings[at].h, "again", 0.0)

    @cached_property
    def _waiting(self) -> list[int]:
        """Trainings that could go on."""
        return [at for at, one in enumerate(self.trainings) if one.until is None and one.share < 1]

    @cached_property
    def leader(self) -> int:
        """The training that is believed to end best; a failed one only where all did."""
        means = self._process.mean(self._points)
        return int(np.argmax(np.where([one.failed for one in self.trainings], -inf, means)))

    @cached_property
    def _incumbents(self) -> list[int]:
        """Whose lines are compared: the leader's, and those of the likeliest that are under way for the first time."""
        means = self._process.mean(self._points)
        live = [at for at, one in enumerate(self.trainings) if not one.looks]
        likeliest = sorted(live, key=lambda at: -means[at])[:LIVE_LINES]
        return list(dict.fromkeys([self.leader, *likeliest]))

    @cached_property
    def _best_end(self) -> Array:
        """What is expected of the best training's end [n_draws, 1], in standardised units."""
        best: Array = self._process.ends(self._points).max(1, keepdims=True)
        return best

    @property
    def _above(self) -> Array:
        """What an end must exceed to be worth anything [n_draws, 1]."""
        above: Array = self._best_end + self._margin
        return above

    def _is_new(self, x: Array) -> NDArray[np.bool_]:
        return is_new(x, self._points)

    def _weight(self, x: Array) -> Array:
        start = None if self.blind else self._start
        told = sum(bool(one.looks) for one in self.trainings)
        return first_weight(self.plan, x, start) ** min(1.0, self.belief.fades_from / max(1, told))

    @cached_property
    def _start(self) -> Array | None:
        values = {self.plan.space.key(one.h): one.looks[-1][1] for one in self.trainings if one.looks}
        return start_left(self.plan.space, self.starts, values)

    @cached_property
    def _any_value(self) -> bool:
        return any(one.looks and not one.failed for one in self.trainings)

    @cached_property
    def _points(self) -> Array:
        """Coordinates [n_trainings, n_axes]."""
        return np.array([self.plan.space.to_coordinates(one.h) for one in self.trainings])

    @cached_property
    def _data(self) -> tuple[Array, Array, Array]:
        """What the process is told: points [n, n_axes], shares [n], values [n]. A failure counts at full length, as the
        worst; what is under way, as what is believed of it."""
        looks = [(at, share, value) for at, one in enumerate(self.trainings) for share, value in one.looks]
        points = self._points[np.array([at for at, _, _ in looks], dtype=int)]
        shares = np.array([1.0 if value == FAILED else share for _, share, value in looks])
        values = raised(np.array([value for _, _, value in looks]))
        under_way = [(at, one.until) for at, one in enumerate(self.trainings) if one.until is not None]
        if not under_way:
            return points, shares, values
        theirs = self._points[[at for at, _ in under_way]]
        believed = np.zeros(len(under_way))
        if looks:
            process = CurveProcess(points, shares, values, self._prior)
            believed = np.array([process.mean(x[None], until)[0] for x, (_, until) in zip(theirs, under_way)])
        untils = [until for _, until in under_way]
        return np.concatenate([points, theirs]), np.append(shares, untils), np.append(values, believed)

    @cached_property
    def _process(self) -> CurveProcess:
        return CurveProcess(*self._data, self._prior)

    @cached_property
    def _prior(self) -> Prior:
        return over_lengths(self.belief.prior(self.plan, self._closely))

    @cached_property
    def _closely(self) -> bool:
        """Whether this step looks closely (`model_guided.CLOSE_FROM`)."""
        told = [value for one in self.trainings for _, value in one.looks]
        worth = sum(one.share for one in self.trainings)
        turn = len(told) + sum(one.until is not None for one in self.trainings)
        return worth >= CLOSE_AFTER and turn % CLOSE_EVERY < self.belief.close_turns and len(set(told)) > 1

    @property
    def _margin(self) -> float:
        if self._closely:
            return 0.0
        n = sum(bool(one.looks) for one in self.trainings) if self.blind else inf
        margin = 1 / max(1.0, min(n, self.belief.margin_until))
        return max(margin, LIVE_MARGIN) if any(one.until is not None for one in self.trainings) else margin
