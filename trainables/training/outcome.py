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
        return _so_far(training, "diverged", None, None, named(training.curve[-1].scores, test))
    best, benchmark = training.best_evaluation, training.data.benchmark
    # a benchmark by its loaded name, which differs from the set-up's if only a part is present
    test_score = test[training.setup.metric if benchmark is None else f"{benchmark.name}_medium_map"]
    two = {name: terms.get(name) for name in ("positive_term", "entropy_term")}
    return _so_far(training, "completed", best, test_score, named(best.scores, test) | terms, **two)


def pause(training: Any, error: str | None) -> Outcome:
    """The outcome of a pause after the latest evaluation; nothing is tested. error: why no state was saved, or None."""
    best = training.best_evaluation
    return _so_far(training, "stopped", best, None, named(best.scores, {}), error=error)


def _so_far(
    training: Any, status: str, best: Evaluation | None, test_score: float | None, scores: dict[str, float], **more: Any
) -> Outcome:
    """The outcome of a training's evaluations so far. best: the one that selects, or None."""
    val_score, best_at = (best.val_score, best.images_seen) if best else (None, None)
    seen, seconds, curve = training.images_seen, training.train_seconds, list(training.curve)
    return Outcome(status, val_score, test_score, scores, seen, best_at, seconds, curve, **more)


def failure(error: str, curve: Sequence[Evaluation] = (), kind: str = "error") -> Outcome:
    """The outcome of a training that failed. Its evaluations stay in the curve and select nothing."""
    seen, seconds = (curve[-1].images_seen, curve[-1].train_seconds) if curve else (0, 0.0)
    return Outcome("failed", None, None, {}, seen, None, seconds, list(curve), error=error, failure_kind=kind)


def named(validation: dict[str, float], test: dict[str, float]) -> dict[str, float]:
    """Merge the scores of both splits in one dict, named as in the results table."""
    scores = {name if name.startswith("train_") else f"val_{name}": value for name, value in validation.items()}
    return scores | {f"test_{name}": value for name, value in test.items()}
