"""The command that measures landscapes: which cells it trains, and the files that it publishes."""

from dataclasses import asdict

import numpy as np
import pytest
from contrastive_landscapes import (
    BAND,
    BETWEEN,
    GRIDS,
    LOOKS,
    LOWEST,
    TICKS,
    Cell,
    Worker,
    asked,
    band,
    half_way,
    main,
    stored,
    train,
)  # fmt: skip
from studies import row

from trainables.losses import find_loss
from tune_cd import results
from tune_cd.landscapes.find import error_between_cells, plane
from tune_cd.landscapes.measured import IN_VIEW, JUDGES, MEASURED, load
from tune_cd.results.writing import write_many

NAME = "glyphs-margin"


def ridge(cell: Cell) -> float:
    """Of (11, 14) in octaves above LOWEST, along the joint direction; what is not trained scores .1."""
    across, along = cell.p - cell.e + 3, cell.p + cell.e - 25
    return 0.1 + 0.6 * float(np.exp(-((across / 3) ** 2) - (along / 9) ** 2))


@pytest.fixture(scope="module")
def stages():
    """The cells that are asked for until the plane is whole, and their scores."""
    trained, lots = {}, []
    while cells := asked(trained, 64):
        lots.append(cells)
        trained |= {cell: ridge(cell) for cell in cells}
    return lots, trained


def test_every_landscape_has_a_role():
    assert set(GRIDS) == {*IN_VIEW, *JUDGES} == {*MEASURED} and len(JUDGES) == 3


def test_the_whole_range_is_asked_for_first(stages):
    first = stages[0][0]
    assert len(first) == 49 and {cell.p for cell in first} == {0, 4, 8, 12, 16, 20, 24} == {cell.e for cell in first}
    margin, others = find_loss("margin"), find_loss("siglip")
    assert first[0].h(margin) == {"Lambda_p": 2.0**-14, "Lambda_e": 2.0**-14, "batch_size": 64}
    assert first[1].h(others) == {"Lambda_pos": 2.0**-14, "Lambda_neg": 2.0**-10, "batch_size": 64}
    assert first[-1].h(margin)["Lambda_e"] == 1024.0 and TICKS == 25
    assert asked(dict.fromkeys(first[:40], 0.5), 64) == first[40:]


def test_then_two_octaves_around_the_hill_and_one_in_its_upper_half(stages):
    _, trained = stages
    first = {(cell.p, cell.e): score for cell, score in trained.items() if cell.seed == 0}
    high = {at for at, score in first.items() if score >= half_way(first)}
    coarse = {(p, e) for p, e in high if p % 2 == e % 2 == 0}
    assert all((p + dp, e + de) in first for p, e in coarse for dp in (-2, 0, 2) for de in (-2, 0, 2))
    chosen = set(band(first))
    assert 40 < len(chosen) <= BAND and (11, 14) in chosen and chosen <= set(first)
    assert {(p, e) for p in range(25) for e in range(25) if ridge(Cell(p, e, 64, 0)) > half_way(first)} <= chosen
    assert {(cell.p, cell.e) for cell in trained if cell.seed == 1} == chosen


def test_settings_between_the_cells_come_last_and_lie_in_the_band(stages):
    lots, _ = stages
    off = lots[-1]
    assert {cell.seed for cell in off} == {2} and len(off) == len({(cell.p, cell.e) for cell in off}) == BETWEEN
    cells = {(cell.p, cell.e) for cell in lots[-2]}
    assert all({(np.floor(c.p), np.floor(c.e)), (np.ceil(c.p), np.ceil(c.e))} <= cells for c in off)
    assert asked({cell: ridge(cell) for lot in lots[:-1] for cell in lot}, 64) == off, "the same each time"


def test_a_cell_is_known_by_its_setting():
    loss = find_loss("margin")
    for cell in (Cell(3, 17, 64, 1), Cell(10.125, 13.877, 16, 2)):
        assert Cell.of(cell.h(loss), loss, cell.seed) == cell
        assert cell.h(loss)["Lambda_p"] == pytest.approx(LOWEST * 2.0**cell.p)


@pytest.fixture(scope="module")
def out(stages, tmp_path_factory):
    """A results folder with the whole plane at b = 64, and a part of that at b = 16."""
    folder = tmp_path_factory.mktemp("out")
    lots, trained = stages
    cells = [*trained, *(Cell(cell.p, cell.e, 16, 0) for cell in lots[0][:30])]
    loss, setup = find_loss("margin"), asdict(GRIDS[NAME].setup)
    rows = [
        row(
            index, "completed", ridge(cell), test_score=ridge(cell), params=cell.h(loss), seed=cell.seed, study=NAME,
            trial_id=cell.trial_id, times=(10.0 * index, 10.0 * index + 8), config=setup | cell.h(loss),
            positive_term=1.0, entropy_term=1.0, best_at=6400, images_seen=25600, dataset="glyphs", task="dml",
            loss="margin", git_commit="c0ffee", device="cpu", software='{"torch": "2"}', hostname="h",
        ) for index, cell in enumerate(cells)
    ]  # fmt: skip
    write_many(folder, rows)
    for cell in cells:
        looks = [
            {"attempt": 0, "seed": cell.seed, "images_seen": 1600 * look, "val_score": ridge(cell), "scores": {},
             "positive_term": 1.0, "entropy_term": 1.0} for look in range(1, LOOKS + 1)
        ]  # fmt: skip
        results.write_curve(folder, NAME, cell.trial_id, looks)
    return folder


def test_published_are_the_batch_sizes_that_are_whole(out, stages, tmp_path, capsys):
    main([str(out), NAME, "--publish", str(tmp_path / "made")])
    said = capsys.readouterr().out
    assert f"{NAME}, b = 16: left out, 19 cells to train next" in said and f"{len(stages[1])} trainings, b = 64" in said
    landscape = load(NAME, tmp_path / "made")
    assert landscape.axes["batch_size"].tolist() == [64] and len(landscape.held_back) == BETWEEN
    assert landscape.about["command"].endswith("OUT glyphs-margin")
    assert landscape.about["images"]["train"]["classes"] > 10 and "processor" not in landscape.about
    flat = plane(landscape)
    assert flat.high == pytest.approx(0.7, abs=0.02) and flat.space.axes[0].domain == (2.0**-14, 2.0**10)
    assert error_between_cells(landscape) < 0.03


def test_nothing_is_published_without_a_whole_plane(out, tmp_path):
    with pytest.raises(ValueError, match=r"glyphs-margin: .* has no batch size with all its cells"):
        main([str(out), NAME, "--batch-sizes", "16", "--publish", str(tmp_path)])
    assert not list(tmp_path.glob("*.parquet"))


def test_nothing_is_trained_with_changes_that_are_in_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive_landscapes.git_commit", lambda: "c0ffee-dirty")
    with pytest.raises(ValueError, match="tracked files differ from commit c0ffee-dirty"):
        main([str(tmp_path), NAME])


@pytest.mark.parametrize("name", [name for name in MEASURED if len(load(name).held_back)])
def test_what_comes_with_the_package_is_trained_again_in_its_own_set_up(name):
    stored = load(name).about["setup"]
    setup = asdict(GRIDS[name].setup)
    assert stored == {field: setup[field] for field in stored}, "fields that are newer have the value that they had"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["glyphs-infonce", "glyphs-margin", "glyphs-ssl-margin"])
def test_a_setting_held_back_trains_to_its_published_score_again(name, tmp_path):
    landscape = load(name)
    held = landscape.held_back.iloc[0]
    loss = landscape.about["loss"]
    cell = Cell.of(held, find_loss(loss), held["seed"])
    Worker.begin(GRIDS[name].setup, None, "cpu")
    train(str(tmp_path), name, {0: cell})
    assert stored(tmp_path, name, loss)[cell] == pytest.approx(held["val_score"], abs=3 * landscape.noise(64))
