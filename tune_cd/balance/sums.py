"""The search space of a loss that is a weighted sum of terms: `terms`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tune_cd.balance.directions import WEIGHT, is_positive, of
from tune_cd.search.space import Space

RATIO = "ratio_"
"""Prefix of the names of ratios: ratio_std is the weight of std divided by the weight of the first term."""

MULTIPLIED = ("sgd",)
SCALE_FREE = ("adam", "adamw", "lars", "lamb")
"""Optimisers whose steps are proportional to the gradient, and optimisers that divide it by its size."""

WEIGHT_FACTOR, RATE_FACTOR = 1000.0, 64.0
"""Default ranges of weights and ratios, and of learning rates: the start divided by the factor, to the start times the
factor. Published weights need not carry over to another network: Barlow Twins' 0.0051 is for 8192 outputs. A rule of
thumb for d outputs, 196/d, is 3 at d = 64, 600 times as much."""


@dataclass(frozen=True)
class Terms:
    """Space, start and directions of n weighted terms; `terms` builds it.

    names [n]: of the terms. published [n]: the weights in use today. learning_rate: the one in use today. scale_free:
    whether the optimiser divides gradients by their size. rate_name: name of the learning rate's axis, if scale_free.
    ranges: axis -> (lowest, highest), where it is not the default.
    """

    names: tuple[str, ...]
    published: tuple[float, ...]
    learning_rate: float
    scale_free: bool = False
    rate_name: str = "lr"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def start(self) -> dict[str, float]:
        """The configuration in use today."""
        if not self.scale_free:
            return {f"{WEIGHT}{name}": self.learning_rate * weight for name, weight in self._today.items()}
        first, *others = self._today
        ratios = {f"{RATIO}{name}": self._today[name] / self._today[first] for name in others}
        return {self.rate_name: self.learning_rate, **ratios}

    @cached_property
    def space(self) -> Space:
        """The searched box. Raises ValueError for an empty range, and for one that reaches 0 or below."""
        axes = {}
        for name, value in self.start.items():
            factor = RATE_FACTOR if self.scale_free and name == self.rate_name else WEIGHT_FACTOR
            axes[name] = self.ranges.get(name, (value / factor, value * factor))
        return Space(**axes)

    @property
    def search(self) -> dict[str, Any]:
        """The arguments of a search: CoordinateDescent(**vicreg.search) or CoordinateDescentSearch(**vicreg.search)."""
        return {"space": self.space, "start": self.start, **({} if self.scale_free else of(self.space))}

    def weights(self, h: Mapping[str, Any]) -> dict[str, float]:
        """Term -> its weight in the sum, for a configuration or a trial's config. At `start`: the weights in use today.

        Raises ValueError for a configuration that lacks an axis.
        """
        h = self._of(h)
        if not self.scale_free:
            return {name: h[f"{WEIGHT}{name}"] / self.learning_rate for name in self.names}
        first = self.published[0]
        return {name: first * h.get(f"{RATIO}{name}", 1.0) for name in self.names}

    def rate(self, h: Mapping[str, Any]) -> float:
        """The optimiser's learning rate for a configuration. Under SGD it is today's, so that warm-up, schedule and
        weight decay stay as they are; the weights carry the factor. Raises ValueError as `weights`."""
        h = self._of(h)
        return float(h[self.rate_name]) if self.scale_free else self.learning_rate

    @property
    def _today(self) -> dict[str, float]:
        return dict(zip(self.names, self.published, strict=True))

    def _of(self, h: Mapping[str, Any]) -> dict[str, float]:
        missing = [name for name in self.start if name not in h]
        if missing:
            raise ValueError(f"configuration {dict(h)!r} lacks {missing}; the axes are {list(self.start)}")
        return {name: float(h[name]) for name in self.start}


def terms(
    *names: str,
    learning_rate: float,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    optimizer: str = "sgd",
    rate: str = "lr",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Terms:
    """Build the search space of a loss that is the weighted sum of the named terms.

    learning_rate, weights [n] or name -> weight: those in use today, or published; weights None: all 1. optimizer: one
    of MULTIPLIED (with momentum or without) or SCALE_FREE. rate: name of the learning rate's axis if SCALE_FREE.
    ranges: axis -> (lowest, highest), where the default (WEIGHT_FACTOR and RATE_FACTOR around the start) does not fit.
    Raises ValueError for fewer than two terms, names that are not identifiers or not all different, numbers that are
    not finite and > 0, another optimiser, a range of an unknown axis, and a start outside its range.
    """
    if len(names) < 2 or len({*names}) < len(names) or not all(map(str.isidentifier, names)):
        raise ValueError(
            f"terms {list(names)}: two or more names are required, all different, each a Python identifier"
        )
    if weights is None:
        weights = (1.0,) * len(names)
    elif not hasattr(weights, "__len__"):  # one number
        weights = (weights,)
    given = tuple(map(weights.get, names) if isinstance(weights, Mapping) else weights)
    if not len(weights) == len(given) == len(names) or not all(map(is_positive, given)):
        raise ValueError(f"weights {weights}: {len(names)} finite numbers > 0 are required, one for each of {names}")
    if not is_positive(learning_rate):
        raise ValueError(f"learning_rate {learning_rate!r}: a finite number > 0 is required")
    if optimizer not in MULTIPLIED + SCALE_FREE:
        raise ValueError(f"optimizer {optimizer!r}: one of {list(MULTIPLIED + SCALE_FREE)}")
    if not rate.isidentifier() or rate.startswith(RATIO):
        raise ValueError(f"rate {rate!r}: a Python identifier that does not begin with {RATIO!r} is required")
    built = Terms(
        names, tuple(map(float, given)), float(learning_rate), optimizer in SCALE_FREE, rate, dict(ranges or {})
    )
    unknown = [name for name in built.ranges if name not in built.start]
    if unknown:
        raise ValueError(f"ranges of {unknown}: the axes are {list(built.start)}")
    built.space.check(built.start)
    return built
