"""Algorithms 1 and 2 as a chain of immutable states (`algo:cd`, `algo:line_search`).

A state knows nothing of trials, workers or history: the caller brings the values. Since states are immutable values,
the caller can also look ahead, to the state after a trial that turns out better.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, nextafter, prod

import numpy as np

from tune_cd.search.bracket import FAILED, Bracket, Untried
from tune_cd.search.directions import Plan
from tune_cd.search.space import Configuration, Key
from tune_cd.search.training import Proposal

NEIGHBOURHOOD = {"paper": inf, "local": 4.0}
"""rule -> octaves to either side of the incumbent within which a line search begins, of the parameter that moves most.

paper: Algorithms 1 and 2 (`algo:cd`, `algo:line_search`), from end to end of the box, except that a repeated point is
free. A line search that comes to an evaluated configuration reads its value and goes on, where the paper's pseudo code
spends a trial.

local: the conjecture at the end of the paper's discussion. A bracket grows towards an end next to the best, as far as
the box, and begins twice as wide the next time along a direction that gained nothing."""

SLOPE, BUDGET_GROWTH = 0.02, 2
"""A line search that gained less per step than SLOPE, as a share of the range of values, multiplies its direction's
budget by BUDGET_GROWTH (the paper's appendix). The range is 1 while all values lie in [0, 1], else that seen so far."""

RESOLUTION = 1e-3
"""Octaves. A bracket at most this wide is not searched further."""


@dataclass(frozen=True)
class Trajectory:
    """One state of `algo:cd`: it proposes a configuration and, told its value, returns the next state.

    `here` and `value` are the incumbent's. `bracket` is None before the first line and after the last.
    """

    plan: Plan
    starts: tuple[Configuration, ...]  # starting points still to be evaluated
    budgets: tuple[int, ...]  # c_i
    widths: tuple[float, ...]  # first bracket by direction, octaves to either side
    here: Configuration | None = None  # h of algo:cd
    value: float = FAILED
    low: float = inf  # range of the finite values so far
    high: float = -inf
    turn: int = 0  # i of algo:cd
    origin: Configuration | None = None  # h_l of algo:line_search
    before: float = FAILED  # the value at h_l
    bracket: Bracket | Untried | None = None
    steps: int = 0
    exhausted: int = 0  # consecutive lines that would be the same if searched again

    @property
    def finished(self) -> bool:
        return not self.starts and self.exhausted >= len(self.budgets)

    def proposal(self) -> Proposal:
        """The configuration to evaluate next, and its origin; of a search that is not finished."""
        if self.starts:
            return Proposal(self.starts[0], "start", 0.0)
        origin, bracket = self._current
        position = bracket.proposal()
        h = self.plan.space.along(origin, self.plan.directions[self.turn], position)
        return Proposal(h, self.plan.names[self.turn], position)

    def told(self, h: Configuration, value: float) -> "Trajectory":
        """The next state, after the proposal h was evaluated with this value."""
        after = self
        if value != FAILED:
            after = replace(after, low=min(self.low, value), high=max(self.high, value))
        if self.starts:
            after = replace(after, starts=self.starts[1:])
            if self.here is None or value > self.value:
                after = replace(after, here=h, value=value)
            return after if after.starts else after._line()
        _, before = self._current
        bracket = before.told(before.proposal(), value)
        if bracket.interior != before.interior:
            after = replace(after, here=h, value=value)
        after = replace(after, bracket=bracket, steps=self.steps + 1)
        return after._next_line() if after._line_is_over() else after

    @property
    def _current(self) -> tuple[Configuration, Bracket | Untried]:
        """The origin and the bracket of the current line."""
        assert self.origin is not None and self.bracket is not None  # the starts were evaluated
        return self.origin, self.bracket

    def _line(self) -> "Trajectory":
        """Begin a line search from the incumbent; lines too short to search are skipped."""
        assert self.here is not None  # the starts were evaluated
        line = replace(self, origin=self.here, before=self.value, bracket=self._bracket(self.here), steps=0)
        return line._next_line() if line._line_is_over() else line

    def _bracket(self, h: Configuration) -> Bracket | Untried:
        """The first bracket of a line through the incumbent h: from end to end of the box, or a neighbourhood of h. On
        the line of a category: all its other values."""
        if (others := self.plan.others(h, self.plan.directions[self.turn])) is not None:
            return Untried(others, 0.0, self.value)
        low, high = self._chord(h)
        width = self.widths[self.turn] / self._octaves
        return Bracket(max(low, -width), 0.0, min(high, width), self.value, low, high)

    def _chord(self, h: Configuration) -> tuple[float, float]:
        space = self.plan.space
        return space.chord(space.to_coordinates(h), self.plan.directions[self.turn])

    @property
    def _octaves(self) -> float:
        """Octaves per unit of the position on the current line, of the parameter that moves fastest."""
        return float(np.abs(self.plan.directions[self.turn]).max())

    def _line_is_over(self) -> bool:
        return (self.steps >= self.budgets[self.turn] and isinstance(self.bracket, Bracket)) or self._at_resolution()

    def _at_resolution(self) -> bool:
        _, bracket = self._current
        return bracket.narrower_than(RESOLUTION / self._octaves)

    def _next_line(self) -> "Trajectory":
        """End the current line search and turn to the next direction. The line's budget grows if it was slow, its
        bracket if it gained nothing."""
        budgets, widths = list(self.budgets), list(self.widths)
        budgets[self.turn] = self._grown(budgets[self.turn])
        deeper = budgets[self.turn] > self.budgets[self.turn] and not self._at_resolution()
        gained = self.value > self.before
        origin, bracket = self._current
        wider = not gained and isinstance(bracket, Bracket)  # unless it reaches as far as the box
        wider = wider and widths[self.turn] < self._octaves * max(map(abs, self._chord(origin)))
        widths[self.turn] *= 2 if wider else 1
        exhausted = 0 if deeper or wider or gained else self.exhausted + 1
        turn = (self.turn + 1) % len(budgets)
        after = replace(self, budgets=tuple(budgets), widths=tuple(widths), turn=turn, exhausted=exhausted)
        return replace(after, bracket=None) if after.finished else after._line()

    def _grown(self, budget: int) -> int:
        """c_i <- c_i(history): a gain per step below the threshold multiplies the direction's budget."""
        if self.steps == 0:
            return budget
        seen = 1.0 if self.low >= 0 and self.high <= 1 else self.high - self.low
        slow = self.value == self.before or self.value - self.before < SLOPE * seen * self.steps  # equal: two failures
        return budget * BUDGET_GROWTH if slow else budget


STATES = 2048
"""Number of states that a look ahead examines before giving up; a hundred live trials need a few hundred."""


def needed_next(state: Trajectory, known: Mapping[Key, float | None]) -> Proposal | None:
    """The first unknown configuration on any course that the search may take from `state`, breadth first; else None.

    Further workers get what may be needed next, while earlier values are missing. The trajectory itself does not
    change: it reads the same values in the same order as with one worker, only sooner.
    known: values by `Space.key`, None where the trial is live. A live trial may turn out worse than the incumbent, or
    better. Configurations that are needed after fewer such uncertain outcomes come first.
    """
    space = state.plan.space
    if len(known) >= prod(axis.size for axis in space.axes):
        return None
    key, ahead = space.key, deque([state])
    for _ in range(STATES):
        if not ahead:
            return None
        state = ahead.popleft()
        if state.finished:
            continue
        proposal = state.proposal()
        if key(proposal.h) not in known:
            return proposal
        value = known[key(proposal.h)]
        if value is not None:
            ahead.appendleft(state.told(proposal.h, value))
        else:
            ahead.extend(state.told(proposal.h, outcome) for outcome in _outcomes(state))
    return None


def _outcomes(state: Trajectory) -> tuple[float, ...]:
    """One value for each outcome of a comparison with the incumbent; against a failure there is only one."""
    better = nextafter(state.value, inf)
    return (better,) if state.value == FAILED else (FAILED, better)
