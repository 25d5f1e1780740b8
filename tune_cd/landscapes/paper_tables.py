"""`tab:hp_res` and `tab:ablation`, on the fitted ridges and on measured grids, with the paper's numbers.

    python -m tune_cd.replay --table hp_res
    python -m tune_cd.replay --table ablation

Paired differences decide whether the paper's order holds or reverses. A row is behind or ahead of the reference where
the difference exceeds its 95 % interval and the rounding to two digits; elsewhere it is level. A difference of searches
that all end before 20 trials, or one without an interval, is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import pandas as pd

from tune_cd.analysis import summary
from tune_cd.analysis.tables import CELLS, markdown
from tune_cd.landscapes.ablation import ABLATION
from tune_cd.landscapes.measured import IN_VIEW
from tune_cd.landscapes.printed import COLUMNS, HP_RES, METHODS, ROUNDING, ROWS, printed
from tune_cd.landscapes.simulation import Method, Trajectory
from tune_cd.search.methods import NOTES, OPTIMISERS

LANDSCAPES = (*HP_RES, *IN_VIEW)

UNKNOWN = "not known"


@dataclass(frozen=True)
class PaperTable:
    """Methods to compare, the reference among them, and the columns to print.

    claimed: the rows that the paper has, all behind the reference. trials: as many as the columns need.
    """

    title: str
    methods: Mapping[str, Method]
    reference: str
    columns: tuple[str, ...]
    claimed: tuple[str, ...]
    notes: tuple[str, ...]
    trials: int


TABLES = {
    "hp_res": PaperTable(
        "tab:hp_res", {name: OPTIMISERS[name] for name in (*METHODS, "cd-local", "cd")}, "cd-paper", COLUMNS,
        METHODS[:-1],
        ("random, TPE (tpe-paper), CMA-ES (cmaes) and CD (cd-paper) are the paper's rows; cd-local and cd, the "
         "default, are not in it.",
         NOTES["cd-paper"], NOTES["cd-local"]), 50,
    ),
    "ablation": PaperTable(
        "tab:ablation", ABLATION, "A_O (3,3)", ("AUC@20",), ROWS[1:],
        ("A_O (3,3) is cd-paper. rev: the last direction first.", NOTES["cd-paper"]), 20,
    ),
}  # fmt: skip


def sections(table: PaperTable, trajectories: Sequence[Trajectory], start: str = "blind") -> Iterable[str]:
    """The table as Markdown: one part per column, then paired differences and verdicts, then notes.

    start: of the searches, see `simulation.start_of`.
    """
    numbers = summary([trajectory.as_curve() for trajectory in trajectories], table.reference)
    counts = numbers.groupby("landscape", sort=False)["trajectories"].max()
    how = ", ".join(f"{count} on {' '.join(counts.index[counts == count])}" for count in dict.fromkeys(counts))
    yield (
        f"## {table.title}\n\nMeans over trajectories ± half the 95 % interval: {how}. In square brackets: printed "
        f"in the paper. Its order, {table.reference} ahead of a row, holds where the row is behind in pairs of equal "
        f"seeds by more than the interval and more than {ROUNDING}, which two digits do not show, reverses where it is "
        f"ahead by as much, and is open between; {UNKNOWN}: fewer than 20 trials, or no interval."
        + (f" These searches began at {start}, the paper's began blind." if start != "blind" else "")
    )
    for column in table.columns:
        yield markdown(with_printed(numbers, column))
    yield markdown(differences(numbers, table))
    yield "\n".join(f"- {note}" for note in table.notes)


def with_printed(numbers: pd.DataFrame, column: str) -> pd.DataFrame:
    """One column of a summary as text: methods down, landscapes across, with the paper's number in brackets, if any."""

    def cell(row: pd.Series) -> str:
        number = printed(row.landscape, row.method, column)
        return CELLS[column](row) + ("" if number is None else f" [{_short(number)}]")

    return _table(numbers, cell, column)


def differences(numbers: pd.DataFrame, table: PaperTable) -> pd.DataFrame:
    """AUC@20 less the reference's as text, with the printed difference, and where the paper's order holds."""

    short = set(numbers.loc[(numbers["method"] == table.reference) & ~_long_enough(numbers), "landscape"])
    verdicts = {
        (row.method, row.landscape): UNKNOWN if row.landscape in short else verdict(row) for row in numbers.itertuples()
    }

    def cell(row: pd.Series) -> str:
        if row.method == table.reference or row.landscape in short:
            return "-"
        pair = [printed(row.landscape, method, "AUC@20") for method in (row.method, table.reference)]
        said = "" if None in pair else f" [{pair[0] - pair[1]:+.2f}]"
        return CELLS["ΔAUC@20"](row) + said

    cells = _table(numbers, cell, f"AUC@20 less {table.reference}")
    landscapes = list(cells.columns)
    words = [
        _words({at: verdicts.get((method, at), UNKNOWN) for at in landscapes}, table, method) for method in cells.index
    ]
    return cells.assign(**{"the paper's order": words})


def verdict(row: Any) -> str:
    """behind, level or ahead: a row of a summary compared with the reference in AUC@20, by paired differences. UNKNOWN
    where the table prints "-", and without an interval."""
    if not (_long_enough(row) and isfinite(row.d20_ci)):
        return UNKNOWN
    if not abs(row.d20) > max(row.d20_ci, ROUNDING):
        return "level"
    return "behind" if row.d20 < 0 else "ahead"


def _long_enough(of: Any) -> Any:
    """Whether a row of a summary, or each of its rows, has a search of 20 trials: else its AUC@20 is printed as "-"."""
    return of.trials >= 20


def _words(verdicts: Mapping[str, str], table: PaperTable, method: str) -> str:
    if method == table.reference:
        return "-"
    groups: dict[str, list[str]] = {"behind": [], "level": [], "ahead": [], UNKNOWN: []}
    for at, found in verdicts.items():
        groups[found].append(at)
    claimed = {"behind": "holds", "level": "open", "ahead": "reverses"} if method in table.claimed else {}
    return "; ".join(f"{claimed.get(word, word)}: {', '.join(where)}" for word, where in groups.items() if where)


def _table(numbers: pd.DataFrame, cell, corner: str) -> pd.DataFrame:
    landscapes, methods = list(numbers["landscape"].unique()), list(numbers["method"].unique())
    text = {(row.method, row.landscape): cell(row) for _, row in numbers.iterrows()}
    rows = [[text.get((method, landscape), "") for landscape in landscapes] for method in methods]
    return pd.DataFrame(rows, index=pd.Index(methods, name=corner), columns=landscapes)


def _short(number: float) -> str:
    if number == inf:
        return ">50"
    return f"{number:.2f}" if number < 1 else f"{number:g}"
