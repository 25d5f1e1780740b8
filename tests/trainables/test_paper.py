"""The paper set-ups' table of numbers: every field has a row, and every row the set-up's value and a known source."""

from dataclasses import fields, replace
from importlib import import_module

import pytest

from trainables.training import paper
from trainables.training.paper import COPIES, ELSEWHERE, NUMBERS, OURS, SOURCES, Number, numbers, setups
from trainables.training.setup import Setup, override
from trainables.training.setups import find_setup


def in_effect(setup):
    """The fields of a set-up that are."""
    ssl, memory = setup.task == "ssl", setup.memory != "none"
    probe = ("probe_epochs", "probe_steps", "probe_rate", "probe_features")
    only = dict.fromkeys((*probe, "projection"), ssl) | {"memory_size": memory, "memory_start": memory}
    only |= {
        "test_image_size": setup.test != "split",
        "distortion": setup.dataset == "glyphs",
        "crop_scale": setup.views == "crop",
    }
    only |= {"projector": bool(setup.projector), "bias": setup.loss == "siglip", "dataset": False, "task": False}
    return [field.name for field in fields(Setup) if only.get(field.name, True)]


def problems(setup, rows):
    """What is wrong between a set-up and its rows, in words."""
    names = in_effect(setup)
    missing = [f"{name} has no row" for name in names if name not in rows]
    other = [
        f"{name} is {getattr(setup, name)!r}, its row says {rows[name].value!r}"
        for name in names
        if name in rows and rows[name].value != getattr(setup, name)
    ]
    return missing + other + [f"{name} is not in effect" for name in rows if name not in names]


@pytest.mark.parametrize("name", setups())
def test_every_number_of_a_paper_set_up_has_its_row(name):
    assert problems(setups()[name], numbers(name)) == []


def test_the_table_and_the_set_ups_are_the_same_ones():
    assert set(setups()) == {*NUMBERS, *COPIES}
    with pytest.raises(ValueError, match="set-up 'cub': one of"):
        numbers("cub")


def test_a_number_that_changes_or_has_no_row_is_found():
    """The test above can fail: by a field that nobody wrote a row for, and by another value."""
    setup, rows = setups()["sop"], dict(numbers("sop"))
    assert problems(replace(setup, precision="bfloat16"), rows) == ["precision is 'bfloat16', its row says 'float32'"]
    del rows["margin"]
    assert problems(setup, rows | {"gain": Number(1, OURS, "x")}) == ["margin has no row", "gain is not in effect"]


@pytest.mark.parametrize("name", [*NUMBERS, *COPIES, "beside"])
def test_every_row_has_a_source_and_our_choices_a_reason(name):
    for field, row in (ELSEWHERE if name == "beside" else numbers(name)).items():
        assert row.source.startswith(SOURCES), (field, row)
        assert row.note or row.source != OURS, f"{field} of {name} is ours, and its row does not say why"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_numbers_beside_the_set_ups_are_the_codes(name):
    module, _, constant = name.rpartition(".")
    assert getattr(import_module(f"trainables.{module}"), constant) == ELSEWHERE[name].value


def test_the_paper_trains_in_float32_unless_asked_otherwise():
    assert {setup.precision for setup in setups().values()} == {"float32"}
    assert override(find_setup("sop", "paper"), ["precision=bfloat16"]).precision == "bfloat16"


def test_36_million_steps_are_200_epochs_of_nine_tenths_in_two_views():
    """Why the paper's steps are read as images of which both views count."""
    fraction = import_module("trainables.datasets.tinyimagenet").VALIDATION_FRACTION
    assert setups()["tinyimagenet"].images_seen == 200 * round(100_000 * (1 - fraction)) * 2


def test_it_is_printed_as_markdown(capsys):
    assert paper.main(["sop, xbm"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "## sop, xbm\n\n| field | value | source | note |\n|---|---|---|---|\n| `loss` | margin | sec:xbm |"
    )
    assert (
        "| `weight_decay` | 0.0005 | research-xbm, configs/sample_config.yaml |" in said
        and "| `training.setups.SEARCH_RANGE` |" in said
    )
    assert {line.count("|") for line in said.splitlines() if line.startswith("|")} == {5}
    assert paper.main([]) == 0 and all(f"## {name}\n" in capsys.readouterr().out for name in ["glyphs"])
    assert paper.main(["cub"]) == 2 and "one of" in capsys.readouterr().err
