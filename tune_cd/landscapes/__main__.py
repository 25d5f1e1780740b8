"""Measured landscapes on the command line.

python -m tune_cd.landscapes --list                     # name, role, batch sizes, trainings, best setting
python -m tune_cd.landscapes --cards [NAME ...]         # data cards
python -m tune_cd.landscapes --claims [NAME ...]        # the paper's claims, with numbers
python -m tune_cd.landscapes --store RESULTS [NAME ...] # as studies of a results folder, for reports and figures
"""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.landscapes.__main__")

import argparse
import sys
from collections.abc import Iterable, Sequence

import pandas as pd

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.claims import CLAIMS, summary
from tune_cd.landscapes.find import BATCH_SIZE
from tune_cd.landscapes.measured import MEASURED, Measured, load
from tune_cd.landscapes.slices import Slice
from tune_cd.results import ConflictingRow

SIGNED = ("gain", "less")
"""Columns printed with a sign, ± the column "half"."""

DEGREES = ("angle", "from", "to", "drift")


def listed(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """One row per landscape; best weights, scores and noise are those at b = BATCH_SIZE, chosen by validation."""
    rows = []
    for one in landscapes:
        part = Slice(one, BATCH_SIZE)
        best = part.best()
        rows.append({
            "landscape": f"`{one.name}`", "role": one.role, "b": ", ".join(map(str, one.axes["batch_size"])),
            "trainings": one.about["trainings"], "hours": f"{one.about['hours']:.1f}",
            "best weights": part.said(best),
            "validation": f"{part.validation.values[(*best, 0)]:.3f}", "test": f"{part.score(best):.3f}",
            "noise": f"{one.noise(BATCH_SIZE):.3f}",
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("landscape")


def as_text(table: pd.DataFrame) -> str:
    """Markdown of a table of CLAIMS. Intervals stand beside numbers, shares are in percent, pairs form a square."""
    if "of" in table:
        return markdown(_square(table))
    columns = {}
    for name in table:
        values = table[name]
        if f"{name}_half" in table:
            columns[name] = [f"{value:.2f} ±{half:.2f}" for value, half in zip(values, table[f"{name}_half"])]
        elif name in SIGNED:
            columns[name] = [_between(value, half) for value, half in zip(values, table["half"])]
        elif name in ("share", "below"):
            columns[name] = [f"{100 * value:.1f} %" for value in values]
        elif not name.endswith("half"):
            digits = ".0f" if name in DEGREES else ".2f"
            columns[name] = [_number(value, digits) for value in values]
    return markdown(pd.DataFrame(columns).set_index(next(iter(columns))))


def _between(value: float, half: float) -> str:
    return f"{value:+.3f}" + ("" if pd.isna(half) else f" ±{half:.3f}")


def _number(value: object, digits: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-" if pd.isna(value) else f"{value:{digits}}"


def _square(table: pd.DataFrame) -> pd.DataFrame:
    """Regrets in percent of the best score. Rows: origin of the setting; columns: landscape on which it is used."""
    half = ["" if pd.isna(half) else f" ±{100 * half:.0f}" for half in table["half"] / table["best"]]
    cells = [f"{100 * share:.0f}{more} %" for share, more in zip(table["share"], half)]
    square = table.assign(cell=cells).pivot(index="of", columns="landscape", values="cell").fillna("")
    order = list(dict.fromkeys(table["of"]))
    return square.loc[order, order].rename_axis("best setting of, used on")


def cards(landscapes: Sequence[Measured]) -> Iterable[str]:
    return (f"## {one.name}\n\n{one.card()}" for one in landscapes)


def claims(landscapes: Sequence[Measured]) -> Iterable[str]:
    """One section per claim: its sentence, its table and the summary of the verdicts."""
    for name, (sentence, numbers) in CLAIMS.items():
        table = numbers(landscapes)
        shown = [as_text(table)] if len(table) else []
        yield "\n\n".join([f"**{name.capitalize()}.** {sentence}", *shown, summary(table)])


def store(landscapes: Sequence[Measured], folder: str) -> int:
    """Store the landscapes as studies of a results folder. Returns 0, or 2 with a message where the folder holds
    conflicting rows or cannot be used."""
    for one in landscapes:
        try:
            one.store(folder)
        except (ConflictingRow, OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print(f"{folder}: study {one.name}, {len(one.trials)} trainings")
    return 0


def parser() -> argparse.ArgumentParser:
    """Parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tune_cd.landscapes", description="Measured landscapes.")
    names = {"nargs": "*", "metavar": "NAME"}
    asked = top.add_mutually_exclusive_group(required=True)
    asked.add_argument("--list", **names, help="name, role, batch sizes, trainings and best setting")
    asked.add_argument("--cards", **names, help="what was trained, how, for how long, and what it is not for")
    asked.add_argument("--claims", **names, help=f"the paper's claims with numbers; default: {', '.join(MEASURED)}")
    asked.add_argument(
        "--store",
        nargs="+",
        metavar=("RESULTS", "NAME"),
        help="as studies of a results folder, for reports and figures",
    )
    return top


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns 0, or 2 with a message for an unknown name or an unusable folder."""
    options = parser().parse_args(argv)
    place, *stored = options.store or [None]
    names = options.list or options.cards or options.claims or stored or MEASURED
    try:
        landscapes = [load(name) for name in names]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if place is not None:
        return store(landscapes, place)
    if options.list is not None:
        print(markdown(listed(landscapes)))
        return 0
    for text in (cards if options.cards is not None else claims)(landscapes):
        print(text, end="\n\n")
    return 0
