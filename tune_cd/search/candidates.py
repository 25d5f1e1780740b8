"""The new configurations among which the default search chooses: points on lines through promising trainings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf

import numpy as np

from tune_cd.search.lines import Line, lines_through, located, points_on, random_lines
from tune_cd.search.prior import draws_of
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Space
from tune_cd.search.surrogate import Surrogate
from tune_cd.search.training import Proposal

CHUNK = 4096
"""Points that are scored together, so that memory is bounded."""

SAMPLED = (16, 4096)
"""While no value is told, the next configuration is one of SAMPLED random ones, the first number if any is new. The
points of largest uncertainty on lines would mostly lie on the box's edge."""


@dataclass(frozen=True)
class Candidates:
    """New configurations: neither trained nor alike a trained one.

    space: that of the plan, or one whose ranges have grown.
    """

    model: Surrogate
    space: Space

    def best(self, score: Callable[[Array], Array]) -> tuple[float, Proposal | None]:
        """(score, proposal) of the configuration with the largest score, on the lines through the leader. If none is
        new there (as with a few allowed values), the lines through the next best training are searched. (-1, None) if
        none is new. score: points [n, n_axes] -> [n]."""
        leader = self.model.leader
        others = (int(at) for at in np.argsort(-self.model.ends, kind="stable") if at != leader)
        for training in chain([leader], others if len(self.space.axes) > 1 else ()):  # one axis is one line
            lines = self._lines_through(training)
            x = points_on(lines)
            scores = np.concatenate([score(part) for part in np.split(x, range(CHUNK, len(x), CHUNK))])
            new = np.flatnonzero(self.model.is_new(x))
            if len(new):
                best = int(new[np.argmax(scores[new])])
                return float(scores[best]), located(lines, best)
        return -1.0, None

    def farthest(self, start: Configuration | None, weight: Callable[[Array], Array]) -> Proposal | None:
        """The one of SAMPLED with the largest distance from all trainings, in length scales, times its weight. None if
        none is new.

        start: where the sequence of samples begins; None: in the middle of the box. weight: points [n, n_axes] -> [n].
        """
        model, space, n = self.model, self.model.plan.space, len(self.model.trainings)
        width = np.maximum(space.high - space.low, NEGLIGIBLE)
        origin = 0.5 if start is None else (space.to_coordinates(start) - space.low) / width
        draws = draws_of(model.prior, model.plan, model.lengths)
        maps = draws.maps[:, :-1, :-1]
        metric = np.linalg.cholesky((np.swapaxes(maps, 1, 2) @ maps).mean(0))
        for count in SAMPLED:
            shares = (origin + np.random.default_rng(n).random((count, len(width)))) % 1
            on_line = not model.plan.axes
            x = points_on(self._lines_through(0)) if on_line else space.snapped(space.low + shares * width)
            x = x[model.is_new(x)][: None if on_line else SAMPLED[0]]
            if len(x):
                apart = draws.features(x)[:, None] - draws.features(model.points)
                away = np.linalg.norm(apart @ metric, axis=-1).min(1, initial=inf)
                return Proposal(space.from_coordinates(x[np.argmax(away * weight(x))]), "sampled", 0.0)
        return None

    def _lines_through(self, training: int) -> list[Line]:
        """The lines through a training's configuration; through the leader's `_counterparts` too."""
        plan, turn = self.model.plan, len(self.model.trainings)
        h = self.model.trainings[training].h
        through = [h, *(self._counterparts if training == self.model.leader else ())]
        x, places = self.space.to_coordinates(h), ~self.space.ordered
        lines = [line for one in through for line in lines_through(plan, one, self.space, turn)]
        lines = [line for line in lines if not (places * line.direction * (line.x - x)).any()]  # as h's own line
        return lines + (random_lines(self.space, h, turn) if plan.needs_random_lines else [])

    @cached_property
    def _counterparts(self) -> list[Configuration]:
        """The leader's configuration with each other value of each category: the best of the others may lie elsewhere,
        as an optimiser's rate does."""
        h = self.model.trainings[self.model.leader].h
        return [
            h | {axis.name: value}
            for axis in self.model.plan.space.categories
            for place, value in enumerate(axis.values)
            if place != axis.coordinate(h[axis.name])
        ]
