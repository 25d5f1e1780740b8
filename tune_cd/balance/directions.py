"""Directions and prior of a search over the weights of a loss."""

from collections.abc import Sequence
from math import inf
from typing import Any

from tune_cd.search.number import number_of
from tune_cd.search.space import Space

A_O = {"balance": (-1.0, 1.0, 0.0), "joint": (1.0, 1.0, 0.0), "batch_size": (0.0, 0.0, 1.0)}
"""`eq:matrix_a`: the rows of A, directions in log (Lambda_p, Lambda_e, b)."""

SPACES = (("Lambda_p", "Lambda_e"), ("Lambda_p", "Lambda_e", "batch_size"))
"""The axes of the paper's searches."""

WEIGHT = "Lambda_"
"""Prefix of the axes that are weights of terms, already multiplied by the learning rate."""

TERM = "term_"
"""Prefix of the terms' values among a trial's scores."""

WIDE = 16.0
"""Octaves. The prior "balance" is for ranges at least this wide: its length scales are for ranges like the paper's, 24
octaves."""

A_TH = {"C_p": (1.0, 0.0, -1.0), "C_e": (0.0, 1.0, -2.0), "C_eq": (1.0, -1.0, 0.0)}
"""`eq:linear_system`: rows over log (Lambda_p, Lambda_e, b). Each is the combination that one constraint holds
constant: the constraint on the positive term, on the entropy term, and on the balance of both."""


def of(space: Space) -> dict[str, Any]:
    """The arguments `directions` and `prior` of a search over the weights of a loss, and over what else the space has.

    Directions: `directions_over` the names. Prior: "balance" for (Lambda_p, Lambda_e[, batch_size]), and for other
    weights, and a batch size, if every weight's range is WIDE; else "general". Weights on linear axes are searched one
    by one: an equal step is no common factor there. Raises ValueError for no `Space`, and for less than two weights.
    """
    if not isinstance(space, Space):
        raise ValueError(f"space {space!r}: a tune_cd.Space is required, such as Space(Lambda_p=(1e-4, 1e3), ...)")
    weights = [axis for axis in space.axes if axis.name.startswith(WEIGHT) and axis.name in space.numeric]
    if len(weights) < 2:
        raise ValueError(f"{space}: two weights {WEIGHT}<term> at least make a balance")
    names = space.numeric
    if names in SPACES:
        return {"directions": directions_over(names), "prior": "balance"}
    others = set(names) - {axis.name for axis in weights} - {"batch_size"}
    log = all(axis.scale == "log" for axis in weights)
    wide = log and all(axis.ends[1] - axis.ends[0] >= WIDE for axis in weights)
    directions = directions_over(names) if log else None
    return {"directions": directions, "prior": "balance" if wide and not others else "general"}


def directions_over(names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Direction -> octaves of each axis per unit of the direction, in the order in which the directions are searched.

    The weights move together, as with a learning rate, and against each other. For a positive and an entropy term these
    are the rows of `eq:matrix_a`. For other terms, each is set against all before it (Helmert's contrasts): for
    Lambda_sim, Lambda_std, Lambda_cov "sim/std", along which sim grows as std shrinks, "sim*std/cov" and "joint". These
    rows are orthogonal. Then each other axis by itself; with fewer than two weights every axis.
    """
    names = tuple(names)
    if names in SPACES:
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


def is_positive(value: object) -> bool:
    """Whether it is a finite number > 0."""
    return 0 < (number_of(value) or 0) < inf
