"""What Tune's own snapshot of an experiment says of its trials.

Tune saves it together with the searcher's state, but copies the two one by one: after a driver's death either may be
the older one.
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
    """A trial as Tune's snapshot has it. params: what the searcher suggested, and its last result, both with flat
    keys."""

    trial_id: str
    params: dict
    result: dict
    ended: bool
    failed: bool


def trials_in(folder: str | Path) -> list[Ran]:
    """The trials of the latest snapshot in an experiment's folder, in the order of asking; none where there is no
    snapshot, and, with a logged warning, where it cannot be read."""
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
