"""The default search's priors: how similar values are, how noisy they are, and where the best lies.

BALANCE is for the weights of a loss, chosen on balance landscapes in the paper's box. GENERAL is for any other
parameters, in boxes of any size: all its length scales are shares of the box. What each constant is worth is in
`tests/benchmarks/RESULTS.md`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle

import numpy as np
from scipy.special import ndtri

from tune_cd.search.directions import Plan
from tune_cd.search.process import Draws
from tune_cd.search.space import NEGLIGIBLE, Array, Space

TRADING, SCALING = 4.0, 8.0
"""BALANCE's length scales in octaves: TRADING for directions along which one parameter grows as another shrinks (the
ridge's narrow way, `ssec:intuition`), SCALING for all others. Both are the same in narrow boxes."""

NOISES, NARROW = (1e-3, 1e-2, 1e-1), 1 / 4
"""BALANCE has a draw with each of these noise variances, as shares of the process's variance, and one more, of the
middle noise, with NARROW times the length scales, since a ridge may be narrower than usual."""

DRAWS = 32
"""GENERAL's number of draws of length scales and noise; the draws are the same in every search."""

SCALE = 0.5
"""GENERAL's median length scale, as a share of the box's width along a direction; half of it along a direction that
trades parameters. Shorter ones find an optimum in a corner later."""

TOGETHER, EACH = 1.0, 0.3
"""Standard deviations of the logarithm of GENERAL's length scales: common to all of a draw (TOGETHER), and of each by
itself (EACH). A landscape is mostly wide or narrow as a whole."""

NOISE = (1e-6, 1e-1)
"""GENERAL's noise variances lie between these shares of the process's variance. With more noise, a narrow ridge is
taken for noise, and with more than the least one of two peaks."""

CENTRE = 2.0
"""The expected gain is weighted by exp(-CENTRE·(|u|² + Σ(a·u)²)/2), with u = ±1 at the ends of each axis, and a the
directions that trade parameters. A box is drawn around likely values, extreme balances being least likely, while a
Gaussian process prefers the corners, of which it knows least."""

FADES_FROM = 5.0
"""From so many full trainings' worth on, the prior of where the best lies fades (piBO, Hvarfner et al. 2022)."""

AROUND = 4.0
"""Where a start is given, half the weight is a Gaussian around it, of this standard deviation in octaves. The other
half insures against an uninformative start."""


def along_rows(plan: Plan, trading: float, scaling: float) -> Array:
    """The map [n_numeric, n_numeric] from coordinates to the rows of A (`eq:reparam`), normalised and in units of these
    lengths; to the numeric axes where A is not a basis."""
    rows = plan.rows if _is_basis(plan.rows) else np.eye(len(plan.space.numeric))
    units = np.array([trading if trades(row) else scaling for row in rows])
    unit_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit_rows / units[:, None]


def trades(direction: Array) -> bool:
    """Whether one parameter grows along a direction as another shrinks."""
    return bool(direction.min() < 0 < direction.max())


def location_weight(plan: Plan, x: Array, start: Array | None) -> Array:
    """Prior of the optimum's location at x [n, n_axes], unnormalised, [n]: see CENTRE and AROUND. All values of a
    category are alike to it.

    start: coordinates [n_axes] of a start that someone chose, or None.
    """
    ordered = plan.space.ordered
    low, high, x = plan.space.low[ordered], plan.space.high[ordered], x[:, ordered]
    u = (2 * x - low - high) / np.maximum(high - low, NEGLIGIBLE)
    trading = [row / np.abs(row).max() for row in plan.rows if trades(row)]
    unbalance = u @ np.reshape(trading, (len(trading), x.shape[1])).T  # [n, trading directions]
    central: Array = np.exp(-CENTRE * ((u**2).sum(-1) + (unbalance**2).sum(-1)) / 2)
    if start is None:
        return central
    around: Array = np.exp(-(((x - start[ordered]) / AROUND) ** 2).sum(-1) / 2)
    return (central + around) / 2


def _fixed(plan: Plan) -> Draws:
    """BALANCE's prior draws."""
    sizes = np.array([1.0] * len(NOISES) + [NARROW])[:, None]
    maps = along_rows(plan, TRADING, SCALING) / sizes[..., None]
    noises = np.array([*NOISES, NOISES[1]])
    return Draws(_with_categories(plan.space, maps, sizes), noises, plan.space.features)


def _drawn(plan: Plan) -> Draws:
    """GENERAL's prior draws."""
    n_axes, n_numeric = len(plan.space.names), len(plan.space.numeric)
    uniforms = _uniforms(DRAWS, n_axes + 2)
    normals = ndtri(uniforms)
    sizes = np.exp(TOGETHER * normals[:, :1] + EACH * normals[:, 2:])  # [DRAWS, n_axes], the categories last
    own = sizes[:, :n_numeric]
    lengths = [rows / (median * factors)[:, None] for (rows, median), factors in zip(cycle(_frames(plan)), own)]
    maps = _with_categories(plan.space, np.array(lengths), sizes[:, n_numeric:])
    low, high = np.log(NOISE)
    return Draws(maps, np.exp(low + (high - low) * uniforms[:, 1]), plan.space.features)


def _with_categories(space: Space, maps: Array, lengths: Array) -> Array:
    """The maps from features to units of length scales [n_draws, n_features, n_features], from those of the numeric
    axes [n_draws, n_numeric, n_numeric] and of the categories, lengths [n_draws, n_categories or 1]."""
    counts = [len(axis.values) for axis in space.categories]
    n, lengths = maps.shape[1], np.broadcast_to(lengths, (len(maps), len(counts)))
    whole = np.zeros((len(maps), n + sum(counts), n + sum(counts)))
    whole[:, :n, :n] = maps
    every = np.arange(n, n + sum(counts))
    whole[:, every, every] = 1 / np.repeat(lengths, counts, axis=1)
    return whole


def _frames(plan: Plan) -> Iterator[tuple[Array, Array]]:
    """Orthogonal directions [n_axes, n_axes] of the numeric axes along which a landscape may be stretched, and their
    median length scales [n_axes].

    They are the plan's own if these are a basis other than the axes; else the axes, then each pair of axes turned by 45
    degrees. From nine axes on there are more pairs than DRAWS, and the last pairs are not turned.
    """
    n_axes = len(plan.space.numeric)
    if _is_basis(plan.rows) and not plan.is_along_axes:
        yield _frame(plan, plan.rows)
        return
    yield _frame(plan, np.eye(n_axes))
    for one in range(n_axes):
        for other in range(one):
            turned = np.eye(n_axes)
            turned[[one, one, other, other], [one, other, one, other]] = 1, 1, 1, -1
            yield _frame(plan, turned)


def _frame(plan: Plan, directions: Array) -> tuple[Array, Array]:
    rows = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    widths = (rows**2) @ (plan.space.high - plan.space.low)[plan.space.ordered]
    halved = np.array([0.5 if trades(row) else 1.0 for row in rows])
    return rows, SCALE * np.maximum(widths, NEGLIGIBLE) * halved


def _is_basis(rows: Array) -> bool:
    return len(rows) == rows.shape[1] and bool(abs(np.linalg.det(rows)) >= NEGLIGIBLE)


@lru_cache
def _uniforms(n: int, dimensions: int) -> Array:
    """A sequence [n, dimensions] that fills the unit cube evenly: multiples of powers of the generalised golden ratio,
    the root of g^(dimensions + 1) = g + 1."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (dimensions + 1))
    steps = golden ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1


@dataclass(frozen=True)
class Prior:
    """A prior of the default search, and how far it is trusted.

    draws: plan -> draws of the values' length scales and noise at one length.
    alike: length scales along the training length, in octaves of it, each as likely. With 4, an eighth of the length
        tells something about the end, with 8 much, with 32 nearly all.
    """

    draws: Callable[[Plan], Draws]
    alike: tuple[float, ...]


BALANCE = Prior(_fixed, alike=(8.0, 32.0))
GENERAL = Prior(_drawn, alike=(4.0,))


@lru_cache(maxsize=64)  # every step of a search asks for the same
def draws_of(prior: Prior, plan: Plan, lengths: tuple[float, ...]) -> Draws:
    """A prior's draws of length scales and noise at these training lengths. The length is one more axis, in octaves,
    with the length scales `Prior.alike`; of a single length the scale does not matter."""
    drawn, alike = prior.draws(plan), prior.alike if len(lengths) > 1 else prior.alike[:1]
    each, n, _ = drawn.maps.shape
    maps = np.zeros((each * len(alike), n + 1, n + 1))
    maps[:, :n, :n] = np.repeat(drawn.maps, len(alike), axis=0)
    maps[:, n, n] = 1 / np.tile(alike, each)
    return replace(drawn, maps=maps, noises=np.repeat(drawn.noises, len(alike)))


PRIORS = {"balance": BALANCE, "general": GENERAL}
"""The priors by name; `tune_cd.balance.of` says which fits the weights of a loss."""
