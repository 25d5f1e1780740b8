"""What all search methods share: they are asked for a configuration and told its value, and know every training.

A method adds the choice of the next training. It keeps one `Training` per configuration, in the order of asking. So a
configuration is never trained twice to the same length, and results may arrive in any order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from tune_cd.search.bracket import FAILED
from tune_cd.search.number import is_whole, number_of
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Proposal, Training, value_of

ROUNDING = 1e-9
"""Tolerance in comparisons of shares."""


@dataclass(frozen=True)
class Step:
    """The next training to run: a configuration, new or paused, and the share of the full length to train it to."""

    proposal: Proposal
    until: float = 1.0


class Optimiser(ABC):
    """A search method, as ask and tell; larger values are better. It never evaluates, sleeps, logs or opens a file.

    workers: the largest number of live trials; None: no limit. It limits asking and shapes nothing else, so it may be
        changed during a search. lengths: shares of the full length at which trainings may pause. budget: in full
        trainings; inf: no limit. It may be changed too. ValueError for one that does not fit.
    """

    lengths: tuple[float, ...] = (1.0,)
    _budget = inf

    def __init__(self, space: Space, workers: int | None):
        self.space, self.workers = space, workers
        self._trainings: dict[Key, Training] = {}  # in asking order; if never asked for, in telling order
        self._costs: dict[Key, float] = {}  # in full trainings, without `external` ones
        self._live: set[Key] = set()
        self._next_index = 0

    @property
    def workers(self) -> int | None:
        return self._workers

    @workers.setter
    def workers(self, workers: int | None) -> None:
        check_workers(workers)
        self._workers = workers if workers is None else int(workers)

    @property
    def budget(self) -> float:
        return self._budget

    @budget.setter
    def budget(self, budget: float | None) -> None:
        number = inf if budget is None else number_of(budget)
        if number is None or not number >= 0:
            raise ValueError(f"budget {budget!r}: a number of full trainings, or None for no limit")
        self._budget = float(number)

    @abstractmethod
    def _step(self) -> Step | None:
        """The next training to run; None if there is none, for good or until a running training ends."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """True when nothing is left to propose, whatever values are told later."""

    @property
    @abstractmethod
    def ending(self) -> str:
        """Why it asks for nothing more, and what it would take to go on; for a search that is `finished`."""

    @property
    def incumbent(self) -> Training | None:
        """The training with the best value told, which is finished before the search ends; None: nothing to finish."""
        return None

    def ask(self) -> Configuration | None:
        """The next configuration to train, new or paused; None while `workers` run, or when nothing useful is left."""
        step = self._step() if has_free_worker(self.workers, len(self._live)) else None
        return None if step is None else self.begin(step.proposal, step.until)

    def begin(self, proposal: Proposal, until: float = 1.0) -> Configuration:
        """Count a configuration as asked for, until this share, and return it. An earlier failure is dropped."""
        key = self.space.key(proposal.h)
        known = self._trainings.get(key, Training(self.space.check(proposal.h)))
        if known.trial_index is None:
            known = replace(known, origin=known.origin or proposal, trial_index=self._index_of(key))
        self._put(key, known.resumed(until))
        return dict(known.h)

    def withdraw(self, h: Mapping[str, Any]) -> None:
        """Withdraw an asked configuration: it is not trained after all, or not further. KeyError if it is unknown."""
        key = self.space.key(h)
        training = replace(self._known(h), until=None)
        self._put(key, training)
        if not training.curve:
            del self._trainings[key], self._costs[key]
            self._next_index -= training.trial_index == self._next_index - 1

    def abandon(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        """Mark exactly these configurations as unable to go on, for example because their checkpoints are gone. They
        stay known, but unfinished ones no longer lead."""
        left = {self.space.key(h) for h in configurations}
        for key, training in self._trainings.items():
            self._put(key, replace(training, left=key in left))

    def until(self, h: Mapping[str, Any]) -> float:
        """The share to which an asked configuration is to be trained. Raises KeyError if it is not being trained."""
        training = self.training(h)
        if training is None or training.until is None:
            raise KeyError(f"{dict(h)} is not being trained")
        return training.until

    def length_after(self, h: Mapping[str, Any]) -> float:
        """The next length at which a configuration may pause, after those that it has reached."""
        training = self.training(h)
        reached = max(training.numbers, default=0.0) if training is not None else 0.0
        return next(length for length in self.lengths if length > reached + ROUNDING)

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        *,
        left: bool = False,
        external: bool = False,
    ) -> None:
        """Report the value of a configuration after a share of the full length; None, NaN or ±inf: its training failed.

        share: by default the share asked for, 1 for a configuration that was not asked for. Values at shares before the
        one asked for may be told as they come. A second report at the same share replaces the first.
        left: the trial was stopped there and cannot go on. external: it was not trained for this search, and costs
        nothing of the budget.

        Raises ValueError for a configuration outside the space, a share outside (0, 1], and a value that is no number.
        """
        h = self.space.check(h)
        key, number = self.space.key(h), value_of(value)
        unasked = all(one.given and one.trial_index is None for one in self._trainings.values())
        known = self._trainings.get(key) or Training(h, given=unasked)
        given, share = share, number_of(known.until or 1.0 if share is None else share)
        if share is None or not 0 < share <= 1:
            raise ValueError(f"share {given!r}: above 0, at most 1, of the full length")
        ends = known.until is not None and (share >= known.until or number == FAILED or left)
        until = None if ends else known.until
        told = replace(known.told(share, number), until=until, left=left or known.left, external=external)
        self._put(key, self._settled(told))

    def recall(self, trainings: Iterable[Training]) -> None:
        """Add the trainings of an earlier run of this search, in asking order, before the first ask. They do not become
        starts, as told values do. Those with `until` run now, as if they had been asked for.

        Raises ValueError for a configuration outside the space.
        """
        for training in trainings:
            h = self.space.check(training.h)
            self._put(self.space.key(h), self._settled(replace(training, h=h)))

    @property
    def live(self) -> list[Configuration]:
        """Configurations asked for and not yet told, in asking order."""
        return [dict(one.h) for key, one in self._trainings.items() if key in self._live] if self._live else []

    @property
    def trainings(self) -> tuple[Training, ...]:
        """All that is known of every configuration, in the order of asking."""
        return tuple(self._trainings.values())

    def training(self, h: Mapping[str, Any]) -> Training | None:
        """All that is known of a configuration; None: nothing."""
        return self._trainings.get(self.space.key(h))

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, value at the greatest length told) of every configuration told, in asking order; None: it failed."""
        told = (one for one in self._trainings.values() if one.curve)
        return [(dict(one.h), None if one.failed else one.last) for one in told]

    @property
    def spent(self) -> float:
        """Training length done or asked for, in full trainings, without `external` ones. Each counts as the shortest
        length at least, even if it failed."""
        return float(sum(self._costs.values()))

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The configuration with the best value told, at whatever length; None before the first number. One that was
        stopped before its end does not count."""
        reached = [one for one in self._trainings.values() if one.numbers and not one.stopped]
        found = max(reached, key=lambda one: one.best, default=None)
        return None if found is None else (dict(found.h), found.best)

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """The line on which a configuration was first proposed. Raises KeyError for one never asked for."""
        origin = self._known(h).origin
        if origin is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return origin

    def annotation(self, h: Mapping[str, Any]) -> dict[str, Any]:
        """The results table's columns direction, line_position, trial_index. KeyError for one never asked for."""
        origin, index = self.origin(h), self._known(h).trial_index
        return {"direction": origin.direction, "line_position": origin.line_position, "trial_index": index}

    def _known(self, h: Mapping[str, Any]) -> Training:
        if (training := self.training(h)) is None:
            raise KeyError(f"{dict(h)} was neither asked for nor told")
        return training

    def _index_of(self, key: Key) -> int:
        """The place of a new configuration in the order of asking."""
        return self._next_index

    def _put(self, key: Key, training: Training) -> None:
        """Keep what is known of a configuration, and what follows for all of them together."""
        self._trainings[key] = training
        self._costs[key] = 0.0 if training.external else max(training.length, self.lengths[0])
        (self._live.discard if training.until is None else self._live.add)(key)
        if training.trial_index is not None:
            self._next_index = max(self._next_index, training.trial_index + 1)

    def _settled(self, training: Training) -> Training:
        """A training with what follows: a whole one has not been left, and where nothing pauses a short one has."""
        short = training.until is None and training.share < 1
        return replace(training, left=short and (training.left or len(self.lengths) == 1))


def check_workers(workers: int | None) -> None:
    """Raise ValueError unless `workers` is None or a whole number of at least 1."""
    if workers is not None and not is_whole(workers, 1):
        raise ValueError(f"workers {workers!r}: a whole number, at least 1, or None for no limit")


def check_version(state: Mapping[str, Any], version: int) -> None:
    """Raise ValueError unless a search's state has this version."""
    if state.get("version") != version:
        raise ValueError(f"search state of version {state.get('version')!r}; this release reads version {version}")


def has_free_worker(workers: int | None, live: int) -> bool:
    """Whether one more trial may start while `live` trials run."""
    return workers is None or live < workers
