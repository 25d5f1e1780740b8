"""The gain of balancing: a landscape's best score less the best score of a conventional recipe (`fig:balance_gain`)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.grids import Grid
from tune_cd.analysis.scores import BALANCE


def reachable(grid: Grid, average: str, k: int = 2, within: float | None = None) -> np.ndarray:
    """Cells that a recipe with this average reaches by its learning rate alone: booleans [n_p, n_e, n_b].

    They lie on the diagonal Lambda_e / Lambda_p = λ_e / λ_p (`ssec:ctrm_norm`), which usually passes between cells. A
    cell counts if its centre is at most `within` octaves of Lambda_e away. The default is half a step of the grid, so
    that every Lambda_p has its nearest Lambda_e (two of them where the diagonal passes exactly between). Raises
    ValueError for axes other than (Lambda_p, Lambda_e, batch_size), an unknown average, a batch size that k does not
    divide, and a grid with a single Lambda_e if `within` is not given.
    """
    if grid.names != BALANCE:
        raise ValueError(f"axes {grid.names}: {BALANCE} are required")
    within = grid.steps[1] / 2 if within is None else within
    if not np.isfinite(within):
        said = "say how many octaves away counts as reachable, within=..."
        raise ValueError(f"a grid of one Lambda_e has no step: {said}")
    ratios = np.log2([balance.ratio(average, size, k) for size in grid.ticks[2]])  # [n_b], octaves
    positive, entropy = np.log2(grid.ticks[0]), np.log2(grid.ticks[1])
    away = np.abs(entropy[None, :, None] - positive[:, None, None] - ratios)
    return away <= within + 1e-9


def balance_gain(
    grid: Grid, k: int = 2, averages: Sequence[str] = balance.AVERAGES, select: Grid | None = None
) -> pd.DataFrame:
    """The best score at each batch size, and the best that each average reaches without a balance of its own.

    Indexed by batch_size. Columns: best, best_Lambda_p, best_Lambda_e; the same for every average (separate,
    separate_Lambda_p, ...); and gain_separate, ...: by how much best is better than that average. NaN if none of
    those cells has a value. `gain.filter(like="gain_").mean()` is the paper's drop over batch sizes (`sec:exps`).
    select: the grid in which the best cells are chosen, such as the validation score's, while `grid` holds the reported
    score; None: `grid` itself, as in the paper's figures. Raises ValueError as `reachable`, and for other cells there.
    """
    select = grid if select is None else select
    among = {"best": np.ones(grid.values.shape, dtype=bool)}
    among |= {average: reachable(grid, average, k) for average in averages}
    if not all(np.array_equal(*pair, equal_nan=True) for pair in zip(grid.ticks, select.ticks, strict=True)):
        raise ValueError(f"grids of {grid.score} and {select.score} have different cells")
    table = pd.DataFrame(index=pd.Index(grid.ticks[2], name="batch_size"))
    for name, cells in among.items():
        columns = [name, f"{name}_Lambda_p", f"{name}_Lambda_e"]
        table[columns] = np.reshape([_best(grid, select, cells, place) for place in range(len(table))], (-1, 3))
    return table.assign(**{f"gain_{average}": grid.sign * (table["best"] - table[average]) for average in averages})


def _best(grid: Grid, select: Grid, cells: np.ndarray, place: int) -> tuple[float, float, float]:
    """The reported value and the weights of the cell that is best in `select`."""
    known = cells[..., place] & np.isfinite(grid.values[..., place])
    chosen = np.where(known, select.sign * select.values[..., place], np.nan)
    if np.isnan(chosen).all():
        return np.nan, np.nan, np.nan
    p, e = np.unravel_index(np.nanargmax(chosen), chosen.shape)
    return grid.values[p, e, place], grid.ticks[0][p], grid.ticks[1][e]
