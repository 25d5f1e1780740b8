"""Learning curves of models that have no contrastive loss, over full grids: where short trainings mislead.

    python tests/benchmarks/other_curves.py OUT [NAME ...]          # 26 minutes beside other work
    python tests/benchmarks/pausing.py OUT/*.npz --start near:3     # `pausing.py` on them

Writes OUT/<name>.npz: `names` of the parameters, their values `ticks_0`, ..., and `curves` [n_seeds, ..., LOOKS], the
best test accuracy so far; of the recurrent network 1 - the squared error as a share of the variance, of `boosting-wine`
the geometric mean of the likelihoods. On a third of the settings, the best, the ranks after an eighth of the training
correlate with those at the end by .2 to .9.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
import torch
from lengths import LOOKS
from other_problems import powers
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split
from torch import nn

SEEDS = (0, 1)
MOMENTA = [0.01, 0.03, 0.1, 0.3, 1.0]  # 1 - the momentum, or Adam's first beta

Parts = Sequence[np.ndarray]
"""x, x_test, y, y_test."""


def parts(name: str) -> Parts:
    x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    x = ((x - x.mean(0)) / (x.std(0) + 1e-9)).astype(np.float32)
    return train_test_split(x, y, test_size=0.4, random_state=0, stratify=y)


def trained(optimiser: Any, steps: int, loss: Callable[[], torch.Tensor], score) -> Iterator[float]:
    """The score after each look of so many steps. A step whose loss is no number is left out, and a look after one
    scores 0."""
    for _ in range(LOOKS):
        for _ in range(steps):
            optimiser.zero_grad()
            value = loss()
            if torch.isfinite(value):
                value.backward()
                optimiser.step()
        with torch.no_grad():
            yield score() if torch.isfinite(value) else 0.0


def network(
    data: str, epochs: int, seed: int, *, rate: float, decay=0.0, inverse_momentum=1.0, batch_size=32
) -> Iterator[float]:
    """A hidden layer of 32."""
    x, x_test, y, y_test = map(torch.from_numpy, parts(data))
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, int(y.max()) + 1))
    how = {"lr": rate, "momentum": 1 - inverse_momentum, "weight_decay": decay}

    def loss():
        batch = torch.randint(len(x), (int(batch_size),))
        return nn.functional.cross_entropy(model(x[batch]), y[batch])

    steps = max(1, len(x) * epochs // LOOKS // int(batch_size))
    return trained(
        torch.optim.SGD(model.parameters(), **how), steps, loss,
        lambda: float((model(x_test).argmax(1) == y_test).float().mean()),
    )  # fmt: skip


def adding(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of 16 numbers of which two are marked, and the sum of these."""
    marks = torch.rand(n, 16).argsort(1) < 2
    numbers = torch.rand(n, 16)
    return torch.stack([numbers, marks.float()], -1), (numbers * marks).sum(1)


def recurrent(seed: int, *, rate: float, clip: float, inverse_momentum: float) -> Iterator[float]:
    """A GRU of 24 units that adds."""
    torch.manual_seed(seed)
    (x, y), (x_test, y_test) = adding(2000), adding(500)
    gru, head = nn.GRU(2, 24, batch_first=True), nn.Linear(24, 1)
    both = nn.ModuleList([gru, head])
    optimiser = torch.optim.Adam(both.parameters(), lr=rate, betas=(1 - inverse_momentum, 0.999))
    optimiser.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(both.parameters(), clip) and None)

    def error(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((head(gru(x)[0][:, -1])[:, 0] - y) ** 2).mean()

    def loss():
        batch = torch.randint(len(x), (32,))
        return error(x[batch], y[batch])

    return trained(optimiser, 30, loss, lambda: max(0.0, 1 - float(error(x_test, y_test) / y_test.var())))


def boosting(data: str, likelihood: bool, seed: int, *, rate: float, depth: float, subsample: float) -> Iterator[float]:
    """64 trees."""
    x, x_test, y, y_test = parts(data)
    model = GradientBoostingClassifier(
        learning_rate=rate, n_estimators=4 * LOOKS, max_depth=int(depth), subsample=subsample, random_state=seed
    ).fit(x, y)
    for shares in list(model.staged_predict_proba(x_test))[3::4]:
        right = np.maximum(shares[np.arange(len(y_test)), y_test], 1e-6)
        yield float(np.exp(np.log(right).mean()) if likelihood else (shares.argmax(1) == y_test).mean())


PROBLEMS: dict[str, tuple[Callable[..., Iterator[float]], dict[str, list]]] = {
    "sgd-digits": (partial(network, "digits", 8), {"rate": powers(-12, 1), "decay": powers(-16, 0, 2)}),
    "momentum-digits": (
        partial(network, "digits", 8),
        {"rate": powers(-13, 0), "decay": powers(-13, -1, 4), "inverse_momentum": MOMENTA},
    ),
    "batch-digits": (
        partial(network, "digits", 6),
        {"rate": powers(-10, 1), "batch_size": [8, 32, 128], "inverse_momentum": MOMENTA},
    ),
    "recurrent-adding": (
        recurrent, {"rate": powers(-12, -2), "clip": [0.01, 0.1, 1.0], "inverse_momentum": MOMENTA[1:4]},
    ),
    "boosting-wine": (
        partial(boosting, "wine", True),
        {"rate": powers(-8, 1), "depth": [1, 2, 3, 4, 5], "subsample": [0.25, 0.5, 1.0]},
    ),
    "boosting-breast-cancer": (
        partial(boosting, "breast_cancer", False),
        {"rate": powers(-8, 1), "depth": [1, 3, 5], "subsample": [0.25, 0.5, 1.0]},
    ),
}  # fmt: skip
"""name -> (the learning curve of a seed and a setting, the grid's values by parameter)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROBLEMS)}; default: all")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or PROBLEMS:
        curve, grid = PROBLEMS[name]
        cells = [dict(zip(grid, cell)) for cell in product(*grid.values())]
        curves = np.array([[list(curve(seed, **h)) for h in cells] for seed in SEEDS])
        shape = (len(SEEDS), *map(len, grid.values()), LOOKS)
        ticks = {f"ticks_{at}": values for at, values in enumerate(grid.values())}
        best_so_far = np.maximum.accumulate(curves, axis=-1).reshape(shape)
        np.savez(options.out / f"{name}.npz", names=list(grid), curves=best_so_far, **ticks)
        print(f"{name}: {len(cells)} settings", flush=True)


if __name__ == "__main__":
    main()
