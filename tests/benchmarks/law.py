"""How the best weights move with what else is chosen: margin, temperature, k, b, the network, the training's length.

    python tests/benchmarks/law.py OUT glyphs margin
    python tests/benchmarks/law.py OUT omniglot margin --data-root ZIP
    python tests/benchmarks/law.py OUT --print
    python tests/benchmarks/law.py OUT --figure law.png

One factor at a time, all else as in the small set-up. Each is 15 settings with two seeds each: five balances at three
joint rates around the best known (of another dataset). While the best lies outside of them, those that are next are
trained too. OUT keeps every training, so the command can be stopped and started at any time.

The best is that of a quadratic surface through the validation scores, over balance and joint rate in octaves. Its
intervals are those of refits to scores with resampled residuals. `known`: what the surface says of the best known
weights, as a share of its best.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from contrastive_landscapes import LOWEST, Cell, Worker, stored, train
from matplotlib.figure import Figure
from torch import nn

from trainables.models.networks import small_conv
from trainables.training.setup import Setup
from trainables.training.setups import find_setup
from tune_cd import balance
from tune_cd.analysis.tables import markdown
from tune_cd.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE

LOSSES = ("margin", "infonce")
FACTORS: dict[str, dict[str, Any]] = {
    "all as it is": {}, "margin .25": {"margin": 0.25}, "margin 1": {"margin": 1.0},
    "temperature .05": {"temperature": 0.05}, "temperature .2": {"temperature": 0.2},
    "k = 4": {"k": 4}, "k = 8": {"k": 8}, "b = 16": {"batch_size": 16}, "b = 256": {"batch_size": 256},
    "half as wide": {"network": "law:narrow"}, "twice as wide": {"network": "law:wide"},
    "group normalisation": {"network": "law:grouped"},
    "half the images": {"images_seen": 0.5}, "twice the images": {"images_seen": 2.0},
}  # fmt: skip
"""name -> fields of the set-up, or the batch size; images_seen as a share of the usual ones."""

STEPS = {"margin": (1.5, 1.5), "infonce": (0.4, 1.5)}
"""Octaves between neighbours, of Lambda_e / Lambda_p and of both weights. InfoNCE's ridge is narrow."""

SIZES = (5, 3)
SEEDS = (0, 1)
MOVES = 4  # at most, to where the best lies
TOP = 0.75  # share of the best score from which a score counts: far below, no hill is quadratic
REFITS = 400


def scaled(channels: int, image_size: int, share: float) -> nn.Module:
    """`small_conv` with so many times as many maps in every layer."""
    trunk, _ = small_conv(channels, image_size)
    layers: list[nn.Module] = []
    for one in trunk:
        if isinstance(one, nn.Conv2d):
            n_in = channels if one.in_channels == channels else int(one.in_channels * share)
            one = nn.Conv2d(n_in, int(one.out_channels * share), 3, stride=2, padding=1, bias=False)
        elif isinstance(one, nn.BatchNorm2d):
            one = nn.BatchNorm2d(int(one.num_features * share))
        layers.append(one)
    return nn.Sequential(*layers)


narrow, wide = partial(scaled, share=0.5), partial(scaled, share=2)


def grouped(channels: int, image_size: int) -> nn.Module:
    """`small_conv` with a group normalisation of eight maps a group in the place of each batch normalisation."""
    trunk, _ = small_conv(channels, image_size)
    return nn.Sequential(
        *(nn.GroupNorm(one.num_features // 8, one.num_features) if isinstance(one, nn.BatchNorm2d) else one
          for one in trunk)
    )  # fmt: skip


@dataclass(frozen=True)
class Level:
    """One value of a factor, with a dataset and a loss."""

    dataset: str
    loss: str
    factor: str

    @property
    def study(self) -> str:
        return f"{self.dataset}-{self.loss}-{self.factor.replace(' ', '-').replace('=', 'is')}"

    @property
    def setup(self) -> Setup:
        usual = find_setup(self.dataset, "small", "dml", self.loss)
        changed = {name: value for name, value in FACTORS[self.factor].items() if name != "batch_size"}
        if "images_seen" in changed:
            changed["images_seen"] = int(usual.images_seen * changed["images_seen"])
        return replace(usual, **changed)

    @property
    def batch_size(self) -> int:
        return FACTORS[self.factor].get("batch_size", 64)

    @property
    def steps(self) -> tuple[float, float]:
        return STEPS[self.loss]

    @property
    def centre(self) -> tuple[float, float]:
        """The best known of another dataset at b = 64: balance and joint rate, in octaves."""
        (row, *_) = balance.known(self.loss, "dml", network="small", pretrained=False, leave_out=self.dataset)
        p, e = (float(np.log2(row.weights[name])) for name in ("Lambda_p", "Lambda_e"))
        return e - p, (p + e) / 2

    def cell(self, place: tuple[int, int], seed: int) -> Cell:
        """The training at a place of the lattice, in steps from the centre."""
        ratio, joint = (middle + step * at for middle, step, at in zip(self.centre, self.steps, place))
        p, e = (round(joint + side * ratio / 2 - float(np.log2(LOWEST)), 3) for side in (-1, 1))
        return Cell(p, e, self.batch_size, seed)


def levels(dataset: str, loss: str) -> Iterator[Level]:
    other = {"margin": "temperature", "infonce": "margin"}[loss]
    for factor in FACTORS:
        if not factor.startswith(other):
            yield Level(dataset, loss, factor)


@dataclass(frozen=True)
class Fit:
    """The quadratic surface of a level. x [n, 2]: balance and joint rate in steps from the centre; y [n]: scores."""

    x: np.ndarray
    y: np.ndarray

    @property
    def coefficients(self) -> np.ndarray:
        return np.linalg.lstsq(_terms(self.x), self.y, rcond=None)[0]

    @property
    def best(self) -> np.ndarray:
        """The place [2] of the best, within a step of the settings: a slope without an end has it there."""
        low, high = self.x.min(0) - 1, self.x.max(0) + 1
        places = np.stack(np.meshgrid(*(np.linspace(*ends, 121) for ends in zip(low, high))), -1).reshape(-1, 2)
        best: np.ndarray = places[np.argmax(_terms(places) @ self.coefficients)]
        return best

    def at(self, place: np.ndarray) -> float:
        return float((_terms(np.atleast_2d(place)) @ self.coefficients)[0])

    def refits(self) -> Iterator["Fit"]:
        predicted, rng = _terms(self.x) @ self.coefficients, np.random.default_rng(0)
        left = (self.y - predicted) * np.sqrt(len(self.y) / (len(self.y) - 6))
        for _ in range(REFITS):
            yield replace(self, y=predicted + rng.choice(left, len(left)))


def _terms(x: np.ndarray) -> np.ndarray:
    ratio, joint = x.T
    return np.stack([np.ones(len(x)), ratio, joint, ratio**2, joint**2, ratio * joint], 1)


def fit_of(level: Level, trained: dict[Cell, float]) -> Fit:
    """Of the scores that are not far below the best."""
    away = np.array([[cell.e - cell.p, (cell.p + cell.e) / 2 + np.log2(LOWEST)] for cell in trained])
    x, y = (away - level.centre) / level.steps, np.array(list(trained.values()))
    return Fit(x[y >= TOP * y.max()], y[y >= TOP * y.max()])


def asked(level: Level, trained: dict[Cell, float]) -> list[Cell]:
    """The settings to train next; [] where the best lies among them, or the window has moved often enough."""
    at, seen = np.zeros(2, int), dict[Cell, float]()  # a move follows from what lies in the windows before it
    for _ in range(MOVES + 1):
        window = product(*(range(a - n // 2, a + n // 2 + 1) for a, n in zip(at, SIZES)))
        cells = [level.cell(place, seed) for place in window for seed in SEEDS]
        if missing := [cell for cell in cells if cell not in trained]:
            return missing
        seen |= {cell: trained[cell] for cell in cells}
        ends = np.array(SIZES) // 2
        outside = fit_of(level, seen).best - at
        if (np.abs(outside) <= ends).all():
            return []
        at = at + np.where(np.abs(outside) > ends, np.sign(outside), 0).astype(int)
    return []


def measure(dataset: str, loss: str, options: argparse.Namespace) -> None:
    for level in levels(dataset, loss):
        trained = stored(options.out, level.study, loss)
        if not asked(level, trained):
            continue
        Worker.begin(level.setup, options.data_root, options.device)
        while cells := asked(level, trained):
            train(str(options.out), level.study, dict(enumerate(cells, len(trained))))
            trained = stored(options.out, level.study, loss)
        print(f"{level.study}: {len(trained)} trainings", flush=True)


def moves(out: Path) -> Iterator[tuple[Level, dict[Cell, float], np.ndarray]]:
    """Each level that is whole, its trainings, and how far its best is from that with all as it is: of the surface and
    of its refits, [1 + REFITS, 2] octaves of balance and joint rate."""
    for dataset, loss in product(("glyphs", "omniglot"), LOSSES):
        usual = None
        for level in levels(dataset, loss):
            trained = stored(out, level.study, loss)
            if trained and not asked(level, trained):
                found = bests(level, trained)
                usual = found if usual is None else usual
                yield level, trained, found - usual


def figure_of(out: Path) -> Figure:
    """By factor, how far the best balance and the best joint rate move, with 95 % intervals of refits."""
    figure = Figure((8, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    factors = {factor: -at for at, factor in enumerate(name for name in FACTORS if name != "all as it is")}
    drawn = [(level, moved) for level, _, moved in moves(out) if level.factor in factors]
    kinds = list(dict.fromkeys((level.dataset, level.loss) for level, _ in drawn))
    for at, (kind, colour, marker) in enumerate(zip(kinds, (BLUE, ORANGE, GREEN, PURPLE), "osD^")):
        of_kind = [(factors[level.factor], moved) for level, moved in drawn if (level.dataset, level.loss) == kind]
        y = np.array([place for place, _ in of_kind]) - 0.22 * (at - (len(kinds) - 1) / 2)
        for axis, panel in enumerate(panels):
            x = np.array([moved[0, axis] for _, moved in of_kind])
            ends = np.array([np.quantile(moved[1:, axis], (0.025, 0.975)) for _, moved in of_kind]).T
            away = np.maximum([x - ends[0], ends[1] - x], 0)
            panel.errorbar(x, y, xerr=away, fmt=marker, color=colour, ms=5, lw=1, label=", ".join(kind))
    for panel, name in zip(panels, ("balance", "joint rate")):
        panel.axvline(0, color=GREY, lw=0.8, zorder=0)
        panel.set(xlabel=f"the best {name} moves by (octaves)", yticks=[*factors.values()], yticklabels=[*factors])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def bests(level: Level, trained: dict[Cell, float]) -> np.ndarray:
    """Bests of the surface and its refits, [1 + REFITS, 2]: balance and joint rate in octaves."""
    fit = fit_of(level, trained)
    places = np.array([fit.best, *(refit.best for refit in fit.refits())])
    octaves: np.ndarray = np.array(level.centre) + places * level.steps
    return octaves


def _row(level: Level, trained: dict[Cell, float], moved: np.ndarray) -> dict[str, Any]:
    fit = fit_of(level, trained)
    ratio, joint = np.array(level.centre) + fit.best * level.steps
    named = zip(("balance moves", "joint rate moves"), moved[0], *np.quantile(moved[1:], (0.025, 0.975), axis=0))
    return {
        **asdict(level), "trainings": len(trained),
        "best weights": f"{2 ** (joint - ratio / 2):.2g}, {2 ** (joint + ratio / 2):.2g}",
        **{name: f"{at:+.1f} ({low:+.1f} to {high:+.1f})" for name, at, low, high in named},
        "best": f"{fit.at(fit.best):.3f}", "known": f"{fit.at(np.zeros(2)) / fit.at(fit.best):.3f}",
    }  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("dataset", nargs="?", default="glyphs")
    parser.add_argument("loss", nargs="?", default="margin", choices=LOSSES)
    parser.add_argument("--data-root", metavar="ZIP")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--print", action="store_true", help="the table of what is there")
    parser.add_argument("--figure", type=Path, metavar="PNG", help="a figure of what is there")
    options = parser.parse_args(argv)
    if options.figure:
        figure_of(options.out).savefig(options.figure, dpi=110)
    elif options.print:
        print(markdown(pd.DataFrame([_row(*one) for one in moves(options.out)])))
    else:
        measure(options.dataset, options.loss, options)


if __name__ == "__main__":
    main()
