"""The learning curves of a Tuner's trials: every report that has the metric."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from tune_cd.results.rows import finite
from tune_cd.search.number import number_of
from tune_cd.tune.reports import is_score

MOST = 1000
"""A curve with more points loses every second one."""


@dataclass
class Curves:
    """The points of each training's curve, in the order of their lengths.

    points: name of the training -> rows of `results.write_curve`, without attempt and seed.
    """

    points: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def observe(self, name: str, result: Mapping[str, Any], metric: str, counter: str | None) -> None:
        """Take a report, with flat keys. A training that began again replaces what it had reached before.

        metric: the score. counter: the key of a point's length; where it is no whole number, or None, the count of
        reports."""
        value, length = number_of(result.get(metric)), _length(result, counter)
        if value is None or length is None:
            return
        others = {key: float(at) for key, told in result.items() if key != metric and is_score(key)
                  and (at := number_of(told)) is not None}  # fmt: skip
        point = {"images_seen": length, "train_seconds": finite(result.get("time_total_s")), "val_score": float(value)}
        before = [one for one in self.points.get(name, []) if one["images_seen"] < length]
        kept = [*before, point | {"scores": others}]
        self.points[name] = kept[::-2][::-1] if len(kept) > MOST else kept  # the last stays

    def rows(self, name: str, seed: int | None) -> list[dict[str, Any]]:
        """The curve of a training; NaN and infinite values are in it as they were reported."""
        return [{"seed": seed, **point} for point in self.points.get(name, [])]


def _length(result: Mapping[str, Any], counter: str | None) -> int | None:
    counted = (finite(result.get(key)) for key in (counter, TRAINING_ITERATION) if key is not None)
    return next((int(at) for at in counted if at is not None and at >= 0 and at.is_integer()), None)
