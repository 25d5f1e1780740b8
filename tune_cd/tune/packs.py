"""Several configurations in one Tune trial, for trainables that train them side by side in one process.

A trial's config has the key `pack`, the list of its configurations (the members). The trainable reports `pack` as well:
a dict from a member's index as text ("0", "1", ...) to its result. "done": True in a member's result marks it as final
while the trial goes on. When a pack fails only its members that were not done have failed.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ray.tune.search import Searcher
from ray.tune.utils.util import unflatten_dict

PACK, SEED, UNTIL = "pack", "seed", "until"
STATE_VERSION = 2


def members_of(config: Mapping[str, Any], result: Mapping[str, Any] | None) -> list[tuple[dict, dict]]:
    """(configuration, last result so far) of each member of a trial's pack, or of the trial itself without a pack."""
    if PACK not in config:
        return [(dict(config), dict(result or {}))]
    shared, told = {name: value for name, value in config.items() if name != PACK}, results_of(result)
    return [(shared | member, dict(told.get(str(place), {}))) for place, member in enumerate(config[PACK])]


def results_of(result: Mapping[str, Any] | None) -> dict[str, dict]:
    """The results of a pack's members by index. result: nested as reported, or with flat keys as searchers get it."""
    nested = unflatten_dict({name: value for name, value in (result or {}).items() if name.split("/")[0] == PACK})
    return nested.get(PACK, {})


class Packing(Searcher):
    """Base class of searchers that suggest packs; subclasses fill the packs and take the members' results.

    packs: largest number of concurrent trials; None: no limit of its own.
    """

    def __init__(self, metric: str, mode: str, packs: int | None = None):
        super().__init__(metric=metric, mode=mode)
        self._packs = packs
        self._members: dict[str, list[Any]] = {}  # trial id -> members of its pack, None for one already told

    @abstractmethod
    def _fill(self, trial_id: str) -> list[tuple[Any, dict]] | str | None:
        """Members of a new trial's pack, each with its configuration; None if there are none for now; or FINISHED."""

    @abstractmethod
    def _tell(self, member: Any, told: Mapping[str, Any] | None) -> None:
        """Take the end of a member. told: its last report; {} if there is none; None: its pack failed."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called by Tune before the first trial; ignored, since the space is known already."""
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit concurrent packs to Tune's max_concurrent_trials."""
        self._packs = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """{"pack": configurations}, as many as are available and fit; None while the searcher waits; or FINISHED."""
        if self._packs is not None and len(self._members) >= self._packs:
            return None
        filled = self._fill(trial_id)
        if not isinstance(filled, list):
            return filled
        self._members[trial_id] = [member for member, _ in filled]
        return {PACK: [config for _, config in filled]}

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Tell members that are done at once, so that the search can go on before the pack ends."""
        for place, told in results_of(result).items():
            if told.get("done"):
                self._end(trial_id, int(place), told)

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """End a pack: the members not yet done have failed if the pack failed; else their last reports count."""
        results = results_of(result)
        for place in range(len(self._members.get(trial_id, []))):
            told = results.get(str(place), {})
            self._end(trial_id, place, told if told.get("done") or not error else None)
        self._members.pop(trial_id, None)

    def _end(self, trial_id: str, place: int, told: Mapping[str, Any] | None) -> None:
        member = self._members[trial_id][place] if trial_id in self._members else None
        if member is not None:
            self._members[trial_id][place] = None
            self._tell(member, told)
