"""Tests of the paper's other rows on ridges fitted to its Random rows alone.

    python tests/benchmarks/fits.py [DATASET ...]        # 25 minutes on one core

The Random rows determine neither a ridge's aspect nor its angle to A_O's axes. So every aspect and angle of a family is
fitted to them anew (`formulas.fit`), and all methods are replayed on every member. Each printed number is compared with
the range of the members' predictions. A row inside the range is no evidence for A_O's directions or for aspect 2; a row
outside it contradicts every Gaussian ridge of the family. All members have the printed best configurations as centres.
"""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tune_cd.analysis import summary
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.ablation import ABLATION
from tune_cd.landscapes.formulas import PRINTED, Ridge, fit, landscape_of
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.printed import COLUMNS, ROUNDING, ROWS, printed
from tune_cd.landscapes.simulation import Method, Trajectory, replay_all
from tune_cd.search.registry import NOTES, OPTIMISERS

ASPECTS = (1.0, 2.0, 4.0)
ANGLES = (-45.0, -22.5, 0.0, 22.5, 45.0)  # degrees; positive: towards Lambda_e

METHODS: dict[str, Method] = {name: OPTIMISERS[name] for name in ("random", "tpe-paper", "cmaes", "cd-paper")}
VARIANTS: dict[str, Method] = {name: ABLATION[name] for name in ROWS[1:]}
"""Rows of `tab:hp_res` and `tab:ablation`; "A_O (3,3)" is cd-paper. Of the variants only AUC@20 is printed, so 20
trials are enough."""


def family(name: str) -> list[Landscape]:
    """Ridges of every aspect and angle, each fitted to the Random row of a dataset; the round one once.

    Raises ValueError for a dataset without a Random row.
    """
    if name not in PRINTED:
        raise ValueError(f"dataset {name!r}: one of {list(PRINTED)} has a Random row")
    members = []
    for aspect in ASPECTS:
        for angle in ANGLES if aspect != 1 else (0.0,):
            peak, s_balance = fit(PRINTED[name], aspect, angle)
            ridge = Ridge(PRINTED[name].centre, peak, s_balance, aspect * s_balance, angle=angle)
            members.append(landscape_of(f"{name} aspect {aspect:g} angle {angle:g}", ridge))
    return members


def predictions(trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """One row per dataset, method and printed number: printed, low and high of the members' predictions, and `verdict`.

    verdict: whether the printed number is below, inside or above that range. "(noise)" follows if it is inside once its
    rounding and the 95 % interval of some member's mean over as many searches are counted.
    """
    numbers = summary([trajectory.as_curve() for trajectory in trajectories])
    numbers["dataset"] = numbers["landscape"].str.split().str[0]
    rows = []
    for (dataset, method), members in numbers.groupby(["dataset", "method"], sort=False):
        for column in COLUMNS:
            number = printed(dataset, method, column)
            if number is not None:
                rows.append(
                    {"dataset": dataset, "method": method, "column": column, "printed": number}
                    | _range(members, column, number)
                )
    return pd.DataFrame(rows)


def sections(names: Sequence[str], seeds: Sequence[int], trials: int, processes: int | None) -> Iterable[str]:
    """The fitted ridges, then the predictions of their family, as Markdown."""
    best = ", ".join(f"{name} {PRINTED[name].best}" for name in names if name in PRINTED and PRINTED[name].best)
    yield (
        "## Ridges fitted to the Random rows of tab:hp_res\n\nPeak and widths (octaves to 1/e) of every aspect and "
        "angle (degrees towards Lambda_e from the joint direction); centres are the printed best configurations. "
        f"Best scores that the paper prints, which no fit used: {best or '-'}."
    )
    members = {name: family(name) for name in names}
    yield markdown(pd.DataFrame([_fitted(member) for name in names for member in members[name]]).set_index("ridge"))
    landscapes = [one for name in names for one in members[name]]
    trajectories = replay_all(METHODS, landscapes, seeds, trials=trials, processes=processes)
    trajectories += replay_all(VARIANTS, landscapes, seeds, trials=min(trials, 20), processes=processes)
    yield (
        f"## What the other rows test\n\nPrinted, and the range of what the members predict ({len(seeds)} searches "
        "each). random is what was fitted, all else was not used. (noise): inside once rounding and the 95 % intervals "
        "of such means are counted."
    )
    yield markdown(as_text(predictions(trajectories)))
    yield f"- {NOTES['cd-paper']}"


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`predictions` as text: a row per method and column, a column per dataset."""
    text = [
        f"{_short(row.printed)} {row.verdict} {_short(row.low)} to {_short(row.high)}" for row in table.itertuples()
    ]
    wide = table.assign(text=text, row=table["method"] + " " + table["column"])
    order = list(dict.fromkeys(wide["row"]))
    cells = wide.pivot(index="row", columns="dataset", values="text").reindex(order)[
        list(dict.fromkeys(wide["dataset"]))
    ]
    return cells.fillna("").rename_axis("row", axis=0).rename_axis(None, axis=1)


def _fitted(member: Landscape) -> dict[str, str]:
    ridge = member.validation
    return {
        "ridge": member.name,
        "peak": f"{ridge.peak:.3f}",
        "across": f"{ridge.s_balance:.2f}",
        "along": f"{ridge.s_joint:.2f}",
    }


def _range(members: pd.DataFrame, column: str, number: float) -> dict[str, float | str]:
    """Range of the members' predictions, and the verdict on a printed number. members: one per row."""
    if column == "n-95":
        values, lows, highs = (members[name].to_numpy(dtype=float) for name in ("n95", "n95_low", "n95_high"))
    else:
        name = {"AUC@10": "auc10", "AUC@20": "auc20"}[column]
        values, half = members[name].to_numpy(dtype=float), members[f"{name}_ci"].to_numpy(dtype=float) + ROUNDING
        lows, highs = values - half, values + half
    low, high = float(values.min()), float(values.max())
    rounding = 0.0 if column == "n-95" else ROUNDING
    side = "below" if number < low - rounding else "above" if number > high + rounding else "inside"
    noise = side != "inside" and bool(np.any((lows <= number) & (number <= highs)))
    return {"low": low, "high": high, "verdict": f"{side} (noise)" if noise else side}


def _short(number: float) -> str:
    return ">50" if number == np.inf else f"{number:.2f}" if number < 1 else f"{number:g}"


if __name__ == "__main__":
    for section in sections(sys.argv[1:] or list(PRINTED), range(80), 50, None):
        print(section, end="\n\n", flush=True)
