"""A searcher's state as JSON, in the file that Tune keeps in an experiment's folder."""

import json
from functools import partial
from pathlib import Path

from ray.tune.search import Searcher

from tune_cd import results
from tune_cd.search.protocol import check_version
from tune_cd.tune.trials import Trials

STATE_VERSION = 4


class JsonSearcher(Searcher):
    """A searcher whose state is its metric, its mode, and its trials. It holds no pickle."""

    _metric: str | None
    _mode: str | None
    _trials: Trials | None

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        trials = self._trials and self._trials.state()
        return {"version": STATE_VERSION, "metric": self._metric, "mode": self._mode, "trials": trials}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        self._trials = state["trials"] and Trials.from_state(state["trials"])
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


def _refuse(error: Exception, trial_id: str) -> None:
    raise ValueError(f"this search cannot go on, but from_results(..., resume=True) can: {error}") from error
