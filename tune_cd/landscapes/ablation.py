"""Variants of the paper's search to replay: the rows of `tab:ablation`, and those of the appendix."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from tune_cd import balance
from tune_cd.landscapes.simulation import Method
from tune_cd.search.methods import NOTES
from tune_cd.search.search import CoordinateDescent

A_O = tuple(row[:2] for row in list(balance.A_O.values())[:2])  # without the batch size
A_O_3D, A_TH = tuple(balance.A_O.values()), tuple(balance.A_TH.values())
A_TH_COLUMNS = tuple(map(tuple, np.linalg.inv(A_TH).T.round().tolist()))
"""Columns of A_th's inverse: a move along one changes one component of r = A_th log h and keeps the others. The paper
says "the rows of A". For A_O both readings are the same up to scale, for A_th they differ. Its inverse is of integers,
as its determinant is -1."""

A_I, A_I_3D = (tuple(map(tuple, np.eye(n).tolist())) for n in (2, 3))


def _variant(directions: tuple, budget: int) -> Method:
    return partial(CoordinateDescent, directions=directions, budgets=budget, rule="paper")


ABLATION: dict[str, Method] = {
    "A_O (3,3)": _variant(A_O, 3),
    "A_I (3,3)": _variant(A_I, 3),
    "A_O (7,7)": _variant(A_O, 7),
    "A_O (15,15)": _variant(A_O, 15),
    "A_O (3,3) rev": _variant(A_O[::-1], 3),
}
"""Variants for landscapes of Lambda_p and Lambda_e."""

ABLATION_3D: dict[str, Method] = {
    "A_O (3,3,3)": _variant(A_O_3D, 3),
    "A_I (3,3,3)": _variant(A_I_3D, 3),
    "A_th rows (3,3,3)": _variant(A_TH, 3),
    "A_th inverse columns (3,3,3)": _variant(A_TH_COLUMNS, 3),
}
"""Variants for landscapes with a batch size: A_O, A_I, and the appendix's directions A_th in both readings."""


def notes_of(methods: Iterable[str]) -> list[str]:
    """Notes to print below a table of these methods or variants, a sentence or two each."""
    names = {"cd-paper" if name in ABLATION or name in ABLATION_3D else name for name in methods}
    return [note for name, note in NOTES.items() if name in names]
