"""A searcher's state as JSON, in the file that Tune keeps in an experiment's folder."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from tune_cd import results
from tune_cd.search.protocol import check_version
from tune_cd.search.search import CoordinateDescent
from tune_cd.tune.reports import Reports
from tune_cd.tune.trials import Trials

STATE_VERSION = 4


class JsonSearcher(Searcher):
    """A searcher whose state is its metric, its mode, and its trials. It holds no pickle."""

    _metric: str | None
    _mode: str | None
    _trials: Trials | None

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        trials = None if self._trials is None else _state_of(self._trials)
        return {"version": STATE_VERSION, "metric": self._metric, "mode": self._mode, "trials": trials}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        self._trials = None if state["trials"] is None else _trials_of(state["trials"])
        if self._trials is not None:
            self._trials.reports.aim(self._metric, self._mode)

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON, whatever Tune names the file."""
        results.publish(Path(checkpoint_path), json.dumps(self.get_state()).encode())

    def restore(self, checkpoint_path: str) -> None:
        """Read a file of `save`. Raises ValueError naming the file if it is not one."""
        try:
            self.set_state(json.loads(Path(checkpoint_path).read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{checkpoint_path} is not a saved {type(self).__name__}: {error!r}") from error

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restore the latest state in an experiment's folder. After an error Tune goes on with a blank searcher, which
        would train everything again; so `suggest` raises it as well."""
        try:
            super().restore_from_dir(checkpoint_dir)
        except Exception as error:
            self.suggest = partial(_refuse, error)
            raise


def _state_of(trials: Trials) -> dict[str, Any]:
    return {
        "search": trials.search.state(),
        "configurations": trials.configurations,
        "ended": sorted(trials.ended),
        "full_length": trials.reports.full_length,
        "use_result": trials.reports.use_result,
        "seen": trials.reports.state(),
    }


def _trials_of(state: Mapping[str, Any]) -> Trials:
    """The inverse of `_state_of`. Raises ValueError for a search's state of an unknown version."""
    reports = Reports(state["full_length"], state["use_result"])
    reports.restore(state["seen"])
    trials = Trials(CoordinateDescent.from_state(state["search"]), reports)
    trials.configurations, trials.ended = dict(state["configurations"]), set(state["ended"])
    trials.restored = True
    return trials


def _refuse(error: Exception, trial_id: str) -> None:
    raise ValueError(f"this search cannot go on, but from_results(..., resume=True) can: {error}") from error
