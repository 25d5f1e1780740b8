"""A configuration of a trial: what is asked of its training, who records it, and what is told of it."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from trainables.training.loop import Training
from trainables.training.outcome import Evaluation, Outcome

# keys of a config
PACK = "pack"  # several configurations: a list of the parameters in which they differ
UNTIL = "until"  # the share of its full length at which a training pauses; without it, it is trained to its end

# keys of a report
LOOKS = "looks"  # [images seen, score] of the latest evaluation; of all, once the training has ended or paused
UNSTORED = "unstored"  # the row and curve that the recorder could not store; the reader of the report stores them
TROUBLES = "troubles"  # what went wrong beside the training, {one of the following: the reason}
UNSAVED = "unsaved"  # its latest state could not be saved
ANEW = "anew"  # it began again at image 0
UNKEPT = "unkept"  # its network was not kept
LEFT_OUT = "left out"  # images of the data do not decode

ROUNDING = 1e-9  # tolerance of a share


class Recorder(Protocol):
    """Stores outcomes and states of trainings, known by their whole configuration. Called in the trial's process."""

    def recorded(self, config: dict) -> dict | None:
        """The report ({"val_score", "status", "looks", ...}) of a training that has already ended, or paused where it
        is to pause, in any process; else None. Raises OSError if the store does not answer."""

    def record(self, config: dict, outcome: Outcome, where: dict) -> dict | None:
        """Store an outcome before it is reported; where: {"started_at", "device", "share"}. Returns the row and curve
        if they could not be stored."""

    def saved(self, config: dict) -> Iterable[tuple[str, bytes]]:
        """(name, state) of each saved state of a training that broke off or paused, the latest first. Raises OSError if
        the store does not answer, and after the last one to say why there is no other."""

    def save(self, config: dict, images_seen: int, state: bytes) -> None:
        """Store a state. Raises OSError if that fails."""

    def keep(self, config: dict, val_score: float, network: Callable[[], bytes]) -> None:
        """Keep the network of a completed training, unless there is a better one. Raises OSError if that fails.

        network: makes the `trainables.trained` file; called only if the network is kept.
        """


@dataclass
class Member:
    """A configuration, and what is known of its training."""

    config: dict
    started_at: datetime  # of the trial, until the training starts; it may fail before
    left_out: str = ""  # the images of its data that do not decode, in words
    began: float = math.nan  # the start on the monotonic clock
    due: float = math.inf  # when the next state is saved
    report: dict | None = None  # the latest
    troubles: dict[str, str] = field(default_factory=dict)  # see TROUBLES

    def start(self, checkpoint_seconds: float) -> None:
        """The training starts now, perhaps anew."""
        self.began, self.started_at = time.monotonic(), datetime.now(UTC)
        self.due = self.began + checkpoint_seconds

    def is_to_pause(self, training: Training) -> bool:
        """Whether its training has reached `until`, or the end if there is none."""
        return training.share >= self.config.get(UNTIL, 1.0) - ROUNDING

    def evaluated(self, best_score: float, evaluation: Evaluation) -> None:
        """Report an evaluation of the running training."""
        self.report = {name: value for name, value in evaluation.scores.items() if name.startswith("train_")} | {
            "val_score": best_score, "images_seen": evaluation.images_seen, "status": "running",
            LOOKS: [[evaluation.images_seen, evaluation.val_score]],
        }  # fmt: skip

    def ended(self, outcome: Outcome, unstored: dict | None) -> None:
        """Report the end of the training, or its pause."""
        self.report = (self.report or {}) | {
            "val_score": math.nan if outcome.val_score is None else outcome.val_score,
            "images_seen": outcome.images_seen, "status": outcome.status, "test_score": outcome.test_score,
            LOOKS: [[look.images_seen, look.val_score] for look in outcome.curve],
        }  # fmt: skip
        if outcome.status == "failed":
            self.report |= {"error": outcome.error, "failure_kind": outcome.failure_kind}
        if unstored:
            self.report[UNSTORED] = unstored

    def told(self) -> dict:
        """Its latest report, with its troubles."""
        troubles = self.troubles | ({LEFT_OUT: self.left_out} if self.left_out else {})
        return self.report | ({TROUBLES: troubles} if troubles else {})
