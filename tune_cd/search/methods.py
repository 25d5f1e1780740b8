"""Every search method of the project by its name: line searches chosen by a model, the paper's, and baselines.

    search = OPTIMISERS["tpe"](space, seed=0, start=None, workers=1)

Without a start, a method begins where `CoordinateDescent` with the same seed does, at a point drawn uniformly in the
box. So methods with equal seeds start alike and can be compared in pairs. Other libraries are imported only when one of
their methods is made.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tune_cd.search.baselines.baseline import Baseline, Rule
from tune_cd.search.baselines.botorch_rule import BotorchRule
from tune_cd.search.baselines.listed import Listed, grid_cells, uniform_draws
from tune_cd.search.baselines.optuna_rule import SAMPLERS, OptunaRule
from tune_cd.search.protocol import Optimiser
from tune_cd.search.search import CoordinateDescent, Start, starts_of
from tune_cd.search.space import Space


def baseline(
    space: Space,
    *,
    seed: int = 0,
    start: Start = None,
    workers: int | None = None,
    rule: Callable[..., Rule],
    **options: Any,
) -> Baseline:
    """A method to compare with. rule: (space, seed, **options) -> its rule. Raises ImportError if it needs a library
    that is not installed."""
    made = rule(space, seed, **options)
    blind = [space.sample(np.random.default_rng(seed))] if rule is not _grid else []  # the one of `CoordinateDescent`
    return Baseline(space, made, starts_of(space, start) or blind, workers=workers)


def given(space: Space, *, seed: int = 0, start: Start = None, workers: int | None = None) -> Baseline:
    """The given starts and nothing else: configurations to be trained untuned. Raises ValueError without a start."""
    if start is None:
        raise ValueError("start None: the configurations to be trained are required, nothing is searched for")
    return Baseline(space, Listed(space, iter(())), starts_of(space, start), workers=workers)


def _uniform(space: Space, seed: int) -> Listed:
    """Uniform draws in the box's coordinates, without repeats."""
    return Listed(space, uniform_draws(space, seed))


def _grid(space: Space, seed: int, step: float = 2.0) -> Listed:
    """The full factorial by the factor `step` (2 in `sec:exps`), see `grid_cells`. It needs neither start nor seed."""
    return Listed(space, grid_cells(space, step))


RULES: dict[str, Callable[..., Rule]] = {
    "random": _uniform,
    "grid": _grid,
    **{name: partial(OptunaRule, method=name) for name in SAMPLERS},
    "botorch": BotorchRule,
}
"""Methods to compare with: name -> constructor of the rule. "grid" takes the option `step`, "botorch" `initial`."""

OPTIMISERS: dict[str, Callable[..., Optimiser]] = {
    "cd": CoordinateDescent,
    "cd-paper": partial(CoordinateDescent, rule="paper"),
    "cd-local": partial(CoordinateDescent, rule="local"),
    **{name: partial(baseline, rule=rule) for name, rule in RULES.items()},
}
"""Every search method: name -> (space, *, seed=0, start=None, workers=None); "grid" also takes `step`, and those of
CONFIGURED the arguments of `CoordinateDescent`."""

CONFIGURED = ("cd", "cd-paper", "cd-local")
"""Methods that take a prior and directions."""

NOTES = {
    "cd-paper": "cd-paper is Algorithms 1 and 2 of the paper, but repeated points are free: a line search that comes "
    "by a configuration that was evaluated before takes its value and spends no trial on it.",
    "cd-local": "cd-local is cd-paper, repeated points free as well, with line searches that begin within 4 octaves of "
    "the incumbent.",
}
"""Footnotes by method: a table that prints the method must carry the note."""
