"""Coordinate descent that chooses its next line, point and training length from the data: the default search.

Like `algo:cd`, each step moves along one line through the best point found so far. Unlike there, the line does not
follow from turn and budget. A small Gaussian process (`process`) compares all points of all lines, along the
directions of A and along the single axes. Directions of A alone get stuck on measured landscapes, and axes alone are
slow on smooth ridges; only the data show which helps. What the process predicts is in `surrogate`, its prior in
`prior`; here is what follows from it.

Trainings can pause at some shares of their full length, and go on later. Each step is a new configuration, trained to
the shortest share, or a paused training that goes on. The step is taken that is expected to raise the best predicted
value at full length most, per image. So cheap trials explore while little is known. As the search narrows, lengths grow
by themselves: once short trainings of neighbours tell nothing new, only longer ones do. A paused training is never
given up. With one length, the full one, every step is a new configuration.

Any number of trainings may be running. Each counts as told, at its predicted value. The next step depends only on the
progress of each training and on which are running.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from tune_cd.search.bracket import FAILED
from tune_cd.search.candidates import Candidates
from tune_cd.search.directions import Plan
from tune_cd.search.prior import FADES_FROM, Prior, location_weight
from tune_cd.search.protocol import Step
from tune_cd.search.reserve import Reserve
from tune_cd.search.space import Array, Configuration, Key
from tune_cd.search.surrogate import Surrogate
from tune_cd.search.training import Proposal, Training

LENGTHS = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the full length at which trainings pause."""

ENOUGH, PROMISE = 24, 1e-5
"""The search ends, after ENOUGH configurations at least, when no step is worth so many standard deviations of the
values per full training. The model is too sure of fewer."""

MARGIN = 0.1
"""An improvement counts from so many standard deviations of the values above the best, or after a blind start from 1/n
after n values, if that is more: longer steps. With whole trainings from a blind start 1/n is all. Short trainings are
many: it would soon keep the search to the first promising place."""


@dataclass(frozen=True)
class Guided:
    """State of the model-guided search; `step` is the next training to run.

    starts: configurations to train before anything is modelled, by key. known: the trainings by key, in the order of
        asking. lengths: see LENGTHS, ascending, the last is 1. left: the rest of the budget, in full trainings.
    blind: the starts say nothing about the optimum's location. grows: new configurations may be begun; if False, paused
        trainings go on while that is worth anything.
    """

    plan: Plan
    prior: Prior
    starts: Mapping[Key, Configuration]
    known: Mapping[Key, Training] = field(default_factory=dict)
    lengths: tuple[float, ...] = (1.0,)
    left: float = inf
    blind: bool = True
    grows: bool = True

    # The next step ------------------------------------------------------------------------------------------------

    @cached_property
    def step(self) -> Step | None:
        """The next training to run; None if there is none, for good or until a running training ends."""
        start = next((h for key, h in self.starts.items() if key not in self.known), None)
        if self.grows and start is not None:
            return self._begin(Proposal(start, "start", 0.0))
        if not self._any_value:  # only failures, or none yet: far from all trainings, where the weight is high
            first = next(iter(self.starts.values()), None)
            return self._begin(self.candidates.farthest(first, self._weight)) if self.grows else None
        if self._starts_are_compared and (whole := self.finish()) is not None:
            return whole  # what is to be improved on is in hand from then on
        if self._settled:
            return self.finish()
        return self._most[1] or self.finish()

    @cached_property
    def _most(self) -> tuple[float, Step | None]:
        """(worth per full training, step) of the step that is worth most; (0, None) if none is affordable."""
        return max(self._steps(), key=lambda scored: scored[0], default=(0.0, None))

    def _steps(self) -> Iterator[tuple[float, Step]]:
        """(worth per full training, step) of the affordable steps: those of paused trainings, and the best new one."""
        paused = [at for at, one in enumerate(self.trainings) if one.until is None and one.share < 1 and not one.left]
        for share in self.lengths:
            costs = {at: share - self.trainings[at].share for at in paused}
            on = [at for at, cost in costs.items() if cost > 0 and self.reserve.affords(cost, share, at)]
            for at, worth in zip(on, self._worth(self.model.points[on], share) if on else ()):
                yield worth / costs[at], Step(self._resumed(at), share)
        if self.grows and self.reserve.affords(self.lengths[0], self.lengths[0]):
            worth, proposal = self.candidates.best(lambda x: self._worth(x, self.lengths[0]))
            if proposal is not None:
                yield worth / self.lengths[0], Step(proposal, self.lengths[0])

    def _begin(self, proposal: Proposal | None) -> Step | None:
        """The first step of a new configuration; None without a proposal, or if the budget is too small for it."""
        return Step(proposal, self.lengths[0]) if proposal and self.lengths[0] <= self.left else None

    def _resumed(self, at: int) -> Proposal:
        return Proposal(self.trainings[at].h, "resumed", 0.0)

    @cached_property
    def trainings(self) -> tuple[Training, ...]:
        """In the order of asking, by which they have their indices."""
        return tuple(self.known.values())

    @cached_property
    def model(self) -> Surrogate:
        """What the trainings so far predict; at least one is needed."""
        return Surrogate(self.plan, self.prior, self.trainings, self.lengths)

    @cached_property
    def candidates(self) -> Candidates:
        """The new configurations to choose from. The ranges of their lines may have grown; the prior keeps those of the
        plan."""
        space, model = self.plan.space, self.model
        grows = space.grows and self._any_value
        return Candidates(model, space.grown(model.points, model.points[self.reserve.incumbent]) if grows else space)

    # What a step is worth ------------------------------------------------------------------------------------------

    def _worth(self, x: Array, share: float) -> Array:
        """Worth of training configurations x [n, n_axes] to this length, [n]: the weighted expected gain."""
        return self.model.process.gain(x, share, self._above) * self._weight(x)

    @cached_property
    def _above(self) -> Array:
        """Threshold of the expected improvement [n_draws, 1]: the best predicted final value plus the margin."""
        return self.model.best_of(self.model.expected) + self._margin

    @property
    def _margin(self) -> float:
        """See MARGIN."""
        if not self.blind:
            return MARGIN
        n_told = sum(bool(one.curve) for one in self.trainings)
        return max(1 / max(1, n_told), MARGIN if len(self.lengths) > 1 else 0.0)

    def _weight(self, x: Array) -> Array:
        """Prior of the optimum's location at x [n, n_axes], [n], as far as it still counts: see FADES_FROM."""
        told = sum(one.share for one in self.trainings)  # in full trainings
        weight = location_weight(self.plan, x, None if self.blind else self._start)
        return weight ** min(1.0, FADES_FROM / max(1.0, told))

    @cached_property
    def _start(self) -> Array | None:
        """Coordinates [n_axes] of the best start that did not fail; None if all failed."""
        values = {key: self.known[key].last for key in self.starts if key in self.known and self.known[key].curve}
        left = [key for key in self.starts if values.get(key) != FAILED]
        best = max(left, key=lambda key: values.get(key, FAILED), default=None)
        return None if best is None else self.plan.space.to_coordinates(self.starts[best])

    @cached_property
    def _any_value(self) -> bool:
        return any(one.curve and not one.failed for one in self.trainings)

    # The end, and the budget ---------------------------------------------------------------------------------------

    @cached_property
    def _settled(self) -> bool:
        """Whether there are enough configurations and no step is worth enough. What runs may end lower than predicted,
        so without it no step may be worth more either."""
        if (self.grows and len(self.trainings) < ENOUGH) or self.worth >= PROMISE:
            return False
        told = {key: replace(one, until=None) for key, one in self.known.items() if one.curve}
        return not self.reserve.runs or replace(self, known=told)._settled

    @property
    def worth(self) -> float:
        """What the best step is worth per full training, in standard deviations of the values."""
        return self._most[0]

    def finish(self) -> Step | None:
        """Train the incumbent to full length, if that is still to be done: see `Reserve.to_finish`."""
        at = self.reserve.to_finish
        return None if at is None else Step(self._resumed(at), 1.0)

    @cached_property
    def reserve(self) -> Reserve:
        return Reserve(self.trainings, self.lengths[0], self.left)

    @property
    def _starts_are_compared(self) -> bool:
        """Whether a value of every start that someone chose is told, and nothing is whole yet. A line is not descended
        from its start."""
        told = all(key in self.known and self.known[key].curve for key in self.starts)
        return not self.blind and self.plan.axes and told and not self.reserve.whole
