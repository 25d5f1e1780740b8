"""A searcher's state as JSON, in the file that Tune keeps in an experiment's folder."""

import json
from functools import partial
from pathlib import Path

from ray.tune.search import Searcher

from tune_cd import results


class JsonSearcher(Searcher):
    """A searcher whose state, of `get_state` and `set_state`, is plain JSON types."""

    def get_state(self) -> dict:
        raise NotImplementedError

    def set_state(self, state: dict) -> None:
        raise NotImplementedError

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON (Tune names the file .pkl; it holds no pickle)."""
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
