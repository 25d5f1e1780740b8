"""The learning curve of a training, as a search is told it: the best score so far at each length at which trainings may
pause, in evaluations on the validation split."""

from collections.abc import Iterable, Sequence
from math import ceil, inf, isnan

from trainables.training.setup import Setup
from tune_cd.results.observations import mean
from tune_cd.search.bracket import FAILED
from tune_cd.search.search import LENGTHS, ROUNDING
from tune_cd.search.training import Curve


def lengths_of(setup: Setup) -> tuple[float, ...]:
    """The shares of the full length at which a training may pause: those of LENGTHS, each rounded up to the next
    evaluation."""
    n = setup.evaluations
    return tuple(sorted({min(1.0, ceil(share * n - ROUNDING) / n) for share in LENGTHS}))


def whole_length(setup: Setup, batch_size: int) -> int:
    """The images of a training at full length: as many whole batches as fit, one at least."""
    return max(1, setup.images_seen // batch_size) * batch_size


def curve_so_far(
    setup: Setup, batch_size: int, status: str, score: float | None, evaluations: Iterable[Sequence[float]],
    images: float,
) -> Curve:  # fmt: skip
    """The learning curve of a training, from its row or report; FAILED at the end of one that failed or diverged.

    status: the table's; `stopped` for a row that does not count as an end. score: val_score. evaluations: (images seen,
    score) of each. images: seen in all.
    """
    reached: dict[float, float] = {}
    best, whole = FAILED, whole_length(setup, batch_size)
    for seen, value in sorted(evaluations):
        if isnan(value):
            break
        best = max(best, value)
        for share in lengths_of(setup):
            if share not in reached and seen >= (share - ROUNDING) * whole:
                reached[share] = best
    if status == "completed":
        reached[1.0] = FAILED if score is None or isnan(score) else score
    elif status != "stopped":
        reached = {share: value for share, value in reached.items() if share < 1}
        beyond = max(images / whole, max(reached, default=0.0) + ROUNDING)  # it failed after the lengths it had reached
        reached[min(1.0, beyond)] = FAILED
    return reached


def reaches(curve: Curve | None, share: float) -> bool:
    """Whether a training has reached this share, or has failed."""
    return bool(curve) and (failed(curve) or max(curve) >= share - ROUNDING)


def failed(curve: Curve) -> bool:
    """Whether a training failed. Raises ValueError for one without any value."""
    return curve[max(curve)] == FAILED


def over_seeds(several: Sequence[Curve]) -> Curve:
    """The learning curve of a configuration: means over the seeds that did not fail, at the lengths that these have in
    common. If all failed: means at lengths in common before the last failure, then FAILED."""
    alive = [curve for curve in several if not failed(curve)]
    end = inf if alive else max(max(curve) for curve in several)
    shares = ({share for share, value in curve.items() if value != FAILED} for curve in alive or several)
    common = sorted(share for share in set.intersection(*shares) if share < end)
    means = {share: float(mean(curve[share] for curve in alive or several)) for share in common}
    return means if alive else means | {end: FAILED}
