"""The results of a training: an `Evaluation` each time it is validated, an `Outcome` at the end or a pause."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Evaluation:
    """One evaluation on the validation split. scores: all numbers measured; val_score: the one that selects weights."""

    images_seen: int
    train_seconds: float
    val_score: float
    scores: dict[str, float] = field(default_factory=dict)


@dataclass
class Outcome:
    """The end of a training, or a pause, as the results table stores it."""

    status: str  # completed | diverged | failed | stopped (paused, may be resumed)
    val_score: float | None
    test_score: float | None
    scores: dict[str, float]
    images_seen: int
    best_at: int | None
    train_seconds: float
    curve: list[Evaluation]
    positive_term: float | None = None  # of losses with these two terms; the terms of others are among the scores
    entropy_term: float | None = None
    error: str | None = None  # of a failed training; why a paused one's state was not saved
    failure_kind: str | None = None  # error | out_of_memory | timeout, of a failed training


def conclude(training: Any, test: dict[str, float], terms: dict[str, float]) -> Outcome:
    """The outcome of a `Training` with these test scores; {}: its output is not finite, so that it diverged."""
    training.diverged = training.diverged or not test
    if training.diverged:  # the scores of its last weights are kept for inspection; they select nothing
        scores = named(training.curve[-1].scores, test)
        return Outcome("diverged", None, None, scores, best_at=None, **_so_far(training))
    best, benchmark = training.best_evaluation, training.data.benchmark
    # a benchmark by its loaded name, which differs from the set-up's if only a part is present
    test_score = test[training.setup.metric if benchmark is None else f"{benchmark.name}_medium_map"]
    return Outcome(
        "completed", best.val_score, test_score, named(best.scores, test) | terms, best_at=best.images_seen,
        positive_term=terms.get("positive_term"), entropy_term=terms.get("entropy_term"), **_so_far(training),
    )  # fmt: skip


def pause(training: Any, error: str | None) -> Outcome:
    """The outcome of a pause after the latest evaluation; nothing is tested. error: why no state was saved, or None."""
    best = training.best_evaluation
    scores, so_far = named(best.scores, {}), _so_far(training)
    return Outcome("stopped", best.val_score, None, scores, best_at=best.images_seen, error=error, **so_far)


def _so_far(training: Any) -> dict[str, Any]:
    seconds, curve = training.train_seconds, list(training.curve)
    return {"images_seen": training.images_seen, "train_seconds": seconds, "curve": curve}


def failure(error: str, curve: Sequence[Evaluation] = (), kind: str = "error") -> Outcome:
    """The outcome of a training that failed. Its evaluations stay in the curve and select nothing."""
    seen, seconds = (curve[-1].images_seen, curve[-1].train_seconds) if curve else (0, 0.0)
    return Outcome("failed", None, None, {}, seen, None, seconds, list(curve), error=error, failure_kind=kind)


def named(validation: dict[str, float], test: dict[str, float]) -> dict[str, float]:
    """Merge the scores of both splits in one dict, named as in the results table."""
    scores = {name if name.startswith("train_") else f"val_{name}": value for name, value in validation.items()}
    return scores | {f"test_{name}": value for name, value in test.items()}
