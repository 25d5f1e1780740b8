"""The README's table of gains: what a tuned balance adds to the tuned learning rate of each average.

    python tests/benchmarks/gains.py OUT --data-root ZIP --dataset omniglot --loss margin --batch-size 64
    python tests/benchmarks/gains.py OUT --loss infonce --set mining=hard
    python tests/benchmarks/gains.py OUT --print

One study per search seed, as `python -m tune_cd.run` makes it with its defaults; `--set` is its option. `--confirm`
then trains the choice of the search and of each baseline with fresh seeds. OUT is a results folder; a study that was
interrupted goes on, one that is complete is not run again. `--print` prints the table of all studies in OUT: test
scores, and the mean gain over search seeds with its 95 % interval (Student's t over the searches, each of them the mean
over its fresh seeds), so that it covers the luck of a search and of a training.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from tune_cd import results
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.tables import markdown
from tune_cd.report.findings import Findings
from tune_cd.run.__main__ import main as run

SEEDS = (0, 10, 20)  # apart, so that no fresh seed of one search is another's
FRESH = 3


def measure(options: argparse.Namespace) -> None:
    """Run the studies of one row of the table."""
    for seed in SEEDS:
        changed = [one.replace("=", ".") for one in options.set]
        name = "-".join([options.dataset, options.loss, str(options.batch_size), *changed, str(seed)])
        begun = (options.out / "studies" / name / "study.json").exists()
        argv = ["--results", str(options.out), "--study", name, *(["--resume"] if begun else [])]
        argv += ["--setup", "small", "--dataset", options.dataset, "--loss", options.loss, "--seed", str(seed)]
        argv += ["--batch-size", str(options.batch_size), "--confirm", str(FRESH), "--address", "local"]
        argv += ["--workers", "1", *(["--data-root", options.data_root] if options.data_root else [])]
        argv += ["--set", *options.set] if options.set else []
        if status := run(argv):
            sys.exit(status)


def table_of(trials: pd.DataFrame) -> pd.DataFrame:
    """One row for studies alike but for their seed: scores, gains with intervals, and what is not bracketed."""
    return pd.DataFrame(
        [_row(alike, rows) for alike, rows in trials.groupby(trials["study"].str.rsplit("-", n=1).str[0])]
    )


def _row(alike: str, trials: pd.DataFrame) -> dict[str, str]:
    studies = {name: Findings(study) for name, study in trials.groupby("study")}
    whole = {name: found for name, found in studies.items() if found.best is not None}  # the others have just begun
    gains = pd.DataFrame([_gains(found) for found in whole.values() if found.recipes])
    weights = (f"({found.best['Lambda_p']:.2g}, {found.best['Lambda_e']:.2g})" for found in whole.values())
    row = {"studies": alike, "searches": str(len(gains)), "tuned": f"{gains['tuned'].mean():.3f}"}
    row["weights"] = ", ".join(weights)
    for name in [name for name in ("separate", "global") if name in gains]:
        gain = gains[f"gain_{name}"].to_numpy()
        half = half_interval_of(gain)
        noise = " noise" if not abs(gain.mean()) > half else ""
        row |= {name: f"{gains[name].mean():.3f}", f"gain over {name}": f"{gain.mean():+.3f} ±{half:.3f}{noise}"}
    open_ends = [  # averages whose best rate has no neighbour on some side
        f"{recipe.average} of {name}" for name, found in studies.items() for recipe in found.recipes
        if np.isinf(recipe.gap)
    ]  # fmt: skip
    return row | {"open": "; ".join(open_ends) or "-"}


def _gains(found: Findings) -> dict[str, float]:
    """The score of what a study's search chose, and of each average its score and the gain over it. Over fresh seeds
    where all were trained with some."""
    fresh = found.fresh and all(recipe.fresh for recipe in found.recipes)
    row = {"tuned": found.fresh.value if fresh else found.best["test_score"]}
    for recipe in found.recipes:
        score = recipe.fresh.value if fresh else recipe.best["test_score"]
        row |= {recipe.average: score, f"gain_{recipe.average}": recipe.gain.value}
    return row


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--data-root", metavar="ZIP")
    parser.add_argument("--dataset", default="glyphs")
    parser.add_argument("--loss", default="margin")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--print", action="store_true", help="the table of what is there")
    options = parser.parse_args(argv)
    if options.print:
        trials = results.read(options.out)
        print(markdown(table_of(trials)))
    else:
        measure(options)


if __name__ == "__main__":
    main()
