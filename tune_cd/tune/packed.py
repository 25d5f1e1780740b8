"""Several configurations in one Tune trial, for trainables that train them side by side in one process.

    search = PackedSearch(CoordinateDescentSearch(start=..., workers=8), size=8, metric="accuracy", mode="max")

A trial's config then has the key `pack`: the list of configurations that the inner searcher suggested (the members).
The trainable reports `pack` as well: a dict from a member's index as text ("0", "1", ...) to its result. "done": True
in a member's result marks it as final while the trial goes on. The inner searcher sees single trials: it is told each
result separately, and when a pack fails only its members that were not done have failed.
"""

from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ray.tune.result import TRAINING_ITERATION
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

from tune_cd.results.rows import finite
from tune_cd.search.protocol import check_version
from tune_cd.tune.adapter import Adapter
from tune_cd.tune.json_state import JsonState
from tune_cd.tune.param_space import space_from_tune
from tune_cd.tune.pausing_scheduler import innermost
from tune_cd.tune.pausing_search import PausingSearch
from tune_cd.tune.snapshot import trials_in

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


class PackedSearch(JsonState, Packing):
    """Packs the suggestions of any Ray Tune searcher, several to a trial.

    searcher: suggests single configurations; it must know its space, metric and mode already. Unless it limits its own
        concurrency, every pack is full. It sees its members' reports as those of trials.
    size: largest number of configurations in a trial.
    packs: largest number of concurrent trials; None: no limit of its own.
    Raises ValueError for a size below 1, a searcher with another metric or mode, a searcher whose trials pause, and a
    ConcurrencyLimiter around a searcher of Ray, whose trials Ray does not save.
    """

    def __init__(self, searcher: Searcher, size: int, *, metric: str, mode: str, packs: int | None = None):
        if size < 1:
            raise ValueError(f"size {size!r}: a whole number, at least 1")
        inside = searcher.metric or metric, searcher.mode or mode
        if inside != (metric, mode):
            raise ValueError(f"metric, mode {(metric, mode)}: the searcher inside has {inside}")
        if isinstance(innermost(searcher), PausingSearch):
            raise ValueError("PausingSearch: a member of a pack cannot pause; allowed: searchers of whole trials")
        if isinstance(searcher, ConcurrencyLimiter) and not isinstance(innermost(searcher), Adapter):
            raise ValueError("ConcurrencyLimiter: Ray saves none of its trials; allowed: the searcher itself, packs=")
        super().__init__(metric, mode, packs)
        self._searcher, self._size, self._restored = searcher, size, False

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called by Tune before the first trial. Raises ValueError for domains in `param_space`, which belong to the
        inner searcher."""
        if (given := space_from_tune(config)) is not None:
            raise ValueError(
                f"param_space leaves {list(given.names)} open: give them to the searcher inside, space=..."
            )
        if self._restored:  # a new experiment with a restored searcher: its packs are no longer trained
            self._restored = False
            self._lose(list(self._members))
        return True

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types, including the inner searcher."""
        return {"version": STATE_VERSION, "searcher": self._saved(), "members": self._members}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`. Raises ValueError for a state of another version."""
        check_version(state, STATE_VERSION)
        self._load(state["searcher"])
        self._members = {trial_id: list(members) for trial_id, members in state["members"].items()}
        self._restored = True

    @property
    def _plain(self) -> Searcher | None:
        """The inner searcher if its `get_state` is taken to be plain JSON; else None."""
        inner = innermost(self._searcher)
        return inner if isinstance(inner, Adapter) or type(inner).save is Searcher.save else None

    def _saved(self) -> Any:
        """The inner searcher's state: plain JSON if it has that, as ours do, else its saved file in base64."""
        if self._plain is not None:
            return self._plain.get_state()
        with TemporaryDirectory() as folder:
            self._searcher.save(str(Path(folder, "searcher")))
            return b64encode(Path(folder, "searcher").read_bytes()).decode()

    def _load(self, saved: Any) -> None:
        if self._plain is not None:
            self._plain.set_state(saved)
            return
        with TemporaryDirectory() as folder:
            Path(folder, "searcher").write_bytes(b64decode(saved))
            self._searcher.restore(str(Path(folder, "searcher")))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restore the latest intact snapshot, then bring it up to date with Tune's own, which may be of another time.
        Raises as `JsonState.restore_from_dir`."""
        super().restore_from_dir(checkpoint_dir)
        ran = {trial.trial_id: trial for trial in trials_in(checkpoint_dir)}
        for trial_id in [name for name in self._members if name in ran and ran[name].ended]:
            self.on_trial_complete(trial_id, ran[trial_id].result, ran[trial_id].failed)
        if ran:
            self._lose([name for name in self._members if name not in ran])

    def _lose(self, trial_ids: list[str]) -> None:
        """Give up packs that no longer train: our searchers suggest the members again, Ray's are told failures."""
        lost = [member for name in trial_ids for member in self._members.pop(name) if member is not None]
        if not lost:
            return
        if isinstance(inner := innermost(self._searcher), Adapter):
            inner.run_anew(but=[member for members in self._members.values() for member in members if member])
            return
        for member in lost:
            self._searcher.on_trial_complete(member, error=True)

    def _fill(self, trial_id: str) -> list[tuple[str, dict]] | str | None:
        pack: list[tuple[str, dict]] = []
        while len(pack) < self._size:
            inner = f"{trial_id}/{len(pack)}"
            config = self._searcher.suggest(inner)
            if not isinstance(config, Mapping):
                return pack or config
            pack.append((inner, dict(config)))
        return pack

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Pass every report of a member that has not ended to the inner searcher."""
        for place, told in results_of(result).items():
            member = self._members[trial_id][int(place)] if trial_id in self._members else None
            if member is not None and (self._ours or finite(told.get(self._metric)) is not None):
                counted = {TRAINING_ITERATION: result.get(TRAINING_ITERATION)}  # Ray's searchers need Tune's counter
                self._searcher.on_trial_result(member, counted | _report(told))
        super().on_trial_result(trial_id, result)

    def _tell(self, member: str, told: Mapping[str, Any] | None) -> None:
        failed = told is None or (not self._ours and finite(told.get(self._metric)) is None)
        self._searcher.on_trial_complete(member, result=None if failed else _report(told), error=failed)

    @property
    def _ours(self) -> bool:
        """Whether the inner searcher is ours, which reads any report."""
        return isinstance(innermost(self._searcher), Adapter)


def _report(told: Mapping[str, Any]) -> dict:
    """A member's report as that of a single trial: flat keys, without "done"."""
    return {name: value for name, value in flatten_dict(dict(told)).items() if name != "done"}
