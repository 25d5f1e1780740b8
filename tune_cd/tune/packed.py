"""Several configurations a Tune trial, for trainables that train them side by side in one process.

    search = PackedSearch(CoordinateDescentSearch(start=..., workers=8), size=8, metric="accuracy", mode="max")

A trial's config then has `pack`, a list of configurations as the searcher inside suggested them, and the trainable
reports `pack`, their results: a dict from the place in that list, as text ("0", "1", ...), to what it would report for
one, where "done": True says that this one is final, though the trial goes on. The searcher inside sees single trials:
it is told each result by itself, and a pack that fails fails those of its members alone that were not done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from ray.tune.search import Searcher
from ray.tune.utils.util import unflatten_dict

from tune_cd.results.observations import mean
from tune_cd.results.rows import finite
from tune_cd.tune.json_state import JsonState

PACK, SEED = "pack", "seed"
STATE_VERSION = 1


def members_of(config: Mapping[str, Any], result: Mapping[str, Any] | None) -> list[tuple[dict, dict]]:
    """(configuration, last result so far) of every training of a trial: of those in its pack, or of itself alone."""
    if PACK not in config:
        return [(dict(config), dict(result or {}))]
    shared, told = {name: value for name, value in config.items() if name != PACK}, results_of(result)
    return [(shared | member, dict(told.get(str(place), {}))) for place, member in enumerate(config[PACK])]


@dataclass
class _Asked:
    """A suggestion of the searcher inside, whose trainings (one a seed) are `left` to end; the numbers of those that
    have."""

    left: int
    values: list[float] = field(default_factory=list)


def results_of(result: Mapping[str, Any] | None) -> dict[str, dict]:
    """The results of a pack's members by their places, nested as reported or with flat keys, as Tune tells
    searchers."""
    nested = unflatten_dict({name: value for name, value in (result or {}).items() if name.split("/")[0] == PACK})
    return nested.get(PACK, {})


class PackedSearch(JsonState, Searcher):
    """Any Ray Tune searcher, its suggestions trained several at a time.

    searcher: suggests single configurations; it must know metric and mode already, and limit itself.
    size: trainings in a trial, at least one configuration.  packs: trials at a time; None: no limit of its own.
    seeds: every configuration is trained once with each, under the config key "seed", and the searcher is told the mean
        of those that gave a number; None: once, with no seed of ours.
    known: (configuration, seed) -> the value measured earlier, NaN if there came no number of it, None if it never
    ended;
        a training that ended is not repeated.
    """

    def __init__(
        self,
        searcher: Searcher,
        size: int,
        *,
        metric: str,
        mode: str,
        seeds: Sequence[int] | None = None,
        packs: int | None = None,
        known: Callable[[Mapping[str, Any], int], float | None] | None = None,
    ):
        if size < 1 or (seeds is not None and not len(set(seeds)) == len(seeds) >= 1):
            raise ValueError(f"size {size}, seeds {seeds!r}: a size of at least 1, and different seeds")
        super().__init__(metric=metric, mode=mode)
        self._searcher, self._size, self._seeds, self._packs, self._known = searcher, size, seeds, packs, known
        self._asked: dict[str, _Asked] = {}  # the inner trial's id -> how far it is
        self._members: dict[
            str, list[str | None]
        ] = {}  # trial id -> inner trial of each place in its pack; None once it was told

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Tune's call before the first trial. A searcher that knows its space already need not be asked."""
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Tune's max_concurrent_trials: so many packs at a time."""
        self._packs = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """{"pack": configurations}, as many as there are for now and fit; None while the searcher waits; FINISHED."""
        if self._packs is not None and len(self._members) >= self._packs:
            return None
        pack, members, config = [], [], None
        while not pack or len(pack) + len(self._seeds or [None]) <= self._size:
            inner = f"{trial_id}/{len(self._asked)}"
            config = self._searcher.suggest(inner)
            if not isinstance(config, Mapping):
                break
            trainings = list(self._trainings(inner, config))
            pack += trainings
            members += [inner] * len(trainings)
        if not pack:
            return config
        self._members[trial_id] = members
        return {PACK: pack}

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Members that are done are told at once, so that the search can go on while the pack does."""
        for place, member in results_of(result).items():
            if member.get("done") and trial_id in self._members:
                self._tell(trial_id, int(place), member)

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The end of a pack: what it did not report done has failed if it failed, and is what it reported last if
        not."""
        told = results_of(result)
        for place in range(len(self._members.get(trial_id, []))):
            member = told.get(str(place), {})
            self._tell(trial_id, place, member if member.get("done") or not error else {})
        self._members.pop(trial_id, None)

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types, the searcher inside included."""
        asked = {inner: asdict(asked) for inner, asked in self._asked.items()}
        return {
            "version": STATE_VERSION,
            "searcher": self._searcher.get_state(),
            "asked": asked,
            "members": self._members,
        }

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`. Raises ValueError for another version's."""
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"state of version {state.get('version')!r}; this release reads version {STATE_VERSION}")
        self._searcher.set_state(state["searcher"])
        self._asked = {inner: _Asked(**asked) for inner, asked in state["asked"].items()}
        self._members = {trial_id: list(members) for trial_id, members in state["members"].items()}

    def _trainings(self, inner: str, config: Mapping[str, Any]) -> Iterator[dict]:
        """What is left to train of a suggestion; where everything is known, the searcher is told at once."""
        self._asked[inner] = asked = _Asked(left=0)
        wanted = []
        for seed in self._seeds or []:
            value = self._known(config, seed) if self._known is not None else None
            if value is None:
                wanted.append({**config, SEED: seed})
            elif isfinite(value):
                asked.values.append(value)
        wanted = wanted if self._seeds else [dict(config)]
        asked.left = len(wanted)
        if not wanted:
            self._conclude(inner)
        yield from wanted

    def _tell(self, trial_id: str, place: int, result: dict) -> None:
        inner = self._members[trial_id][place]
        if inner is None:
            return
        self._members[trial_id][place] = None
        asked, value = self._asked[inner], finite(result.get(self._metric))
        if value is not None:
            asked.values.append(value)
        asked.left -= 1
        if asked.left == 0:
            self._conclude(inner)

    def _conclude(self, inner: str) -> None:
        """All trainings of a suggestion have ended: their mean is its value, as `results.history` has it."""
        value = mean(self._asked[inner].values)
        result = None if value is None else {self._metric: value}
        self._searcher.on_trial_complete(inner, result=result, error=value is None)
