"""How far a training is and what it has reached: its best score so far at each length at which trainings may pause.

Of a training that failed or diverged the last score is NaN, at the share of its full length where that was.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isnan, nan

from trainables.training.setup import Setup
from tune_cd.results.observations import mean
from tune_cd.search.model_guided import LENGTHS

Looks = Mapping[float, float]
"""Share of the full length -> best score so far, ascending; NaN for a training that ended there without one."""

ROUNDING = 1e-9  # of a share


def lengths_of(setup: Setup) -> tuple[float, ...]:
    """The shares of its full length at which a training may pause: those of LENGTHS, each at the next look from there
    on."""
    looks = setup.evaluations
    return tuple(sorted({min(1.0, ceil(share * looks - ROUNDING) / looks) for share in LENGTHS}))


def whole_length(setup: Setup, batch_size: int) -> int:
    """The images of a training at full length: as many whole batches as fit, one at least."""
    return max(1, setup.images_seen // batch_size) * batch_size


def looks_of(
    status: str, score: float | None, curve: Iterable[Sequence[float]], images: int, whole: int,
    lengths: Sequence[float],
) -> Looks:  # fmt: skip
    """What a row or a report says. score: val_score; curve: (images seen, score) of each look; images: seen in all.

    status: one of the table's; of a row that is not to be taken for an end, `stopped`.
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
    """Whether nothing is left to train until that share."""
    return bool(looks) and (failed(looks) or max(looks) >= share - ROUNDING)


def failed(looks: Looks) -> bool:
    return isnan(looks[max(looks)])


def over_seeds(several: Sequence[Looks]) -> Looks:
    """What a setting has reached: means over its seeds, of those that gave numbers, at lengths that all of them have;
    of a setting none of which did, the NaN of the longest."""
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
    """The share at which a training failed: behind what it had reached."""
    return min(1.0, max(images / whole, max(reached, default=0.0) + ROUNDING, ROUNDING))
