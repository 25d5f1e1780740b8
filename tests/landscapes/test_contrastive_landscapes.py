"""The command that measures landscapes: which cells it trains, and the files that it publishes."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from contrastive_landscapes import GRIDS, LOWEST, TICKS, Cell, asked, between, coarse, main, near, refined, repeated
from grids_of import hill, made_tables

from trainables.losses import find_loss
from tune_cd import results
from tune_cd.landscapes.find import plane
from tune_cd.landscapes.measured import IN_VIEW, JUDGES, MEASURED, load, write
from tune_cd.results.writing import write_many

NAME = "glyphs-margin"


def scores(batch_size: int = 64) -> dict[Cell, float]:
    """Of the coarse grid: the best cell is the 6th by the 9th."""
    centre = np.log2(LOWEST) + np.array([12, 18])
    return {cell: hill(centre)(np.log2([LOWEST]) + np.array([cell.p, cell.e])) for cell in coarse(batch_size)}


def test_every_landscape_has_a_role():
    assert set(GRIDS) == {*IN_VIEW, *JUDGES}


def test_the_coarse_grid_spans_the_range_and_is_asked_for_first():
    cells = coarse(64)
    assert len(cells) == 169 and {cell.p for cell in cells} == set(range(0, TICKS, 2)) == {cell.e for cell in cells}
    margin, others = find_loss("margin"), find_loss("siglip")
    assert cells[0].h(margin) == {"Lambda_p": 1e-6, "Lambda_e": 1e-6, "batch_size": 64}
    assert cells[1].h(others) == {"Lambda_pos": 1e-6, "Lambda_neg": 4e-6, "batch_size": 64}
    assert cells[-1].h(margin)["Lambda_e"] == pytest.approx(16.777216)
    assert asked("coarse", 64, {}) == cells and asked("coarse", 64, dict.fromkeys(cells[:100], 0.5)) == cells[100:]


def test_cells_near_the_best_are_repeated_and_refined():
    trained = scores()
    best = Cell(12, 18, 64, 0)
    assert best in near(trained) and all(trained[cell] >= 0.85 * trained[best] for cell in near(trained))
    again = asked("repeated", 64, trained)
    assert {cell.seed for cell in again} == {1} and len(again) == len(near(trained)) == len(repeated(trained)) / 2
    fine = refined(trained)
    assert {Cell(11, 17, 64, 0), Cell(12, 19, 64, 0), best} <= set(fine) and Cell(12, 22, 64, 0) not in fine


def test_where_untrained_networks_score_well_near_is_nearer_to_the_best_than_to_them():
    trained = {cell: 0.7 + score / 8 for cell, score in scores().items()}
    assert min(trained.values()) > 0.85 * max(trained.values())
    floor, high = trained[Cell(0, 0, 64, 0)], max(trained.values())
    assert near(trained) == [cell for cell in coarse(64) if trained[cell] >= (floor + high) / 2]
    assert 1 < len(near(trained)) < 40


def test_the_published_command_says_whether_the_grid_was_refined():
    trained = scores()
    loss = find_loss("margin")
    assert not between(cell.h(loss) for cell in trained)
    assert between(cell.h(loss) for cell in refined(trained))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A results folder with the whole grid at b = 64, two seeds, and half of it at b = 16."""
    folder = tmp_path_factory.mktemp("out")
    trials, curves = made_tables(lambda x: None if x[0] > 4 else hill((-6.0, -2.0))(x), batch_sizes=(16, 64))
    trials = trials[(trials["batch_size"] == 64) | (trials["Lambda_p"] < 1e-3)]
    at = np.round(np.log2(trials[["Lambda_p", "Lambda_e"]] / LOWEST)).astype(int)
    ids = [
        Cell(p, e, b, seed).trial_id
        for p, e, b, seed in zip(at["Lambda_p"], at["Lambda_e"], trials["batch_size"], trials["seed"])
    ]
    renamed = dict(zip(trials["trial_id"], ids))
    rows = trials.assign(study=NAME, trial_id=ids, trial_index=range(len(trials))).astype(object)
    write_many(folder, rows.where(rows.notna(), None).to_dict("records"))
    for name, looks in curves[curves["trial_id"].isin(renamed)].groupby("trial_id"):
        values = looks.drop(columns="trial_id").assign(attempt=0, seed=0, scores=[{}] * len(looks))
        results.write_curve(folder, NAME, renamed[name], values.to_dict("records"))
    return folder


def test_published_are_the_batch_sizes_whose_grid_is_whole(out, tmp_path, capsys):
    main([str(out), NAME, "--publish", str(tmp_path / "made")])
    said = capsys.readouterr().out
    assert f"{NAME}, b = 16: left out, 104 of 169 cells to train" in said and "338 trainings, b = 64" in said
    landscape = load(NAME, tmp_path / "made")
    assert landscape.axes["batch_size"].tolist() == [64] and landscape.trained.all()
    assert landscape.about["command"].endswith("OUT glyphs-margin --batch-sizes 64")
    assert landscape.about["images"]["train"]["classes"] > 10 and "processor" not in landscape.about
    assert plane(landscape).high == pytest.approx(0.8, abs=0.02)
    assert (landscape.trials["status"] == "diverged").sum() == 26


def test_batch_sizes_that_were_published_before_stay(out, tmp_path):
    """A landscape grows a batch size at a time; the one that is published again is replaced."""
    trials, curves = made_tables(hill((-6.0, -2.0)), batch_sizes=(64, 256), seeds=(0,))
    write(tmp_path / f"{NAME}.parquet", trials, curves, {"command": "before", "processor": "an older one"})
    before = load(NAME, tmp_path)
    main([str(out), NAME, "--batch-sizes", "64", "--publish", str(tmp_path)])
    landscape = load(NAME, tmp_path)
    assert landscape.axes["batch_size"].tolist() == [64, 256] and landscape.about["trainings"] == 338 + 169
    assert landscape.about["command"].endswith("OUT glyphs-margin --batch-sizes 64 256")
    assert landscape.about["hours"] == pytest.approx(before.about["hours"] / 2 + 338 * 8 / 3600, abs=0.02)
    pd.testing.assert_frame_equal(landscape.at(256).frame(), before.at(256).frame())
    assert landscape.at(64).trained.sum() == 338


def test_what_was_published_of_another_set_up_is_not_mixed_with_it(out, tmp_path):
    trials, curves = made_tables(hill((-6.0, -2.0)), batch_sizes=(256,))
    other = [text.replace("25600", "12800") for text in trials["config"]]
    write(tmp_path / f"{NAME}.parquet", trials.assign(config=other), curves, {})
    held = (tmp_path / f"{NAME}.parquet").read_bytes()
    with pytest.raises(ValueError, match=r"more than one set-up: images_seen \['12800', '25600'\]"):
        main([str(out), NAME, "--publish", str(tmp_path)])
    assert (tmp_path / f"{NAME}.parquet").read_bytes() == held


def test_nothing_is_published_without_a_whole_grid(out, tmp_path):
    with pytest.raises(ValueError, match=r"glyphs-margin: .* has no batch size with all 169 cells"):
        main([str(out), NAME, "--batch-sizes", "16", "--publish", str(tmp_path)])
    assert not list(tmp_path.glob("*.parquet"))


def test_nothing_is_trained_with_changes_that_are_in_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_landscapes.git_commit", lambda: "c0ffee-dirty")
    with pytest.raises(ValueError, match="tracked files differ from commit c0ffee-dirty"):
        main([str(tmp_path), NAME])


@pytest.mark.parametrize("name", MEASURED)
def test_what_comes_with_the_package_is_trained_again_in_its_own_set_up(name):
    stored = load(name).about["setup"]
    assert {field: stored.get(field) for field in asdict(GRIDS[name].setup)} == asdict(GRIDS[name].setup)
