"""TuRBO-1 (Eriksson et al. 2019) as in BoTorch's tutorial: Thompson sampling in a trust region around the best."""

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from tune_cd.search.baselines.botorch_rule import BotorchRule
from tune_cd.search.space import Space

LENGTH, LENGTH_MIN, LENGTH_MAX = 0.8, 0.5**7, 1.6
"""Side of the trust region, as a share of the box's: the first, the smallest (below it the region restarts), the
largest."""

SUCCESSES = 10
"""This many improvements in a row double the side (the paper has 3)."""

FAILURES = 4
"""This many trials in a row without an improvement halve the side, or as many as there are axes if these are more."""

IMPROVEMENT = 1e-3
"""An improvement exceeds the best value by more than this share of its magnitude."""


class Region(NamedTuple):
    """A trust region. length: its side; first: the first trial since it restarted, before which all are ignored."""

    length: float
    first: int


def region(values: Sequence[float], n_axes: int, initial: int) -> Region:
    """The trust region after these values, in telling order. Its first `initial` values only set its best."""
    length, first, best, successes, failures = LENGTH, 0, -inf, 0, 0
    for i, value in enumerate(values):
        if i - first >= initial:
            improved = value > best + IMPROVEMENT * abs(best)
            successes, failures = (successes + 1, 0) if improved else (0, failures + 1)
        best = max(best, value)
        if successes == SUCCESSES:
            length, successes = min(2 * length, LENGTH_MAX), 0
        elif failures == max(FAILURES, n_axes):
            length, failures = length / 2, 0
        if length < LENGTH_MIN:
            length, first, best, successes, failures = LENGTH, i + 1, -inf, 0, 0
    return Region(length, first)


class TurboRule(BotorchRule):
    """A `baseline.Rule`. The region's sides are in the ratios of the model's length scales, its volume is
    length^n_axes.

    initial: trials before the model is asked; None: two an axis, as in the tutorial. The model is `BotorchRule`'s,
    whose priors suit few trials; the tutorial's is an earlier one without priors. Only the randomness of Thompson
    sampling keeps live trials apart.
    """

    def __init__(self, space: Space, seed: int, *, initial: int | None = None):
        super().__init__(space, seed, initial=initial or 2 * len(space.axes), method="turbo")

    def _observed(self) -> tuple[Any, Any]:
        """As `BotorchRule._observed`, since the region restarted."""
        x, y = super()._observed()
        first = self._region(y).first
        return x[first:], y[first:]

    def _proposed(self, model: Any, x: Any, y: Any) -> Any:
        """Unit coordinates [1, n_axes] of the best of the region's Sobol points, in one draw from the posterior."""
        torch, n_axes = self._torch, x.shape[1]
        scales = model.covar_module.lengthscale.detach().reshape(-1)
        side = self._region(super()._observed()[1]).length * scales / scales.log().mean().exp()
        centre = x[y.argmax()]
        low, high = (centre - side / 2).clamp(0.0, 1.0), (centre + side / 2).clamp(0.0, 1.0)
        count = min(5000, max(2000, 200 * n_axes))
        sobol = torch.quasirandom.SobolEngine(n_axes, scramble=True).draw(count, dtype=torch.float64)
        moved = torch.rand(count, n_axes) <= min(20.0 / n_axes, 1.0)  # of many axes, about 20 move at a time
        stuck = torch.nonzero(~moved.any(1)).reshape(-1)
        moved[stuck, torch.randint(n_axes, (len(stuck),))] = True
        candidates = torch.where(moved, low + (high - low) * sobol, centre)
        with torch.no_grad():
            return self._botorch.generation.MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=1)

    def _region(self, y: Any) -> Region:
        return region(y.reshape(-1).tolist(), len(self._space.axes), self._initial)
