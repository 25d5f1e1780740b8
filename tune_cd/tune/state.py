"""What a restored experiment finds in its folder: the searcher's state as JSON, and Tune's own snapshot of its trials.

Tune copies all files of a snapshot over those of the last one. A driver that is killed during the copy leaves truncated
files. So the searcher's snapshots alternate between two names, and the previous one is always kept. (Both stay in the
folder that Tune copies: removing a file during a copy would abort the copy.) Tune copies its own snapshot before or
after: after a driver's death either may be the older one.
"""

import glob
import json
import logging
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ray.tune.utils import flatten_dict

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
        damaged: list[ValueError] = []
        try:
            self.set_state(self._latest(checkpoint_dir, damaged))
        except (ValueError, OSError) as error:
            self.suggest = partial(_refuse, error)
            raise
        if damaged:
            # logged, not a Python warning: a filter could make that an error, which aborts the restore, and Tune would
            # start over
            logger.warning("the searcher goes on from the snapshot before: %s", "; ".join(map(str, damaged)))

    def _latest(self, checkpoint_dir: str, damaged: list[ValueError]) -> dict:
        """The latest intact snapshot of the latest session that has one; errors of later ones go to `damaged`."""
        paths = sorted(glob.glob(os.path.join(glob.escape(checkpoint_dir), self.CKPT_FILE_TMPL.format("*"))))
        if not paths:
            raise FileNotFoundError(f"there is no saved {type(self).__name__} in {checkpoint_dir}")
        errors, whole = [], []
        for path in paths:
            try:
                state = self._read(path)
                whole.append((_session(path), state.pop(GENERATION, -1), state))
            except ValueError as error:
                errors.append((_session(path), error))
        last, self._generation, latest = max(whole, key=lambda one: one[:2], default=("", -1, None))
        damaged += [error for session, error in errors if session >= last]
        if latest is None:
            raise ValueError(f"no snapshot of the searcher is whole: {'; '.join(map(str, damaged))}")
        return latest

    def _read(self, path: str) -> dict:
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not a saved {type(self).__name__}: {error}") from error
        if not isinstance(state, dict):
            raise ValueError(f"{path} is not a saved {type(self).__name__}: it holds no JSON object")
        return state


def _session(path: str) -> str:
    return re.sub(r"(\.\d+)?\.pkl$", "", os.path.basename(path))


def _refuse(error: Exception, trial_id: str) -> None:
    raise ValueError(f"this search cannot go on: {error}") from error


ENDED = ("TERMINATED", "ERROR")


@dataclass(frozen=True)
class Ran:
    """A trial in Tune's snapshot.

    params: the suggested configuration.  result: the last result.  Both have flat keys.
    """

    trial_id: str
    params: dict
    result: dict
    ended: bool
    failed: bool

    @property
    def cut(self) -> bool:
        """Whether Tune ended the trial with the experiment, as by time_budget_s, before its first report.

        Of later reports the snapshot does not tell whether they were the last: it may have "done" from before.
        """
        return self.ended and not self.failed and not self.result.keys() - {"trial_id"}


def trials_in(folder: str | Path) -> list[Ran]:
    """The trials of the latest snapshot in an experiment's folder, in the order of asking.

    Empty without a snapshot, and, with a logged warning, if the snapshot cannot be read.
    """
    found = sorted(Path(folder).glob("experiment_state-*.json"))
    if not found:
        return []
    try:
        trials = [
            (json.loads(trial), json.loads(metadata))
            for trial, metadata in json.loads(found[-1].read_text(encoding="utf-8"))["trial_data"]
        ]
        return [_ran(*pair) for pair in sorted(trials, key=lambda pair: _count(pair[0]))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{found[-1]} is no snapshot of Tune's that can be read: {error!r}"
        logger.warning("%s; the searcher goes on from its own state alone", said)
        return []


def _ran(trial: dict, metadata: dict) -> Ran:
    result = metadata.get("last_result")
    return Ran(
        trial["trial_id"],
        flatten_dict(trial["evaluated_params"] or {}),
        flatten_dict(result) if isinstance(result, dict) else {},
        trial["status"] in ENDED,
        trial["status"] == "ERROR",
    )


def _count(trial: dict) -> int:
    return int(re.match(r"\d*", trial["experiment_tag"] or "")[0] or 0)
