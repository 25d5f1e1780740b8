"""The searches of a study as Ray Tune runs: trials wired to their trainable and to the results table."""

import json
import logging
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from math import inf
from typing import Any

from ray import tune

from trainables.trial import PACK, TrainTrial
from tune_cd import results
from tune_cd.cluster.watch import Load
from tune_cd.results.attempts import UNFINISHED, to_retry
from tune_cd.results.redaction import json_of
from tune_cd.results.study_files import CHECKPOINTS, text_of, tune_prefix
from tune_cd.run.budget import Meter
from tune_cd.run.controller import count_losses_once
from tune_cd.run.failures import DriverRows, StudyStopper
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.progress import Progress
from tune_cd.run.recorder import Recorder
from tune_cd.run.resources import Resources
from tune_cd.run.resumption import portfolio_of, reported_by, say_ended
from tune_cd.run.searches import Search
from tune_cd.run.study import Study, tune_folder
from tune_cd.run.study_search import Listener, StudySearch
from tune_cd.run.tracking import TrainingLog

RUNNING = "running.json"

log = logging.getLogger(__name__)


def run_searches(
    study: Study, searches: list[Search], resources: Resources, load: Load, meter: Meter,
    broken: Callable[[], str | None],
) -> None:  # fmt: skip
    """Train what is left of searches that share a set-up; trainings with a row are not repeated. load: kept up to date.
    meter: of the run's --budget. broken: the reason why the run must end. Raises OSError where it ends early."""
    table = results.read(study.results, study.name)
    # where nothing but failures is known, what they raised is mended by now
    failed = study.call.retry_failed or bool((table["status"] == "failed").all())
    table = table.assign(again=to_retry(table, failed=failed))
    ended = table[~table["again"]]
    curves = results.read_curves(study.results, study.name) if any(search.pauses for search in searches) else None
    portfolio = portfolio_of(study, searches, table, resources, curves, running_of(study))
    if not portfolio.searches:
        return
    recorder = Recorder(study, searches[0].setup, resources)
    full = searches[0].setup.images_seen if searches[0].pauses else None
    rows = DriverRows(study.results, recorder)
    stopper = StudyStopper(resources, bool((ended["status"] != "failed").any()), broken)
    listeners = [Progress(portfolio, ended, study.setup.metric, full), rows, stopper, LoadNote(load, meter)]
    listeners += [TrainingLog(study)] if study.call.log_to else []
    searcher = StudySearch(
        portfolio, resources.pack, resources.processes, reported_by(study, searches[0].setup),
        {"batch_size": study.config.batch_size}, listeners, meter, RunningFile(study),
    )  # fmt: skip
    trainable = tune.with_parameters(
        TrainTrial, setup_fields=asdict(searches[0].setup), data_root=study.data_root, threads=resources.cpus,
        recorder=recorder, download=study.call.download, gpus=resources.gpus, limit=study.call.trial_timeout,
        checkpoint_seconds=study.call.checkpoint_seconds,
    )  # fmt: skip
    count_losses_once()
    try:
        _tuner(study, trainable, searcher, listeners, stopper, resources).fit()
    finally:
        rows.close()
    if stopper.broken is not None:
        raise OSError(stopper.broken)
    print(flush=True)
    portfolio.allow(inf)  # so that each tells of its own budget
    say_ended(portfolio.searches, study.call.budget)


def _tuner(
    study: Study, trainable: type[tune.Trainable], searcher: StudySearch, listeners: list[Listener],
    stopper: StudyStopper, resources: Resources,
) -> tune.Tuner:  # fmt: skip
    """Tune, from the first suggestion to the last trial. Its own files are not needed to resume."""
    place = tempfile.mkdtemp(prefix=tune_prefix(study.results, study.name), dir=tune_folder(study.call.tune_dir))
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
        tune_config=tune.TuneConfig(
            metric="val_score",
            mode="max",
            num_samples=-1,  # the searches have budgets of their own
            search_alg=searcher,
            max_concurrent_trials=resources.processes,  # without it Tune has one trial pend at a time
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=study.name,
            storage_path=place,
            callbacks=[*listeners],  # Tune adds its own to the list
            stop=stopper,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=study.call.max_failures),
            progress_reporter=tune.CLIReporter(parameter_columns=[]),
            verbose=int(study.call.verbose),
        ),
    )


def _trial_name(trial) -> str:
    """The name of a trial's first training."""
    origin = trial.config[PACK][0][ORIGIN]
    return origin["trial_id"] + f"-run{origin['attempt']}" * (origin["attempt"] > 0)


class LoadNote(Listener):
    """Notes for the watch of the cluster how many trials run and wait, and for the meter which begin to run."""

    def __init__(self, load: Load, meter: Meter):
        self._load, self._meter = load, meter

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        self._meter.start(trial.trial_id)

    def on_step_end(self, iteration, trials, **info) -> None:
        self._load.running = sum(trial.status == trial.RUNNING for trial in trials)
        self._load.live = sum(not trial.is_finished() for trial in trials)


def running_of(study: Study) -> list[dict[str, Any]]:
    """What the study trained when it was cut off, as `Portfolio.unrecorded`; [] if nothing is known. Raises ValueError
    naming a damaged file."""
    try:
        return json_of(text_of(study.store, study.name, RUNNING) or b"[]")
    except ValueError as error:
        said = f"{study.store.where(study.file(RUNNING))} cannot be used ({error})"
        raise ValueError(f"{said}: move it away, and what was under way begins again") from error


class RunningFile:
    """Notes what the study trains at the moment, and what was trained for another search, of which the table knows
    nothing: from a thread, so that nobody waits for the store. While that does not answer, the next call tries again.
    Searches of other set-ups keep what is noted of them."""

    def __init__(self, study: Study):
        self._study, self._changed, self._latest = study, threading.Event(), "[]"
        self._shared = [one for one in running_of(study) if one["until"] is None]
        threading.Thread(target=self._work, name="running", daemon=True).start()

    def __call__(self, running: list[dict[str, Any]]) -> None:
        named = {one["search"] for one in running}
        kept = [one for one in self._shared if one["search"] not in named]
        if (text := json.dumps(kept + running)) != self._latest:
            self._latest = text
            self._changed.set()

    def _work(self) -> None:
        while self._changed.wait():
            self._changed.clear()
            try:
                self._study.store.write(self._study.file(RUNNING), self._latest.encode())
            except OSError as error:
                log.info("what runs is not noted: %s", error)


def tidy(study: Study) -> None:
    """Merge the tables' files of a study that has ended, and remove its checkpoints, unless a failed or paused trial
    may need them. Called by the study's driver."""
    results.compact(study.results, study.name, driver=True)
    if not results.read(study.results, study.name)["status"].isin(UNFINISHED).any():
        for name in study.store.listing(study.file(CHECKPOINTS)):
            study.store.remove(name)
