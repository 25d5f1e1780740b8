"""Planes of real contrastive trainings with their learning curves, those that `tune_cd/landscapes` holds.

    python tests/benchmarks/contrastive_landscapes.py OUT NAME ... --data-root ZIP
    python tests/benchmarks/contrastive_landscapes.py OUT NAME ... --data-root ZIP --publish FOLDER

Trains every cell that OUT, a results folder, has no row of: it can be stopped and started at any time. On a CPU
`--workers` processes train one cell at a time on one core each, on a GPU one process trains as many as fit.

For each batch size in turn: cells four octaves apart over the whole range; two octaves apart around those that score at
least half way from an untrained network to the best; one octave apart in the band, the best 80 of those and the cells
around them; the band again with a second seed, since noise matters there; and last, held back from the surface, to tell
how well it predicts, 20 settings drawn at random between the cells of the band.

`--publish` trains nothing: it writes FOLDER/<NAME>.parquet from the batch sizes that OUT has whole.
"""

import argparse
import platform
import re
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from trainables.data.resident import DeviceData
from trainables.datasets import load_dataset
from trainables.losses import Loss, find_loss
from trainables.training.cuda_graphs import open_queues
from trainables.training.outcome import Outcome
from trainables.training.parallel import Pack
from trainables.training.setup import Setup
from trainables.training.setups import find_setup
from tune_cd import results
from tune_cd.balance import PUBLISHED
from tune_cd.landscapes import measured
from tune_cd.landscapes.landscape import Triangles
from tune_cd.landscapes.measured.writing import DIRTY
from tune_cd.results.rows import git_commit, trial_row

LOWEST, TICKS = 2.0**-14, 25  # of both weights: 6.1e-5 to 1024, the range of small set-ups, in octaves
SPARSE, COARSE = 4, 2
"""Octaves between cells over the whole range, and around the hill."""

BAND = 80  # cells
BETWEEN = 20  # settings
LOOKS = 16
SEEDS = (0, 1)
FRESH = 2  # seed of the settings between
DIGITS = 3  # of octaves
SEARCH = "grid"
COMMAND = "python tests/benchmarks/contrastive_landscapes.py OUT {name}{source}{more}"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Grid:
    """What is measured: a dataset with a loss of two terms, in its small set-up, at some batch sizes."""

    dataset: str
    loss: str
    batch_sizes: tuple[int, ...] = (64,)
    task: str | None = None

    @property
    def setup(self) -> Setup:
        return replace(find_setup(self.dataset, "small", self.task, self.loss), evaluations=LOOKS)


GRIDS = {
    "glyphs-infonce": Grid("glyphs", "infonce"), "glyphs-margin": Grid("glyphs", "margin"),
    "glyphs-ssl-margin": Grid("glyphs", "margin", task="ssl"),
    "glyphs-ssl-siglip": Grid("glyphs", "siglip", task="ssl"), "omniglot-242-infonce": Grid("omniglot", "infonce"),
    "omniglot-242-margin": Grid("omniglot", "margin", (16, 32, 64, 128, 256)),
    "omniglot-infonce": Grid("omniglot", "infonce"),
}  # fmt: skip
"""name -> grid. --data-root says which images `omniglot` is, a name how many classes they have."""


@dataclass(frozen=True, order=True)
class Cell:
    """A training: the two weights, such as Lambda_p and Lambda_e, in octaves above LOWEST, batch size, seed."""

    p: float
    e: float
    batch_size: int
    seed: int

    @classmethod
    def of(cls, h: Mapping[str, float], loss: Loss, seed: int) -> "Cell":
        p, e = (round(float(np.log2(h[weight] / LOWEST)), DIGITS) for weight in loss.weights)
        return cls(p, e, int(h["batch_size"]), int(seed))

    def h(self, loss: Loss) -> dict[str, float]:
        """The setting, over the weights of the loss."""
        weights = dict(zip(loss.weights, (LOWEST * 2.0**self.p, LOWEST * 2.0**self.e), strict=True))
        return {**weights, "batch_size": self.batch_size}

    @property
    def trial_id(self) -> str:
        return f"p{self.p:g}-e{self.e:g}-b{self.batch_size}-seed{self.seed}"


Place = tuple[float, float]
"""Both weights, in octaves above LOWEST."""


def asked(trained: Mapping[Cell, float], batch_size: int) -> list[Cell]:
    """The cells to train next, [] where the plane is whole. trained: validation scores, 0 where training diverged."""
    trained = {cell: score for cell, score in trained.items() if cell.batch_size == batch_size}
    first = {(cell.p, cell.e): score for cell, score in trained.items() if cell.seed == SEEDS[0]}
    stages = (
        lambda: [(place, SEEDS[0]) for place in product(range(0, TICKS, SPARSE), repeat=2)],
        lambda: [(place, SEEDS[0]) for place in coarse(first)],
        lambda: [(place, SEEDS[0]) for place in band(first)],
        lambda: [(place, SEEDS[1]) for place in band(first)],
        lambda: [(place, FRESH) for place in between(first, batch_size)],
    )
    for wanted in stages:
        cells = [Cell(*map(float, place), batch_size, seed) for place, seed in wanted()]
        if missing := [cell for cell in cells if cell not in trained]:
            return missing
    return []


def coarse(first: Mapping[Place, float]) -> list[Place]:
    """Places two octaves apart around those half way up the hill. first: scores of the first seed."""
    return sorted({
        place for at, score in first.items() if score >= half_way(first) and at[0] % COARSE == at[1] % COARSE == 0
        for place in around(at, COARSE)
    })  # fmt: skip


def band(first: Mapping[Place, float]) -> list[Place]:
    """The best places of the upper half of the hill and around it, by the surface through what is trained."""
    surface = Triangles(np.array(list(first)), np.array(list(first.values())))
    lattice = list(product(range(TICKS), repeat=2))
    predicted = dict(zip(lattice, surface(np.array(lattice, float))))
    wanted = {place for at, score in predicted.items() if score >= half_way(first) for place in around(at, 1)}
    return sorted(sorted(wanted, key=lambda place: (-predicted[place], place))[:BAND])


def between(first: Mapping[Place, float], batch_size: int) -> list[Place]:
    """Settings at random in the squares of the band."""
    cells = set(band(first))
    squares = [(p, e) for p, e in sorted(cells) if {(p + 1, e), (p, e + 1), (p + 1, e + 1)} <= cells]
    rng = np.random.default_rng(batch_size)
    corners, within = rng.choice(squares, BETWEEN), rng.uniform(0.1, 0.9, (BETWEEN, 2))
    return [(float(p), float(e)) for p, e in np.round(corners + within, DIGITS)]


def half_way(first: Mapping[Place, float]) -> float:
    """Half way from an untrained network to the best score. The smallest weights hardly train."""
    return (first[0, 0] + max(first.values())) / 2


def around(place: Place, step: int) -> list[Place]:
    """The place and its neighbours in the range."""
    moved = [(place[0] + dp, place[1] + de) for dp, de in product((-step, 0, step), repeat=2)]
    return [(p, e) for p, e in moved if 0 <= p < TICKS and 0 <= e < TICKS]


class Worker:
    """What a process that trains keeps from cell to cell."""

    pack: Pack

    @classmethod
    def begin(cls, setup: Setup, data_root: str | None, device: str) -> None:
        torch.set_num_threads(1)
        open_queues()
        cls.pack = Pack(setup, DeviceData.load(setup, data_root, torch.device(device)), torch.device(device))


def train(out: str, study: str, cells: Mapping[int, Cell]) -> None:
    """Train cells in a worker, storing each as it ends. cells: trial_index -> cell."""
    pack = Worker.pack
    loss = find_loss(pack.setup.loss)
    pack.begin([cell.h(loss) | {"seed": cell.seed} for cell in cells.values()])
    begun = datetime.now(UTC)
    while not pack.done:
        pack.advance()
        for index in [index for index, training in pack.running.items() if training.done]:
            store(out, study, pack, list(cells.items())[index], begun, pack.finish(index))


def store(out: str, study: str, pack: Pack, trial: tuple[int, Cell], begun: datetime, outcome: Outcome) -> None:
    trial_index, cell = trial
    setup, device, loss = pack.setup, pack.device, find_loss(pack.setup.loss)
    cuda = device.type == "cuda"
    where = {"started_at": begun, "device": torch.cuda.get_device_name(device) if cuda else "cpu"}
    where["gpus"] = 1 / pack.at_once if cuda else 0.0
    identity = {"search": SEARCH, "trial_id": cell.trial_id, "trial_index": trial_index, "attempt": 0}
    identity["seed"] = cell.seed
    shared = {"study": study, "dataset": pack.data.name, "task": setup.task, "loss": setup.loss}
    shared["metric_name"] = setup.metric
    told = {name: value for name, value in vars(outcome).items() if name != "curve"}
    looks = [
        {"attempt": 0, "seed": cell.seed, "positive_term": scores.pop("train_positive_term", None),
         "entropy_term": scores.pop("train_entropy_term", None), "images_seen": look.images_seen,
         "train_seconds": look.train_seconds, "val_score": look.val_score, "scores": scores}
        for look in outcome.curve if (scores := dict(look.scores))
    ]  # fmt: skip
    published = {} if loss.pairwise else {PUBLISHED: loss.coefficients}
    h = cell.h(loss)
    results.write_curve(out, study, cell.trial_id, looks)
    results.write_trial(out, trial_row(identity, h, asdict(setup) | published | h, told, where, shared))


def stored(out: Path, study: str, loss: str) -> dict[Cell, float]:
    """Validation scores of the cells that have a row, 0 where training diverged."""
    if not (out / "trials" / study).exists():
        return {}
    trials = results.read(out, study)
    cells = [Cell.of(dict(params), find_loss(loss), seed) for params, seed in zip(trials["params"], trials["seed"])]
    return dict(zip(cells, trials["val_score"].fillna(0.0)))


def images_of(grid: Grid, options: argparse.Namespace) -> Any:
    setup = grid.setup
    how = {"image_size": setup.image_size, "task": setup.task, "distortion": setup.distortion}
    return load_dataset(grid.dataset, options.data_root, **how)


def measure(name: str, options: argparse.Namespace) -> None:
    """Train the cells that are left. Raises ValueError in a working tree with changes, which cannot be published."""
    if (git_commit() or "").endswith(DIRTY):
        raise ValueError(f"{name}: tracked files differ from commit {git_commit()}: commit them, then train")
    grid, out = GRIDS[name], options.out
    cuda = options.device == "cuda"
    images_of(grid, options)  # decoded once
    workers, each = 1 if cuda else options.workers, (grid.setup, options.data_root, options.device)
    with ProcessPoolExecutor(workers, get_context("spawn"), Worker.begin, each) as pool:
        for batch_size in options.batch_sizes or grid.batch_sizes:
            while cells := asked(trained := stored(out, name, grid.loss), batch_size):
                begun = time.perf_counter()
                trials = list(enumerate(cells, len(trained)))
                lots = [trials] if cuda else [[trial] for trial in trials]
                for done in as_completed([pool.submit(train, str(out), name, dict(lot)) for lot in lots]):
                    done.result()
                seconds = time.perf_counter() - begun
                print(f"{name}, b = {batch_size}: {len(cells)} trainings, {seconds:.0f} s", flush=True)


def publish(name: str, options: argparse.Namespace) -> None:
    """Write a landscape's file from the batch sizes that are whole. Raises ValueError where none is."""
    trained = stored(options.out, name, GRIDS[name].loss)
    asked_for = options.batch_sizes or sorted({cell.batch_size for cell in trained})
    missing = {b: len(asked(trained, b)) for b in asked_for}
    for batch_size in [b for b in asked_for if missing[b]]:
        print(f"{name}, b = {batch_size}: left out, {missing[batch_size]} cells to train next")
    sizes = [b for b in asked_for if not missing[b]]
    if not sizes:
        raise ValueError(f"{name}: {options.out} has no batch size with all its cells")
    trials, curves = results.read(options.out, name), results.read_curves(options.out, name)
    trials = trials[trials["batch_size"].isin(sizes)]
    options.publish.mkdir(parents=True, exist_ok=True)
    path = options.publish / f"{name}.parquet"
    held_back = trials.loc[trials["seed"] == FRESH, "trial_id"]
    measured.write(path, trials, curves, about(name, trials, options), held_back)
    held = ", ".join(map(str, sizes))
    print(f"{path}: {len(trials)} trainings, b = {held}, {path.stat().st_size:,} bytes")


def about(name: str, trials: pd.DataFrame, options: argparse.Namespace) -> dict[str, object]:
    """What the rows of a landscape do not say: the command, its images and, on the machine that trained, the
    processor."""
    on_gpu = set(trials["device"]) != {"cpu"}
    source = f" --data-root {Path(options.data_root).name}" if options.data_root else ""
    command = COMMAND.format(name=name, source=source, more=" --device cuda" * on_gpu)
    data = images_of(GRIDS[name], options)
    splits = {name: split for name in SPLITS if (split := getattr(data, name)) is not None}
    images = {name: {"classes": len(split.class_names), "images": len(split.labels)} for name, split in splits.items()}
    here = set(trials["hostname"]) == {socket.gethostname()}
    return {"command": command, "images": images} | ({"processor": processor()} if here else {})


def processor() -> str:
    """The CPU's name as Linux tells it, else the architecture's."""
    told = Path("/proc/cpuinfo")
    text = told.read_text(encoding="utf-8") if told.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="results folder; a landscape is a study of it")
    parser.add_argument("names", nargs="+", metavar="NAME", choices=GRIDS, help=f"of {', '.join(GRIDS)}")
    parser.add_argument("--data-root", metavar="PATH", help="the dataset's directory or zip; not needed for glyphs")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[], help="default: the landscape's")
    parser.add_argument("--workers", type=int, default=2, help="processes on a CPU; default: 2")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="write the landscapes' files; trains nothing")
    options = parser.parse_args(argv)
    for name in options.names:
        (publish if options.publish else measure)(name, options)


if __name__ == "__main__":
    main()
