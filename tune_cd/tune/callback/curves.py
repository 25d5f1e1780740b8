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

    points: name of the training -> (length, count of reports, row of `results.write_curve` without attempt, seed and
    images_seen) of each point.
    """

    points: dict[str, list[tuple[float, int, dict[str, Any]]]] = field(default_factory=dict)

    def observe(self, name: str, result: Mapping[str, Any], metric: str, length: float | None) -> None:
        """Take a report, with flat keys. A training that began again replaces what it had reached before.

        metric: the score. length: how far the training is (`Seen`)."""
        value = number_of(result.get(metric))
        if value is None or length is None:
            return
        others = {key: float(at) for key, told in result.items() if key != metric and is_score(key)
                  and (at := number_of(told)) is not None}  # fmt: skip
        row = {"train_seconds": finite(result.get("time_total_s")), "val_score": float(value), "scores": others}
        before = [point for point in self.points.get(name, []) if point[0] < length]
        kept = [*before, (length, result.get(TRAINING_ITERATION, len(before) + 1), row)]
        self.points[name] = kept[::-2][::-1] if len(kept) > MOST else kept  # the last stays

    def rows(self, name: str, seed: int | None) -> list[dict[str, Any]]:
        """The curve of a training, over the count of reports unless its lengths are all whole numbers; NaN and
        infinite values are in it as they were reported."""
        points = self.points.get(name, [])
        whole = all(length >= 0 and length.is_integer() for length, _, _ in points)
        return [
            {"seed": seed, "images_seen": int(length) if whole else reports, **row} for length, reports, row in points
        ]
