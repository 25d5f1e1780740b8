"""One search of a study as a Ray Tune run: trials wired to their trainable and to the results table."""

import json
import socket
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

from ray import tune

from tune_cd import results
from tune_cd.callback import ResultsCallback, trial_name
from tune_cd.provenance import software
from tune_cd.adapter import OptimiserSearch
from tune_cd.run.options import ORIGIN
from tune_cd.run.preflight import Resources, Study
from tune_cd.run.progress import Progress
from tune_cd.run.searches import Search
from trainables.outcome import Outcome
from trainables.trial import TrainTrial

STATUS_SECONDS = 60  # between two tables of Ray's reporter


class Recorder:
    """Writes a finished trial's row and curve, in the trial's own process. Picklable; made once for a search."""

    def __init__(self, study: Study, search: Search, resources: Resources):
        self._results, self._study, self._search = str(study.results), study.name, search.name
        self._fields = fixed_fields(study, resources)
        self._setup, self._searched = asdict(search.setup), study.space.names

    def __call__(self, config: dict, outcome: Outcome, where: dict) -> None:
        origin = config[ORIGIN]
        trial_id = trial_name(self._search, origin["trial_index"])
        evaluations = [self._evaluation(evaluation, config["seed"]) for evaluation in outcome.curve]
        results.write_curve(self._results, self._study, trial_id, evaluations)
        row = {
            "study": self._study,
            "search": self._search,
            "trial_id": trial_id,
            "attempt": 0,
            **origin,
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


def fixed_fields(study: Study, resources: Resources) -> dict:
    """What all rows of a study share."""
    setup, seed = study.setup, study.options.seed
    return {
        "dataset": study.dataset, "task": setup.task, "loss": setup.loss, "metric_name": setup.metric,
        "seed": seed, "search_seed": seed, "gpus": resources.gpus,
    }  # fmt: skip


def run_search(study: Study, search: Search, resources: Resources) -> None:
    """Train what is left of a search. Trials whose rows exist count as done; nothing is trained twice."""
    table = results.read(study.results, study.name)
    searcher = OptimiserSearch(study.space, "val_score", "max", make=search.make, start=search.start, annotate=ORIGIN)
    own = table[table["search"] == search.name]
    for told in results.history(table[table["search"] == search.knows]):
        searcher.add_evaluated_point(told.h, told.value, pruned=told.censored)
    searcher.recall(own)
    alike = [other.name for other in study.searches if other.setup == search.setup and other.name != search.name]
    searcher.reuse(table[table["search"].isin(alike)])
    done = len(own)
    if done >= search.num_samples:
        print(f"[{search.name}]  all {done} trials are in the table already")
        return
    if searcher.finished:
        print(_stopped(search, done))
        return
    best = own["val_score"].max() if own["val_score"].notna().any() else None
    tuner = tune.Tuner(
        trainable(study, search, resources),
        param_space={"batch_size": study.options.batch_size, "seed": study.options.seed},
        tune_config=tune.TuneConfig(
            metric="val_score",
            mode="max",
            num_samples=search.num_samples - done,
            search_alg=searcher,
            max_concurrent_trials=resources.workers,
            reuse_actors=True,
            trial_name_creator=partial(_trial_name, search.name),
            trial_dirname_creator=partial(_trial_name, search.name),
        ),
        run_config=tune.RunConfig(
            name=search.name,
            storage_path=str(study.folder / "tune" / f"{datetime.now():%Y%m%d-%H%M%S}"),
            callbacks=[Progress(search.name, search.num_samples, done, best, study.setup.metric), failures(study, search, resources)],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            progress_reporter=tune.CLIReporter(
                metric_columns=["images_seen", "val_score", "time_total_s"],
                parameter_columns=["Lambda_p", "Lambda_e", "batch_size"],
                max_report_frequency=STATUS_SECONDS,
            ),
            verbose=1,
        ),
    )
    tuner.fit()
    done = int((results.read(study.results, study.name)["search"] == search.name).sum())
    if done < search.num_samples:
        print(_stopped(search, done))


def _stopped(search: Search, done: int) -> str:
    return f"[{search.name}]  ended by itself after {done} of {search.num_samples} trials: no line promises more"


def _trial_name(search: str, trial) -> str:
    return trial_name(search, trial.config[ORIGIN]["trial_index"])


def trainable(study: Study, search: Search, resources: Resources):
    """The trainable class with its fixed parameters and resources bound."""
    bound = tune.with_parameters(
        TrainTrial,
        setup_fields=asdict(search.setup),
        data_root=study.data_root,
        threads=resources.cpus,
        record=Recorder(study, search, resources),
        download=study.options.download,
    )
    return tune.with_resources(bound, {"cpu": resources.cpus, "gpu": resources.gpus})


def failures(study: Study, search: Search, resources: Resources) -> ResultsCallback:
    """Rows of trials that could not write their own."""
    return ResultsCallback(
        study.results, study.name, metric="val_score", search=search.name,
        fields=fixed_fields(study, resources), annotate=ORIGIN, record="failures",
    )  # fmt: skip
