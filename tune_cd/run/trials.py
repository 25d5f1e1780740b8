"""The searches of a study as Ray Tune runs: trials wired to their trainable and to the results table."""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import nan

import pandas as pd
from ray import tune
from ray.tune.search import Searcher

from tune_cd import results
from tune_cd.adapter import OptimiserSearch
from tune_cd.callback import ResultsCallback, trial_name
from tune_cd.packed import PACK, PackedSearch
from tune_cd.provenance import git_commit, software
from tune_cd.run.options import ORIGIN
from tune_cd.run.preflight import Study
from tune_cd.run.progress import Progress
from tune_cd.run.resources import Resources
from tune_cd.run.searches import Search
from tune_cd.run.together import Member, Together
from trainables.outcome import Outcome
from trainables.trial import TrainTrial

STATUS_SECONDS = 60  # between two tables of Ray's reporter


class Recorder:
    """Writes a finished training's row and curve, in the trial's own process. Picklable; made once for a Tune run."""

    def __init__(self, study: Study, setup, resources: Resources):
        self._results, self._study = str(study.results), study.name
        self._fields, self._resources = fixed_fields(study), resources
        self._setup, self._searched = asdict(setup), study.space.names

    def __call__(self, config: dict, outcome: Outcome, where: dict) -> None:
        where = dict(where)
        identity = identity_of(config, self._resources.replicates)
        evaluations = [self._evaluation(evaluation, config["seed"]) for evaluation in outcome.curve]
        results.write_curve(self._results, self._study, identity["trial_id"], evaluations)
        row = {
            "study": self._study,
            "attempt": 0,
            **identity,
            "params": {name: config[name] for name in self._searched},
            **{name: config[name] for name in ("Lambda_p", "Lambda_e", "batch_size")},
            "status": outcome.status,
            "val_score": outcome.val_score,
            "test_score": outcome.test_score,
            "scores": outcome.scores,
            "positive_term": outcome.positive_term,
            "entropy_term": outcome.entropy_term,
            "images_seen": outcome.images_seen,
            "best_at": outcome.best_at,
            "train_seconds": outcome.train_seconds,
            "gpus": self._resources.gpus * where.pop("share"),
            "ended_at": datetime.now(UTC),
            "hostname": socket.gethostname(),
            "config": json.dumps({**self._setup, **{k: v for k, v in config.items() if k != ORIGIN}}),
            "software": json.dumps(software()),
            **where,
            **self._fields,
        }
        results.write_trial(self._results, row)

    @staticmethod
    def _evaluation(evaluation, seed: int) -> dict:
        fields = {"attempt": 0, "seed": seed, "images_seen": evaluation.images_seen, "train_seconds": evaluation.train_seconds}
        return fields | {"val_score": evaluation.val_score, "scores": evaluation.scores}


def identity_of(config: Mapping, replicates: int) -> dict:
    """Which training of which search a configuration is, in the table's fields."""
    origin = dict(config[ORIGIN])
    name = trial_name(origin["search"], origin["trial_index"])
    return {**origin, "trial_id": f"{name}-seed{config['seed']}" if replicates > 1 else name, "seed": config["seed"]}


def fixed_fields(study: Study) -> dict:
    """What all rows of a study share."""
    setup = study.setup
    constant = {"dataset": study.dataset, "task": setup.task, "loss": setup.loss, "metric_name": setup.metric}
    return constant | {"search_seed": study.options.seed, "git_commit": git_commit()}


def run_searches(study: Study, searches: list[Search], resources: Resources) -> None:
    """Train what is left of searches that share a set-up. Trainings whose rows exist are not repeated."""
    table = results.read(study.results, study.name)
    members = {}
    for search in searches:
        searcher, done = _searcher(study, search, table, resources)
        if done >= search.num_samples:
            print(f"[{search.name}]  all {done} trials are in the table already")
        elif searcher.finished:
            print(_stopped(search, done))
        else:
            members[search.name] = Member(searcher, search.num_samples - done)
    if not members:
        return
    key = partial(_key, study)
    searcher: Searcher = Together(members, key, resources.workers)
    if resources.packed:
        searcher = PackedSearch(
            searcher, resources.pack, metric="val_score", mode="max", packs=resources.processes,
            seeds=seeds_of(study), known=partial(_measured, _values(study, table, searches[0]), key),
        )  # fmt: skip
    progress = Progress({search.name: search.num_samples for search in searches}, table, study.setup.metric, resources.replicates)
    tune.Tuner(
        trainable(study, searches[0], resources),
        param_space={"batch_size": study.options.batch_size, "seed": study.options.seed},
        tune_config=tune.TuneConfig(
            metric="val_score",
            mode="max",
            num_samples=-1,  # the searches have budgets of their own
            search_alg=searcher,
            max_concurrent_trials=resources.processes,
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="-".join(members),
            storage_path=str(study.folder / "tune" / f"{datetime.now():%Y%m%d-%H%M%S}"),
            callbacks=[progress, failures(study, resources)],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            progress_reporter=tune.CLIReporter(
                metric_columns=["images_seen", "val_score", "time_total_s"],
                parameter_columns=[] if resources.packed else ["Lambda_p", "Lambda_e", "batch_size"],
                max_report_frequency=STATUS_SECONDS,
            ),
            verbose=1,
        ),
    ).fit()
    table = results.read(study.results, study.name)
    for search in searches:
        done = _done(table, search)
        if search.name in members and done < search.num_samples:
            print(_stopped(search, done))


def seeds_of(study: Study) -> list[int]:
    """Of every setting's trainings."""
    return [study.options.seed + n for n in range(study.options.replicates)]


def _searcher(study: Study, search: Search, table: pd.DataFrame, resources: Resources) -> tuple[OptimiserSearch, int]:
    """The search as it goes on from the table, and how many of its settings are trained."""
    searcher = OptimiserSearch(study.space, "val_score", "max", make=search.make, start=search.start, annotate=ORIGIN)
    searcher.set_max_concurrency(resources.workers if search.workers is None else search.workers)
    whole = _whole(table, study.options.replicates)
    for told in results.history(whole[whole["search"] == search.knows]):
        searcher.add_evaluated_point(told.h, told.value, pruned=told.censored)
    own = whole[whole["search"] == search.name]
    searcher.recall(own, begun=table[table["search"] == search.name])
    alike = [other.name for other in study.searches if other.setup == search.setup and other.name != search.name]
    searcher.reuse(whole[whole["search"].isin(alike)])
    return searcher, _done(own, search)


def _whole(table: pd.DataFrame, replicates: int) -> pd.DataFrame:
    """The rows of settings all of whose trainings have ended."""
    if replicates == 1 or table.empty:
        return table
    return table[table.groupby(["search", "trial_index"])["seed"].transform("nunique") >= replicates]


def _done(table: pd.DataFrame, search: Search) -> int:
    return table.loc[table["search"] == search.name, "trial_index"].nunique()


def _key(study: Study, config: Mapping) -> tuple:
    """Equal for settings that are one training apart from the seed."""
    return study.space.key({name: config[name] for name in study.space.names})


def _values(study: Study, table: pd.DataFrame, search: Search) -> dict[tuple, float]:
    """What came of settings with one seed, NaN for no number: their other trainings may be missing, these are not repeated."""
    alike = [other.name for other in study.searches if other.setup == search.setup]
    rows = table[table["search"].isin(alike)]
    return {(_key(study, row.params), int(row.seed)): row.val_score if row.status == "completed" else nan for row in rows.itertuples()}


def _measured(values: dict[tuple, float], key, config: Mapping, seed: int) -> float | None:
    return values.get((key(config), seed))


def _stopped(search: Search, done: int) -> str:
    return f"[{search.name}]  ended by itself after {done} of {search.num_samples} trials: no line promises more"


def _trial_name(trial) -> str:
    members = trial.config.get(PACK, [trial.config])
    names = [trial_name(member[ORIGIN]["search"], member[ORIGIN]["trial_index"]) for member in members]
    return names[0] if len(set(names)) == 1 else f"{names[0]}-to-{names[-1]}"


def trainable(study: Study, search: Search, resources: Resources):
    """The trainable class with its fixed parameters and resources bound."""
    bound = tune.with_parameters(
        TrainTrial,
        setup_fields=asdict(search.setup),
        data_root=study.data_root,
        threads=resources.cpus,
        record=Recorder(study, search.setup, resources),
        download=study.options.download,
    )
    return tune.with_resources(bound, {"cpu": resources.cpus, "gpu": resources.gpus})


def failures(study: Study, resources: Resources) -> ResultsCallback:
    """Rows of trainings that could not write their own."""
    return ResultsCallback(
        study.results, study.name, metric="val_score", fields=fixed_fields(study),
        identify=partial(identity_of, replicates=resources.replicates), annotate=ORIGIN, record="failures",
    )  # fmt: skip
