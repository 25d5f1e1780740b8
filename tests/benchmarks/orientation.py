"""Comparison of A_O and A_I over a family of ridges, with the measured grids placed among them.

    python tests/benchmarks/orientation.py STEM [SEARCHES]        # STEM.svg and .png; 10 minutes on one core

A member is a ridge on a flat floor, or on a floor with a shelf: higher at the optimum's Lambda_p, for any Lambda_e. The
shelf was added after the measured grids had been seen. Their floors have one; angle, aspect and floor share alone would
put A_O ahead on them. The difference is `tab:ablation`'s A_I (3,3) less A_O (3,3), in AUC@20 from blind starts.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, inf, log

import numpy as np
import pandas as pd
from claims import angle_of
from orientation_figure import orientation_figure
from scipy.optimize import brentq

from tune_cd import analysis
from tune_cd.analysis import summary
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes.ablation import ABLATION
from tune_cd.landscapes.find import MEASURED, find, trainings
from tune_cd.landscapes.formulas import PRINTED, Ridge, landscape_of
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.simulation import replay_all
from tune_cd.plots import save

ANGLES = (-45.0, -30.0, -15.0, 0.0, 15.0, 30.0, 45.0)
"""Degrees from the joint direction, positive towards Lambda_e; at 45 the ridge runs along that axis. The sign matters
to A_I alone, as its first line is along Lambda_p: across the ridge at 45, along it at -45."""
ASPECTS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
FLOOR_SHARES = (0.8, 0.9, 0.95, 0.975)
SHELVES = (0.0, 0.25)

PAIR = {name: ABLATION[name] for name in ("A_O (3,3)", "A_I (3,3)")}
CELLS = 120  # midpoints per axis of the box
NEAR = 0.5  # share of the range of scores to which the quadratic of a measured grid is fitted: its upper half


@dataclass(frozen=True)
class Place:
    """Place of a landscape in the family, with 95 % intervals from a quadratic fit. angle: in degrees, as ANGLES."""

    angle: float
    angle_low: float
    angle_high: float
    aspect: float
    aspect_low: float
    aspect_high: float
    floor_share: float
    shelf: float


def floor_share(landscape: Landscape) -> float:
    """Share of the box that scores less than half-way from the floor (the median) to the best."""
    scores = _scores(landscape, [CELLS, CELLS])
    return float((scores < (np.median(scores) + landscape.high) / 2).mean())


def shelf(landscape: Landscape) -> float:
    """Range of the scores along Lambda_p at the lowest Lambda_e, as a share of the landscape's range."""
    edge = _scores(landscape, [CELLS, 1])
    return float(np.ptp(edge) / (landscape.high - landscape.low))


def member(aspect: float, angle: float, share: float, shelf: float) -> Landscape:
    """The ridge at Omniglot's printed optimum, of height 1 on a floor of 0, as wide as its floor share requires.

    share: see `floor_share`. Raises ValueError for a share that no width from 0.2 to 60 octaves has.
    """
    name = f"aspect {aspect:g} angle {angle:g} floor {share:g} shelf {shelf:g}"

    def ridge(log_width: float) -> Landscape:
        width = exp(log_width)
        return landscape_of(
            name, Ridge(PRINTED["omniglot"].centre, 1.0, width, aspect * width, angle=angle, shelf=shelf)
        )

    ends = log(0.2), log(60.0)
    least, most = sorted(floor_share(ridge(end)) for end in ends)
    if not least < share < most:
        raise ValueError(
            f"floor share {share}: {least:.3f} to {most:.3f} are possible with aspect {aspect} and angle {angle}"
        )
    return ridge(brentq(lambda log_width: floor_share(ridge(log_width)) - share, *ends, xtol=1e-3))


def over_the_family(seeds: Sequence[int], processes: int | None = None) -> pd.DataFrame:
    """One row per member: aspect, angle, floor_share, shelf, and difference ± half.

    The difference is A_I less A_O, as a share of the ridge's height.
    """
    places = [
        {"aspect": aspect, "angle": angle, "floor_share": share, "shelf": rise}
        for rise, share, aspect in product(SHELVES, FLOOR_SHARES, ASPECTS)
        for angle in (ANGLES if aspect != 1 else (0.0,))
    ]  # fmt: skip
    members = [member(*values.values()) for values in places]
    compared = _compared(members, seeds, processes)
    return pd.DataFrame([values | compared[one.name] for values, one in zip(places, members, strict=True)])


def of_the_measured(seeds: Sequence[int], processes: int | None = None) -> pd.DataFrame:
    """One row per measured grid: landscape, the fields of `Place`, and difference ± half.

    The difference is A_I less A_O, as a share of the range of the grid's test scores.
    """
    rows = []
    for name, compared in _compared([find(name) for name in MEASURED], seeds, processes).items():
        trials = trainings(name)
        height = float(np.ptp(trials["test_score"].dropna()))
        rows.append(
            {"landscape": name}
            | vars(place(find(name), trials))
            | {key: value / height for key, value in compared.items()}
        )
    return pd.DataFrame(rows)


def place(landscape: Landscape, trials: pd.DataFrame) -> Place:
    """Place of a measured landscape of Lambda_p and Lambda_e, from the validation scores that searches are told."""
    fitted = analysis.ridge(trials, "val_score", axes=("Lambda_p", "Lambda_e"), share=NEAR)
    curvatures, vectors = np.linalg.eigh(fitted.draws)  # for each draw, the steepest fall first
    angle = angle_of(fitted.directions[1])
    turned = angle + (angle_of(vectors[:, :, 1]) - angle + 90) % 180 - 90  # an axis has two ends: take the nearer one
    aspects = [_aspect(drawn) for drawn in curvatures]
    return Place(
        float(angle), *np.quantile(turned, [0.025, 0.975]).tolist(),
        _aspect(fitted.curvatures), *np.quantile(aspects, [0.025, 0.975], method="nearest").tolist(),
        floor_share(landscape), shelf(landscape),
    )  # fmt: skip


def _compared(
    landscapes: Sequence[Landscape], seeds: Sequence[int], processes: int | None
) -> dict[str, dict[str, float]]:
    """Landscape -> difference of A_I less A_O in AUC@20, and half its 95 % interval."""
    trajectories = replay_all(PAIR, landscapes, seeds, trials=20, processes=processes)
    table = summary([trajectory.as_curve() for trajectory in trajectories], "A_O (3,3)")
    rows = table[table["method"] == "A_I (3,3)"]
    return {row.landscape: {"difference": row.d20, "half": row.d20_ci} for row in rows.itertuples()}


def _scores(landscape: Landscape, cells: Sequence[int]) -> np.ndarray:
    """Validation scores on a lattice of the box; the lowest score where training diverges.

    cells: number per axis. Scores are taken at their midpoints; for a single cell at the lower end of the axis.
    """
    low, high = landscape.space.low, landscape.space.high
    axes = [
        a + (np.arange(n) + 0.5) / n * (b - a) if n > 1 else np.array([a])
        for a, b, n in zip(low, high, cells, strict=True)
    ]
    scores = landscape.validation(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)).ravel()
    return np.nan_to_num(scores, nan=landscape.low)


def _aspect(curvatures: np.ndarray) -> float:
    """Length by width of a ridge. curvatures: the steepest fall first; inf where it does not fall along its length."""
    return float(np.sqrt(curvatures[0] / curvatures[1])) if curvatures[1] < 0 else inf


def main(stem: str, searches: int | None = None) -> None:
    """Save the figure, and print the places of the measured grids. searches: of each ridge, by default 80, and of each
    measured grid, by default 200."""
    family, measured = over_the_family(range(searches or 80)), of_the_measured(range(searches or 200))
    print(markdown(measured.set_index("landscape").T.rename_axis("measured")))
    print("written:", *save(orientation_figure(family, measured), stem))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
