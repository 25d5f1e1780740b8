"""Finds everything that can be wrong with a study before a trial starts."""

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from trainables.datasets import pin_source, source_sha256
from trainables.losses import find_loss
from trainables.training.checks import check_training
from trainables.training.setup import Setup
from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.reading import check_whole
from tune_cd.run.config import Call, Request
from tune_cd.run.options import study_name
from tune_cd.run.searches import searches_of
from tune_cd.run.study import COEFFICIENTS, Study, stored_study, tune_folder
from tune_cd.search.space import Space


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
        _check_rows(place, call.study, config.space)
    _ = config.space  # refuses an impossible box before data are fetched
    data_root = pin_source(config.dataset, config.data_root, call.download)
    before, now = config.data_sha256, source_sha256(data_root)
    if before and now and before != now:
        raise _other_data(call, f"data of SHA-256 {before}", data_root.partition("#")[0], f"is now {now}")
    config = replace(config, data_sha256=now or before)
    setup, source = config.first_form(
        lambda setup: check_training(setup, config.trained_batch_sizes, data_root, call.download)
    )
    if stored is not None:
        _check_same(setup, stored[1])
        if (source.content or None) != config.data_content:
            raise _other_data(call, f"{config.data_content}", source.location, f"are now {source.content}")
    config = replace(config, data_content=source.content or None)
    name = study_name(call, setup)
    return Study(name, place, config, call, setup, source.name, data_root, searches_of(config, setup))


def with_form(study: Study, form: str) -> Study:
    """The study with the form of its set-up that suits the cluster, if the command line left it open."""
    if study.config.setup == form:
        return study
    usual: dict = {"range": None} if study.config.range_grows else {}  # the form's
    config = replace(study.config, setup=form, **usual)
    setup = replace(config.setup_for(form), selected_by=study.setup.selected_by)  # as the images have classes or none
    if setup != study.setup:  # the study's own has passed already
        check_training(setup, config.trained_batch_sizes, study.data_root, study.call.download)
    return replace(study, config=config, setup=setup, searches=searches_of(config, setup))


def _other_data(call: Call, was: str, place: str, now: str) -> ValueError:
    return ValueError(
        f"study {call.study!r} was started with {was}, and at {place} there {now}; put the old ones back, or name a "
        "new --study"
    )


def _check_rows(place: Path | str, study: str, space: Space) -> None:
    """Raise ValueError if not every row of a study can be used: its training would be repeated."""
    check_whole(place, study)
    for row in results.read(place, study).to_dict("records"):
        try:
            space.check(row["params"])
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"--resume: the row of {row['trial_id']} does not fit the study: {error}; its training would be "
                "repeated. Move its file out of the results to train it again"
            ) from error


def _check_same(setup: Setup, stored: dict) -> None:
    """Raise ValueError if the options lead to another set-up than the stored one, as in a release with other defaults,
    or if the user's own loss has other terms or coefficients."""
    now = json.loads(json.dumps(asdict(setup)))
    now |= {COEFFICIENTS: find_loss(setup.loss).coefficients} if COEFFICIENTS in stored else {}
    both = [(name, stored.get(name), now.get(name)) for name in sorted(now.keys() | stored.keys())]
    differs = [f"{name} was {was!r} and is {value!r}" for name, was, value in both if was != value]
    if differs:
        raise ValueError(f"--resume: the set-up is another one now: {', '.join(differs)}; name a new --study")
