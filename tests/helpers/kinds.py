"""Tables of every kind of study there is, with the columns, types and gaps that `tune_cd.run`, `ResultsCallback`,
`write_trial` and `tune_cd.replay` leave, from formulas instead of trainings. No test in here."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from studies import BEGIN, full_grid, lattice, row, table

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


TAIL = '<img src=x onerror=alert(1)> "Λ" 𝜏'


def odd() -> dict[str, pd.DataFrame]:
    """Studies with rows that no study of ours has, though the table's schema allows them, each of its own name."""
    balance, lr = {"Lambda_p": 0.5, "Lambda_e": 2.0, "batch_size": 64}, {"lr": 0.1, "momentum": 0.5}
    two = [{"lr": 2.0**n, "momentum": 0.1 * (n % 3)} for n in range(8)]
    far = [1e308, -1e308, 5e-324, 1e155, -0.0, 1.0, 0.99, 0.5]

    def of(*searched: Mapping, more: Mapping | None = None, **columns) -> list[dict]:
        """A row per setting. columns: a value each; a list has one for every row."""
        own = [
            {name: value[n] if isinstance(value, list) else value for name, value in columns.items()}
            for n in range(len(searched))
        ]
        usual = {"search": "cd", "times": (0.0, 9.0)}
        return [
            row(n, params=h, **usual | {"val": 0.1 * n, "trial_id": f"t{n}"} | one)
            for n, (h, one) in enumerate(zip(searched, own))
        ]

    pairs = [{"Lambda_p": 2.0**x, "Lambda_e": 2.0**y, "batch_size": 64} for x, y in lattice(range(4), range(4))]
    more = {
        "parameters changed": of(*two[:4], *[{"depth": 2.0, "width": 3.0 + n} for n in range(4)]),
        "parameters added": of(*two[:4], *[h | {"depth": 2.0} for h in two[4:]]),
        "parameters instead of the balance": of(*pairs[:4], *two[:4]),
        "the balance instead of parameters": of(*two[:4], *pairs[:6]),
        "three weights instead of two": of(
            *pairs[:4], *[{"Lambda_a": 2.0**n, "Lambda_b": 1.0, "Lambda_c": 2.0} for n in range(4)]
        ),
        "other weights": of(
            *[{"Lambda_a": 2.0**n, "Lambda_b": 1.0} for n in range(4)],
            *[{"Lambda_b": 2.0**n, "Lambda_c": 1.0} for n in range(4)],
        ),
        "one weight of two": of({"Lambda_p": 1.0}, {"Lambda_p": 2.0}, {"Lambda_e": 2.0}, {"Lambda_e": 1.0}),
        "weights in no row together": of({"Lambda_p": 1.0}, {"Lambda_e": 2.0}),
        "a batch size in some rows": of(*pairs[:4], *[{"Lambda_p": 2.0**n, "Lambda_e": 1.0} for n in range(4)]),
        "a grid and other rows": of(*pairs, *two[:4], search=["grid"] * 20),
        "a grid of weights that some rows lack": of(*pairs, {}, {"Lambda_p": 3.0}, search=["grid"] * 18),
        "a parameter missing": of(*two[:4], {"lr": 3.0}, {"lr": 4.0}),
        "no parameters": of({}, {}, {}),
        "no parameters in some rows": of(*two[:3], {}, {}),
        "a constant parameter": of(*[lr] * 4),
        "one row": of(balance),
        "one row without parameters": of({}),
        "one failed row": of(balance, status="failed", error="no room"),
        "failed rows": of(*pairs[:3], status="failed", started_at=None, ended_at=None),
        "failed rows of nothing": of({}, {}, status="failed", started_at=None, ended_at=None, dataset=None, loss=None),
        "diverged rows": of(*two[:3], status="diverged", val_score=None),
        "stopped rows": of(*two[:3], status="stopped"),
        "stopped rows without a score": of(
            *two[:4], status=["completed", "stopped", "stopped", "stopped"], val_score=[0.1, None, None, 0.2]
        ),
        "paused rows without a score": of(
            *pairs[:4], status="stopped", val_score=None, config={"images_seen": 640}, images_seen=80
        ),
        "paused rows": of(
            *two[:4],
            *[{"depth": 2.0}] * 2,
            status="stopped",
            config={"images_seen": 640},
            images_seen=[80, 160, 320, 640, 900, None],
        ),
        "paused rows of one whole": of(
            *pairs[:4],
            status=["completed", "stopped", "stopped", "stopped"],
            config={"images_seen": 640},
            images_seen=[640, 0, 80, None],
        ),
        "weights without columns": of(*pairs[:6], Lambda_p=None, Lambda_e=None, batch_size=None),
        "columns without weights": of(*[{}] * 4, Lambda_p=[1.0, 2.0, 4.0, 8.0], Lambda_e=1.0),
        "columns that contradict the parameters": of(*pairs[:6], Lambda_p=3.0, batch_size=[1, 2, 3, 4, 5, 6]),
        "no times": of(*pairs[:4], started_at=None, ended_at=None),
        "some times": of(*pairs[:4], started_at=[None, BEGIN, None, BEGIN], ended_at=[BEGIN, None, None, BEGIN]),
        "ended before it started": of(*pairs[:4], times=(9.0, 0.0)),
        "years 1 and 9999": of(
            *pairs[:4], started_at=datetime(1678, 1, 1, tzinfo=UTC), ended_at=datetime(2261, 12, 31, tzinfo=UTC)
        ),
        "years 1700 and 2262": of(
            *pairs[:4], started_at=datetime(1700, 1, 1, tzinfo=UTC), ended_at=datetime(2261, 1, 1, tzinfo=UTC)
        ),
        "metrics mixed": of(*pairs[:4], metric_name=["r_map", "accuracy", "loss", "r_map"]),
        "datasets mixed": of(*pairs[:4], dataset=["glyphs", None, "sop", ""]),
        "everything mixed": of(
            *pairs[:4],
            dataset=["a", "b", None, "c"],
            task=["dml", None, "ssl", "x"],
            loss=["margin", "infonce", None, "my:loss"],
            search=["cd", "grid", "random", "confirm"],
        ),
        "search names": of(*pairs[:4], search=[TAIL, "", "grid", "cd"]),
        "only confirmed": of(*pairs[:4], search="confirm"),
        "only recipes": of(*pairs[:4], search=["separate", "global", "separate", "published"]),
        "values far apart": of(*[{"lr": value, "momentum": 1.0 + n} for n, value in enumerate(far)]),
        "weights far apart": of(
            *[{"Lambda_p": value, "Lambda_e": 1.0 + n, "batch_size": 2} for n, value in enumerate(far)]
        ),
        "weights of zero and less": of(
            *[{"Lambda_p": x, "Lambda_e": -x, "batch_size": 0} for x in (0.0, -1.0, 2.0, 3.0)]
        ),
        "batch sizes of zero and less": of(
            *[{"Lambda_p": 1.0, "Lambda_e": 2.0, "batch_size": b} for b in (0, -64, 2**62, 1)]
        ),
        "a grid far apart": of(
            *[
                {"Lambda_p": p, "Lambda_e": e, "batch_size": 64}
                for p, e in lattice((5e-324, 1.0, 1e308), (1e-300, 1.0, 1e300))
            ],
            search="grid",
        ),
        "a grid of zero": of(
            *[{"Lambda_p": p, "Lambda_e": e, "batch_size": 64} for p, e in lattice((0.0, 1.0, 2.0), (-1.0, 1.0, 2.0))],
            search="grid",
        ),
        "names of columns": of(
            *[
                {
                    "val_score": 2.0**n,
                    "status": 1.0 + n,
                    "trials": 2.0,
                    "value": n + 1.0,
                    "setting": 3.0,
                    "seed": n + 1.0,
                    "lost": 1.0,
                    "share": 2.0**-n,
                }
                for n in range(5)
            ]
        ),
        "names of columns paused": of(
            *[{"share": 2.0**n, "end": 1.0 + n, "deviation": n + 3.0, "val_score": n + 1.0} for n in range(5)],
            status="stopped",
            config={"images_seen": 640},
            images_seen=80,
        ),
        "names": of(
            *[
                {TAIL: 2.0**n, "": 1.0 + n, "a b": 2.0, "$x_1$": n + 1.0, "Lambda_": n + 2.0, "Lambda_<b>": 2.0**n}
                for n in range(5)
            ]
        ),
        "scores far apart": of(*pairs[:8], val=far),
        "scores of 1e308": of(*pairs[:8], *two, val=1e308, test_score=1e308, search=["grid"] * 8 + ["cd"] * 8),
        "scores of both signs": of(
            *pairs, val=[1.7e308, -1.7e308] * 8, test_score=[-1.7e308, 1.7e308] * 8, search="grid"
        ),
        "equal scores": of(*pairs, val=0.5, test_score=0.5, search="grid"),
        "scores of zero": of(*pairs, val=0.0, test_score=0.0),
        "scores that are not finite": of(
            *pairs[:4],
            scores={"accuracy": float("nan"), "loss": float("inf"), "term_a": -float("inf")},
            test_score=[float("nan"), float("inf"), -float("inf"), None],
            positive_term=float("inf"),
            entropy_term=1e308,
        ),
        "names of scores": of(
            *pairs[:4],
            scores={
                TAIL: 1.0,
                "": 2.0,
                "val_score": 3.0,
                "status": 1.0,
                "trial_id": 2.0,
                "term_": 2.0,
                "study": 1.0,
                "batch_size": 9.0,
            },
        ),
        "many scores": of(*pairs[:4], scores={f"s{n}": 1.0 * n for n in range(300)}),
        "configs of other types": of(
            *pairs[:6],
            config=[
                {"pack": [{"a": 1}, 2]},
                {"k": "many", "published": [1], "optimizer": 3},
                {"k": 0, "published": {"Lambda_p": "x"}, "weights": {"a": [1]}},
                {"runs": {"a": 1}},
                {"images_seen": "all", "runs": 7, "k": True},
                {"images_seen": 0, "k": -2, "published": {"Lambda_p": 0, "Lambda_e": None}},
            ],
            status=["completed"] * 3 + ["stopped"] * 3,
        ),
        "published weights": of(
            *pairs[:4],
            config=[
                {"published": {"Lambda_p": 0.0, "Lambda_e": 0.0}},
                {"published": {}},
                {"published": {"Lambda_p": -1, "Lambda_e": 1}},
                {"published": {"x": 1, "y": 2}},
            ],
        ),
        "published weights of zero": of(*pairs[:4], config={"published": {"Lambda_p": 0.0, "Lambda_e": 1.0}}),
        "published weights of text": of(*pairs[:4], config={"published": {"Lambda_p": "a", "Lambda_e": [1]}}),
        "runs that are no runs": of(
            *pairs[:4],
            config=[
                {"runs": [1, 2], "images_seen": 640},
                {"runs": [{}], "images_seen": 640},
                {"runs": [{"started_at": "x", "ended_at": 3, "images_seen": "y"}]},
                {"runs": [None], "images_seen": 640},
            ],
            status="stopped",
            images_seen=80,
        ),
        "runs without numbers": of(
            *pairs[:2],
            config={
                "images_seen": 640,
                "runs": [
                    {
                        "started_at": None,
                        "ended_at": None,
                        "images_seen": None,
                        "val_score": None,
                        "hostname": None,
                        "device": 3,
                        "study": "other",
                    }
                ],
            },
            images_seen=640,
        ),
        "set-ups of other types": of(
            *pairs[:4],
            config=[
                {"network": ["a"], "memory": {"a": 1}},
                {"network": 1, "temperature": "hot"},
                {"network": None, "memory": True},
                {},
            ],
        ),
        "halves of characters": of(*pairs[:2], config={"a": "\ud800", "b": ["\udfff"]}),
        "software": of(*pairs[:4], software=['{"torch": null}', '{"torch": [1]}', '{"torch": {"a": 1}}', "{}"]),
        "directions": of(
            *pairs[:8],
            direction=[TAIL, "joint", "balance", "joint", "Lambda_p", "Lambda_e", "batch_size", "start"],
            line_position=[1e308, -1e308, float("nan"), 1e4, -1e4, None, 5.0, float("inf")],
        ),
        "an index used again": of(*pairs[:4], trial_index=0),
        "an index far away": of(*pairs[:4], trial_index=[2**62, 2**62 + 1, 0, 1]),
        "seeds": of(
            *pairs[:1],
            *pairs[:1],
            *pairs[:1],
            *pairs[:1],
            seed=[None, 2**62, -1, None],
            search_seed=[None, -5, 2**62, None],
        ),
        "numbers": of(
            *pairs[:4],
            gpus=[float("nan"), float("inf"), -1.0, 1e308],
            images_seen=[2**62, -5, 0, None],
            train_seconds=[float("inf"), -1.0, float("nan"), 1e308],
            best_at=[2**62, -1, None, 0],
        ),
        "texts": of(
            *pairs[:4],
            error=TAIL * 99,
            hostname=TAIL,
            device=["", TAIL, None, "cpu"],
            git_commit=TAIL,
            loss=TAIL,
            task="",
            dataset=TAIL,
            metric_name=TAIL,
        ),
    }
    return {name: table([one | {"study": f"odd-{n}"} for one in rows]) for n, (name, rows) in enumerate(more.items())}
