"""Reads the trials in Tune's own snapshot of an experiment.

Tune saves this snapshot together with the searcher's state, but copies the two one after the other. After a driver's
death either may be the older one.
"""

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from ray.tune.utils import flatten_dict

logger = logging.getLogger(__name__)

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
