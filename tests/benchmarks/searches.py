"""Searches run for real beside their replay, and what pausing saves in seconds.

    python tests/benchmarks/searches.py OUT --data-root ZIP [--landscapes omniglot-242-margin ...] [--print]

For every landscape and seed `tune_cd.run`, from a blind start over the landscape's box, one training at a time on one
core: the default search with the images of --worth full trainings, the same at full length, and TPE. OUT is a results
folder: what it holds already is not trained again.

Printed: the best validation score after some trainings' worth of images, each seed's, beside the mean of the replayed
searches on the measured landscape, the range of nine in ten of them, and those from the same starts; then the seconds
of whole searches, and those until the best was within 10, 5 and 2 % of the best that any search of this seed ended
with, and the test scores.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd
import real_studies
from contrastive_landscapes import GRIDS
from lengths import Spent
from pausing import FULL, METHODS, OURS
from pausing import run as replayed
from real_studies import said

from tune_cd import results
from tune_cd.analysis import best_so_far, best_trial
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import measured
from tune_cd.landscapes.curves import curves_of

SEARCHES = {
    "pausing": ([], OURS),
    "full-length": (["--full-length"], FULL),
    "tpe": (["--search", "tpe"], "tpe, full length"),
}
"""name -> options of `tune_cd.run`, and what it is called in the replay of lengths."""

BOX = "1e-06,16.777216"  # of every measured landscape
WORTH = 20
AT = (5, 10, 20)  # full trainings' worth of images
SHARES = (0.90, 0.95, 0.98)
REPLAYS = 100
MIDDLE = (0.05, 0.95)  # of the replays


class Study(NamedTuple):
    """A run of `tune_cd.run`."""

    landscape: str
    search: str
    seed: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


def run(study: Study, out: str, worth: int, data_root: str | None) -> None:
    grid = GRIDS[study.landscape]
    options = [
        "--loss", grid.loss, "--start", "blind", "--range", BOX, "--seed", str(study.seed), "--num-samples", str(worth),
        "--no-baseline", *SEARCHES[study.search][0],
    ]  # fmt: skip
    real_studies.run(out, study.name, grid.dataset, options, data_root)


def held(curve: pd.Series, at: Sequence[float]) -> np.ndarray:
    """What the search held at each point of the curve's axis, NaN before anything."""
    place = np.searchsorted(curve.index.to_numpy(dtype=float), np.asarray(at) + 1e-6, side="right") - 1
    return np.where(place >= 0, curve.to_numpy()[np.maximum(place, 0)], np.nan)


def trained(out: str, studies: Sequence[Study]) -> dict[Study, pd.DataFrame]:
    """The rows of those that have any."""
    tables = {study: results.read(out, study.name) for study in studies}
    return {study: table for study, table in tables.items() if len(table)}


def replays(landscape: str, searches: Sequence[str], worth: int, processes: int | None) -> list[Spent]:
    """Of a landscape that was measured; else none."""
    if landscape not in measured.MEASURED:
        return []
    methods = {SEARCHES[name][1]: METHODS[SEARCHES[name][1]] for name in searches}
    surface = curves_of(measured.load(landscape))
    return replayed(methods, [surface], range(REPLAYS), budget=worth, processes=processes)


def scores(rows: dict[Study, pd.DataFrame], spent: Sequence[Spent]) -> pd.DataFrame:
    """One row a landscape and search: the mean after AT and what every seed held, and the same of the replays."""
    table = []
    for (landscape, search), studies in _by_search(rows):
        reached = np.array([held(best_so_far(rows[study]), AT) for study in studies])  # [n_seeds, n_at]
        replayed_as = landscape, SEARCHES[search][1]
        replay = (one for one in spent if (one.landscape, one.method) == replayed_as)
        told = {one.seed: one.at(np.array(AT), np.nan, told=True) for one in replay}  # [n_at] each
        row = {"landscape": landscape, "search": search}
        for place, at in enumerate(AT):
            row[f"{at}"] = f"{said(reached[:, place].mean())} ({_each(reached[:, place])})"
            if told:
                every = np.array([one[place] for one in told.values()])
                same = _each([told[study.seed][place] for study in studies])
                low, high = np.quantile(every, MIDDLE)
                row[f"{at}, replayed"] = f"{said(every.mean())} ({said(low)} to {said(high)}; {same})"
        table.append(row)
    return pd.DataFrame(table).fillna("")


def seconds(rows: dict[Study, pd.DataFrame]) -> pd.DataFrame:
    """One row a landscape and search: settings, seconds and scores of what was chosen, means over seeds; and every
    seed's seconds until SHARES of the best that any search ended with from this start."""
    clocks = {study: best_so_far(table, over="seconds") for study, table in rows.items()}
    reach: dict[tuple[str, int], float] = {}
    for study, clock in clocks.items():
        place = (study.landscape, study.seed)
        reach[place] = max(reach.get(place, 0.0), float(clock.max()))
    table = []
    for (landscape, search), studies in _by_search(rows):
        own = [clocks[study] for study in studies]
        chosen = [best_trial(rows[study]) for study in studies]
        row = {"landscape": landscape, "search": search, "seeds": len(studies)}
        row["settings"] = f"{np.mean([len(rows[study]) for study in studies]):.0f}"
        row["seconds"] = f"{np.mean([clock.index[-1] for clock in own]):.0f}"
        tops = [reach[landscape, study.seed] for study in studies]
        row |= {
            f"to {share:.0%}": " ".join(_seconds_to(share * top, c) for top, c in zip(tops, own)) for share in SHARES
        }
        for name in ("val_score", "test_score"):
            found = np.array([one[name] for one in chosen if one is not None], dtype=float)
            more = f" ±{half_interval_of(found):.3f}" if len(found) > 1 else ""
            row[name] = f"{said(found.mean())}{more}"
        table.append(row)
    return pd.DataFrame(table)


def _by_search(rows: dict[Study, pd.DataFrame]) -> Iterator[tuple[tuple[str, str], list[Study]]]:
    of_a_search = attrgetter("landscape", "search")
    for key, studies in groupby(sorted(rows, key=of_a_search), key=of_a_search):
        yield key, list(studies)


def _each(scores: Iterable[float]) -> str:
    return " ".join(map(said, scores))


def _seconds_to(score: float, clock: pd.Series) -> str:
    at = np.flatnonzero(clock.to_numpy() >= score)
    return f"{clock.index[at[0]]:.0f}" if len(at) else "-"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--landscapes", nargs="+", choices=GRIDS, default=["omniglot-242-margin"])
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--worth", type=int, default=WORTH, help=f"full trainings' images a search; default: {WORTH}")
    parser.add_argument("--data-root", help="of a dataset other than glyphs")
    parser.add_argument("--processes", type=int, help="of the replay; default: one a core")
    parser.add_argument("--print", action="store_true", help="train nothing; print what OUT has")
    options = parser.parse_args(argv)
    asked = [Study(landscape, search, seed) for seed, landscape, search in product(
        options.seeds, options.landscapes, options.searches)]  # fmt: skip
    for study in [] if options.print else asked:
        print(study.name, flush=True)
        run(study, options.out, options.worth, options.data_root)
    rows = trained(options.out, asked)
    if not rows:
        raise SystemExit(f"{options.out} has none of the studies {[study.name for study in asked]}")
    spent: list[Spent] = []
    for name in options.landscapes:
        spent += replays(name, options.searches, options.worth, options.processes)
    for table in (scores(rows, spent), seconds(rows)):
        print(markdown(table.set_index("landscape")), end="\n\n")


if __name__ == "__main__":
    main()
