"""Variants of the paper's search to replay: those of `tab:ablation`, of the appendix and of the discussion."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from tune_cd import balance
from tune_cd.landscapes.simulation import Method
from tune_cd.search.coordinate_descent import CoordinateDescent
from tune_cd.search.golden_section import FAILED
from tune_cd.search.line_search import SETTINGS, SearchSettings
from tune_cd.search.protocol import Proposal, best_of
from tune_cd.search.registry import NOTES
from tune_cd.search.space import Space

A_O = tuple(row[:2] for row in list(balance.A_O.values())[:2])  # without the batch size
A_O_3D, A_TH = tuple(balance.A_O.values()), tuple(balance.A_TH.values())
A_TH_COLUMNS = tuple(map(tuple, np.linalg.inv(A_TH).T.round().tolist()))
"""Columns of A_th's inverse: a move along one changes one component of r = A_th log h and keeps the others. The paper
says "the rows of A". For A_O both readings are the same up to scale, for A_th they differ. Its inverse is of integers,
as its determinant is -1."""

A_I, A_I_3D = (tuple(map(tuple, np.eye(n).tolist())) for n in (2, 3))

FIXED = replace(SETTINGS["paper"], budget_growth=1.0)
"""The preset "paper" without the growth of budgets."""

LOCAL_LATER = replace(SETTINGS["local"], whole_sweeps=1)
"""The preset "local", but the first sweep searches every direction from end to end: a blind start may lie anywhere."""


class Charged:
    """Algorithms 1 and 2 with a trial for every proposal, repeated configurations included.

    For replays with one trial at a time. `CoordinateDescent` instead takes the value of a repeated point from its
    history. how: its arguments. Raises ValueError for several workers, and as `CoordinateDescent` does.
    """

    def __init__(self, space: Space, *, workers: int | None = 1, **how: Any):
        if workers != 1:
            raise ValueError(f"workers {workers}: a search that pays for repeated points has one")
        self.space, self.workers = space, workers
        self._state = CoordinateDescent(space, **how).first()
        self._asked: Proposal | None = None
        self._told: list[tuple[dict, float | None]] = []

    def ask(self) -> dict | None:
        if self._state.finished or self._asked is not None:
            return None
        self._asked = self._state.proposal()
        return dict(self._asked.h)

    def tell(self, h: Mapping[str, Any], value: float | None) -> None:
        value = float(value) if value is not None and isfinite(value) else None
        self._told.append((dict(h), value))
        self._state, self._asked = self._state.told(dict(h), FAILED if value is None else value), None

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        if self._asked is None or self.space.key(h) != self.space.key(self._asked.h):
            raise KeyError(f"{dict(h)} is not live")
        return self._asked

    @property
    def best(self) -> tuple[dict, float] | None:
        return best_of(self._told)


def _variant(
    directions: tuple, budget: int, settings: str | SearchSettings = "paper", search: Method = CoordinateDescent
) -> Method:
    return partial(search, directions=directions, budgets=budget, settings=settings)


ABLATION: dict[str, Method] = {
    "A_O (3,3)": _variant(A_O, 3),
    "A_I (3,3)": _variant(A_I, 3),
    "A_O (7,7)": _variant(A_O, 7),
    "A_O (15,15)": _variant(A_O, 15),
    "A_O (3,3) rev": _variant(A_O[::-1], 3),
    "A_I (3,3) rev": _variant(A_I[::-1], 3),
    "A_O (3,3) repeats cost": _variant(A_O, 3, search=Charged),
    "A_O (3,3) local": _variant(A_O, 3, "local"),
    "A_O (3,3) local later": _variant(A_O, 3, LOCAL_LATER),
    "A_I (3,3) local": _variant(A_I, 3, "local"),
    "A_O (3,3) fixed": _variant(A_O, 3, FIXED),
    "A_O (7,7) fixed": _variant(A_O, 7, FIXED),
    "A_O (15,15) fixed": _variant(A_O, 15, FIXED),
}
"""Variants for landscapes of Lambda_p and Lambda_e. The first five are the rows of `tab:ablation`. Then A_I with
Lambda_e first; a search that pays for repeated points; brackets around the incumbent, at once or after a first sweep;
budgets that do not grow."""

ABLATION_3D: dict[str, Method] = {
    "A_O (3,3,3)": _variant(A_O_3D, 3),
    "A_I (3,3,3)": _variant(A_I_3D, 3),
    "A_th rows (3,3,3)": _variant(A_TH, 3),
    "A_th inverse columns (3,3,3)": _variant(A_TH_COLUMNS, 3),
    "A_O (3,3,3) rev": _variant(A_O_3D[::-1], 3),
    "A_O (3,3,3) repeats cost": _variant(A_O_3D, 3, search=Charged),
    "A_O (3,3,3) local": _variant(A_O_3D, 3, "local"),
    "A_O (3,3,3) fixed": _variant(A_O_3D, 3, FIXED),
}
"""Variants for landscapes with a batch size: A_O, A_I, and the appendix's directions A_th in both readings."""


def notes_of(methods: Iterable[str]) -> list[str]:
    """Notes to print below a table of these methods or variants, a sentence or two each."""
    names = {"cd-paper" if name in ABLATION or name in ABLATION_3D else name for name in methods}
    return [note for name, note in NOTES.items() if name in names]
