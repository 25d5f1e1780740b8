"""Formula landscapes that come with the benchmarks alone: hills over parameters other than a balance, and landscapes in
boxes where the best is near a corner. No constant of a search was chosen on them."""

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from zlib import crc32

import numpy as np

from tune_cd.landscapes.landscape import Landscape
from tune_cd.search.space import Space

AXES = ("lr", "weight_decay", "dropout_rate", "warmup", "momentum_rate", "label_noise", "jitter", "temperature")
SIDES = (4, 6, 8, 12, 16, 24)  # of the hills' boxes, in octaves

INSET, SIDE = 1.0, 16.0  # of boxes with the best near a corner: octaves from it to the near ends, and of every side
TICKS = 41  # per axis of the lattice on which such a box's range of scores is computed
ENDS = {"high": 1, "low": 0}  # word in the name -> near end of an axis
CORNER = re.compile(r"(?P<base>.+)-corner-(?P<first>high|low)-(?P<second>high|low)")
_CORNERS = product(("omniglot", "rotated", "narrow", "cliff", "box-8-bowl", "box-8-ridge"), ENDS, ENDS)
CORNERS = tuple(f"{base}-corner-{first}-{second}" for base, first, second in _CORNERS)


@dataclass(frozen=True)
class Hill:
    """A hill of height 1 over coordinates in octaves.

    With d the distance from its top in widths, along its own directions, a ridge is exp(-d²), flat far away. A bowl is
    1 - d² / (the largest d² in the box), steep everywhere.

    centre [n_axes]; directions [n_axes, n_axes], orthonormal rows; widths [n_axes]; steepest: the largest d², None for
    a ridge.
    """

    centre: np.ndarray
    directions: np.ndarray
    widths: np.ndarray
    steepest: float | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores [...] at coordinates x [..., n_axes]."""
        distance = self.squared(x)
        return np.exp(-distance) if self.steepest is None else 1 - distance / self.steepest

    def squared(self, x: np.ndarray) -> np.ndarray:
        return ((((np.asarray(x, float) - self.centre) @ self.directions.T) / self.widths) ** 2).sum(-1)


def _drawn(name: str, side: float, n_axes: int, ridge: bool, n_idle: int = 0) -> Landscape:
    """The name is the seed from which box, place of the best, orientation and widths are drawn. n_idle: further axes
    without effect."""
    rng = np.random.default_rng(crc32(name.encode()))
    low = -rng.uniform(side, 2 * side, n_axes)
    centre = low + side * rng.uniform(0.05, 0.95, n_axes)
    directions = np.linalg.qr(rng.standard_normal((n_axes, n_axes)))[0]
    narrow = side * (rng.uniform(0.1, 0.25) if ridge else 0.5)
    hill = Hill(centre, directions, narrow * np.append(1.0, rng.uniform(1.0, 4.0, n_axes - 1)))
    corners = np.array(list(product(*zip(low, low + side))))
    if not ridge:
        hill = replace(hill, steepest=float(hill.squared(corners).max()))
    low, centre = np.append(low, [-side] * n_idle), np.append(centre, [-side / 2] * n_idle)
    space = Space(**{axis: (float(2.0**at), float(2.0 ** (at + side))) for axis, at in zip(AXES, low)})
    surface = partial(_on_first, hill, n_axes)
    return Landscape(name, space, surface, space.from_coordinates(centre), float(hill(corners).min()), 1.0)


def _on_first(hill: Hill, n_axes: int, x: np.ndarray) -> np.ndarray:
    return hill(np.asarray(x)[..., :n_axes])


_KINDS = [
    *((f"box-{side}-{kind}", side, 2, kind) for side in SIDES for kind in ("bowl", "ridge")),
    *((f"box-8-{kind}-{n}d", 8, n, kind) for n in (3, 4, 6, 8) for kind in ("bowl", "ridge")),
]
_IDLE = ((2, 2), (2, 4), (3, 3), (4, 4))
HILLS: dict[str, Landscape] = {
    **{name: _drawn(name, side, n, kind == "ridge") for name, side, n, kind in _KINDS},
    **{f"box-8-ridge-{n}d-idle-{m}": _drawn(f"box-8-ridge-{n}d-idle-{m}", 8, n, True, m) for n, m in _IDLE},
}


def in_corner(landscape: Landscape, name: str, near: tuple[str, ...]) -> Landscape:
    """The landscape in another box, with the ends `near` INSET from its optimum.

    near: a word of ENDS for each axis. Raises ValueError for axes that are not log-scaled and real, for another number
    of them, and where a measured grid does not cover the box.
    """
    axes = landscape.space.axes
    if len(axes) != len(near) or any(axis.scale != "log" or axis.size < np.inf for axis in axes):
        raise ValueError(f"landscape {name!r}: {landscape.name} needs {len(near)} real, log-scaled axes")
    best = landscape.space.to_coordinates(landscape.optimum)
    low = np.array([at + INSET - SIDE if ENDS[end] else at - INSET for at, end in zip(best, near)])
    lattice = np.meshgrid(*(np.linspace(at, at + SIDE, TICKS) for at in low), indexing="ij")
    values = landscape.validation(np.stack([*lattice], axis=-1))
    space = Space(**{axis.name: (2.0**at, 2.0 ** (at + SIDE)) for axis, at in zip(axes, low)})
    highest = max(float(np.nanmax(values)), float(landscape.validation(best)))
    return replace(landscape, name=name, space=space, low=float(np.nanmin(values)), high=highest)
