"""What defines a study, and what belongs to one call."""

import json
import re
from dataclasses import asdict, fields

import pytest

from trainables.training.setups import SEARCH_RANGE, SMALL_RANGE, XBM_RANGE
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.fields import option_of
from tune_cd.run.options import parse, parser


def test_no_option_is_the_defaults():
    assert parse([]).config == StudyConfig() and parse([]).call == Call() and not parse([]).written


def test_every_field_is_an_option_that_tells_its_default(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    told = dict(re.findall(r"^  (--[\w-]+)(.*(?:\n {5,}.*)*)", parser().format_help(), re.MULTILINE))
    options = [field for field in fields(StudyConfig) + fields(Call) if field.name != "data_found"]
    flags = [option_of(f"no_{one.name}" if one.default is True else one.name) for one in options]
    assert sorted(told) == sorted(flags) and len(set(flags)) == len(flags)
    for flag, default in zip(flags, (one.default for one in options)):
        shown = "" if default is None or default == () else f"{default:g}" if isinstance(default, float) else default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else shown
        assert isinstance(default, bool) or default == () or f"default: {shown}" in told[flag], flag


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--tune-batch-size", "--batch-sizes", "32,64", "--start", "lr=0.2,average=global,b=32"],
        ["--experiment", "xbm", "--set", "margin=0.3", "k=4", "--no-baseline"],
        ["--dataset", "glyphs", "--task", "ssl", "--loss", "vicreg"],
        ["--dataset", "omniglot", "--range", "0.001,3", "--search", "grid", "--grid-step", "4", "--confirm", "2"],
    ],
)
def test_json_and_back(argv):
    config = parse(argv).config
    assert StudyConfig.from_json(json.loads(json.dumps(asdict(config)))) == config


def test_stored_options_are_whole():
    stored = asdict(parse(["--dataset", "sop"]).config)
    assert StudyConfig.from_json(stored) == StudyConfig(dataset="sop")
    wrong = {"colour": stored | {"colour": "red"}}
    wrong |= {name: {field: stored[field] for field in stored if field != name} for name in ("full_length", "seed")}
    for name, options in wrong.items():
        with pytest.raises(ValueError, match=name):
            StudyConfig.from_json(options)


def test_the_default_search_pauses_unless_a_short_training_is_another_one():
    assert parse([]).config.pauses
    for argv in ("--full-length", "--search tpe", "--experiment xbm"):
        assert not parse(argv.split()).config.pauses


def test_the_range_is_the_optimizers():
    assert StudyConfig().bounds == StudyConfig(setup="small").bounds == SMALL_RANGE
    assert StudyConfig(setup="paper").bounds == SEARCH_RANGE and StudyConfig(experiment="xbm").bounds == XBM_RANGE
    assert StudyConfig(experiment="xbm", range=(0.1, 2.0)).bounds == (0.1, 2.0)


def test_the_usual_range_grows_and_a_named_one_does_not():
    usual, named = StudyConfig(), StudyConfig(range=SMALL_RANGE)
    assert usual.space.grows and not named.space.grows and usual.space.fixed == named.space
    assert StudyConfig.from_json(asdict(usual)) == usual and StudyConfig.from_json(asdict(named)) == named
