"""The paper's numbers for search methods: `tab:hp_res` and `tab:ablation`."""

from math import inf

from tune_cd.landscapes.formulas import PRINTED

HP_RES = {
    "omniglot": {"tpe-paper": (0.62, 0.69, 24), "cmaes": (0.66, 0.73, 15), "cd-paper": (0.71, 0.77, 7)},
    "sop": {"tpe-paper": (0.57, 0.63, 17), "cmaes": (0.58, 0.63, 18), "cd-paper": (0.61, 0.67, 8)},
    "landmarks": {"tpe-paper": (0.53, 0.58, 14), "cmaes": (0.56, 0.60, 9), "cd-paper": (0.57, 0.61, 4)},
    "tinyimagenet": {"tpe-paper": (0.13, 0.17, inf), "cmaes": (0.17, 0.19, inf), "cd-paper": (0.19, 0.22, 27)},
}
"""Dataset -> method -> AUC@10, AUC@20 and n-95 (inf: > 50). The Random rows are `formulas.PRINTED`, to which ridges are
fitted."""

ROWS = ("A_O (3,3)", "A_I (3,3)", "A_O (7,7)", "A_O (15,15)", "A_O (3,3) rev")

ABLATION = {
    "omniglot": dict(zip(ROWS, (0.77, 0.69, 0.58, 0.71, 0.72), strict=True)),
    "sop": dict(zip(ROWS, (0.67, 0.65, 0.58, 0.60, 0.64), strict=True)),
    "landmarks": dict(zip(ROWS, (0.61, 0.59, 0.58, 0.55, 0.58), strict=True)),
}
"""Dataset -> variant -> AUC@20; Tiny-ImageNet is not in the table."""

COLUMNS = ("AUC@10", "AUC@20", "n-95")
ROUNDING = 0.005  # of a printed AUC


def printed(landscape: str, method: str, column: str) -> float | None:
    """The paper's number for a cell; None where it has none."""
    if method in ABLATION.get(landscape, {}):
        return ABLATION[landscape][method] if column == "AUC@20" else None
    if method == "random" and landscape in PRINTED:
        row = PRINTED[landscape]
        return dict(zip(COLUMNS, (row.auc10, row.auc20, inf if row.n95 is None else row.n95))).get(column)
    row = HP_RES.get(landscape, {}).get(method)
    return None if row is None else dict(zip(COLUMNS, row)).get(column)
