"""Formula landscapes that come with the benchmarks alone: hills over parameters other than a balance. No constant of a
search was chosen on them."""

from itertools import product
from zlib import crc32

import numpy as np

from tune_cd.landscapes.landscape import Landscape
from tune_cd.search.space import Space

AXES = ("lr", "weight_decay", "dropout_rate", "warmup", "momentum_rate", "label_noise", "jitter", "temperature")
SIDES = (4, 6, 8, 12, 16, 24)  # of the hills' boxes, in octaves


def _drawn(name: str, side: float, n_axes: int, ridge: bool, n_idle: int = 0) -> Landscape:
    """A hill of height 1 over coordinates in octaves. The name is the seed from which box, place of the best,
    orientation and widths are drawn. n_idle: further axes without effect.

    With d the distance from its top in widths, along its own directions, a ridge is exp(-d²), flat far away. A bowl is
    1 - d² / (the largest d² in the box), steep everywhere.
    """
    rng = np.random.default_rng(crc32(name.encode()))
    low = -rng.uniform(side, 2 * side, n_axes)
    centre = low + side * rng.uniform(0.05, 0.95, n_axes)
    directions = np.linalg.qr(rng.standard_normal((n_axes, n_axes)))[0]  # orthonormal rows
    narrow = side * (rng.uniform(0.1, 0.25) if ridge else 0.5)
    widths = narrow * np.append(1.0, rng.uniform(1.0, 4.0, n_axes - 1))

    def squared(x: np.ndarray) -> np.ndarray:
        """d² [...] at coordinates [..., n_axes + n_idle]."""
        return ((((np.asarray(x, float)[..., :n_axes] - centre) @ directions.T) / widths) ** 2).sum(-1)

    corners = np.array(list(product(*zip(low, low + side))))
    steepest = float(squared(corners).max())

    def hill(x: np.ndarray) -> np.ndarray:
        return np.exp(-squared(x)) if ridge else 1 - squared(x) / steepest

    low, top = np.append(low, [-side] * n_idle), np.append(centre, [-side / 2] * n_idle)
    space = Space(**{axis: (float(2.0**at), float(2.0 ** (at + side))) for axis, at in zip(AXES, low)})
    return Landscape(name, space, hill, space.from_coordinates(top), float(hill(corners).min()), 1.0)


_KINDS = [
    *((f"box-{side}-{kind}", side, 2, kind) for side in SIDES for kind in ("bowl", "ridge")),
    *((f"box-8-{kind}-{n}d", 8, n, kind) for n in (3, 4, 6, 8) for kind in ("bowl", "ridge")),
]
_IDLE = ((2, 2), (2, 4), (3, 3), (4, 4))
HILLS: dict[str, Landscape] = {
    **{name: _drawn(name, side, n, kind == "ridge") for name, side, n, kind in _KINDS},
    **{f"box-8-ridge-{n}d-idle-{m}": _drawn(f"box-8-ridge-{n}d-idle-{m}", 8, n, True, m) for n, m in _IDLE},
}
