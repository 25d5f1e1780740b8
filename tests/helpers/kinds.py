"""Tables of every kind of study there is, with the columns, types and gaps that `tune_cd.run`, `ResultsCallback`,
`write_trial` and `tune_cd.replay` leave, from formulas instead of trainings. No test in here."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
from studies import full_grid, lattice, row, table

from trainables.training.setup import Setup
from trainables.training.setups import SETUPS
from tune_cd import CoordinateDescent, Space, balance, results
from tune_cd.landscapes.find import trainings
from tune_cd.landscapes.formulas import BATCH_SIZES, LANDSCAPES
from tune_cd.landscapes.replay import store
from tune_cd.landscapes.simulation import replay_all, simulate
from tune_cd.search.registry import OPTIMISERS

GLYPHS = SETUPS["glyphs"]["dml"]["small"]
VERSIONS = json.dumps({"python": "3.11.7", "torch": "2.15.0"})
SECONDS = 20.0  # of a trial


def trained(
    index: int,
    h: Mapping[str, float],
    score: float | None,
    search: str = "cd",
    *,
    setup: Setup = GLYPHS,
    seed: int = 0,
    study: str = "glyphs-margin",
    direction: str = "joint",
    began: float = 0.0,
    replicates: int = 1,
    gpus: float = 0.0,
    **fields,
) -> dict:
    """A row as a trial of `tune_cd.run` writes it; score None: lost with its node before it began, as the driver writes
    it."""
    params = {name: float(value) for name, value in h.items()}
    trial = {
        "trial_id": f"{search}-{index:05d}" + (f"-seed{seed}" if replicates > 1 else ""),
        "study": study,
        "search": search,
        "seed": seed,
    }
    trial |= {
        "direction": "start" if index == 0 else direction,
        "line_position": 0.0 if index == 0 else 0.5 * index,
        "params": params,
        "git_commit": "6212ac3",
    }
    own = {
        "batch_size": int(h.get("batch_size", 64)),
        "seed": seed,
        "Lambda_p": params["Lambda_p"],
        "Lambda_e": params["Lambda_e"],
    }
    trial |= {
        "batch_size": own["batch_size"],
        "software": VERSIONS,
        "dataset": setup.dataset,
        "task": setup.task,
        "loss": setup.loss,
        "metric_name": setup.metric,
    }
    if score is None:
        lost = {"error": "lost: node 10.0.0.7 died", "started_at": None, "ended_at": None, "config": own}
        return row(index, "failed", None, **trial | lost)
    terms = {"positive_term": 1.0 / (1.0 + h["Lambda_p"]), "entropy_term": 1.0 / (1.0 + h["Lambda_e"])}
    test = score - 0.05 + 0.01 * seed
    measured = {
        "val_r_map": score,
        "test_r_map": test,
        "test_precision_at_1": test + 0.02,
        "test_map_at_r": test / 2,
        "negative_pairs": 3968.0,
    } | terms
    whole = {
        "test_score": test,
        "scores": measured,
        "images_seen": setup.images_seen,
        "best_at": setup.images_seen,
        "train_seconds": 0.9 * SECONDS,
    }
    whole |= {
        "gpus": gpus,
        "hostname": "vm",
        "device": "NVIDIA L4" if gpus else "cpu",
        "config": asdict(setup) | own,
        "times": (began, began + SECONDS),
    }
    return row(index, "completed", score, **trial | terms | whole | fields)


def searched(
    number: int, search: str = "cd", *, batch: bool = False, workers: int = 2, after: float = 0.0, **fields
) -> list[dict]:
    """So many trials of coordinate descent on the formula, as its lines were, two at a time."""
    landscape = LANDSCAPES["batch" if batch else "omniglot"]
    trials = simulate(
        CoordinateDescent(landscape.space, seed=0, workers=workers), landscape, trials=number, workers=workers
    )
    return [
        trained(
            trial.index,
            trial.h,
            trial.value,
            search,
            direction=trial.direction,
            began=after + trial.started * SECONDS,
            **fields,
        )
        | {"line_position": trial.line_position}
        for trial in sorted(trials, key=lambda trial: trial.index)
    ]


def line(
    average: str, number: int = 5, *, first: int = 0, search: str | None = None, after: float = 400.0, **fields
) -> list[dict]:
    """So many trials of the learning rate alone, as the baselines'."""
    positive, entropy = balance.average_weights(average, 64)
    places = [
        {"Lambda_p": positive * 2.0**n / 8, "Lambda_e": entropy * 2.0**n / 8} for n in range(first, first + number)
    ]
    return [
        trained(first + n, h, LANDSCAPES["omniglot"].score(h), search or average, began=after + n * SECONDS, **fields)
        for n, h in enumerate(places)
    ]


def main_job() -> pd.DataFrame:
    """20 trials of the search, 5 on either diagonal; the separate average's first is the search's start, and not among
    its rows."""
    return table([*searched(20), *line("separate", first=1), *line("global")])


def lost_trials() -> pd.DataFrame:
    """The same, with a node that died under three trials, the very first of all among them."""
    rows = [*searched(20), *line("separate", first=1), *line("global")]
    gone = {("cd", 0), ("cd", 7), ("global", 2)}
    again = [
        trained(r["trial_index"], r["params"], None, r["search"]) if (r["search"], r["trial_index"]) in gone else r
        for r in rows
    ]
    return table(again)


def replicates() -> pd.DataFrame:
    """Three seeds of every setting, one training lost."""
    rows = [
        r
        for seed in range(3)
        for r in [
            *searched(8, seed=seed, replicates=3),
            *line("separate", first=1, seed=seed, replicates=3),
            *line("global", seed=seed, replicates=3),
        ]
    ]
    return table(
        [trained(3, r["params"], None, seed=1, replicates=3) if r["trial_id"] == "cd-00003-seed1" else r for r in rows]
    )


def on_gpus() -> pd.DataFrame:
    return table([*searched(12, gpus=0.25), *line("separate", first=1, gpus=0.25)])


def three_axes() -> pd.DataFrame:
    return table(
        [
            *searched(12, batch=True, study="three"),
            *line("separate", first=1, study="three"),
            *line("global", study="three"),
        ]
    )


def memory(dataset: str = "glyphs", study: str = "xbm", **fields) -> pd.DataFrame:
    """The experiment on cross-batch memory: five searches, three set-ups, in one study."""
    modes = {"without": "none", "S1": "variable", "S2": "fixed", "without-tuned": "none", "S3": "fixed"}
    own = {
        "embedding": 128,
        "distance": "cosine",
        "k": 4,
        "memory_size": 96,
        "memory_start": 2,
        "images_seen": 640,
        "dataset": dataset,
    }
    setups = {search: replace(GLYPHS, **own | {"memory": mode} | fields) for search, mode in modes.items()}
    rows = [
        r
        for n, search in enumerate(("without", "S1", "S2"))
        for r in line("global", search=search, setup=setups[search], study=study, after=200.0 * n)
    ]
    return table(
        [
            *rows,
            *(
                r
                for search in ("without-tuned", "S3")
                for r in searched(4, search, setup=setups[search], study=study, after=600.0)
            ),
        ]
    )


def landscape(name: str) -> pd.DataFrame:
    """A measured one that comes with the package."""
    return trainings(name)


def volume() -> pd.DataFrame:
    """A grid over three axes with holes and lost cells, as `fig:hp_omniglot`."""
    return full_grid(6, BATCH_SIZES[:3])


def own_parameters(study: str = "my-study", search: str = "cd", number: int = 16) -> pd.DataFrame:
    """A user's own, through `ResultsCallback`: no dataset, task, loss, seed, direction or test; two diverged, one lost
    before it began."""
    search_for, rows = (
        CoordinateDescent(Space(lr=(1e-5, 1.0), weight_decay=(1e-7, 1e-1)), start={"lr": 1e-3, "weight_decay": 1e-4}),
        [],
    )
    for index in range(number):
        h = search_for.ask()
        value = 0.9 * math.exp(-((math.log10(h["lr"]) + 2) ** 2) / 3 - (math.log10(h["weight_decay"]) + 4) ** 2 / 8)
        status = "diverged" if index in (3, 8) else "failed" if index == 5 else "completed"
        search_for.tell(h, value if status == "completed" else None)
        fields = {
            "study": study,
            "search": search,
            "params": h,
            "metric_name": "accuracy",
            "config": h | {"epochs": 10},
            "software": VERSIONS,
            "hostname": "vm",
        }
        fields |= dict.fromkeys(("dataset", "task", "loss", "seed", "search_seed", "gpus", "device"))
        ended = {"times": (index * 0.3, index * 0.3 + 0.3)} if status != "failed" else {"error": "lost: the actor died"}
        scores = {"scores": {"accuracy": value, "loss": 1 - value}} if status == "completed" else {}
        rows.append(row(index, status, value, **fields | ended | scores))
    return table(rows)


def own_grid() -> pd.DataFrame:
    """A grid over a user's own two parameters."""
    return table(
        row(
            n,
            val=0.1 * n % 0.9,
            study="sweep",
            dataset=None,
            task=None,
            loss=None,
            metric_name="accuracy",
            params={"lr": 2.0**x, "weight_decay": 2.0**y},
        )
        for n, (x, y) in enumerate(lattice(range(-6, 0), range(-9, -5)))
    )


def written(number: int = 12) -> pd.DataFrame:
    """A user's own rows through `results.write_trial`: what is required, and nothing else."""
    rng = np.random.default_rng(0)
    required = {
        "study": "written",
        "attempt": 0,
        "status": "completed",
        "metric_name": "accuracy",
        "scores": {},
        "config": "{}",
        "software": "{}",
        "search": "mine",
    }
    return table(
        required
        | {
            "trial_id": f"t{n}",
            "trial_index": n,
            "val_score": float(rng.random()),
            "params": {"lr": 10.0 ** rng.uniform(-5, 0), "weight_decay": 10.0 ** rng.uniform(-7, -1)},
        }
        for n in range(number)
    )


def replays(folder: Path) -> pd.DataFrame:
    """`tune_cd.replay --results`: two methods, nine searches each, on two landscapes, without times."""
    landscapes = {name: LANDSCAPES[name] for name in ("omniglot", "sop")}
    methods = {name: OPTIMISERS[name] for name in ("random", "cd")}
    store(
        str(folder),
        replay_all(methods, list(landscapes.values()), range(9), trials=12, processes=1),
        landscapes,
        {"trials": 12},
    )
    return results.read(folder)


def several(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """A results folder that holds all of them, as `results.read` orders it."""
    return pd.concat(list(tables), ignore_index=True).sort_values(
        ["study", "search", "trial_index", "trial_id"], kind="stable", ignore_index=True
    )
