"""What balancing the terms of each loss gains, measured: python tests/benchmarks/losses.py OUT [--data-root ZIP ...]

For every dataset, loss and seed of the search: `tune_cd.run --task ssl` with the default search and, beside it, the
rate alone at the published ratios; then TPE and CMA-ES over the same weights. All may spend as many images (--worth
full trainings), are judged by what they chose, trained anew with two fresh seeds and scored on the test split, and run
one training at a time on one core. OUT is a results folder: what it holds already is not trained again.

Printed: a row a dataset and loss, the mean over the seeds of the search, and the gains over the published ratios in
pairs with 95 % intervals; and where the best weights lie, in octaves off the published ratios, a number a seed.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import real_studies
from real_studies import said

from trainables.losses import find_loss
from tune_cd import results
from tune_cd.analysis import best_trial, on_diagonal
from tune_cd.analysis.confirmation import fresh_mean
from tune_cd.analysis.curves import means_over_settings, setting_numbers
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.scores import per_class, searching
from tune_cd.analysis.tables import markdown
from tune_cd.balance import PUBLISHED

LOSSES = ("alignment_uniformity", "barlow_twins", "vicreg", "siglip")
SEARCHES = ("cd", "tpe", "cmaes")
FRESH = "2"


class Study(NamedTuple):
    """A run of `tune_cd.run`."""

    dataset: str
    loss: str
    search: str
    seed: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


def studies(datasets: list[str], losses: list[str], seeds: list[int], searches: Sequence[str]) -> list[Study]:
    """In the order of running: the first seed of everything first."""
    return [
        Study(dataset, loss, search, seed) for seed, dataset, loss, search in product(seeds, datasets, losses, searches)
    ]


def run(study: Study, out: str, worth: int, data_root: str | None) -> None:
    baseline = ["--baseline-trials", str(worth)] if study.search == "cd" else ["--no-baseline"]
    options = [
        "--task", "ssl", "--loss", study.loss, "--search", study.search, "--seed", str(study.seed),
        "--num-samples", str(worth), "--confirm", FRESH, *baseline,
    ]  # fmt: skip
    real_studies.run(out, study.name, study.dataset, options, data_root)


def scores(trials: pd.DataFrame, study: Study) -> Iterator[tuple[str, float, dict[str, float]]]:
    """What a study's search chose, and its baseline: name, mean test score with fresh seeds, weights. The baseline's
    may be a setting of the search that has the published ratios."""
    trials = trials[trials["study"] == study.name].reset_index(drop=True)
    if trials.empty:
        return
    trials = trials.assign(setting=setting_numbers(trials))
    means = means_over_settings(searching(trials))
    asked = {study.search: means[means["search"] == study.search]}
    if study.search == "cd":
        asked[PUBLISHED] = on_diagonal(means, PUBLISHED, per_class(trials))
    for name, settings in asked.items():
        best = best_trial(settings)
        if best is not None and (fresh := fresh_mean(trials, best)):
            yield name, fresh.value, best["params"]


def table(trials: pd.DataFrame, asked: list[Study]) -> pd.DataFrame:
    rows = []
    for (dataset, loss), of_loss in pd.DataFrame(asked).groupby(["dataset", "loss"], sort=False):
        found = {
            (name, study.seed): (score, params)
            for study in (Study(*row) for row in of_loss.itertuples(index=False))
            for name, score, params in scores(trials, study)
        }
        row = {"dataset": dataset, "loss": loss}
        for name in (PUBLISHED, *SEARCHES):
            at = [seed for method, seed in found if method == name and (PUBLISHED, seed) in found]
            reached = np.array([found[name, seed][0] for seed in at])
            gained = reached - [found[PUBLISHED, seed][0] for seed in at]
            row[name] = said(reached.mean()) if len(at) else ""
            if name != PUBLISHED and len(at):
                half = f" ±{half_interval_of(gained):.3f}" * (len(gained) > 1)
                row[name] += f" ({gained.mean():+.3f}{half})"
        row["seeds"] = sum(name == PUBLISHED for name, _ in found)
        row["off the published ratios"] = off(str(loss), [p for (name, _), (_, p) in found.items() if name == "cd"])
        rows.append(row)
    return pd.DataFrame(rows)


def off(loss: str, chosen: list[dict[str, float]]) -> str:
    """Each weight relative to the loss's first, in octaves above their published ratio, by seed."""
    known = find_loss(loss)
    usual = known.coefficients
    first, *others = known.weights
    return "; ".join(
        f"{name.removeprefix('Lambda_')} "
        + " ".join(f"{np.log2(one[name] / one[first] * usual[first] / usual[name]):+.0f}" for one in chosen)
        for name in others
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--datasets", nargs="+", default=["glyphs"])
    parser.add_argument("--losses", nargs="+", default=list(LOSSES))
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--worth", type=int, default=10, help="full trainings that each search may spend")
    parser.add_argument("--data-root", help="of a dataset other than glyphs")
    parser.add_argument("--print", action="store_true", help="train nothing; print what OUT has")
    options = parser.parse_args()
    asked = studies(options.datasets, options.losses, options.seeds, options.searches)
    for study in [] if options.print else asked:
        print(study.name, flush=True)
        run(study, options.out, options.worth, options.data_root)
    print(markdown(table(results.read(options.out), asked)))


if __name__ == "__main__":
    main()
