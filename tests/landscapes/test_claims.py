"""The paper's claims on landscapes made up so that the answer is known, and the command that prints them."""

from pathlib import Path

import grids_of
import numpy as np
import pandas as pd
import pytest
from grids_of import TICKS, hill

from tune_cd import results
from tune_cd.analysis import grid
from tune_cd.landscapes import __main__ as command
from tune_cd.landscapes import claims
from tune_cd.landscapes.slices import FAILS, HOLDS, OPEN, above, below

ON, OFF = np.log2([TICKS[8], TICKS[8]]), np.log2([TICKS[6], TICKS[8]])  # on the separate diagonal, and 4 octaves off


def made(folder: Path, formula: grids_of.Formula, name: str = "made", **how):
    """With little noise where none is asked for."""
    return grids_of.made(folder, formula, name, **{"noise": 0.002} | how)


def verdicts(table) -> list[str]:
    return table["verdict"].tolist()


def test_a_best_setting_off_the_diagonals_is_found_with_its_gain(tmp_path):
    """4 octaves off the separate average, 2 off the global one at b = 64; an oracle along each diagonal."""
    formula = hill(OFF)
    table = claims.off_diagonal([made(tmp_path, formula)]).set_index("average")
    assert verdicts(table) == [HOLDS, HOLDS]
    assert table["octaves"].tolist() == pytest.approx([4.0, 4.0 - np.log2(62)])
    for average, steps in (("separate", 0), ("global", 3)):
        line = [formula(np.log2([TICKS[p], TICKS[p + steps]])) for p in range(13 - steps)]
        assert table.loc[average, "on"] == pytest.approx(max(line), abs=1e-4)
        assert table.loc[average, "gain"] == pytest.approx(0.8 - max(line), abs=1e-4)
        assert table.loc[average, "share"] == pytest.approx(1 - max(line) / 0.8, abs=1e-4)
    assert (table["half"] > 0).all() and (table["half"] < 0.05).all()


def test_a_best_setting_on_a_diagonal_is_not_off_it(tmp_path):
    table = claims.off_diagonal([made(tmp_path, hill(ON))]).set_index("average")
    assert table.loc["separate", ["octaves", "verdict"]].tolist() == [0.0, FAILS] and table.loc["separate", "gain"] < 0
    assert table.loc["global", "verdict"] == HOLDS


def test_infonce_has_the_separate_average_alone(tmp_path):
    table = claims.off_diagonal([made(tmp_path, hill(OFF), loss="infonce")])
    assert table["average"].tolist() == ["separate"]


@pytest.mark.parametrize("loss, octaves", [("siglip", 4.0), ("barlow_twins", 4.0 - np.log2(0.0051))])
def test_other_losses_are_off_or_on_their_published_ratios(tmp_path, loss, octaves):
    """SigLIP's is 1; Barlow Twins' 0.0051 lies 7.6 octaves below, within half a step of cells 8 octaves below."""
    ours = made(tmp_path, hill(OFF), loss=loss, task="ssl")
    row = claims.off_diagonal([ours]).set_index("average").loc["published"]
    assert row["octaves"] == pytest.approx(octaves) and row["verdict"] == HOLDS
    assert row["best"] == f"{TICKS[6]:.3g}, {TICKS[8]:.3g}"
    steps = {"siglip": 0, "barlow_twins": 4}[loss]
    line = [hill(OFF)(np.log2([TICKS[p], TICKS[p - steps]])) for p in range(steps, 13)]
    assert row["on"] == pytest.approx(max(line), abs=1e-4) and row["gain"] == pytest.approx(0.8 - max(line), abs=1e-4)
    pairs = made(tmp_path, hill(OFF), "pairs")
    assert claims.directions([ours]).empty and len(claims.both_low([ours, pairs])) == 1
    assert claims.carried_over([ours, pairs]).empty and claims.losses([ours]).empty


@pytest.mark.parametrize("how", [{"noise": 0.2}, {"seeds": (0,)}])
def test_a_gain_within_the_noise_or_without_a_known_one_cannot_be_told(tmp_path, how):
    """The score differs by 0.05 between the two settings."""
    table = claims.off_diagonal([made(tmp_path, lambda x: 0.85 if np.allclose(x[:2], OFF) else 0.8, **how)])
    assert verdicts(table) == [OPEN, OPEN]


def test_a_ridge_that_stays_is_left_by_the_global_average(tmp_path):
    """It lies at 6 octaves, where that average is at b = 64; at 16 and 256 it is 2 octaves away."""
    narrow = hill(np.log2([TICKS[5], TICKS[8]]), across=4.0)
    table = claims.batch_sizes([made(tmp_path, narrow, batch_sizes=(16, 64, 256))]).set_index("way")
    assert table["near"].to_dict() == {"tuned": "3 of 3", "separate": "0 of 3", "global": "1 of 3"}
    assert set(table["verdict"]) == {HOLDS} and table.loc["tuned", "b = 16"] == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("noise, verdict", [(1e-4, HOLDS), (0.03, OPEN)])
def test_what_noise_may_have_put_near_the_best_decides_nothing(tmp_path, noise, verdict):
    """The global average is near at b = 64 alone; the tuned balance at 256 too, by a hundredth."""
    narrow = hill(np.log2([TICKS[5], TICKS[8]]), across=4.0)
    made_so = made(tmp_path, lambda x: narrow(x) * (0.96 if x[2] == 8 else 1.0), batch_sizes=(64, 256), noise=noise)
    table = claims.batch_sizes([made_so]).set_index("way")
    assert table["near"].to_dict() == {"tuned": "2 of 2", "separate": "0 of 2", "global": "1 of 2"}
    assert set(table["verdict"]) == {verdict}


def test_where_every_average_is_near_tuning_wins_no_batch_size(tmp_path):
    flat = made(tmp_path, lambda x: 0.8 + 1e-4 * x[0], batch_sizes=(16, 64))
    assert set(claims.batch_sizes([flat])["verdict"]) == {FAILS}
    assert set(claims.batch_sizes([made(tmp_path, hill(OFF))])["verdict"]) == {OPEN}, "of one batch size"


@pytest.mark.parametrize("angle, verdict", [(0, HOLDS), (10, HOLDS), (45, FAILS), (-45, FAILS)])
def test_the_direction_of_a_ridge_is_found(tmp_path, angle, verdict):
    """Of a Gaussian ridge, whose score falls by 5 % at sqrt(-log 0.95) of its width."""
    shape = hill(np.log2([TICKS[6], TICKS[6]]), across=4.0, along=10.0, angle=angle)
    row = claims.directions([made(tmp_path, shape)]).iloc[0]
    assert row["angle"] == pytest.approx(angle, abs=3) and row["verdict"] == verdict
    assert row["along"] / row["across"] == pytest.approx(2.5, rel=0.2)
    assert row["across"] == pytest.approx(4 * np.sqrt(-np.log(0.95)), rel=0.3) and np.isnan(row["drift"])
    if angle == 0:
        assert row["A_O"] < 0.1 < row["A_I"]


def test_the_drift_of_a_ridge_is_its_turn_since_the_smallest_batch_size(tmp_path):
    def turning(x):
        return hill(np.log2([TICKS[6], TICKS[6]]), across=4.0, along=10.0, angle=10 * (x[2] - 4) / 2)(x)

    table = claims.directions([made(tmp_path, turning, batch_sizes=(16, 64, 256))])
    assert table["drift"].iloc[1:].tolist() == pytest.approx([10, 20], abs=4)


@pytest.mark.parametrize("sign, verdict", [(1, HOLDS), (-1, FAILS)])
def test_both_terms_are_low_where_the_score_is_high_or_they_are_not(tmp_path, sign, verdict):
    wide = hill(ON, across=8.0, along=16.0)
    landscape = made(tmp_path, wide, terms=lambda x: (1 - wide(x), 1 - sign * wide(x)))
    row = claims.both_low([landscape]).iloc[0]
    assert row["verdict"] == verdict and row["positive"] < 0.2
    assert row["positive rank"] < 0.1 and row["below"] == 0
    assert row["entropy rank"] < 0.1 if sign > 0 else row["entropy rank"] > 0.9


def test_terms_of_noise_are_neither_low_nor_high(tmp_path):
    rng = np.random.default_rng(0)
    wide = hill(ON, across=8.0, along=16.0)
    row = claims.both_low([made(tmp_path, wide, terms=lambda x: tuple(rng.uniform(size=2)))]).iloc[0]
    assert row["verdict"] == OPEN and 0.05 < row["entropy_half"] < 0.25 and 0 < row["below"] < 1


def test_what_a_setting_loses_elsewhere_is_its_regret(tmp_path):
    """Landscapes with the same best setting, with another one, and one that diverges at the first's."""
    first, same = made(tmp_path, hill(ON), "first"), made(tmp_path, hill(ON, high=0.5), "same", dataset="o")
    other = made(tmp_path, hill(OFF), "other", loss="infonce")
    lost = made(tmp_path, lambda x: None if np.allclose(x[:2], ON) else hill(OFF)(x), "lost", task="ssl")
    table = claims.carried_over([first, same, other, lost]).set_index(["of", "landscape"])
    assert len(table) == 12 and table.loc[("first", "same"), ["regret", "half", "verdict"]].tolist() == [0, 0, HOLDS]
    row = table.loc[("first", "other")]
    assert row["verdict"] == FAILS and row["regret"] == pytest.approx(0.8 - hill(OFF)(ON), abs=1e-4)
    assert table.loc[("first", "lost"), "share"] == pytest.approx(1)
    assert table.loc[("first", "same"), "same"] == "task, loss" and table.loc[("same", "lost"), "same"] == "loss"
    assert claims.carried_over([first]).empty


def test_the_other_loss_is_compared_with_the_usual_one(tmp_path):
    margin, infonce = made(tmp_path, hill(ON), "m"), made(tmp_path, hill(ON, high=0.6), "i", loss="infonce")
    (row,) = claims.losses([infonce, margin]).to_dict("records")
    assert (row["usual"], row["verdict"]) == ("margin", FAILS) and row["less"] == pytest.approx(0.2, abs=1e-3)
    pair = [made(tmp_path, hill(ON), name, task="ssl", loss=name) for name in ("margin", "infonce")]
    (row,) = claims.losses(pair).to_dict("records")
    assert (row["usual"], row["verdict"]) == ("infonce", HOLDS)
    assert claims.losses([margin]).empty


def test_verdicts_need_the_whole_interval():
    assert [above(0.1, half, 0.0, 0.01) for half in (0.05, 0.2, np.nan)] == [HOLDS, OPEN, OPEN]
    assert [above(0.0, half, 0.0, 0.01) for half in (0.005, 0.02)] == [FAILS, OPEN]
    assert [below(value, 0.01, 0.05) for value in (0.03, 0.045, 0.07)] == [HOLDS, OPEN, FAILS]


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    found = {name: made(tmp_path, hill(OFF), name, loss=loss) for name, loss in (("one", "margin"), ("two", "infonce"))}
    monkeypatch.setattr(command, "MEASURED", tuple(found))
    monkeypatch.setattr(command, "load", lambda name: found[name])


def test_the_command_lists_them_with_their_best_setting(shipped, capsys):
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and f"{TICKS[6]:.3g}, {TICKS[8]:.3g}" in lines[2] and "0.003" in lines[2]


def test_the_command_prints_every_claim_with_where_it_holds(shipped, capsys):
    assert command.main(["--claims"]) == 0
    out = capsys.readouterr().out
    sections = [section.strip().split("\n\n") for section in out.strip().split("\n\n**")]
    assert [section[0].strip("*").split(".")[0].lower() for section in sections] == list(claims.CLAIMS)
    assert sections[0][2] == "holds: one 64 separate, one 64 global, two 64 separate"
    assert "+0.47" in sections[0][1] and " ±0." in sections[0][1] and " %" in sections[0][1]
    square = [line.split("|")[1:-1] for line in sections[4][1].splitlines()]
    assert [cell.strip() for cell in square[0]] == ["best setting of, used on", "one", "two"]
    assert [cell.strip() for cell in square[2]] == ["one", "", "0 ±0 %"]
    assert sections[4][2] == "Of 2 pairs: holds 2"


def test_the_command_prints_cards_of_those_asked_for(shipped, capsys):
    assert command.main(["--cards", "two"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## two") and "infonce" in out and "## one" not in out


def test_the_command_stores_them_as_studies(shipped, tmp_path, capsys):
    """Rows and curves are what was measured; stored again, nothing changes; other rows of that name are refused."""
    for _ in range(2):
        assert command.main(["--store", str(tmp_path / "results"), "one"]) == 0
    assert "study one, 338 trainings" in capsys.readouterr().out
    landscape, trials = command.load("one"), results.read(tmp_path / "results")
    columns = ["Lambda_p", "Lambda_e", "seed", "val_score", "test_score"]
    pd.testing.assert_frame_equal(trials[columns], landscape.rows()[columns])
    curves = results.read_curves(tmp_path / "results").merge(trials[["trial_id", *columns[:2]]], on="trial_id")
    order, looks = [*columns[:3], "images_seen"], landscape.frame()
    found, expected = curves.sort_values(order), looks.sort_values(order)
    assert found["val_score"].to_numpy() == pytest.approx(expected["validation"].to_numpy())
    assert found["images_seen"].tolist() == expected["images_seen"].tolist()
    assert grid(trials).values == pytest.approx(grid(landscape.rows()).values)
    other = made(tmp_path, hill(ON), "one")
    with pytest.raises(results.ConflictingRow):
        other.store(tmp_path / "results")


def test_what_cannot_be_stored_or_is_none_is_told(shipped, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    assert command.main(["--store", str(tmp_path / "file")]) == 2
    assert "error: " in capsys.readouterr().err
    monkeypatch.undo()
    assert command.main(["--cards", "nowhere"]) == 2
    assert "error: landscape 'nowhere': one of" in capsys.readouterr().err
