"""`python -m tune_cd.landscapes`: the list, and landscapes stored as studies."""

import grids_of
import numpy as np
import pandas as pd
import pytest
from grids_of import TICKS, hill

from tune_cd import results
from tune_cd.analysis import grid
from tune_cd.landscapes import __main__ as command

ON, OFF = np.log2([TICKS[8], TICKS[8]]), np.log2([TICKS[6], TICKS[8]])
FEW = TICKS[4:10]


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    losses = {"one": "margin", "two": "infonce"}
    found = {
        name: grids_of.made(tmp_path, hill(OFF), name, loss=losses[name], ticks=FEW, noise=0.002) for name in losses
    }
    monkeypatch.setattr(command, "MEASURED", tuple(found))
    monkeypatch.setattr(command, "load", lambda name: found[name])


def test_the_command_lists_them_with_their_best_setting(shipped, capsys):
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and f"{TICKS[6]:.3g}, {TICKS[8]:.3g}" in lines[2] and "0.003" in lines[2]


def test_the_command_stores_them_as_studies(shipped, tmp_path, capsys):
    """Rows and curves are what was measured; stored again, nothing changes; other rows of that name are refused."""
    for _ in range(2):
        assert command.main(["--store", str(tmp_path / "results"), "one"]) == 0
    assert "study one, 72 trainings" in capsys.readouterr().out
    landscape, trials = command.load("one"), results.read(tmp_path / "results")
    columns = ["Lambda_p", "Lambda_e", "seed", "val_score", "test_score"]
    pd.testing.assert_frame_equal(trials[columns], landscape.rows()[columns])
    curves = results.read_curves(tmp_path / "results").merge(trials[["trial_id", *columns[:2]]], on="trial_id")
    order, looks = [*columns[:3], "images_seen"], landscape.frame()
    found, expected = curves.sort_values(order), looks.sort_values(order)
    assert found["val_score"].to_numpy() == pytest.approx(expected["validation"].to_numpy())
    assert found["images_seen"].tolist() == expected["images_seen"].tolist()
    assert grid(trials).values == pytest.approx(grid(landscape.rows()).values)
    other = grids_of.made(tmp_path, hill(ON), "one", ticks=FEW, noise=0.002)
    with pytest.raises(results.ConflictingRow):
        other.store(tmp_path / "results")


def test_what_cannot_be_stored_or_is_none_is_told(shipped, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    assert command.main(["--store", str(tmp_path / "file")]) == 2
    assert "error: " in capsys.readouterr().err
    monkeypatch.undo()
    assert command.main(["--list", "nowhere"]) == 2
    assert "error: landscape 'nowhere': one of" in capsys.readouterr().err


def test_what_is_held_back_is_not_stored_and_told(tmp_path, capsys):
    """The list counts it as well."""
    assert command.main(["--store", str(tmp_path), "glyphs-margin"]) == 0
    assert "study glyphs-margin, 224 trainings, without 20 held back" in capsys.readouterr().out
    assert len(results.read(tmp_path)) == 224 and command.load("glyphs-margin").about["trainings"] == 244
