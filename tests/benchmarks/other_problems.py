"""Grids of real trainings that are no contrastive loss: what `tune_cd/landscapes/general` holds, measured again.

    python tests/benchmarks/other_problems.py OUT [NAME ...]

Writes OUT/<name>.parquet, a full grid with the results table's columns. Scores are accuracies, means over three folds
(stratified, shuffled with seed 0) of datasets that come with scikit-learn. A support vector machine's C and gamma; a
small network's rate, decay, batch size and momentum; gradient boosting's rate, number of trees and their depth; another
network's rate and decay, optimiser and activation, which have no order.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sklearn.datasets
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tune_cd import Axis, Linear, Space, results
from tune_cd.results.parquet import serialise
from tune_cd.results.rows import split, trial_name, trial_row

FOLDS = 3
Scores = Callable[..., float]
"""(x, y, x_test, y_test, **parameters) -> accuracy."""


@dataclass(frozen=True)
class Problem:
    """What is measured: a model on a dataset of scikit-learn's, over the factorial of the ticks of a space's axes."""

    data: str
    space: Space
    ticks: dict[str, Sequence[Any]]
    accuracy: Scores

    def cells(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.ticks, cell)) for cell in product(*self.ticks.values()))

    def score(self, h: dict[str, Any]) -> float:
        """The mean accuracy over the folds."""
        made = MADE.get(self.data)
        x, y = made() if made else getattr(sklearn.datasets, f"load_{self.data}")(return_X_y=True)
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        accuracies = [self.accuracy(x[train], y[train], x[test], y[test], **h) for train, test in folds.split(x, y)]
        return float(np.mean(accuracies))


def scaled(model, x, y, x_test, y_test) -> float:
    """The model's accuracy, its inputs standardised; 0, worse than any guess, where it diverges."""
    try:
        return make_pipeline(StandardScaler(), model).fit(x, y).score(x_test, y_test)
    except ValueError:
        return 0.0


def svm(x, y, x_test, y_test, *, C: float, gamma: float) -> float:
    return scaled(SVC(C=C, gamma=gamma), x, y, x_test, y_test)


def network(x, y, x_test, y_test, *, rate: float, decay: float, batch_size: int, momentum: float) -> float:
    """One hidden layer of 32, 10 epochs of SGD."""
    model = MLPClassifier(
        (32,), solver="sgd", learning_rate_init=rate, alpha=decay, batch_size=int(batch_size), momentum=momentum,
        nesterovs_momentum=False, max_iter=10, random_state=0,
    )  # fmt: skip
    return scaled(model, x, y, x_test, y_test)


def kinds(x, y, x_test, y_test, *, rate: float, decay: float, solver: str, activation: str) -> float:
    """One hidden layer of 32, 10 epochs in batches of 32."""
    model = MLPClassifier(
        (32,), solver=solver.partition(" ")[0], learning_rate_init=rate, alpha=decay, batch_size=32,
        momentum=0.9 if "momentum" in solver else 0.0, activation=activation, max_iter=10, random_state=0,
    )  # fmt: skip
    return scaled(model, x, y, x_test, y_test)


def boosting(x, y, x_test, y_test, *, rate: float, trees: int, depth: int) -> float:
    how = {"learning_rate": rate, "n_estimators": int(trees), "max_depth": int(depth)}
    return GradientBoostingClassifier(**how, random_state=0).fit(x, y).score(x_test, y_test)


def powers(low: int, high: int, step: int = 1) -> list[float]:
    """Powers of two."""
    return [2.0**k for k in range(low, high + 1, step)]


def spirals() -> tuple[np.ndarray, np.ndarray]:
    """Three arms of 300 noisy points that wind around each other once and a half."""
    rng, arm = np.random.default_rng(0), np.repeat(np.arange(3), 300)
    along = np.sqrt(rng.uniform(0.02, 1, 900))
    angle = 2 * np.pi * (arm / 3 + 0.75 * along)
    return along[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.02 * rng.standard_normal((900, 2)), arm


def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Six classes of three clusters in ten dimensions, of which four say nothing; a tenth of the labels is wrong."""
    return sklearn.datasets.make_classification(
        1200, 10, n_informative=6, n_redundant=0, n_classes=6, n_clusters_per_class=3, flip_y=0.1, random_state=0
    )


SOLVERS, ACTIVATIONS = ["adam", "sgd", "sgd momentum"], ["relu", "tanh", "logistic", "identity"]
SIZES, SVM = {"batch_size": [16, 64, 256]}, {"C": powers(-5, 15, 2), "gamma": powers(-15, 3, 2)}  # of LIBSVM's guide
CHOICES = {"solver": SOLVERS, "activation": ACTIVATIONS}
MADE = {"spirals": spirals, "blobs": blobs}
MODELS: dict[Scores, tuple[Space, dict[str, Sequence[Any]], Sequence[str]]] = {
    svm: (Space(C=(2.0**-5, 2.0**15), gamma=(2.0**-15, 2.0**3)), SVM, ("digits", "breast_cancer", "wine")),
    network: (
        Space(rate=(2.0**-13, 0.5), decay=(2.0**-13, 0.5), **SIZES, momentum=Linear(0.0, 0.99)),
        {"rate": powers(-13, -1, 2), "decay": powers(-13, -1, 4), **SIZES, "momentum": [0.0, 0.33, 0.66, 0.99]},
        ("digits", "wine"),
    ),
    boosting: (
        Space(rate=(2.0**-8, 1.0), trees=Axis.integers("trees", 2, 128), depth=Linear(1, 5, step=1)),
        {"rate": powers(-8, 0), "trees": [2**k for k in range(1, 8)], "depth": [1, 2, 3, 4, 5]},
        ("breast_cancer", "wine"),
    ),
    kinds: (
        Space(rate=(2.0**-13, 2.0), decay=(2.0**-13, 8.0), **CHOICES),
        {"rate": powers(-13, 1, 2), "decay": powers(-13, 3, 4), **CHOICES},
        ("digits", "breast_cancer", "blobs", "spirals"),
    ),
}
"""Model -> its space, the ticks of each axis, and its datasets."""

PROBLEMS: dict[str, Callable[[], Problem]] = {
    f"{model.__name__}-{data.replace('_', '-')}": partial(Problem, data, space, ticks, model)
    for model, (space, ticks, names) in MODELS.items() for data in names
}  # fmt: skip


def rows(name: str, problem: Problem) -> Iterator[dict]:
    """The results table's rows of the whole grid."""
    shared = {"study": name, "dataset": problem.data, "task": "classification", "metric_name": "accuracy"}
    space = json.loads(json.dumps(problem.space.to_json()))
    for index, h in enumerate(problem.cells()):
        begun = time.perf_counter()
        score = problem.score(h)
        identity = {
            "search": "grid",
            "trial_id": trial_name("grid", index),
            "trial_index": index,
            "attempt": 0,
            "seed": 0,
        }
        took = time.perf_counter() - begun
        outcome = {"status": "completed", "val_score": score, "scores": {}, "train_seconds": took}
        config = {"model": problem.accuracy.__name__, "folds": FOLDS, "space": space} | h
        params, choices = split(h, problem.space)
        yield trial_row(identity, params, config, outcome, {"device": "cpu", "gpus": 0.0}, shared, choices)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROBLEMS)}; default: all")
    options = parser.parse_args(argv)
    unknown = sorted(set(options.names) - set(PROBLEMS))
    if unknown:
        parser.error(f"NAME {unknown}: of {', '.join(PROBLEMS)}")
    warnings.simplefilter("ignore")  # 10 epochs are no convergence
    for name in options.names or PROBLEMS:
        begun, problem = time.perf_counter(), PROBLEMS[name]()
        checked = [results.check_trial(row) for row in rows(name, problem)]
        options.out.mkdir(parents=True, exist_ok=True)
        whole = serialise(pa.Table.from_pylist(checked, results.TRIALS), many=True)
        results.publish(options.out / f"{name}.parquet", whole.to_pybytes())
        print(f"{name}: {len(checked)} cells, {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
