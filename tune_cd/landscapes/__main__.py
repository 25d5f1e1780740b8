"""Measured landscapes on the command line.

python -m tune_cd.landscapes --list                     # name, role, batch sizes, trainings, best setting
python -m tune_cd.landscapes --store RESULTS [NAME ...] # as studies of a results folder, for reports and figures
"""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.landscapes.__main__")

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tune_cd.analysis import grid
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.find import BATCH_SIZE, error_between_cells
from tune_cd.landscapes.measured import MEASURED, Measured, load


def listed(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """One row per landscape; best weights, scores and noise are those at b = BATCH_SIZE, chosen by validation."""
    rows = []
    for one in landscapes:
        trained = one.at(BATCH_SIZE).rows()
        validation, test = (grid(trained, score) for score in ("val_score", "test_score"))
        best = np.unravel_index(np.nanargmax(validation.values), validation.values.shape)
        rows.append({
            "landscape": f"`{one.name}`", "role": one.role, "b": ", ".join(map(str, one.axes["batch_size"])),
            "trainings": one.about["trainings"], "hours": f"{one.about['hours']:.1f}",
            "best weights": ", ".join(f"{tick[at]:.3g}" for tick, at in zip(test.ticks[:-1], best)),
            "validation": f"{validation.values[best]:.3f}", "test": f"{test.values[best]:.3f}",
            "noise": f"{one.noise(BATCH_SIZE):.3f}",
            "error": "-" if np.isnan(error := error_between_cells(one)) else f"{error:.3f}",
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("landscape")


def parser() -> argparse.ArgumentParser:
    """Parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m tune_cd.landscapes", description="Measured landscapes.")
    names = {"nargs": "*", "metavar": "NAME"}
    asked = top.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--list", **names, help=f"name, role, batch sizes, trainings and best setting; default: {', '.join(MEASURED)}"
    )
    studies = "as studies of a results folder, for reports and figures"
    asked.add_argument("--store", nargs="+", metavar=("RESULTS", "NAME"), help=studies)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns 0, or 2 with a message for an unknown name, or where storing fails."""
    options = parser().parse_args(argv)
    place, *stored = options.store or [None]
    try:
        landscapes = [load(name) for name in options.list or stored or MEASURED]
        for one in landscapes if place is not None else ():
            one.store(place)
            held = f", without {len(one.held_back)} held back" * bool(len(one.held_back))
            print(f"{place}: study {one.name}, {len(one.trials)} trainings{held}")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if place is None:
        print(markdown(listed(landscapes)))
    return 0
