"""The looks of a training: its best score so far at each length at which trainings may pause.

A look is an evaluation on the validation split. The last score of a training that failed or diverged is NaN, at the
share of its full length where that was.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isnan, nan

from trainables.training.setup import Setup
from tune_cd.results.observations import mean
from tune_cd.search.search import LENGTHS

Looks = Mapping[float, float]
"""Share of the full length -> best score so far, ascending; NaN if the training ended there without a score."""

ROUNDING = 1e-9  # tolerance between shares


def lengths_of(setup: Setup) -> tuple[float, ...]:
    """The shares of the full length at which a training may pause: those of LENGTHS, each rounded up to the next
    look."""
    looks = setup.evaluations
    return tuple(sorted({min(1.0, ceil(share * looks - ROUNDING) / looks) for share in LENGTHS}))


def whole_length(setup: Setup, batch_size: int) -> int:
    """The images of a training at full length: as many whole batches as fit, one at least."""
    return max(1, setup.images_seen // batch_size) * batch_size


def looks_of(
    status: str, score: float | None, curve: Iterable[Sequence[float]], images: int, whole: int,
    lengths: Sequence[float],
) -> Looks:  # fmt: skip
    """The looks of a training, from its row or report.

    status: the table's; `stopped` for a row that does not count as an end. score: val_score. curve: (images seen,
    score) of each look. images: seen in all. whole, lengths: from the functions above.
    """
    reached: dict[float, float] = {}
    best = nan
    for seen, value in sorted(curve):
        if isnan(value):
            break
        best = value if isnan(best) else max(best, value)
        for share in lengths:
            if share not in reached and seen >= (share - ROUNDING) * whole:
                reached[share] = best
    if status == "completed":
        reached[1.0] = nan if score is None else score
    elif status != "stopped":
        reached = {share: value for share, value in reached.items() if share < 1}
        reached[_ended_at(images, whole, reached)] = nan
    return reached


def reaches(looks: Looks | None, share: float) -> bool:
    """Whether a training has reached this share, or has failed."""
    return bool(looks) and (failed(looks) or max(looks) >= share - ROUNDING)


def failed(looks: Looks) -> bool:
    return isnan(looks[max(looks)])


def over_seeds(several: Sequence[Looks]) -> Looks:
    """The looks of a configuration: means over the seeds that did not fail, at the lengths that these have in common.
    If all failed: means at lengths in common before the last failure, then NaN."""
    alive = [looks for looks in several if not failed(looks)]
    if not alive:
        common = _common(several)
        end = max(max(looks) for looks in several)
        return {share: _mean(several, share) for share in common if share < end} | {end: nan}
    return {share: _mean(alive, share) for share in _common(alive)}


def _common(several: Sequence[Looks]) -> list[float]:
    """The lengths at which all have a score."""
    shares = ({share for share, value in looks.items() if not isnan(value)} for looks in several)
    return sorted(set.intersection(*shares))


def _mean(several: Sequence[Looks], share: float) -> float:
    value = mean(looks[share] for looks in several)
    assert value is not None
    return value


def _ended_at(images: int, whole: int, reached: Looks) -> float:
    """The share at which a training failed; always beyond the lengths that it had reached."""
    return min(1.0, max(images / whole, max(reached, default=0.0) + ROUNDING, ROUNDING))
