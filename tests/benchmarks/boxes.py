"""Formula landscapes of parameters other than a balance: hills in boxes of 4 to 24 octaves, of 2 to 4 axes.

Learning rates, weight decays and the like are searched in boxes of any size, with the best anywhere in them. The name
of a landscape is the seed from which the place of the best and the hill's orientation, length and width are drawn. No
constant of any search was chosen on these landscapes.
"""

from dataclasses import dataclass
from itertools import product
from zlib import crc32

import numpy as np

from tune_cd.landscapes.landscape import Landscape
from tune_cd.search.space import Space

AXES = ("lr", "weight_decay", "dropout_rate", "warmup")
SIDES = (4, 6, 8, 12, 16, 24)


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
    steepest: float | None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores [...] at coordinates x [..., n_axes]."""
        distance = self.squared(x)
        return np.exp(-distance) if self.steepest is None else 1 - distance / self.steepest

    def squared(self, x: np.ndarray) -> np.ndarray:
        return ((((np.asarray(x, float) - self.centre) @ self.directions.T) / self.widths) ** 2).sum(-1)


def _drawn(name: str, side: float, n_axes: int, ridge: bool) -> Landscape:
    rng = np.random.default_rng(crc32(name.encode()))
    low = -rng.uniform(side, 2 * side, n_axes)
    centre = low + side * rng.uniform(0.05, 0.95, n_axes)
    directions = np.linalg.qr(rng.standard_normal((n_axes, n_axes)))[0]
    narrow = side * (rng.uniform(0.1, 0.25) if ridge else 0.5)
    widths = narrow * np.append(1.0, rng.uniform(1.0, 4.0, n_axes - 1))
    hill = Hill(centre, directions, widths, None)
    corners = np.array(list(product(*zip(low, low + side))))
    if not ridge:
        hill = Hill(centre, directions, widths, float(hill.squared(corners).max()))
    space = Space(**{axis: (float(2.0**at), float(2.0 ** (at + side))) for axis, at in zip(AXES, low)})
    return Landscape(name, space, hill, space.from_coordinates(centre), float(hill(corners).min()), 1.0)


def _named() -> dict[str, tuple[float, int, bool]]:
    """Name -> (side in octaves, number of axes, whether it is a ridge)."""
    kinds = {"bowl": False, "ridge": True}
    plane = {f"box-{side}-{kind}": (side, 2, ridge) for side in SIDES for kind, ridge in kinds.items()}
    deep = {f"box-8-{kind}-{n}d": (8, n, ridge) for n in (3, 4) for kind, ridge in kinds.items()}
    return plane | deep


BOXES: dict[str, Landscape] = {name: _drawn(name, *kind) for name, kind in _named().items()}
