"""Grids of real contrastive trainings with their learning curves, those that `tune_cd/landscapes` holds: trained again.

    python tests/benchmarks/contrastive_landscapes.py OUT NAME ... --data-root ZIP
    python tests/benchmarks/contrastive_landscapes.py OUT NAME ... --data-root ZIP --publish FOLDER

Trains every cell that OUT, a results folder, has no row of: it can be stopped and started at any time. On a CPU
`--workers` processes train one cell at a time on one core each, on a GPU one process trains as many as fit.

First the whole grid in steps of four, for each batch size; then, with a second seed, the cells near the best of their
batch size, where noise is what matters: within 15 % of it, and nearer to it than to what the smallest weights reach,
which hardly train. With `--refine` the cells between those, in steps of two.

`--publish` trains nothing: it writes FOLDER/<NAME>.parquet from the cells that OUT has, those of a batch size whose
whole grid in steps of four is there. Batch sizes that the file has and OUT does not stay in it.
"""

import argparse
import platform
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
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
from tune_cd.balance import PUBLISHED, WEIGHT
from tune_cd.landscapes import measured
from tune_cd.landscapes.measured.writing import DIRTY
from tune_cd.results.provenance import git_commit
from tune_cd.results.rows import trial_row

LOWEST, TICKS = 1e-6, 25  # of both weights: 1e-6 to 16.8, the paper's range, in steps of two
LOOKS = 16
NEAR = 0.85  # of the best: what is trained with a second seed, and refined; see `near`
SEEDS = (0, 1)
SEARCH = "grid"
COMMAND = "python tests/benchmarks/contrastive_landscapes.py OUT {name}{source} --batch-sizes {batch_sizes}{more}"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Grid:
    """What is measured: a dataset with a loss of two terms, in the small set-up but for some fields, at some batch
    sizes."""

    dataset: str
    loss: str
    batch_sizes: tuple[int, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setup(self) -> Setup:
        return replace(find_setup(self.dataset, "small", loss=self.loss), evaluations=LOOKS, **self.fields)


PLAIN = {"distortion": 0.0}
RAW = {"probe_features": "raw", "probe_steps": 0}
"""The small set-ups' glyphs, and their linear probe, when these were measured."""


GRIDS = {
    "glyphs-margin": Grid("glyphs", "margin", (16, 64, 256), PLAIN),
    "glyphs-infonce": Grid("glyphs", "infonce", (16, 64, 256), PLAIN),
    "glyphs-alignment_uniformity": Grid("glyphs", "alignment_uniformity", (64,), PLAIN),
    "glyphs-barlow_twins": Grid("glyphs", "barlow_twins", (64,), PLAIN),
    "glyphs-siglip": Grid("glyphs", "siglip", (64,), PLAIN),
    "omniglot-242-margin": Grid("omniglot", "margin", (16, 32, 64, 128, 256)),
    "omniglot-242-infonce": Grid("omniglot", "infonce", (16, 64, 256)),
    "omniglot-margin": Grid("omniglot", "margin", (64, 256)),
    "tinyimagenet-20-infonce": Grid("tinyimagenet", "infonce", (64, 256), RAW),
    "tinyimagenet-20-margin": Grid("tinyimagenet", "margin", (64, 256), RAW),
}
"""name -> grid. --data-root says which images `omniglot` and `tinyimagenet` are, a name how many classes they have."""


@dataclass(frozen=True, order=True)
class Cell:
    """A training: places of the two weights, such as Lambda_p and Lambda_e, on the lattice in steps of two, batch
    size, seed."""

    p: int
    e: int
    batch_size: int
    seed: int

    def h(self, loss: Loss) -> dict[str, float]:
        """The setting, over the weights of the loss."""
        weights = dict(zip(loss.weights, (LOWEST * 2**self.p, LOWEST * 2**self.e), strict=True))
        return {**weights, "batch_size": self.batch_size}

    @property
    def trial_id(self) -> str:
        return f"p{self.p:02d}-e{self.e:02d}-b{self.batch_size}-seed{self.seed}"


def coarse(batch_size: int) -> list[Cell]:
    """The whole grid in steps of four."""
    return [Cell(p, e, batch_size, SEEDS[0]) for p, e in product(range(0, TICKS, 2), repeat=2)]


def repeated(trained: dict[Cell, float]) -> list[Cell]:
    """The cells near the best, with every seed. trained: validation scores by cell."""
    return [replace(cell, seed=seed) for cell in near(trained) for seed in SEEDS]


def refined(trained: dict[Cell, float]) -> list[Cell]:
    """The cells near the best and all around them, in steps of two."""
    steps = list(product((-1, 0, 1), repeat=2))
    around = {replace(cell, p=cell.p + dp, e=cell.e + de) for cell in near(trained) for dp, de in steps}
    return sorted(cell for cell in around if 0 <= cell.p < TICKS and 0 <= cell.e < TICKS)


def near(trained: dict[Cell, float]) -> list[Cell]:
    first = {cell: score for cell, score in trained.items() if cell.seed == SEEDS[0]}
    best, untrained = max(first.values()), first[min(first)]
    return sorted(cell for cell, score in first.items() if score >= max(NEAR * best, (untrained + best) / 2))


class Worker:
    """What a process that trains keeps from cell to cell."""

    pack: Pack

    @classmethod
    def begin(cls, setup: Setup, data_root: str | None, device: str) -> None:
        torch.set_num_threads(1)
        open_queues()
        cls.pack = Pack(setup, DeviceData.load(setup, data_root, torch.device(device)), torch.device(device))


def train(out: str, study: str, cells: Sequence[Cell]) -> int:
    """Train cells in a worker, storing each as it ends; returns their number."""
    pack = Worker.pack
    loss = find_loss(pack.setup.loss)
    pack.begin([cell.h(loss) | {"seed": cell.seed} for cell in cells])
    begun = datetime.now(UTC)
    while not pack.done:
        pack.advance()
        for index in [index for index, training in pack.running.items() if training.done]:
            store(out, study, pack, cells[index], begun, pack.finish(index))
    return len(cells)


def store(out: str, study: str, pack: Pack, cell: Cell, begun: datetime, outcome: Outcome) -> None:
    setup, device, loss = pack.setup, pack.device, find_loss(pack.setup.loss)
    where = {
        "started_at": begun, "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "gpus": 1 / pack.at_once if device.type == "cuda" else 0.0,
    }  # fmt: skip
    identity = {
        "search": SEARCH, "trial_id": cell.trial_id, "trial_index": cell.p * TICKS + cell.e, "attempt": 0,
        "seed": cell.seed,
    }  # fmt: skip
    shared = {
        "study": study, "dataset": pack.data.name, "task": setup.task, "loss": setup.loss, "metric_name": setup.metric,
    }  # fmt: skip
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


def stored(out: Path, study: str) -> dict[Cell, float]:
    """Validation scores of the cells that have a row, 0 where training diverged."""
    if not (out / "trials" / study).exists():
        return {}
    trials = results.read(out, study)
    return {_cell(name): 0.0 if pd.isna(score) else score for name, score in zip(trials.trial_id, trials.val_score)}


def _cell(trial_id: str) -> Cell:
    p, e, b, seed = trial_id.split("-")
    return Cell(int(p[1:]), int(e[1:]), int(b[1:]), int(seed[4:]))


def asked(stage: str, batch_size: int, trained: dict[Cell, float]) -> list[Cell]:
    """The cells of a stage that are left to train."""
    here = {cell: score for cell, score in trained.items() if cell.batch_size == batch_size}
    wanted = {
        "coarse": lambda: coarse(batch_size),
        "repeated": lambda: repeated(here),
        "refined": lambda: refined(here),
    }
    return [cell for cell in wanted[stage]() if cell not in trained]


def images_of(grid: Grid, options: argparse.Namespace) -> Any:
    setup = grid.setup
    return load_dataset(
        grid.dataset, options.data_root, image_size=setup.image_size, task=setup.task, distortion=setup.distortion
    )


def measure(name: str, options: argparse.Namespace) -> None:
    """Train the cells that are left. Raises ValueError in a working tree with changes, which cannot be published."""
    if (git_commit() or "").endswith(DIRTY):
        raise ValueError(f"{name}: tracked files differ from commit {git_commit()}: commit them, then train")
    grid, out = GRIDS[name], options.out
    cuda = options.device == "cuda"
    images_of(grid, options)  # decoded once
    workers, each = 1 if cuda else options.workers, (grid.setup, options.data_root, options.device)
    with ProcessPoolExecutor(workers, get_context("spawn"), Worker.begin, each) as pool:
        stages = "coarse", "repeated", *["refined"] * options.refine
        for batch_size, stage in product(options.batch_sizes or grid.batch_sizes, stages):
            begun, cells = time.perf_counter(), asked(stage, batch_size, stored(out, name))
            lots = [cells] if cuda and cells else [[cell] for cell in cells]
            for done in as_completed([pool.submit(train, str(out), name, lot) for lot in lots]):
                done.result()
            seconds = time.perf_counter() - begun
            print(f"{name}, b = {batch_size}, {stage}: {len(cells)} trainings, {seconds:.0f} s", flush=True)


def publish(name: str, options: argparse.Namespace) -> None:
    """Write a landscape's file from the cells there are. Raises ValueError where no batch size has its whole grid."""
    trained = stored(options.out, name)
    asked_for = options.batch_sizes or sorted({cell.batch_size for cell in trained})
    missing = {b: sum(cell not in trained for cell in coarse(b)) for b in asked_for}
    for batch_size in [b for b in asked_for if missing[b]]:
        print(f"{name}, b = {batch_size}: left out, {missing[batch_size]} of {len(coarse(batch_size))} cells to train")
    sizes = [b for b in asked_for if not missing[b]]
    if not sizes:
        raise ValueError(f"{name}: {options.out} has no batch size with all {len(coarse(0))} cells of its grid")
    trials, curves = results.read(options.out, name), results.read_curves(options.out, name)
    trials = trials[trials["batch_size"].isin(sizes)]
    options.publish.mkdir(parents=True, exist_ok=True)
    path = options.publish / f"{name}.parquet"
    measured.write(path, trials, curves, about(name, trials, options), keep=True)
    whole = measured.load(name, options.publish)
    held = ", ".join(map(str, whole.axes["batch_size"]))
    print(f"{path}: {len(whole.trials)} trainings, b = {held}, {path.stat().st_size:,} bytes")


def about(name: str, trials: pd.DataFrame, options: argparse.Namespace) -> dict[str, object]:
    """What the rows of a landscape do not say: the command, its images and, on the machine that trained, the
    processor."""
    grid, sizes, fine = GRIDS[name], set(trials["batch_size"]), between(trials["params"])
    if (options.publish / f"{name}.parquet").exists():
        held = measured.load(name, options.publish)
        sizes |= set(held.axes["batch_size"])
        fine |= between(held.trials[list(held.weights)].to_dict("records"))
    on_gpu = set(trials["device"]) != {"cpu"}
    source = f" --data-root {Path(options.data_root).name}" if options.data_root else ""
    more = " --refine" * fine + " --device cuda" * on_gpu
    command = COMMAND.format(name=name, source=source, batch_sizes=" ".join(map(str, sorted(sizes))), more=more)
    data = images_of(grid, options)
    splits = {name: split for name in SPLITS if (split := getattr(data, name)) is not None}
    images = {name: {"classes": len(split.class_names), "images": len(split.labels)} for name, split in splits.items()}
    here = set(trials["hostname"]) == {socket.gethostname()}
    return {"command": command, "images": images} | ({"processor": processor()} if here else {})


def between(settings: Iterable[Mapping[str, float]]) -> bool:
    """Whether some settings' weights lie between those of the grid in steps of four."""
    weights = [value for params in settings for name, value in dict(params).items() if name.startswith(WEIGHT)]
    return bool((np.log2(np.array(weights) / LOWEST).round() % 2).any())


def processor() -> str:
    """The CPU's name as Linux tells it, else the architecture's."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="results folder; a landscape is a study of it")
    parser.add_argument("names", nargs="+", metavar="NAME", choices=GRIDS, help=f"of {', '.join(GRIDS)}")
    parser.add_argument("--data-root", metavar="PATH", help="the dataset's directory or zip; not needed for glyphs")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[], help="default: the landscape's")
    parser.add_argument("--refine", action="store_true", help="steps of two near the best")
    parser.add_argument("--workers", type=int, default=2, help="processes on a CPU; default: 2")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="write the landscapes' files; trains nothing")
    options = parser.parse_args(argv)
    for name in options.names:
        (publish if options.publish else measure)(name, options)


if __name__ == "__main__":
    main()
