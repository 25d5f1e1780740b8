"""Search along one line of a space until its best is bracketed: the learning rate alone, at the balance of a recipe.

It is `PausingDescent` over the position on the line. Golden section, used here before, ends in any one of several
peaks: on the diagonal of the global average of `omniglot-242-margin` it ends with .34 to .52, this search with .52,
where .52 is the best (12 searches with the noise between seeds; the table is in `tests/benchmarks/RESULTS.md`).
"""

from collections.abc import Mapping, Sequence
from math import inf, log2
from typing import Any

import numpy as np

from tune_cd.search.golden_section import FAILED
from tune_cd.search.model_guided import LENGTHS
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.protocol import Proposal, is_free
from tune_cd.search.space import AT_END, Array, Axis, Configuration, Key, Space

RATE_RESOLUTION = 2 / 3
"""Octaves. A learning rate counts as tuned when its nearest tried neighbours on both sides are this close together.

A third of an octave costs half as much again, and finds the same (`tests/benchmarks/RESULTS.md`)."""

BRACKET_FROM = 0.5
"""From this share of the budget on, neighbours of the best are tried. From 0.3 on, a line costs a third less, but ends
with .47 instead of .51 on the diagonal of `omniglot-242-infonce`, which has several peaks."""


class PausingLine:
    """A search along the line log h + γ·direction, asked and told like a `PausingDescent`.

    It ends when the budget is spent, or when the best configuration at full length has tried neighbours on both sides,
    at most RATE_RESOLUTION apart. At an end of the line, where no neighbour can be tried, it ends unbracketed. The line
    grows with the ranges of its space (`Axis.growth`).

    start: the configuration at γ = 0, asked for first. direction: [n_axes], in the axes' coordinates. name: the line's
        name in the results table. lengths, budget, workers: as for `PausingDescent`; with lengths (1.0,) nothing
        pauses.

    Raises ValueError for a direction that does not move, or that moves an axis of allowed values or steps.
    """

    def __init__(
        self,
        space: Space,
        *,
        start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        direction: Sequence[float] | Array,
        name: str = "line",
        workers: int | None = None,
        seed: int = 0,
        lengths: Sequence[float] = LENGTHS,
        budget: float | None = None,
    ):
        self.space, self._name = space, name
        self._start, self._direction = _through(space, start), np.asarray(direction, float)
        listed = [axis.name for axis, step in zip(space.axes, self._direction) if step and (axis.values or axis.step)]
        if listed:
            raise ValueError(f"direction {self._direction.tolist()} moves {listed}: a line runs along real axes only")
        x = space.to_coordinates(self._start)
        low, high = space.grown(x[None], x).chord(x, self._direction)
        if high - low < RATE_RESOLUTION:
            raise ValueError(f"the line through {self._start} along {self._direction.tolist()} leaves {space} at once")
        widest = Space(**{axis.name: axis.widest for axis in space.axes}).chord(x, self._direction)
        growth = max(0.0, min(low - widest[0], widest[1] - high))
        axis = Axis("factor", 2.0 ** max(low, -1000.0), 2.0 ** min(high, 1000.0), growth=growth)
        self._search = _Positions(
            Space(factor=axis), start={"factor": 1.0}, workers=workers, seed=seed, lengths=lengths, budget=budget
        )
        self._asked: dict[Key, Configuration] = {}  # positions asked for or told, by key of `space`
        self._given: dict[Key, Configuration] = {}  # the configurations at these positions

    @property
    def lengths(self) -> tuple[float, ...]:
        return self._search.lengths

    @property
    def workers(self) -> int | None:
        return self._search.workers

    @workers.setter
    def workers(self, workers: int | None) -> None:
        self._search.workers = workers

    @property
    def budget(self) -> float:
        """As for `PausingDescent`, in full trainings."""
        return self._search.budget

    @budget.setter
    def budget(self, budget: float) -> None:
        self._search.budget = budget

    def ask(self) -> Configuration | None:
        """The next configuration to train, new or paused; None while `workers` run, or when nothing is left."""
        if self._open_gap <= RATE_RESOLUTION or not is_free(self.workers, len(self._search.live)):
            return None  # the best may be bracketed: what runs ends first, and may be better
        if (neighbour := self._neighbour) is not None:
            at: Configuration | None = self._search.begin(Proposal(neighbour, self._name, 0.0), self.lengths[0])
        else:
            at = self._search.ask()
        if at is None:
            return None
        h = self._at(at)
        self._asked.setdefault(self.space.key(h), at)
        return self._given.setdefault(self.space.key(h), h)

    def until(self, h: Mapping[str, Any]) -> float:
        """As `PausingDescent.until`."""
        return self._search.until(self._asked[self.space.key(h)])

    def tell(self, h: Mapping[str, Any], value: float | None, share: float | None = None, free: bool = False) -> None:
        """As `PausingDescent.tell`, for a configuration on the line."""
        self._search.tell(self._position(h), value, share, free)

    def recall(
        self,
        history: Sequence[tuple[Mapping[str, Any], Mapping[float, float | None]]],
        under_way: Sequence[tuple[Mapping[str, Any], float]] = (),
    ) -> None:
        """As `PausingDescent.recall`."""
        self._search.recall(
            [(self._position(h), looks) for h, looks in history],
            [(self._position(h), until) for h, until in under_way],
        )

    @property
    def bracketed(self) -> bool:
        """Whether nothing runs and the best at full length has neighbours at most RATE_RESOLUTION apart."""
        return not self._search.live and self.gap <= RATE_RESOLUTION

    @property
    def gap(self) -> float:
        """Octaves between the two neighbours of the best at full length; inf without a best, or with one neighbour."""
        return sum(self._sides) if self._best is not None else inf

    @property
    def _open_gap(self) -> float:
        """`gap` without the sides on which no neighbour can be tried."""
        if self._best is None:
            return inf
        return sum(side for side, room in zip(self._sides, self._rooms) if room > AT_END)

    @property
    def _best(self) -> float | None:
        """Position of the best configuration at full length; None without one."""
        reached = self._search.reached
        whole = {h["factor"]: looks[1.0] for h, looks in reached if looks.get(1.0, FAILED) != FAILED}
        return log2(max(whole, key=whole.__getitem__)) if whole else None  # of equal ones the first, as `leader`

    @property
    def _sides(self) -> tuple[float, float]:
        """Octaves from the best to its lower and its upper neighbour."""
        best, tried = self._best, [log2(h["factor"]) for h, _ in self._search.reached]
        assert best is not None
        below = min((best - at for at in tried if at < best), default=inf)
        return below, min((at - best for at in tried if at > best), default=inf)

    @property
    def _rooms(self) -> tuple[float, float]:
        """Octaves from the best to the ends of the line, after all its growth."""
        low, high = self._search.space.axes[0].widest.ends
        assert self._best is not None
        return self._best - low, high - self._best

    @property
    def _neighbour(self) -> Configuration | None:
        """The next neighbour of the best to try, at the shortest length, on the side where the nearest is farther away.

        None after all of the budget. Unless the search has nothing else left, also None before BRACKET_FROM of it, and
        if a training is predicted to end better than the best at full length. Without this step the search may look far
        away, where nothing promises much, or end unbracketed.
        """
        if self._search.spent >= self._search.budget or self._best is None:
            return None
        if not self._search.finished:
            leader = self._search.leader
            leads = leader is not None and leader[1] == 1 and log2(leader[0]["factor"]) == self._best
            if not leads or self._search.spent < BRACKET_FROM * self._search.budget:
                return None
        below, above = (side if room > AT_END else 0.0 for side, room in zip(self._sides, self._rooms))
        side = -1 if below > above else 1
        return self._search.at(self._best + side * min(RATE_RESOLUTION / 2, max(below, above)))

    @property
    def finished(self) -> bool:
        """True when nothing is left to train and no running training can change that."""
        bracketed = not self._search.live and self._open_gap <= RATE_RESOLUTION
        return bracketed or (self._search.finished and self._neighbour is None)

    @property
    def spent(self) -> float:
        """As `PausingDescent.spent`."""
        return self._search.spent

    @property
    def trained(self) -> list[float]:
        """The share trained so far of every configuration told, in asking order."""
        return self._search.trained

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The configuration with the best value told, at whatever length; None before the first number."""
        best = self._search.best
        return None if best is None else (self._at(best[0]), best[1])

    @property
    def live(self) -> list[Configuration]:
        """As `PausingDescent.live`."""
        return [self._at(at) for at in self._search.live]

    @property
    def front(self) -> tuple[Configuration, float] | None:
        """As `PausingDescent.front`."""
        front = self._search.front
        return None if front is None else (self._at(front[0]), front[1])

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """The position on the line; its direction is "start" at γ = 0. KeyError for a configuration never asked for."""
        at = self._asked[self.space.key(h)]
        name = "start" if at["factor"] == 1.0 else self._name
        return Proposal(self._at(at), name, log2(at["factor"]))

    def _at(self, at: Configuration) -> Configuration:
        if at["factor"] == 1.0:
            return dict(self._start)
        return self.space.along(self._start, self._direction, log2(at["factor"]))

    def _position(self, h: Mapping[str, Any]) -> Configuration:
        """The position of a configuration on the line. Raises ValueError for one off it."""
        key = self.space.key(h)
        if key not in self._asked:
            away = self.space.to_coordinates(h) - self.space.to_coordinates(self._start)
            position = float(away @ self._direction / (self._direction @ self._direction))
            if np.abs(away - position * self._direction).max() >= ON_LINE:
                raise ValueError(f"{dict(h)} is not on the line through {self._start}")
            self._asked[key], self._given[key] = self._search.at(position), self.space.check(h)
        return self._asked[key]


class _Positions(PausingDescent):
    """The search over one axis `factor`, 2 to the power of the position.

    Positions are multiples of GRAIN, so that a position found again from a configuration is the same bit for bit.
    """

    def at(self, position: float) -> Configuration:
        [axis] = self.space.axes
        return {"factor": axis.widest.snap(round(position / GRAIN) * GRAIN)}

    def _exact(self, h: Configuration) -> Configuration:
        return self.at(log2(h["factor"]))


GRAIN = 2.0**-30
"""Octaves. Positions on the line are multiples of this."""

ON_LINE = 1e-6
"""Octaves. A configuration nearer to the line than this, on every axis, is on it."""


def _through(space: Space, start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Configuration:
    """The configuration through which the line runs. Raises ValueError unless exactly one is given."""
    starts = [start] if isinstance(start, Mapping) else start or []
    if len(starts) != 1:
        raise ValueError(f"start {start!r}: a line search needs one configuration that its line runs through")
    return space.check(starts[0])
