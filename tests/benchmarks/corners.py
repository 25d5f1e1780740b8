"""Landscapes in other boxes, of 16 octaves a side: the best is one octave from a corner.

A user who draws a box need not know where the best is. A search that assumes it in the middle must still find it.
"""

import re
from dataclasses import replace
from itertools import product

import numpy as np

from tune_cd.landscapes.landscape import Landscape
from tune_cd.search.space import Space

INSET = 1.0
"""Octaves from the best to the near end of each axis."""

SIDE = 16.0
"""Octaves of every side of the box."""

TICKS = 41
"""Points per axis of the lattice on which the range of scores is computed."""

ENDS = {"high": 1, "low": 0}
"""Word in the name -> near end of an axis: 1 the upper, 0 the lower."""

NAME = re.compile(r"(?P<base>.+)-corner-(?P<first>high|low)-(?P<second>high|low)")

OF_FORMULAS = ("omniglot", "rotated", "narrow", "cliff", "box-8-bowl", "box-8-ridge")
OF_GRIDS = ("omniglot-242-margin", "omniglot-242-infonce")
"""The box must lie within a measured grid. On these two that leaves the corner of both upper ends."""

WITHOUT_CLIFF = "cliff-corner-high-high"
"""This box ends before the cliff begins: it would be omniglot's once more."""

_FORMULAS = [f"{base}-corner-{first}-{second}" for base, first, second in product(OF_FORMULAS, ENDS, ENDS)]
CORNERS = (
    *(name for name in _FORMULAS if name != WITHOUT_CLIFF),
    *(f"{base}-corner-high-high" for base in OF_GRIDS),
)


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
