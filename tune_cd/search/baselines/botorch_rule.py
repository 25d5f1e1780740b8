"""BoTorch's Gaussian process and expected improvement as a rule of a `Baseline`, imported when a rule is made."""

from typing import Any
from warnings import catch_warnings

import numpy as np

from tune_cd.search.baselines.sampled import Sampled, imported
from tune_cd.search.category import Category
from tune_cd.search.space import Array, Configuration, Coordinates, Key, Space

INITIAL = 5
"""Trials before the model is asked, the start among them: the default of Ax, through which BoTorch is mostly used."""

RESTARTS, RAW_SAMPLES = 10, 512
"""Arguments of `optimize_acqf`, as in BoTorch's tutorials."""


class BotorchRule(Sampled):
    """A `SingleTaskGP` with its defaults and `LogExpectedImprovement` over the best value told.

    The model is over the unit cube of the space's coordinates, a category having one a value, of which the largest
    counts; its proposals are snapped through the space. Live trials
    are its X_pending, for which the acquisition becomes `qLogExpectedImprovement`. A failure counts as the worst value
    told so far. Sobol points are proposed until `initial` trials, at least one of them with a value, are told.
    """

    repeats = 1  # for the same trials the model would propose the same again

    def __init__(self, space: Space, seed: int, *, initial: int = INITIAL):
        super().__init__(space, seed)
        self._botorch, self._gpytorch, self._torch = imported("botorch", "botorch", "gpytorch", "torch")
        self._seed, self._initial = seed, initial
        self._sizes = [len(axis.values) if isinstance(axis, Category) else 1 for axis in space.axes]
        self._sobol = self._torch.quasirandom.SobolEngine(sum(self._sizes), scramble=True, seed=seed)
        self._places: dict[Key, Array] = {}  # unit coordinates of all trials, by key
        self._count = 0

    def take(self, h: Configuration) -> None:
        self._places[self._space.key(h)] = self._to_cube(h)

    def _drawn(self) -> Configuration:
        self._count += 1
        x, y = self._observed()
        if len(y) < self._initial:
            at = self._sobol.draw(1, dtype=self._torch.float64)
        else:
            seed = int(np.random.SeedSequence((self._seed, self._count)).generate_state(1)[0])
            with self._botorch.utils.sampling.manual_seed(seed), catch_warnings(action="ignore"):
                at = self._proposed(self._fitted(x, y), x, y)
        h = self._from_cube(at[0].numpy())
        self.take(h)
        return h

    def _observed(self) -> tuple[Any, Any]:
        """Tensors of the told trials: unit coordinates [n, n_axes] and values [n, 1]; empty while no value is told."""
        values = [value for value in self._values.values() if value is not None]
        told = self._values if values else {}
        y = [[min(values) if value is None else value] for value in told.values()]
        return self._tensor([self._places[key] for key in told]), self._tensor(y)

    def _fitted(self, x: Any, y: Any) -> Any:
        """The fitted model: RBF with log-normal priors that grow with the number of axes; values are standardised."""
        model = self._botorch.models.SingleTaskGP(x, y)
        self._botorch.fit_gpytorch_mll(self._gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def _proposed(self, model: Any, x: Any, y: Any) -> Any:
        """Unit coordinates [1, n_axes] of the point with the largest expected improvement."""
        acquisition = self._botorch.acquisition
        if live := [at for key, at in self._places.items() if key not in self._values]:
            pending = self._tensor(live)
            improvement = acquisition.qLogExpectedImprovement(model, best_f=y.max(), X_pending=pending)
        else:
            improvement = acquisition.LogExpectedImprovement(model, best_f=y.max())
        bounds = self._tensor([[0.0] * x.shape[1], [1.0] * x.shape[1]])
        at, _ = self._botorch.optim.optimize_acqf(
            improvement, bounds=bounds, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES
        )
        return at

    def _tensor(self, rows: list[Any]) -> Any:
        return self._torch.tensor(np.array(rows, dtype=float))

    def _to_cube(self, h: Configuration) -> Array:
        """The place of a configuration in the cube [n], 0 to 1 along each axis; of a category 1 at its value."""
        x, width = self._space.to_coordinates(h), self._space.high - self._space.low
        shares = np.clip((x - self._space.low) / np.where(width > 0, width, 1.0), 0.0, 1.0)
        parts = [np.eye(n)[int(at)] if n > 1 else [share] for n, at, share in zip(self._sizes, x, shares)]
        return np.concatenate(parts)

    def _from_cube(self, at: Coordinates) -> Configuration:
        """The configuration at a place in the cube, snapped through the space."""
        parts = np.split(np.asarray(at, dtype=float), np.cumsum(self._sizes)[:-1])
        x = self._space.low + (self._space.high - self._space.low) * [part[0] for part in parts]
        largest = [float(np.argmax(part)) if n > 1 else at for n, part, at in zip(self._sizes, parts, x)]
        return self._space.from_coordinates(largest)
