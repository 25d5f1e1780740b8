"""What searches propose on formulas, frozen as JSON: `python tests/helpers/goldens.py` writes tests/goldens anew.

A change that means to alter proposals writes them anew in a commit of its own, which says why.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import ray
from ray import tune
from tuners import tuner_of

from tune_cd import CoordinateDescentSearch, results
from tune_cd.landscapes.landscape import knowledge
from tune_cd.search.methods import CONFIGURED, OPTIMISERS
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Linear, Space

FOLDER = Path(__file__).parent.parent / "goldens"
METHODS = {"cd": 24, "cd-paper": 24, "cd-local": 24, "random": 6, "grid": 30}
"""Method -> number of proposals."""
SEEDS = range(10)
WORKERS = {7: 3, 8: 3, 9: 8}
"""Seed -> live trials; the oldest is told first. Other seeds: one."""
PAUSING_SEEDS, PAUSING_BUDGET = range(4), 4

Value = float | None


class Formula(NamedTuple):
    """A box and the value of a configuration after a share of its full length; None: it fails."""

    space: Space
    value: Callable[[Mapping[str, float], float], Value]


def _ridge(h: Mapping[str, float], share: float) -> Value:
    """A tilted ridge of the balance, short trainings lower and with a preference for large weights."""
    p, e = math.log2(h["Lambda_p"] / 0.013), math.log2(h["Lambda_e"] / 1.7)
    balance, joint = (e - p) / math.sqrt(2), (e + p) / math.sqrt(2)
    top = math.exp(-(((balance + 0.21 * joint) / 3.1) ** 2) - (joint / 9.7) ** 2)
    return 0.07 + 0.8 * top * share ** (0.11 + 0.02 * abs(joint - 1.3))


def _with_batch_size(h: Mapping[str, float], share: float) -> Value:
    away = math.log2(h["batch_size"] / 90)
    return _ridge(h, share) * math.exp(-((away / 5.3) ** 2)) + 0.01 * math.sin(h["batch_size"])


def _valley(h: Mapping[str, float], share: float) -> Value:
    """A loss of two rates, negated: a bowl about a diagonal."""
    lr, decay = math.log2(h["lr"] / 0.017), math.log2(h["decay"] / 0.23)
    return -((lr + 0.4 * decay) ** 2) / 7 - decay**2 / 31 - 1.9 / (0.1 + share)


def _mixed(h: Mapping[str, float], share: float) -> Value:
    rates = math.exp(-((math.log2(h["lr"] / 0.004) / 4.3) ** 2) - ((h["momentum"] - 0.83) / 0.4) ** 2)
    sizes = 0.9 - 0.07 * abs(h["layers"] - 3.7) - 0.03 * abs(math.log2(h["width"] / 130))
    return rates * sizes * share**0.3


def _with_cliff(h: Mapping[str, float], share: float) -> Value:
    """Three terms; the training diverges where their joint rate is large."""
    sim, std, cov = (math.log2(h[name] / at) for name, at in zip(h, (3.1, 1.3, 0.11)))
    if sim + std + cov > 1.7:
        return None
    return (
        math.exp(-(((sim - std) / 3.7) ** 2) - ((std - cov) / 6.1) ** 2 - ((sim + std + cov) / 15.1) ** 2) * share**0.2
    )


WEIGHT, SIZES, WIDTH = (1e-6, 17.0), [16, 32, 64, 128, 256, 512], {"width": [32, 64, 128, 256]}
FORMULAS = {
    "ridge": Formula(Space(Lambda_p=WEIGHT, Lambda_e=WEIGHT), _ridge),
    "batch size": Formula(Space(Lambda_p=WEIGHT, Lambda_e=WEIGHT, batch_size=SIZES), _with_batch_size),
    "valley": Formula(Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0)), _valley),
    "mixed": Formula(Space(lr=(1e-4, 1.0), momentum=Linear(0.0, 0.99), layers=Linear(1, 8, step=1), **WIDTH), _mixed),
    "cliff": Formula(Space(**dict.fromkeys(("Lambda_sim", "Lambda_std", "Lambda_cov"), (1e-3, 64.0))), _with_cliff),
}


def proposals(name: str, method: str, seed: int) -> list[list[float]]:
    """The coordinates of a method's proposals on a formula, in the order of asking."""
    formula, workers = FORMULAS[name], WORKERS.get(seed, 1)
    options = {"step": 8.0} if method == "grid" else knowledge(formula.space) if method in CONFIGURED else {}
    search = OPTIMISERS[method](formula.space, seed=seed, workers=workers, **options)
    asked: list[list[float]] = []
    while len(asked) < METHODS[method]:
        h = search.ask()
        if h is not None:
            asked.append(_coordinates(formula.space, h))
        elif search.live:
            search.tell(search.live[0], formula.value(search.live[0], 1.0))
        else:
            break
    return asked


def pauses(name: str, seed: int) -> list[list[float]]:
    """The coordinates of each stretch of training and the share that it ends at, in the order of asking."""
    formula = FORMULAS[name]
    search = CoordinateDescent(
        formula.space, **knowledge(formula.space), lengths=LENGTHS, budget=PAUSING_BUDGET, seed=seed,
        workers=1 + seed % 2,
    )  # fmt: skip
    asked: list[list[float]] = []
    while True:
        h = search.ask()
        if h is not None:
            asked.append([*_coordinates(formula.space, h), search.until(h)])
        elif search.live:
            h = search.live[0]
            share = search.until(h)
            search.tell(h, formula.value(h, share), share=share)
        else:
            return asked


STUDIED = FORMULAS["cliff"]
START = {"Lambda_sim": 2.0, "Lambda_std": 0.5, "Lambda_cov": 0.03}
TRIALS = 14
COLUMNS = (
    "study", "search", "trial_id", "trial_index", "attempt", "direction", "line_position", "params", "status",
    "failure_kind", "metric_name", "val_score", "scores",
)  # fmt: skip


def run_study(folder: Path, total: int) -> None:
    """Run a Tuner over the formula STUDIED until its table has this number of rows."""
    arguments = {**knowledge(STUDIED.space), "start": START, "workers": 1, "metric": "score", "mode": "max"}
    search = CoordinateDescentSearch.from_results(
        folder / "results", "own", resume=True, space=STUDIED.space, **arguments
    )
    samples, rows = total - search.recalled, search.callback(folder / "results", "own")
    how = {"name": f"of-{total}", "metric": "score", "max_concurrent_trials": 1}
    tuner_of(_trainable, search, {}, folder / "tune", samples, callbacks=[rows], **how).fit()


def _trainable(config: dict[str, Any]) -> None:
    value = STUDIED.value({name: config[name] for name in STUDIED.space.names}, 1.0)
    tune.report({"score": math.nan if value is None else value, "terms": 3})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The table's rows in the order of asking, with the columns that are frozen."""
    table = results.read(folder / "results", "own").sort_values("trial_index")
    return [{name: _plain(row[name]) for name in COLUMNS} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value)}
    missing = value is None or (isinstance(value, float) and math.isnan(value)) or value is np.nan
    return None if missing else value.item() if isinstance(value, np.generic) else value


def _coordinates(space: Space, h: Mapping[str, Any]) -> list[float]:
    return [round(float(x), 8) for x in space.to_coordinates(h)]


def frozen(name: str) -> Any:
    """The stored values of tests/goldens/NAME.json."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def freeze(name: str, values: Mapping[str, Any]) -> None:
    """Write tests/goldens/NAME.json, one line a key."""
    lines = (f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in values.items())
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def searches() -> Iterator[tuple[str, str, int]]:
    """(formula, method, seed) of each frozen search; the grid has no seed."""
    for name, method in product(FORMULAS, METHODS):
        yield from ((name, method, seed) for seed in SEEDS[: 1 if method == "grid" else None])


if __name__ == "__main__":
    ray.init(address="local")
    with TemporaryDirectory() as made:
        run_study(Path(made), TRIALS)
        freeze("table", {row["trial_id"]: row for row in rows_of(Path(made))})
    freeze("proposals", {", ".join(map(str, search)): proposals(*search) for search in searches()})
    freeze("pauses", {f"{name}, {seed}": pauses(name, seed) for name in FORMULAS for seed in PAUSING_SEEDS})
