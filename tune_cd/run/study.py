"""A study: its definition, its searches and its files."""

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from trainables.training.setup import Setup
from tune_cd import results
from tune_cd.results.attempts import UNFINISHED
from tune_cd.results.json_text import as_json
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.study_files import OPTIONS, file_of, json_of, text_of
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.lock import user
from tune_cd.run.searches import Search
from tune_cd.search.space import Space

STUDY_VERSION = 1
PARTS = ("options", "setup")  # of the file that defines a study, beside its version
CHECKPOINTS = "checkpoints"
COEFFICIENTS = "coefficients"
"""The key, in a stored set-up, of the loss's weights and their published coefficients: a user's own loss may change."""


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
    def store(self) -> Folder | Bucket:
        return store_of(self.results)

    def file(self, name: str) -> str:
        """The name, in the store, of a file beside the tables: options, pictures, checkpoints."""
        return file_of(self.name, name)


def store_config(study: Study) -> None:
    """Write the file that `--resume` needs: the study's options, and the set-up that they led to."""
    setup = asdict(study.setup) | {COEFFICIENTS: study.config.weighted.coefficients}
    options = study.config.to_json()
    hidden = json.loads(as_json(options))  # but not names of modules, functions and fields, which are no secrets
    hidden |= {name: options[name] for name in ("loss", "assignments", "start")}
    content = {"version": STUDY_VERSION, "options": hidden, "setup": setup}
    study.store.write(study.file(OPTIONS), json.dumps(content, allow_nan=False, indent=1).encode())


def stored_study(place: Path | str, call: Call) -> tuple[StudyConfig, dict] | None:
    """(options, set-up) of the study to be continued, as stored; None for a new study.

    Raises ValueError if a new study's name is taken, if the study to be continued is missing, and for a damaged file,
    also of its tables.
    """
    if call.study is None:
        return None
    results.check_name(call.study)
    store = store_of(place)
    text = text_of(store, call.study, OPTIONS)
    rows = store.listing(f"trials/{call.study}", depth=1)
    if (text is not None or rows) and not call.resume:
        raise ValueError(
            f"study {call.study!r} exists in {store.where()}: continue it with --resume, or choose another --study"
        )
    if call.resume and text is None and rows:
        raise ValueError(
            f"--resume: study {call.study!r} has {len(rows)} files of trials, but its options are gone: put "
            f"{store.where(file_of(call.study, OPTIONS))} back, or name a new --study; the rows stay"
        )
    if call.resume and text is None:
        known = sorted(name.split("/")[1] for name in store.listing("studies", depth=2) if name.endswith(f"/{OPTIONS}"))
        raise ValueError(f"--resume: no study {call.study!r} in {store.where()}; there are {known}")
    if text is None:
        return None
    return _stored(text, store.where(file_of(call.study, OPTIONS)))


def tidy(study: Study) -> None:
    """Merge the tables' files of a study that has ended, and remove its checkpoints, unless a failed or paused trial
    may need them. Called by the study's driver."""
    results.compact(study.results, study.name, driver=True)
    if not results.read(study.results, study.name)["status"].isin(UNFINISHED).any():
        for name in study.store.listing(study.file(CHECKPOINTS), depth=1):
            study.store.remove(name)


def tune_folder(given: str | None) -> Path:
    """The folder for Ray Tune's own files. Beside the results they could fill the disk, and fail with the store.

    Raises ValueError if it cannot be made or used."""
    folder = Path(given) if given is not None else Path(tempfile.gettempdir(), f"tune_cd-{user()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError as error:
        raise ValueError(f"--tune-dir {folder}: a folder in which files can be made ({error.strerror})") from error
    return folder


def _stored(text: bytes, where: Path | str) -> tuple[StudyConfig, dict]:
    """Parse the file of a study. Raises ValueError for one that is damaged, or of another version."""
    try:
        content = json_of(text)
        if isinstance(content, dict) and (version := content.get("version")) != STUDY_VERSION:
            raise ValueError(f"version {version!r} is another release's; this one reads version {STUDY_VERSION}")
        if not (isinstance(content, dict) and all(isinstance(content.get(part), dict) for part in PARTS)):
            raise ValueError(f"an object with the objects {' and '.join(PARTS)} is needed")
        return StudyConfig.from_json(content["options"]), content["setup"]
    except (ValueError, ImportError) as error:
        raise ValueError(
            f"{where} cannot be used ({error}); put the file back as it was, go on with the release that wrote it, or "
            "give the options again with another --study; the rows stay"
        ) from error
