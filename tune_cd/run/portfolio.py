"""Runs the searches of a study side by side, so that no worker waits where another search has work; without Ray.

Each search is told only of its own configurations and proceeds as it would alone. A configuration is trained once with
each seed, for the search that asks first; others that ask for it are told the same scores. If one of them wants it
trained further, the training continues under its first name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Any

from tune_cd.results.rows import trial_name
from tune_cd.results.schema import CONFIRM
from tune_cd.run.curves import over_seeds, reaches
from tune_cd.search.protocol import Optimiser
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Curve

ORIGIN = "origin"
"""The config key under which a trial finds the `Asked.origin` of its configuration."""


@dataclass(frozen=True)
class Asked:
    """A training that is to begin or to continue. reached, until: shares of its full length. origin: of its row: the
    search it is trained for, that search's annotation of the configuration, trial_id and attempt."""

    h: Configuration
    seed: int
    origin: dict[str, Any]
    reached: float
    until: float


@dataclass
class Setting:
    """A configuration, and what is known of its trainings."""

    h: Configuration
    origin: dict[str, Any] | None = None  # the search it is trained for, and that search's annotation; None: not begun
    curves: dict[int, Curve] = field(default_factory=dict)  # seed -> learning curve
    runs: dict[int, int] = field(default_factory=dict)  # seed -> number of runs so far
    training: dict[int, float] = field(default_factory=dict)  # seed that is trained now -> the share to reach

    def reached(self, seed: int) -> float:
        return max(self.curves.get(seed, {}), default=0.0)


class Portfolio:
    """Searches that share trainings; the first in order that has a configuration to train is served.

    searches: by name; each limits how many of its own are live. seeds: of every configuration's trainings. workers:
    configurations trained at a time. settings: what is known from earlier runs. weights: of the searches while they
    share a budget (`allow`), 1 if not named; 0: it is not limited.
    """

    def __init__(
        self, searches: Mapping[str, Optimiser], space: Space, seeds: Sequence[int], workers: int,
        settings: Mapping[Key, Setting] | None = None, weights: Mapping[str, float] | None = None,
    ):  # fmt: skip
        self.searches, self.seeds = dict(searches), tuple(seeds)
        self._space, self._workers, self._weights = space, workers, dict(weights or {})
        self._settings = dict(settings or {})
        self._budgets = {name: search.budget for name, search in searches.items()}
        self._pot = inf  # what they may still ask for together, in full trainings

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for, now or after further results."""
        return all(search.finished and not search.live for search in self.searches.values())

    @property
    def unrecorded(self) -> list[dict[str, Any]]:
        """What the searches have asked for and has no row of theirs: search, params, until (None: it was trained for
        another search), and their annotation."""
        return [
            {"search": name, "params": one.h, "until": one.until, **search.annotation(one.h)}
            for name, search in self.searches.items()
            for one in search.trainings
            if one.trial_index is not None and (one.until is not None or one.external)
        ]

    @property
    def done(self) -> float:
        """What was trained so far, in this run and earlier ones, in full trainings."""
        return sum(one.reached(seed) for one in self._settings.values() for seed in one.curves)

    @property
    def left(self) -> float:
        """The most that is still to be trained, in full trainings: what runs, and what the searches may ask for."""
        every = self._settings.values()
        running = sum(until - one.reached(seed) for one in every for seed, until in one.training.items())
        open_ones = (search for search in self.searches.values() if not search.finished)
        asked_for = len(self.seeds) * sum(max(0.0, search.budget - search.spent) for search in open_ones)
        return running + min(asked_for, self._pot)

    def ask(self) -> list[Asked]:
        """The trainings of the next configuration, one for each seed that is not as far yet. [] while all searches wait
        or all workers are busy, and at the end."""
        if sum(bool(one.training) for one in self._settings.values()) >= self._workers:
            return []
        searches = [*self.searches.items()]
        if self._pot < inf:
            searches.sort(key=lambda named: named[1].spent / (self._weights.get(named[0], 1.0) or inf))
        waiting = ((name, h) for name, search in searches for h in search.live)
        new = ((name, h) for name, search in searches for h in iter(search.ask, None))
        for name, h in chain(waiting, new):
            one, until = self._at(h), self.searches[name].until(h)
            if not self._missing(one, until):
                self._tell(name, one)
            elif not one.training:
                return self._begin(name, one, until)
        return []

    def tell(self, asked: Asked, curve: Curve) -> None:
        """Report the learning curve of a training that has paused or ended. The searches are told means over seeds."""
        one = self._at(asked.h)
        one.curves[asked.seed], one.runs[asked.seed] = curve, asked.origin["attempt"] + 1
        one.training.pop(asked.seed, None)
        if one.training or not all(one.curves.get(seed) for seed in self.seeds):
            return
        for name, search in self.searches.items():
            known = search.training(one.h)
            if known is None or known.trial_index is None:  # it has not asked for it
                continue
            # each that pauses knows what it would read from the table
            if len(search.lengths) > 1 or known.until is None or not self._missing(one, known.until):
                self._tell(name, one)

    def allow(self, worth: float) -> None:
        """Limit what the searches may still ask for together, in full trainings' worth to come. From now on those that
        have used less come first. Each may finish its best training, beyond the limit if need be."""
        self._pot = worth
        lacks = {name: _lacks(search) for name, search in self.searches.items() if self._weights.get(name, 1.0)}
        for name, own in lacks.items():
            search, others = self.searches[name], sum(lacks.values()) - own
            search.budget = min(self._budgets[name], search.spent + max(own, worth / len(self.seeds) - others))

    def _at(self, h: Configuration) -> Setting:
        return self._settings.setdefault(self._space.key(h), Setting(h))

    def _missing(self, one: Setting, until: float) -> list[int]:
        """The seeds with which the configuration is still to be trained."""
        return [seed for seed in self.seeds if not reaches(one.curves.get(seed), until)]

    def _begin(self, name: str, one: Setting, until: float) -> list[Asked]:
        origin = one.origin = one.origin or {**self.searches[name].annotation(one.h), "search": name}
        one.training = dict.fromkeys(self._missing(one, until), until)
        trial, several = trial_name(origin["search"], origin["trial_index"]), len(self.seeds) > 1 or name == CONFIRM
        runs = [(seed, trial + f"-seed{seed}" * several, one.runs.get(seed, 0)) for seed in one.training]
        return [
            Asked(one.h, seed, {**origin, "trial_id": trial_id, "attempt": attempt}, one.reached(seed), until)
            for seed, trial_id, attempt in runs
        ]

    def _tell(self, name: str, one: Setting) -> None:
        """Tell a search what a configuration has reached, its end alone where nothing pauses."""
        search, curve = self.searches[name], over_seeds([one.curves[seed] for seed in self.seeds])
        external = one.origin is None or one.origin["search"] != name
        if len(search.lengths) == 1:
            curve = {1.0: curve[max(curve)]}
        for share, value in curve.items():
            search.tell(one.h, value, share, external=external)


def _lacks(search: Optimiser) -> float:
    """What the best training of a search lacks to its full length, in full trainings, and is not asked for yet."""
    best = search.incumbent
    return 0.0 if best is None else 1 - max(best.share, best.until or 0.0)
