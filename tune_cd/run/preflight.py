"""Finds everything that can be wrong with a study before a trial starts."""

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from trainables.datasets import pin_source, source_sha256
from trainables.losses import find_loss
from trainables.training.checks import check_training
from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.reading import check_whole
from tune_cd.run.options import Request, study_name
from tune_cd.run.searches import searches_of
from tune_cd.run.study import COEFFICIENTS, Study, stored_study, tune_folder


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
    if stored is not None:
        now = asdict(setup) | {COEFFICIENTS: find_loss(setup.loss).coefficients}
        differs = [(name, stored[1].get(name), json.loads(json.dumps(now.get(name)))) for name in now | stored[1]]
        differs += [((data_root or source.location).partition("#")[0], config.data_found, found.data_found)]
        for name, was, is_now in differs:  # by a release with other defaults, or in an own loss
            if was != is_now:
                said = f"{name} was {was} and is {is_now}; put it back, or name a new --study"
                raise ValueError(f"--resume: {said}")
    name = study_name(call, setup)
    return Study(name, place, found, call, setup, source.name, data_root, searches_of(found, setup))


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
