"""Fake studies: rows and tables made by hand or from formulas, with the columns, types and gaps that `tune_cd.run`,
`search.callback`, `write_trial` and `tune_cd.replay` leave. Nothing is trained. No test in here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from rows import minimal

from trainables.training.setups import SETUPS
from tune_cd import CoordinateDescent, Space, balance, results
from tune_cd.landscapes import replay
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.simulation import replay_all, simulate
from tune_cd.results.parquet import serialise
from tune_cd.results.reading import frame
from tune_cd.results.rows import DIGEST
from tune_cd.results.schema import TRIALS, check_trial
from tune_cd.search.methods import OPTIMISERS

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BATCH_SIZES = (16, 32, 64, 128, 256, 512)
GLYPHS = SETUPS["glyphs"]["dml"]["small"]
VERSIONS = json.dumps({"python": "3.11.7", "torch": "2.15.0"})
SECONDS = 20.0  # of a trial
VICREG = {"Lambda_sim": 25.0, "Lambda_std": 25.0, "Lambda_cov": 1.0}
TWINS = {"Lambda_on": 1.0, "Lambda_off": 0.0051}
"""Published weights of losses with terms of other names."""
BOX = (1e-6, 10.0)  # of their weights


# Rows and tables ----------------------------------------------------------------------------------------------


def row(
    index=0, status="completed", val=0.5, *, study="s", search="grid", params=None, times=None, config=None, **fields
) -> dict:
    """A row of TRIALS. params: what was searched, also put into the balance's columns; times: seconds since BEGIN.

    fields: any other of TRIALS; `dataset`, `task`, `loss`, `metric_name` and `seed` have usual values.
    """
    params = {"Lambda_p": 1.0, "Lambda_e": 1.0} if params is None else params
    began, ended = (BEGIN + timedelta(seconds=at) for at in times) if times else (None, None)
    whole = {"batch_size": int(params["batch_size"])} if "batch_size" in params else {}
    name = f"{search}-{fields.get('search_seed') or 0}-{index}-{fields.get('seed', 0)}"
    return {
        "dataset": "glyphs", "task": "dml", "loss": "margin", "metric_name": "r_map", "seed": 0, "search_seed": 0,
        "attempt": 0, "scores": {}, "software": "{}", "study": study, "search": search, "trial_id": name,
        "trial_index": index, "status": status, "val_score": val if status in ("completed", "stopped") else None,
        "params": dict(params), "config": json.dumps(config or {}), "started_at": began, "ended_at": ended,
        **{weight: params[weight] for weight in ("Lambda_p", "Lambda_e") if weight in params}, **whole,
    } | fields  # fmt: skip


def table(rows: Iterable[dict]) -> pd.DataFrame:
    """Rows as `results.read` gives them, each checked as `results.write_trial` does; in the order given."""
    checked = [check_trial(row) for row in rows]
    plain = lambda value: list(value.items()) if isinstance(value, dict) else value  # noqa: E731
    listed = [{name: plain(value) for name, value in row.items()} for row in checked]
    return frame(pa.Table.from_pylist(listed, TRIALS), TRIALS)


def store(folder: Path, trials: pd.DataFrame) -> None:
    """Write the rows of a table to a results folder."""
    for trial in trials.to_dict("records"):
        gaps = {name: None for name, value in trial.items() if not isinstance(value, dict) and pd.isna(value)}
        results.write_trial(folder, trial | gaps)


def foreign(folder: Path, name: str, **fields) -> None:
    """Add a study as another program may write it, whose names and fields nobody checks."""
    rows = [check_trial(row(n)) | {"study": name} | fields for n in range(3)]
    (folder / "trials" / name).mkdir(parents=True)
    (folder / "trials" / name / "all.parquet").write_bytes(serialise(pa.Table.from_pylist(rows, TRIALS)))


def plain(trials: pd.DataFrame) -> pd.DataFrame:
    """The same as `pandas.read_parquet` gives it: maps are lists of pairs."""
    return trials.assign(**{name: [list(entries.items()) for entries in trials[name]] for name in ("params", "scores")})


def several(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """A results folder that holds all of them, as `results.read` orders it."""
    return pd.concat(list(tables), ignore_index=True).sort_values(
        ["study", "search", "trial_index", "trial_id"], kind="stable", ignore_index=True
    )


# Small studies ------------------------------------------------------------------------------------------------


def empty() -> pd.DataFrame:
    return table([])


def lost(count: int = 3) -> pd.DataFrame:
    """A study in which no trial completed."""
    statuses = [("failed", "diverged", "stopped")[n % 3] for n in range(count)]
    params = [{"Lambda_p": 2.0**n, "Lambda_e": 1.0} for n in range(count)]
    return table(row(n, statuses[n], 0.9, params=params[n], search="cd") for n in range(count))


def search_study(
    scores, search="cd", seed=0, *, test=None, seconds=10.0, workers=1, gpus=1.0, **fields
) -> pd.DataFrame:
    """A search's trials, each `seconds` long, on so many workers; None: failed. test: reported scores, by default 1 -
    score."""
    rows = []
    for index, value in enumerate(scores):
        began = index // workers * seconds
        reported = None if value is None else (1.0 - value if test is None else test[index])
        rows.append(row(
            index, "failed" if value is None else "completed", value, search=search, search_seed=seed,
            params={"Lambda_p": 2.0 ** (index % 5), "Lambda_e": 2.0 ** (index // 5)}, test_score=reported,
            times=(began, began + seconds), gpus=gpus, **fields,
        ))  # fmt: skip
    return table(rows)


def measured(score, places, names: Sequence[str], seeds=(0,), **fields) -> pd.DataFrame:
    """A setting per place x [n, d] in octaves and per seed, whose val_score and test_score are score(x)."""
    rows = []
    for index, place in enumerate(np.asarray(places, dtype=float)):
        value, params = float(score(place)), dict(zip(names, (2.0**place).tolist()))
        rows += [row(index, val=value, test_score=value, params=params, seed=seed, **fields) for seed in seeds]
    return table(rows)


def lattice(*axes: Sequence[float]) -> np.ndarray:
    """All combinations [n, d] of values."""
    return np.array(list(product(*axes)), dtype=float)


def full_grid(steps=25, batch_sizes: Sequence[int] = BATCH_SIZES, seeds=(0,), seed=0, **fields) -> pd.DataFrame:
    """A study like `fig:hp_omniglot`'s: steps x steps x batch sizes on octaves from -18, a noisy ridge; 3 % diverged, 1
    % failed, 2 % not run; validation and test noise differ, the test score is NaN now and then."""
    rng, rows = np.random.default_rng(seed), []
    for index, (p, e, b) in enumerate(lattice(-18 + np.arange(steps), -18 + np.arange(steps), np.log2(batch_sizes))):
        if rng.random() < 0.02:
            continue
        for training in seeds:
            ended = rng.choice(["completed", "diverged", "failed"], p=[0.96, 0.03, 0.01])
            truth = 0.85 * np.exp(-(((e - p - 8) / 9) ** 2) - ((e + p + 6) / 18) ** 2 - ((b - 6) / 12) ** 2)
            val, test = truth + 0.02 * rng.standard_normal(2)
            test = np.nan if rng.random() < 0.01 else test
            params = {"Lambda_p": 2.0**p, "Lambda_e": 2.0**e, "batch_size": round(2.0**b)}
            reported = {"test_score": test, "scores": {"test_precision_at_1": 1 - test}} if ended == "completed" else {}
            rows.append(row(index, str(ended), float(val), params=params, seed=int(training), **reported, **fields))
    return table(rows)


# Studies of `tune_cd.run` -------------------------------------------------------------------------------------


def trained(index, h: Mapping[str, float], score, search="cd", *, setup=GLYPHS, seed=0, began=0.0, **fields) -> dict:
    """A row as a trial of `tune_cd.run` writes it; score None: lost with its node before it began, as the driver writes
    it."""
    params, size = {name: float(value) for name, value in h.items()}, int(h.get("batch_size", 64))
    own = {"batch_size": size, "seed": seed, "Lambda_p": params["Lambda_p"], "Lambda_e": params["Lambda_e"]}
    common = {
        "study": "glyphs-margin", "search": search, "params": params, "seed": seed, "batch_size": size,
        "trial_id": f"{search}-{index:05d}", "git_commit": "6212ac3",
        "software": VERSIONS, "direction": "joint" if index else "start", "line_position": 0.5 * index,
        "dataset": setup.dataset, "task": setup.task, "loss": setup.loss, "metric_name": setup.metric,
    } | fields  # fmt: skip
    if score is None:
        return row(index, "failed", None, error="lost: node 10.0.0.7 died", config=own, **common)
    terms = {"positive_term": 1.0 / (1.0 + h["Lambda_p"]), "entropy_term": 1.0 / (1.0 + h["Lambda_e"])}
    test = score - 0.05 + 0.01 * seed
    scores = {
        "val_r_map": score, "test_r_map": test, "test_precision_at_1": test + 0.02, "test_map_at_r": test / 2,
        "negative_pairs": 3968.0,
    } | terms  # fmt: skip
    whole = {
        "test_score": test, "scores": scores, "images_seen": setup.images_seen, "best_at": setup.images_seen,
        "train_seconds": 0.9 * SECONDS, "gpus": 0.0, "hostname": "vm", "device": "cpu",
        "config": asdict(setup) | {DIGEST: setup.digest} | own,
        "times": (began, began + SECONDS),
    } | terms  # fmt: skip
    return row(index, val=score, **whole | common)


def searched(number: int, search: str = "cd", *, batch: bool = False, after: float = 0.0, **fields) -> list[dict]:
    """So many trials of the default search on the formula, as its lines were, two at a time."""
    landscape = LANDSCAPES["batch" if batch else "omniglot"]
    descent = CoordinateDescent(landscape.space, **balance.of(landscape.space), seed=0, workers=2)
    trials = sorted(simulate(descent, landscape, trials=number, workers=2), key=lambda trial: trial.index)
    return [
        trained(
            trial.index, trial.h, trial.value, search, direction=trial.direction, line_position=trial.line_position,
            began=after + trial.started * SECONDS, **fields,
        )
        for trial in trials
    ]  # fmt: skip


def line(average: str, number=5, *, first=0, search=None, after=400.0, **fields) -> list[dict]:
    """So many trials of the learning rate alone, as the baselines'."""
    positive, entropy = balance.average_weights(average, 64)
    rows = []
    for n in range(number):
        h = {"Lambda_p": positive * 2.0 ** (first + n) / 8, "Lambda_e": entropy * 2.0 ** (first + n) / 8}
        score = LANDSCAPES["omniglot"].score(h)
        rows.append(trained(first + n, h, score, search or average, began=after + n * SECONDS, **fields))
    return rows


def main_rows() -> list[dict]:
    """The search, and 5 trials on either diagonal; the separate average's first is the search's start, and not among
    its rows."""
    return [*searched(20), *line("separate", first=1), *line("global")]


def main_job() -> pd.DataFrame:
    return table(main_rows())


def lost_trials() -> pd.DataFrame:
    """The same, with a node that died under three trials, the very first of all among them."""
    rows = main_rows()
    for n, r in enumerate(rows):
        if (r["search"], r["trial_index"]) in {("cd", 0), ("cd", 7), ("global", 2)}:
            rows[n] = trained(r["trial_index"], r["params"], None, r["search"])
    return table(rows)


def on_gpus() -> pd.DataFrame:
    used = {"gpus": 0.25, "device": "NVIDIA L4"}
    return table([*searched(12, **used), *line("separate", first=1, **used)])


def three_axes(study: str = "three", number: int = 12) -> pd.DataFrame:
    lines = [*line("separate", first=1, study=study), *line("global", study=study)]
    return table([*searched(number, batch=True, study=study), *lines])


def memory(dataset: str = "glyphs", study: str = "xbm", **fields) -> pd.DataFrame:
    """The experiment on cross-batch memory: five searches, three set-ups, in one study."""
    modes = {"without": "none", "S1": "variable", "S2": "fixed", "without-tuned": "none", "S3": "fixed"}
    own = {"embedding": 128, "distance": "cosine", "k": 4, "memory_size": 96, "memory_start": 2, "images_seen": 640}
    setups = {name: replace(GLYPHS, dataset=dataset, memory=mode, **own | fields) for name, mode in modes.items()}
    rows = []
    for n, search in enumerate(("without", "S1", "S2")):
        rows += line("global", search=search, setup=setups[search], study=study, after=200.0 * n)
    for search in ("without-tuned", "S3"):
        rows += searched(4, search, setup=setups[search], study=study, after=600.0)
    return table(rows)


# Losses of other terms ----------------------------------------------------------------------------------------


def of_terms(h: Mapping[str, float], published: Mapping[str, float]) -> float:
    """A ridge along the joint direction; the best has a quarter of the last weight's published share."""
    away = np.log2([h[name] / (0.05 * share / max(published.values())) for name, share in published.items()])
    away[-1] += 2
    across = away - away.mean()
    return float(0.8 * np.exp(-((across @ across) / 20) - (away.mean() / 6) ** 2))


def _row_of_terms(index: int, h: Mapping[str, float], published: Mapping[str, float], **fields) -> dict:
    value = of_terms(h, published)
    terms = {f"term_{name.removeprefix('Lambda_')}": value * (at + 1) for at, name in enumerate(published)}
    common = {"loss": "vicreg", "task": "ssl", "metric_name": "probe_accuracy", "batch_size": 64, "study": "terms"}
    return row(
        index, val=value, test_score=value - 0.05, params=h, scores=terms, times=(index * 10.0, index * 10.0 + 9),
        config={"published": dict(published), "k": 2, "batch_size": 64}, **common | fields,
    )  # fmt: skip


def searched_terms(published: Mapping[str, float], trials: int = 16, **fields) -> pd.DataFrame:
    """A search of the weights from the published ratios, and the published ones with the rate alone tuned."""
    space, rows = Space(**dict.fromkeys(published, BOX)), []
    start = {name: 0.1 * share / max(published.values()) for name, share in published.items()}
    joint = {"joint": [1.0] * len(published)}
    searches = {
        "cd": (trials, CoordinateDescent(space, **balance.of(space), start=start)),
        "published": (8, CoordinateDescent(space, rule="line", directions=joint, start=start)),
    }
    for name, (count, search) in searches.items():
        for index in range(count):
            h = search.ask()
            if h is None:
                break
            search.tell(h, of_terms(h, published))
            origin = search.origin(h)
            of = {"search": name, "direction": origin.direction, "line_position": origin.line_position}
            rows.append(_row_of_terms(index, h, published, **of, **fields))
    return table(rows)


def gridded_terms(published: Mapping[str, float], cells: int = 4, **fields) -> pd.DataFrame:
    """A full grid over all weights, in steps of two octaves."""
    most = max(published.values())
    ticks = [0.05 * share / most * 4.0 ** np.arange(-2, cells - 2) for share in published.values()]
    places = [dict(zip(published, place)) for place in lattice(*ticks).tolist()]
    return table(
        _row_of_terms(i, h, published, search="grid", direction="sampled", line_position=None, **fields)
        for i, h in enumerate(places)
    )


# Studies of others --------------------------------------------------------------------------------------------


OPTIMIZERS = ("sgd", "adamw", "lion")
EPOCHS = 16
OWN_SPACE = [
    {"name": "lr", "low": 1e-4, "high": 0.3, "values": None, "step": None, "scale": "log", "growth": 0.0},
    {"name": "momentum", "low": -0.5, "high": 0.99, "values": None, "step": None, "scale": "linear", "growth": 0.0},
    {"name": "layers", "low": 1, "high": 4, "values": [1, 2, 3, 4], "step": None, "scale": "log", "growth": 0.0},
    {"name": "optimizer", "low": None, "high": None, "values": list(OPTIMIZERS), "step": None, "scale": "category"},
]


def own_tuner() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A user's own, through `search.callback`: (trials, their learning curves). No dataset, task, loss, seed or test;
    four parameters, one linear from below 0, one of few whole numbers, one a category. A scheduler trains every fourth
    one to the end; one fails, one diverges."""
    rng, rows, choices, curves = np.random.default_rng(5), [], [], []
    for n in range(40):
        lr, momentum = 10 ** rng.uniform(-4, -0.6), 0.0 if n == 0 else rng.uniform(-0.5, 0.99)
        layers, optimizer = int(rng.integers(1, 5)), OPTIMIZERS[n % 3]
        epochs = EPOCHS if n % 4 == 0 else int(rng.choice([2, 4, 8]))
        score = 0.9 - 0.06 * (np.log10(lr) + 2.2) ** 2 - 0.2 * (momentum - 0.8) ** 2 - 0.05 * np.log2(EPOCHS / epochs)
        score += {"sgd": -0.02, "adamw": 0.0, "lion": -0.05}[optimizer]
        status = {20: "failed", 24: "diverged"}.get(n, "completed" if epochs == EPOCHS else "stopped")
        rows.append(row(
            n, status, float(score), study="my-net", search="cd", metric_name="accuracy",
            times=(n * 60.0, n * 60.0 + 99),
            params={"lr": lr, "momentum": momentum, "layers": float(layers)},
            config={"space": OWN_SPACE, "full_length": ["epoch", EPOCHS]},
            scores={"accuracy": float(score), "epoch": float(epochs)}, trial_id=f"cd-{n:05d}", gpus=1.0,
            error="ValueError: <b>no</b>" if status == "failed" else None,
            **dict.fromkeys(("dataset", "task", "loss", "seed", "search_seed")),
        ))  # fmt: skip
        choices.append({"optimizer": optimizer})
        if status in ("completed", "stopped"):
            looks = range(1, epochs + 1)
            reports = {"study": "my-net", "trial_id": f"cd-{n:05d}", "images_seen": looks}
            told = {"val_score": [score * look / epochs for look in looks]}
            told["scores"] = [{"epoch": look / 2} for look in looks]
            curves.append(pd.DataFrame(reports | told))
    return table(rows).assign(choices=choices), pd.concat(curves, ignore_index=True)


def paused_tuner(*runs: tuple[float, ...]) -> pd.DataFrame:
    """A user's own trainings of 16 epochs, losses after 2, 4, 8, 16 of them, for as long as each has one."""
    rows = []
    for n, losses in enumerate(runs):
        unknown = dict.fromkeys(("images_seen", "started_at", "ended_at", "hostname", "device"))
        reached = [unknown | {"scores": {"epoch": 2.0 * 2**i}, "val_score": loss} for i, loss in enumerate(losses)]
        config = {"full_length": ["epoch", 16], "lengths": [0.125, 0.25, 0.5, 1.0], "runs": reached[:-1]}
        rows.append(row(
            n, "completed" if len(losses) == 4 else "stopped", losses[-1], search="cd", metric_name="loss", mode="min",
            params={"lr": 0.1 * (n + 1), "momentum": 0.5}, config=config, scores=reached[-1]["scores"], seed=None,
        ))  # fmt: skip
    return table(rows)


def own_grid() -> pd.DataFrame:
    own = {"study": "sweep", "metric_name": "accuracy"} | dict.fromkeys(("dataset", "task", "loss"))
    places = 2.0 ** lattice(range(-6, 0), range(-9, -5))
    return table(
        row(n, val=0.1 * n % 0.9, params={"lr": x, "weight_decay": y}, **own) for n, (x, y) in enumerate(places)
    )


def written(number: int = 12) -> pd.DataFrame:
    """A user's own rows through `results.write_trial`: what is required, and nothing else."""
    rng = np.random.default_rng(0)
    own = {"study": "written", "search": "mine", "status": "completed", "metric_name": "accuracy"}
    return table(
        minimal(
            trial_id=f"t{n}", trial_index=n, val_score=float(rng.random()), **own,
            params={"lr": 10.0 ** rng.uniform(-5, 0), "weight_decay": 10.0 ** rng.uniform(-7, -1)},
        )
        for n in range(number)
    )  # fmt: skip


def replays(folder: Path) -> pd.DataFrame:
    """`tune_cd.replay --results`: two methods, nine searches each, on two landscapes, without times."""
    landscapes = [LANDSCAPES[name] for name in ("omniglot", "sop")]
    methods = {name: OPTIMISERS[name] for name in ("random", "cd")}
    trajectories = replay_all(methods, landscapes, range(9), trials=12, processes=1)
    replay.store(str(folder), trajectories, landscapes, {"trials": 12})
    return results.read(folder)
