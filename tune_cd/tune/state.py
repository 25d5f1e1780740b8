"""A searcher's state as JSON: a file, and the snapshots in an experiment's folder.

Tune copies all files of a snapshot over those of the last one. A driver that is killed during the copy leaves truncated
files. So the snapshots alternate between two names, and the previous one is always kept. (Both stay in the folder that
Tune copies: removing a file during a copy would abort the copy.)
"""

import glob
import json
import logging
import os
from functools import partial
from pathlib import Path

from tune_cd import results

logger = logging.getLogger(__name__)

NAMES = 2  # number of alternating file names
GENERATION = "generation"  # key in a saved state: number of snapshots taken before


class JsonState:
    """`save` and `restore` of a Ray Tune Searcher whose `get_state` is made of plain JSON types."""

    _generation = -1  # of the last snapshot

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON (Tune names the file .pkl; it holds no pickle)."""
        results.publish(Path(checkpoint_path), json.dumps(self.get_state()).encode())

    def restore(self, checkpoint_path: str) -> None:
        """Read a file of `save`. Raises ValueError naming the file if it is not one."""
        self.set_state(self._read(checkpoint_path))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save a snapshot; called by Tune."""
        self._generation += 1
        path = Path(checkpoint_dir, self.CKPT_FILE_TMPL.format(f"{session_str}.{self._generation % NAMES}"))
        results.publish(path, json.dumps(self.get_state() | {GENERATION: self._generation}).encode())

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Read the latest intact snapshot; damaged ones are named in a logged warning.

        Raises ValueError naming the damaged snapshots if none is intact, and FileNotFoundError if there are none at
        all. Tune then goes on with a blank searcher, which would train everything again. So after such an error
        `suggest` raises it as well.
        """
        try:
            self.set_state(self._latest(checkpoint_dir))
        except (ValueError, OSError) as error:
            self.suggest = partial(_refuse, error)
            raise

    def _latest(self, checkpoint_dir: str) -> dict:
        """The latest intact snapshot."""
        intact, damaged = [], []
        for path in sorted(glob.glob(os.path.join(glob.escape(checkpoint_dir), self.CKPT_FILE_TMPL.format("*")))):
            try:
                intact.append(self._read(path))
            except ValueError as error:
                damaged.append(str(error))
        if not intact:
            kind = ValueError if damaged else FileNotFoundError
            raise kind(f"no saved {type(self).__name__} in {checkpoint_dir} is whole: {'; '.join(damaged) or 'none'}")
        if damaged:
            # logged, not a Python warning: a filter could make that an error, which aborts the restore, and Tune would
            # start over
            logger.warning("the searcher goes on from the latest snapshot that is whole: %s", "; ".join(damaged))
        latest = max(intact, key=lambda state: state.get(GENERATION, -1))
        self._generation = latest.pop(GENERATION, -1)
        return latest

    def _read(self, path: str) -> dict:
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not a saved {type(self).__name__}: {error}") from error
        if not isinstance(state, dict):
            raise ValueError(f"{path} is not a saved {type(self).__name__}: it holds no JSON object")
        return state


def _refuse(error: Exception, trial_id: str) -> None:
    raise ValueError(f"this search cannot go on: {error}") from error
