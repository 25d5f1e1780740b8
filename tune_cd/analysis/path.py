"""A search's path: its line searches, read from the table's `direction` and `line_position` (`algo:line_search`)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.scores import parameter, weights_of
from tune_cd.balance import WEIGHT, directions_over
from tune_cd.search.protocol import OFF_LINES

ON_LINE = 1e-6  # octaves


@dataclass(frozen=True, eq=False)
class Line:
    """One line search, projected to a plane of two parameters.

    points [n, 2]: the values at its origin, if that is known, then those of its trials in the order of asking. trials:
    the trials' index in the table.
    """

    direction: str
    points: np.ndarray
    trials: tuple[Any, ...]


def search_lines(trials: pd.DataFrame, axes: tuple[str, str] = ("Lambda_p", "Lambda_e")) -> list[Line]:
    """The line searches of one search, whose trials are in the order of asking.

    Successive trials belong to one line search if they share a direction and lie on one line in log space. The second
    condition matters if a search changes lines after every trial and asks twice along one direction from different
    origins. The origin of a line is known for the space's own directions and along the axes; it is usually the
    incumbent. axes: the two parameters of the plane; trials without one of them, or not above 0, are left out.
    """
    found: list[Line] = []
    moves = _moves(trials, axes)
    places = np.column_stack([parameter(trials, name) for name in axes])  # [n_trials, 2]
    for index, direction, position, h in zip(trials.index, trials["direction"], trials["line_position"], places):
        if not isinstance(direction, str) or direction in OFF_LINES:
            found.append(Line("", np.empty((0, 2)), ()))  # ends the previous line
            continue
        points = h[None]
        if not _on_log_axes(points):
            continue
        if direction in moves and np.isfinite(position):
            with np.errstate(all="ignore"):  # a position far beyond a float's range has no origin
                origin = points / 2.0 ** (position * np.array(moves[direction]))
            points = np.vstack([origin, points]) if _on_log_axes(origin) else points
        joined = np.vstack([found[-1].points, points]) if found and found[-1].direction == direction else None
        if joined is not None and _straight(joined):
            found[-1] = Line(direction, np.vstack([found[-1].points, points[-1:]]), (*found[-1].trials, index))
        else:
            found.append(Line(direction, points, (index,)))
    return [line for line in found if line.direction]


def _moves(trials: pd.DataFrame, axes: tuple[str, str]) -> dict[str, tuple[float, float]]:
    """Direction -> octaves of both axes per unit of it."""
    single = {axes[0]: (1.0, 0.0), axes[1]: (0.0, 1.0)}
    names = [*(weights_of(trials) or axes), "batch_size"]
    if not set(axes) <= {name for name in names if name.startswith(WEIGHT)}:
        return single
    at = [names.index(name) for name in axes]
    return {label: (row[at[0]], row[at[1]]) for label, row in directions_over(names).items()} | single


def _on_log_axes(points: np.ndarray) -> bool:
    """Whether points [n, 2] lie in log space."""
    return bool((np.isfinite(points) & (points > 0)).all())


def _straight(points: np.ndarray) -> bool:
    """Whether points [n, 2] lie on one line in log space."""
    x = np.log2(points)
    return len(x) < 3 or float(np.linalg.svd(x - x.mean(0), compute_uv=False)[1]) <= ON_LINE * len(x)
