"""Everything that can be wrong is found here, before a trial starts."""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from trainables.datasets import SourceSummary, pin_source, source_sha256
from trainables.training.checks import check_training
from trainables.training.setups import XBM, XBM_RANGE, Setup, completed, find_setup, override
from tune_cd import results
from tune_cd.run.options import space_of, study_name, with_stored
from tune_cd.run.searches import searches_of, with_start_batch
from tune_cd.run.study import Study, stored_study
from tune_cd.search.protocol import check_workers

DATA_SHA256 = "data_sha256"
"""The field of the options that has the digest of data behind a URI."""


def check_study(options: argparse.Namespace, explicit: dict) -> Study:
    """Check everything but the cluster. Raises ValueError or OSError naming what is wrong and what is allowed.

    Data behind a URI are fetched here, after what can be checked without them; trials get the URI with their digest.
    """
    place = results.check_writable(options.results)
    place = place.resolve() if isinstance(place, Path) else place
    stored = stored_study(place, options)
    if stored is not None:
        options = with_stored(options, explicit, stored[0])
    options = with_start_batch(options, explicit)
    if stored is None:
        options = _with_range(options, explicit)
    space = space_of(options)
    _check_counts(options)
    options, data_root = _pinned(options)
    setup, source = _checked_setup(options, data_root)
    if stored is not None:
        _check_same(setup, _as_trained(stored[1], place, options.study))
    name = study_name(options, setup)
    searches = searches_of(options, setup, space)
    return Study(name, place, options, setup, source.name, data_root, space, searches)


def _check_counts(options: argparse.Namespace) -> None:
    """Raises ValueError for numbers that no cluster makes possible."""
    for name in ("replicates", "pack", "baseline_trials"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(options, name)}: at least 1")
    if options.workers is not None:
        check_workers(options.workers)


def _pinned(options: argparse.Namespace) -> tuple[argparse.Namespace, str | None]:
    """(the options with the digest of the data behind a URI, to be stored with them; the data root for trials).

    Raises ValueError where a study is continued and the data are not what they were, and as `pin_source`.
    """
    data_root = pin_source(options.dataset, options.data_root, options.download)
    before, now = getattr(options, DATA_SHA256, None), source_sha256(data_root)
    if before and now and before != now:
        raise ValueError(
            f"study {options.study!r} was started with data of SHA-256 {before}, and at {data_root.partition('#')[0]} there is now {now}; "
            "put the old ones back, or name a new --study"
        )
    return argparse.Namespace(**{**vars(options), **({DATA_SHA256: now} if now else {})}), data_root


def _with_range(options: argparse.Namespace, explicit: dict) -> argparse.Namespace:
    """The options with the box of `--experiment xbm` where none is written: Adam's weights are without its rate."""
    if (
        options.experiment != "xbm"
        or "range" in explicit
        or setup_of(options, options.setup or "small").optimizer == "sgd"
    ):
        return options
    return argparse.Namespace(**{**vars(options), "range": list(XBM_RANGE)})


def _as_trained(stored: dict, place: Path | str, study: str) -> dict:
    """A stored set-up with the fields that its release did not have; a precision of None was float32 on a CPU."""
    stored = completed(stored)
    if stored["precision"] is None and set(results.read(place, study)["device"].dropna()) <= {"cpu"}:
        stored["precision"] = "float32"
    return stored


def _check_same(setup: Setup, stored: dict) -> None:
    """Raises ValueError where the options lead to another set-up than they did, as in a release with other defaults."""
    now = json.loads(json.dumps(asdict(setup)))
    differs = [f"{name} was {stored.get(name)!r} and is {now[name]!r}" for name in now if stored.get(name) != now[name]]
    if differs:
        raise ValueError(f"--resume: this release's set-up is another one: {', '.join(differs)}; name a new --study")


def setup_of(options: argparse.Namespace, form: str) -> Setup:
    """The set-up table's entry with everything the command line says of it."""
    setup = find_setup(options.dataset, form, options.task, options.loss)
    if options.experiment == "xbm":
        setup = replace(setup, **XBM[form])
    setup = override(setup, options.assignments or [])
    given = {name: value for name in ("images_seen", "weights") if (value := getattr(options, name)) is not None}
    return replace(setup, **given)


def _checked_setup(options: argparse.Namespace, data_root: str | None) -> tuple[Setup, SourceSummary]:
    """The set-up that passes; where its form depends on the cluster, which is not known yet, either may.

    Raises ValueError or OSError, of the small form where neither passes.
    """
    forms = [options.setup] if options.setup else ["small", "paper"]
    errors = []
    for form in forms:
        try:
            setup = setup_of(options, form)
            return setup, check_training(setup, batch_sizes_of(options), data_root, options.download)
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
