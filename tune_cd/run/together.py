"""The searches of a study in one Tune run, so that a free worker always has something to do.

A line search waits for its own trials; beside it another search can use the workers it leaves idle. Each sees its own
trials only and takes the course it would take alone. Where one comes to a configuration that another has had trained,
or is having trained, it is told that value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ray.tune.search import Searcher

from tune_cd.run.options import ORIGIN
from tune_cd.tune.json_state import JsonState


@dataclass
class Member:
    """One of the searches: its searcher, and how many trials it may still have run."""

    searcher: Searcher
    budget: int
    finished: bool = False


class Together(JsonState, Searcher):
    """Searchers side by side; the first in order that has something to suggest is asked.

    members: name -> Member; each limits its own concurrency.  key: configuration -> equal for equal trainings.
    Suggestions have their search's name among what the searcher says of their origin.
    """

    def __init__(self, members: Mapping[str, Member], key: Callable[[Mapping], tuple], workers: int):
        super().__init__(metric="val_score", mode="max")
        self.members, self._key, self._workers = dict(members), key, workers
        self._live: dict[str, tuple[str, str, tuple]] = {}  # trial -> its search, what that calls it, key
        self._twins: dict[
            tuple, list[tuple[str, str]]
        ] = {}  # key -> (search, its trial) that wait for the same training
        self._ended: dict[tuple, tuple[dict | None, bool]] = {}  # key -> what came of it

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._workers = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """The next configuration of the first search that has one; None while all wait; FINISHED when all have
        ended."""
        if len(self._live) >= self._workers:
            return None
        for name, member in self.members.items():
            config = self._next(name, member, trial_id)
            if config is not None:
                return config
        return Searcher.FINISHED if all(member.finished for member in self.members.values()) else None

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        if trial_id not in self._live:
            return
        name, own, key = self._live.pop(trial_id)
        self._ended[key] = (result, error)
        for search, trial in [(name, own), *self._twins.pop(key, [])]:
            self.members[search].searcher.on_trial_complete(trial, result=result, error=error)

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Nobody here learns before the end."""

    def get_state(self) -> dict:
        """The searches' states. `--resume` does not read it: the results table knows more."""
        return {name: member.searcher.get_state() for name, member in self.members.items()}

    def set_state(self, state: dict) -> None:
        for name, member in self.members.items():
            member.searcher.set_state(state[name])

    def _next(self, name: str, member: Member, trial_id: str) -> dict | None:
        """A search's next configuration that is not trained yet; those that are, or are being trained, are told on the
        way."""
        asked = 0
        while member.budget > 0 and not member.finished:
            trial = f"{trial_id}+{asked}" if asked else trial_id
            config = member.searcher.suggest(trial)
            if config is None:
                return None
            if config == Searcher.FINISHED:
                member.finished = True
                return None
            key = self._key(config)
            asked += 1
            if key in self._ended:
                result, error = self._ended[key]
                member.searcher.on_trial_complete(trial, result=result, error=error)
            elif any(key == live for _, _, live in self._live.values()):
                self._twins.setdefault(key, []).append((name, trial))
            else:
                member.budget -= 1
                self._live[trial_id] = (name, trial, key)
                return config | {ORIGIN: config[ORIGIN] | {"search": name}}
        member.finished = True
        return None
