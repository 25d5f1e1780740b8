"""The variants of the paper's search that `tab:ablation` compares, and those of the appendix, as methods to replay."""

from functools import partial

import numpy as np

from tune_cd import balance
from tune_cd.descent import CoordinateDescent
from tune_cd.trajectory import SearchSettings
from tune_cd.replay.simulation import Method

A_O = tuple(row[:2] for row in list(balance.A_O.values())[:2])  # without the batch size
A_O_3D, A_TH = tuple(balance.A_O.values()), tuple(balance.A_TH.values())
A_TH_COLUMNS = tuple(map(tuple, np.linalg.inv(A_TH).T.round().tolist()))
"""The columns of A_th's inverse: moving along one of them changes one component of r = A_th log h and keeps the others.
The paper says "the rows of A"; for A_O both readings are the same up to scale, for A_th they are not (its inverse is
of integers, as its determinant is -1)."""

FIXED = SearchSettings(proposals="golden", score_range=1.0, budget_growth=1.0)
"""The preset "paper" without the growth of budgets."""


def _variant(directions: tuple, budget: int, settings: str | SearchSettings = "paper") -> Method:
    return partial(CoordinateDescent, directions=directions, budgets=budget, settings=settings)


ABLATION: dict[str, Method] = {
    "A_O (3,3)": _variant(A_O, 3),
    "A_I (3,3)": _variant(((1, 0), (0, 1)), 3),
    "A_O (7,7)": _variant(A_O, 7),
    "A_O (15,15)": _variant(A_O, 15),
    "A_O (3,3) rev": _variant(A_O[::-1], 3),
    "A_O (3,3) fixed": _variant(A_O, 3, FIXED),
    "A_O (7,7) fixed": _variant(A_O, 7, FIXED),
    "A_O (15,15) fixed": _variant(A_O, 15, FIXED),
}
"""The rows of `tab:ablation`, and the same with budgets that do not grow; for landscapes of Lambda_p and Lambda_e."""

ABLATION_3D: dict[str, Method] = {
    "A_O (3,3,3)": _variant(A_O_3D, 3),
    "A_I (3,3,3)": _variant(((1, 0, 0), (0, 1, 0), (0, 0, 1)), 3),
    "A_th rows (3,3,3)": _variant(A_TH, 3),
    "A_th inverse columns (3,3,3)": _variant(A_TH_COLUMNS, 3),
    "A_O (3,3,3) rev": _variant(A_O_3D[::-1], 3),
    "A_O (3,3,3) fixed": _variant(A_O_3D, 3, FIXED),
}
"""The appendix's directions A_th in both readings, beside A_O; for landscapes with a batch size."""
