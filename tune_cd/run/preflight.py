"""Everything that can be wrong is found here, before a trial starts."""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tune_cd import results
from tune_cd.optimiser import check_workers
from tune_cd.run.options import space_of, study_name, with_stored
from tune_cd.run.searches import Search, searches_of, with_start_batch
from tune_cd.space import Space
from trainables.checks import check_training
from trainables.datasets import SourceSummary
from trainables.tasks import XBM, Setup, find_setup, override

STUDY_VERSION = 1


@dataclass(frozen=True)
class Study:
    """A study that passed every check that needs no cluster."""

    name: str
    folder: Path  # RESULTS/studies/<name>: state, pictures
    results: Path
    options: argparse.Namespace
    setup: Setup
    dataset: str  # the name results carry
    data_root: str | None
    space: Space
    searches: list[Search]


def check_study(options: argparse.Namespace, explicit: dict) -> Study:
    """Check everything but the cluster. Raises ValueError or OSError naming what is wrong and what is allowed."""
    if not isinstance(results.check_location(options.results), Path):  # Tune's own state beside the table needs a folder
        raise ValueError(f"--results {options.results}: a folder is needed here; object stores are read and written by tune_cd.results")
    root = results.check_writable(options.results).resolve()
    stored = _stored(root, options)
    if stored is not None:
        options = with_stored(options, explicit, stored)
    options = with_start_batch(options, explicit)
    setup, source = _checked_setup(options)
    name = study_name(options, setup)
    space = space_of(options)
    searches = searches_of(options, setup, space)
    if options.workers is not None:
        check_workers(options.workers)
    return Study(name, root / "studies" / name, root, options, setup, source.name, options.data_root, space, searches)


def setup_of(options: argparse.Namespace, form: str) -> Setup:
    """The set-up table's entry with everything the command line says of it."""
    setup = find_setup(options.dataset, form, options.task, options.loss)
    if options.experiment == "xbm":
        setup = replace(setup, **XBM[form], memory="fixed")
    setup = override(setup, options.assignments or [])
    given = {name: value for name in ("images_seen", "weights") if (value := getattr(options, name)) is not None}
    return replace(setup, **given)


def _checked_setup(options: argparse.Namespace) -> tuple[Setup, SourceSummary]:
    """The set-up that passes; where its form depends on the cluster, which is not known yet, either may.

    Raises ValueError or OSError, of the small form where neither passes.
    """
    forms = [options.setup] if options.setup else ["small", "paper"]
    errors = []
    for form in forms:
        try:
            setup = setup_of(options, form)
            return setup, check_training(setup, batch_sizes_of(options), options.data_root, options.download)
        except (ValueError, OSError) as error:
            errors.append(error)
    raise errors[0]


def batch_sizes_of(options: argparse.Namespace) -> list[int]:
    """All that a trial may have."""
    return options.batch_sizes if options.tune_batch_size else [options.batch_size]


def with_form(study: Study, form: str) -> Study:
    """The study with the form of its set-up that suits the cluster, where the command line left it open."""
    if study.options.setup == form:
        return study
    options = argparse.Namespace(**{**vars(study.options), "setup": form})
    setup = setup_of(options, form)
    if setup != study.setup:  # that one has passed
        check_training(setup, batch_sizes_of(options), study.data_root, options.download)
    return replace(study, options=options, setup=setup, searches=searches_of(options, setup, study.space))


def store(study: Study) -> None:
    """Write what `--resume` needs: the study's options, with the set-up they led to."""
    content = {"version": STUDY_VERSION, "options": vars(study.options), "setup": asdict(study.setup)}
    results.publish(study.folder / "study.json", json.dumps(content, indent=1).encode())


def _stored(root: Path, options: argparse.Namespace) -> dict | None:
    """The options a study to be continued was started with; None for a new one. Raises ValueError for the other two cases."""
    if options.study is None:
        return None
    results.check_name(options.study)
    file = root / "studies" / options.study / "study.json"
    exists = file.exists() or (root / "trials" / options.study).exists()
    if exists and not options.resume:
        raise ValueError(f"study {options.study!r} exists in {root}: continue it with --resume, or choose another --study")
    if options.resume and not file.exists():
        known = sorted(folder.parent.name for folder in (root / "studies").glob("*/study.json"))
        raise ValueError(f"--resume: no study {options.study!r} in {root}; there are {known}")
    if not exists:
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    if content["version"] != STUDY_VERSION:
        raise ValueError(f"{file} has version {content['version']}; this release reads version {STUDY_VERSION}")
    return content["options"]
