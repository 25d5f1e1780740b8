"""A study: its definition, its searches and its files."""

import json
import logging
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainables.training.setup import Setup
from tune_cd import results
from tune_cd.results.attempts import UNFINISHED
from tune_cd.results.redaction import as_json, json_of
from tune_cd.results.store import Store, store_of
from tune_cd.results.study_files import CHECKPOINTS, OPTIONS, file_of, text_of
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.lock import user
from tune_cd.run.searches import Search
from tune_cd.search.space import Space

STUDY_VERSION = 1
RUNNING = "running.json"
COEFFICIENTS = "coefficients"
"""The key, in a stored set-up, of the loss's weights and their published coefficients: a user's own loss may change."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Study:
    """A study that passed every check that needs no cluster. results: the folder or object store with all its files."""

    name: str
    results: Path | str
    config: StudyConfig
    call: Call
    setup: Setup
    dataset: str  # its name in the results
    data_root: str | None
    searches: list[Search]

    @property
    def space(self) -> Space:
        return self.config.space

    @property
    def store(self) -> Store:
        return store_of(self.results)

    def file(self, name: str) -> str:
        """The name, in the store, of a file beside the tables: options, pictures, checkpoints."""
        return file_of(self.name, name)


def store_config(study: Study) -> None:
    """Write the file that `--resume` needs: the study's options, and the set-up that they led to."""
    options = asdict(study.config)
    hidden = json.loads(as_json(options))  # but not names of modules, functions and fields, which are no secrets
    hidden |= {name: options[name] for name in ("loss", "assignments", "start")}
    setup = asdict(study.setup) | {COEFFICIENTS: study.config.weighted.coefficients}
    content = {"version": STUDY_VERSION, "options": hidden, "setup": setup}
    study.store.write(study.file(OPTIONS), json.dumps(content, allow_nan=False, indent=1).encode())


def stored_study(place: Path | str, call: Call) -> tuple[StudyConfig, dict] | None:
    """(options, set-up) of the study to be continued, as stored; None for a new study.

    Raises ValueError if a new study's name is taken, and if the file of the study to be continued is missing, damaged,
    or another release's.
    """
    if call.study is None:
        return None
    results.check_name(call.study)
    store = store_of(place)
    text, where = text_of(store, call.study, OPTIONS), store.where(file_of(call.study, OPTIONS))
    if not call.resume:
        if text is None and not store.listing(f"trials/{call.study}", depth=1):
            return None
        said = f"exists in {store.where()}: continue it with --resume, or choose another --study"
        raise ValueError(f"study {call.study!r} {said}")
    if text is None:
        known = store.folders("studies")
        raise ValueError(f"--resume: study {call.study!r} needs {where}, which is not there; there are studies {known}")
    try:
        content = json_of(text)
        if (version := content["version"]) != STUDY_VERSION:
            raise ValueError(f"version {version!r} is another release's; this one reads version {STUDY_VERSION}")
        return StudyConfig.from_json(content["options"]), dict(content["setup"])
    except (ValueError, TypeError, KeyError, ImportError) as error:
        said = "put the file back as it was, or give the options again with another --study; the rows stay"
        raise ValueError(f"{where} cannot be used ({type(error).__name__}: {error}); {said}") from error


def tidy(study: Study) -> None:
    """Merge the tables' files of a study that has ended, and remove its checkpoints, unless a failed or paused trial
    may need them. Called by the study's driver."""
    results.compact(study.results, study.name, driver=True)
    if not results.read(study.results, study.name)["status"].isin(UNFINISHED).any():
        for name in study.store.listing(study.file(CHECKPOINTS), depth=1):
            study.store.remove(name)


def running_of(study: Study) -> list[dict[str, Any]]:
    """What the study trained when it was cut off, as `Portfolio.unrecorded`; [] if nothing is known."""
    return json_of(text_of(study.store, study.name, RUNNING) or b"[]")


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


def tune_folder(given: str | None) -> Path:
    """The folder for Ray Tune's own files. Beside the results they could fill the disk, and fail with the store.
    Raises OSError if it cannot be made."""
    folder = Path(given or Path(tempfile.gettempdir(), f"tune_cd-{user()}"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
