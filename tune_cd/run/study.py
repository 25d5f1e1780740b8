"""A study: its definition, its searches and its files; and all that can be wrong with it is found here, before a trial
starts."""

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainables.datasets import pin_source, source_sha256
from trainables.datasets.uri import local_path
from trainables.losses import find_loss
from trainables.training.checks import check_training
from trainables.training.setup import WEIGHTS, Setup
from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.reading import check_whole
from tune_cd.results.redaction import as_json, json_of
from tune_cd.results.store import Store, store_of
from tune_cd.results.study_files import OPTIONS, file_of, text_of
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.lock import user
from tune_cd.run.options import Request, study_name
from tune_cd.run.searches import Search, searches_of
from tune_cd.search.space import Space

STUDY_VERSION = 1
COEFFICIENTS, CONTENT = "coefficients", "content of the weights"
"""Keys, in a stored set-up, of what a user may change below its names: the loss's weights and their published
coefficients, and the SHA-256 of the file that trainings begin with."""


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


def check_study(request: Request) -> Study:
    """Check everything but the cluster. Raises ValueError, OSError or ImportError naming what is wrong and what is
    allowed.

    Data behind a URI are fetched here, after the checks that do not need them; trials get the URI with their digest.
    """
    config, call = request.config, request.call
    if call.log_to and find_spec(call.log_to) is None:
        raise ImportError(f"--log-to {call.log_to}: a package is missing; `pip install {call.log_to}` brings it")
    place = results.check_writable(call.results)
    place = place.resolve() if isinstance(place, Path) else place
    merge(place)
    tune_folder(call.tune_dir)
    stored = stored_study(place, call)
    if stored is not None:
        config = stored[0].continued(request.written, call.study)
        check_whole(place, call.study)
    _ = config.space  # refuses an impossible box before data are fetched
    data_root = pin_source(config.dataset, config.data_root, call.download)
    setup, source = config.first_form(
        lambda setup: check_training(setup, config.trained_batch_sizes, data_root, call.download)
    )
    found = replace(config, data_found=source_sha256(data_root) or source.content or None)
    dataset = source.name
    if stored is not None:
        now = _with_content(setup)
        differs = [(name, stored[1].get(name), json.loads(json.dumps(now.get(name)))) for name in now | stored[1]]
        differs += [((data_root or source.location).partition("#")[0], config.data_found, found.data_found)]
        if found.data_found or config.data_root != stored[0].data_root:  # a folder's name is in the dataset's
            names = results.read(place, call.study, missing=True)["dataset"].dropna()
            if found.data_found:  # the same content: where it has moved, its rows keep the first place's name
                dataset = next(iter(names), dataset)
            differs += [("dataset", name, dataset) for name in names.unique()]
        for name, was, is_now in differs:  # by a release with other defaults, or in an own loss
            if was != is_now:
                said = f"{name} was {was} and is {is_now}; put it back, or name a new --study"
                raise ValueError(f"--resume: {said}")
    name = study_name(call, setup)
    return Study(name, place, found, call, setup, dataset, data_root, searches_of(found, setup))


def with_form(study: Study, form: str) -> Study:
    """The study with the form of its set-up that suits the cluster, if the command line left it open."""
    if study.config.setup == form:
        return study
    config = replace(study.config, setup=form)
    setup = replace(config.setup_for(form), selected_by=study.setup.selected_by)  # as the images have classes or none
    if setup != study.setup:  # the study's own has passed already
        check_training(setup, config.trained_batch_sizes, study.data_root, study.call.download)
    return replace(study, config=config, setup=setup, searches=searches_of(config, setup))


def store_config(study: Study) -> None:
    """Write the file that `--resume` needs: the study's options, and the set-up that they led to."""
    options = asdict(study.config)
    hidden = json.loads(as_json(options))  # but not names of modules, functions and fields, which are no secrets
    hidden |= {name: options[name] for name in ("loss", "assignments", "start")}
    content = {"version": STUDY_VERSION, "options": hidden, "setup": _with_content(study.setup)}
    study.store.write(study.file(OPTIONS), json.dumps(content, allow_nan=False, indent=1).encode())


def _with_content(setup: Setup) -> dict[str, Any]:
    """A set-up's fields, with COEFFICIENTS and CONTENT."""
    digest = None
    if setup.weights not in WEIGHTS:
        with local_path(setup.weights, "weights").open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    return asdict(setup) | {COEFFICIENTS: find_loss(setup.loss).coefficients, CONTENT: digest}


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
        if text is None and not store.listing(f"trials/{call.study}"):
            return None
        said = f"exists in {store.where()}: continue it with --resume, or choose another --study"
        raise ValueError(f"study {call.study!r} {said}")
    if text is None:
        known = [one for one in store.folders("studies") if text_of(store, one, OPTIONS) is not None] or "none"
        raise ValueError(f"--resume: study {call.study!r} needs {where}, which is not there; {known} can be continued")
    try:
        content = json_of(text)
        if (version := content["version"]) != STUDY_VERSION:
            raise ValueError(f"version {version!r} is another release's; this one reads version {STUDY_VERSION}")
        return StudyConfig.from_json(content["options"]), dict(content["setup"])
    except (ValueError, TypeError, KeyError, ImportError) as error:
        said = "put the file back as it was, or give the options again with another --study; the rows stay"
        raise ValueError(f"{where} cannot be used ({type(error).__name__}: {error}); {said}") from error


def tune_folder(given: str | None) -> Path:
    """The folder for Ray Tune's own files. Beside the results they could fill the disk, and fail with the store.
    Raises OSError if it cannot be made."""
    folder = Path(given or Path(tempfile.gettempdir(), f"tune_cd-{user()}"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
