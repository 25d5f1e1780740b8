"""The directions of a space, by the names of its axes: the rows of A in r = A log h (`eq:reparam`).

The weights of a loss's terms are axes named Lambda_<term>. They move together, as with a learning rate, and against
each other. For a positive and an entropy term these are the rows of `eq:matrix_a`. For other terms, each is set against
all before it (Helmert's contrasts). These rows are orthogonal; their lengths do not matter to a search.
"""

from collections.abc import Sequence

import numpy as np

from tune_cd.search.space import Array, Space

A_O = {"balance": (-1.0, 1.0, 0.0), "joint": (1.0, 1.0, 0.0), "batch_size": (0.0, 0.0, 1.0)}
"""`eq:matrix_a`: the rows of A, directions in log (Lambda_p, Lambda_e, b)."""

BALANCE_SPACES = (("Lambda_p", "Lambda_e"), ("Lambda_p", "Lambda_e", "batch_size"))

WEIGHT = "Lambda_"
"""Prefix of the axes that are weights of terms, already multiplied by the learning rate."""

TERM = "term_"
"""Prefix of the terms' values among a trial's scores."""


def rows_over(names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Direction -> octaves of each axis per unit of the direction, in the order in which the directions are searched.

    For Lambda_sim, Lambda_std, Lambda_cov: "sim/std", along which sim grows as std shrinks, "sim*std/cov" and "joint";
    then each other axis by itself. With fewer than two weights every axis is a direction of its own.
    """
    names = tuple(names)
    if names in BALANCE_SPACES:
        return {name: A_O[name][: len(names)] for name in tuple(A_O)[: len(names)]}
    weights, rows = weights_among(names), {}
    if len(weights) >= 2:
        terms = [name.removeprefix(WEIGHT) for name in weights]
        for at in range(1, len(terms)):
            contrast = dict.fromkeys(weights[:at], 1.0) | {weights[at]: -float(at)}
            rows[f"{'*'.join(terms[:at])}/{terms[at]}"] = contrast
        rows["joint"] = dict.fromkeys(weights, 1.0)
    rows |= {name: {name: 1.0} for name in names if len(weights) < 2 or name not in weights}
    return {label: tuple(row.get(name, 0.0) for name in names) for label, row in rows.items()}


def weights_among(names: Sequence[str]) -> list[str]:
    """The axes that are weights of terms, in order."""
    return [name for name in names if name.startswith(WEIGHT)]


def directions_of(space: Space, rows: Sequence[Sequence[float]] | None) -> tuple[tuple[str, ...], Array]:
    """Names and rows [n_directions, n_axes]; None: the default ones. Raises ValueError for rows that do not fit."""
    if not isinstance(space, Space):
        raise ValueError(f"space {space!r}: a tune_cd.Space is required, such as Space(lr=(1e-5, 1.0))")
    n_axes, known = len(space.names), _known(space)
    if rows is None:
        return tuple(known), np.array(list(known.values()))
    array = np.array(rows, dtype=float)
    if array.ndim != 2 or array.shape[1] != n_axes or len(array) == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"directions {rows!r}: a finite array [n_directions, {n_axes}] is required, one column per axis of {space}"
        )
    if not array.any(axis=1).all():
        raise ValueError(f"directions {rows!r}: a row of zeros does not move")
    return tuple(_name(space, known, row, i) for i, row in enumerate(array)), array


def _known(space: Space) -> dict[str, tuple[float, ...]]:
    """The default directions of a space. Weights on linear axes are searched one by one: an equal step is no common
    factor there."""
    scales = {axis.scale for axis in space.axes if axis.name.startswith(WEIGHT)}
    if space.names in BALANCE_SPACES or scales == {"log"}:
        return rows_over(space.names)
    return dict(zip(space.names, map(tuple, np.eye(len(space.names)).tolist())))


def _name(space: Space, known: dict[str, tuple[float, ...]], row: Array, i: int) -> str:
    """The name of a row: of the equal default direction, else of the one axis it moves, else its number."""
    for name, other in known.items():
        if np.array_equal(row, other):
            return name
    along = np.flatnonzero(row)
    return space.names[along[0]] if len(along) == 1 else f"direction_{i}"
