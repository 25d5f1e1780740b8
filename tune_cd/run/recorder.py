"""Writes what a study's trainings produce (rows, curves, checkpoints, networks), in the trials' own processes.

A checkpoint is named by what is trained, so that any process and any search finds it:

    RESULTS/studies/<study>/checkpoints/<training>-<images seen>~sha256-<16 digits>.pt

The digits begin the file's SHA-256 and show whether it is damaged. The two latest checkpoints of a training are kept
until it has ended.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256
from json import dumps
from math import nan

from trainables.losses import find_loss
from trainables.training.outcome import Outcome
from trainables.training.setup import Setup
from trainables.trial import LOOKS, UNTIL
from tune_cd import results
from tune_cd.balance import PUBLISHED, WEIGHT
from tune_cd.results.attempts import UNFINISHED, has_ended
from tune_cd.results.parquet import digest
from tune_cd.results.rows import DIGEST, SPACE, git_commit, trial_row
from tune_cd.results.store import store_of
from tune_cd.results.study_files import CHECKPOINTS, keep_network
from tune_cd.results.writing import look, read_curve
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.resources import Resources
from tune_cd.run.study import Study

KEPT = 2

log = logging.getLogger(__name__)


class Recorder:
    """The `trainables.trial.Recorder` of a study's trainings, all of one set-up. Picklable; made once for a Tune
    run."""

    def __init__(self, study: Study, setup: Setup, resources: Resources):
        self._results, self._study, self._gpus = str(study.results), study.name, resources.gpus
        self._constants = {"study": study.name, "dataset": study.dataset, "task": study.setup.task}
        self._constants |= {"loss": study.setup.loss, "metric_name": study.setup.metric}
        self._constants |= {"search_seed": study.config.seed, "git_commit": git_commit()}
        self._setup, self._searched = asdict(setup), study.space.names
        loss = find_loss(setup.loss)
        self._known = {DIGEST: setup.digest, SPACE: study.space.to_json()}
        self._known |= {} if loss.pairwise else {PUBLISHED: loss.coefficients}
        self._checkpoints = study.file(CHECKPOINTS)

    def recorded(self, config: Mapping) -> dict | None:
        """The report of a training that has ended, else None. Raises OSError if the store does not answer, ValueError
        if the row is another training's: a driver that was thought to be dead has gone on."""
        store, trial, attempt = store_of(self._results), config[ORIGIN]["trial_id"], config[ORIGIN]["attempt"]
        row, _ = look(store, self._study, trial, attempt)
        if row is None or not has_ended(row, attempt):
            return None
        if (row["params"], row["seed"]) != (self.params(config), config["seed"]):
            said = f"is on record with {row['params']}, and was asked for with {self.params(config)}"
            raise ValueError(f"{trial} of study {self._study} {said}: another driver is at work")
        curve = read_curve(store, self._study, trial, row["attempt"])
        looks = [[look["images_seen"], nan if look["val_score"] is None else look["val_score"]] for look in curve]
        score = nan if row["val_score"] is None else row["val_score"]
        told = {"val_score": score, "images_seen": row["images_seen"] or 0, LOOKS: looks}
        return told | {name: row[name] for name in ("test_score", "status")}

    def record(self, config: Mapping, outcome: Outcome, where: Mapping) -> dict | None:
        """Write curve and row; returns {"row", "curve"} if the store refuses them, else None. A row that is there
        already stands."""
        run = {"attempt": config[ORIGIN]["attempt"], "seed": config["seed"]}
        machine = {"gpus": self._gpus * where["share"], **_without(where, "share")}
        row = self.row(config, _without(vars(outcome), "curve"), machine)
        told = {"row": row, "curve": [{**run, **vars(look)} for look in outcome.curve]}
        try:
            results.write_trial(self._results, **told, goes_on=True)
        except results.ConflictingRow as conflict:
            log.warning("%s; what is there stands", conflict)
        except OSError as error:
            log.warning("not written yet: %s", error)
            return told
        if outcome.status not in UNFINISHED:
            self._forget(config)
        return None

    def save(self, config: Mapping, images_seen: int, state: bytes) -> None:
        """Keep a state, then remove all but the latest of the earlier ones. Raises OSError if the store refuses it."""
        store, start = store_of(self._results), self.key(config)
        name = f"{start}{images_seen:012d}~sha256-{digest(state)}.pt"
        earlier = [other for other in self._states(start) if other < name]
        store.write(name, state)
        for other in earlier[: -(KEPT - 1)]:
            store.remove(other)

    def saved(self, config: Mapping) -> Iterator[tuple[str, bytes]]:
        """(name, state) of the kept checkpoints that are undamaged, the latest first. Raises OSError if the store does
        not answer, and after the last for a damaged one, or if an earlier run has left none."""
        store, problem = store_of(self._results), None
        for name in reversed(self._states(self.key(config))):
            try:
                state = store.read(name)
                if not name.endswith(f"~sha256-{digest(state)}.pt"):
                    raise OSError(f"{store.where(name)} is damaged")
                yield str(store.where(name)), state
            except OSError as error:
                log.warning("%s; the one before it is tried", error)
                problem = error
        if problem is not None:
            raise problem
        if config[ORIGIN]["attempt"]:
            raise FileNotFoundError("no state of its earlier run is saved")

    def keep(self, config: Mapping, val_score: float, network: Callable[[], bytes]) -> None:
        origin, store = config[ORIGIN], store_of(self._results)
        keep_network(store, self._study, origin["search"], origin["trial_id"], val_score, network)

    def key(self, config: Mapping) -> str:
        """The beginning of the names of a training's checkpoints: a hash of set-up, weights, batch size and seed."""
        identity = {name: config[name] for name in (*weights_in(config), "batch_size", "seed")}
        key = sha256(dumps([self._setup, identity], sort_keys=True).encode()).hexdigest()[:20]
        return f"{self._checkpoints}/{key}-"

    def _states(self, start: str) -> list[str]:
        files = store_of(self._results).listing(self._checkpoints)
        return [name for name in files if name.startswith(start)]

    def _forget(self, config: Mapping) -> None:
        """Remove the checkpoints of an ended training."""
        try:
            for name in self._states(self.key(config)):
                store_of(self._results).remove(name)
        except OSError as error:
            log.warning("saved states are left behind: %s", error)

    def row(self, config: Mapping, ended: Mapping, machine: Mapping) -> dict:
        """The row of a training that has ended, see `trial_row`."""
        asked = {**self._setup, **self._known, **_without(config, ORIGIN, UNTIL)}
        identity = {**config[ORIGIN], "seed": config["seed"]}
        return trial_row(identity, self.params(config), asked, ended, machine, self._constants)

    def params(self, config: Mapping) -> dict:
        """The searched parameters of a configuration."""
        return {name: float(config[name]) for name in self._searched}


def weights_in(config: Mapping) -> list[str]:
    """The names of a configuration's weights."""
    return [name for name in config if name.startswith(WEIGHT)]


def _without(told: Mapping, *names: str) -> dict:
    return {name: value for name, value in told.items() if name not in names}
