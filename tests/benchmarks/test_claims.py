"""The paper's claims on landscapes made up so that the answer is known, and on the measured ones."""

import re
from pathlib import Path

import claims
import grids_of
import numpy as np
import pytest
from claims import FAILS, HOLDS, OPEN
from grids_of import TICKS, hill

from tune_cd.landscapes.measured import MEASURED, load

ON, OFF = np.log2([TICKS[8], TICKS[8]]), np.log2([TICKS[6], TICKS[8]])  # on the separate diagonal, and 4 octaves off

THEORETICAL = "theoretical directions"
EXACT = [name for name in claims.CLAIMS if name not in ("directions", THEORETICAL)]
"""The others' numbers are of random draws, which differ with the linear algebra library, and of replayed searches."""


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
    assert claims.carried_over([ours]).empty and claims.losses([ours]).empty


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


@pytest.mark.parametrize("angle, verdict", [(0, HOLDS), (10, HOLDS), (45, FAILS), (-45, FAILS)])
def test_the_direction_of_a_ridge_is_found(tmp_path, angle, verdict):
    """Of a Gaussian ridge, whose score falls by 5 % at sqrt(-log 0.95) of its width."""
    shape = hill(np.log2([TICKS[6], TICKS[6]]), across=4.0, along=10.0, angle=angle)
    row = claims.directions([made(tmp_path, shape)]).iloc[0]
    assert row["angle"] == pytest.approx(angle, abs=3) and row["verdict"] == verdict
    assert row["along"] / row["across"] == pytest.approx(2.5, rel=0.2)
    assert row["across"] == pytest.approx(4 * np.sqrt(-np.log(0.95)), rel=0.3)


@pytest.mark.parametrize("sign, verdict", [(1, HOLDS), (-1, FAILS)])
def test_both_terms_are_low_where_the_score_is_high_or_they_are_not(tmp_path, sign, verdict):
    wide = hill(ON, across=8.0, along=16.0)
    landscape = made(tmp_path, wide, terms=lambda x: (1 - wide(x), 1 - sign * wide(x)))
    row = claims.both_low([landscape]).iloc[0]
    assert row["verdict"] == verdict and row["positive"] < 0.2
    assert row["below"] == 0 and (row["entropy"] < 0.2) == (sign > 0)


@pytest.mark.slow
def test_what_a_setting_loses_elsewhere_is_its_regret(tmp_path):
    """Landscapes with the same best setting, with another one, and one that diverges at the first's. Those of another
    task or loss are not compared."""
    first, same = made(tmp_path, hill(ON), "first"), made(tmp_path, hill(ON, high=0.5), "same", dataset="o")
    other = made(tmp_path, hill(OFF), "other", dataset="p")
    lost = made(tmp_path, lambda x: None if np.allclose(x[:2], ON) else hill(OFF)(x), "lost", dataset="q")
    apart = [
        made(tmp_path, hill(ON), name, **how) for name, how in (("i", {"loss": "infonce"}), ("s", {"task": "ssl"}))
    ]
    table = claims.carried_over([first, same, other, lost, *apart]).set_index(["of", "landscape"])
    papers = [of for of, _ in table.index if of.startswith(claims.PAPER)]
    assert set(papers) == {f"{claims.PAPER} {name}" for name in ("omniglot", "sop", "landmarks", "tinyimagenet")}
    assert len(table) - len(papers) == 12 and table.loc[("first", "same"), ["regret", "half", "verdict"]].tolist() == [
        0, 0, HOLDS,
    ]  # fmt: skip
    row = table.loc[("first", "other")]
    assert row["verdict"] == FAILS and row["regret"] == pytest.approx(0.8 - hill(OFF)(ON), abs=1e-4)
    assert table.loc[("first", "lost"), "share"] == pytest.approx(1)
    assert claims.carried_over([first])["of"].tolist() == [
        f"{claims.PAPER} {n}" for n in ("omniglot", "sop", "landmarks")
    ]


def test_the_other_loss_is_compared_with_the_usual_one(tmp_path):
    margin, infonce = made(tmp_path, hill(ON), "m"), made(tmp_path, hill(ON, high=0.6), "i", loss="infonce")
    (row,) = claims.losses([infonce, margin]).to_dict("records")
    assert (row["usual"], row["verdict"]) == ("margin", FAILS) and row["less"] == pytest.approx(0.2, abs=1e-3)
    pair = [made(tmp_path, hill(ON), name, task="ssl", loss=name) for name in ("margin", "infonce")]
    (row,) = claims.losses(pair).to_dict("records")
    assert (row["usual"], row["verdict"]) == ("infonce", HOLDS)
    assert claims.losses([margin]).empty


@pytest.mark.slow
def test_a_search_along_other_directions_is_compared_in_pairs_of_blind_starts(tmp_path):
    """On a ridge along A_O's directions, alike at three batch sizes. One batch size has no third dimension, and judges
    are not searched on."""
    ridge = hill(np.log2([TICKS[6], TICKS[8]]), across=4.0, along=12.0)
    solid = made(tmp_path, ridge, "solid", batch_sizes=(16, 64, 256))
    judge = made(tmp_path, ridge, "glyphs-ssl-margin", batch_sizes=(16, 64))
    table = claims.theoretical([made(tmp_path, ridge, "plane"), solid, judge], searches=10)
    assert table["landscape"].tolist() == ["solid-3d"] * 2 and table["reading"].tolist() == list(claims.READINGS)
    assert table["less"].tolist() == pytest.approx(list(table["A_th"] - table["A_O"]), abs=1e-12)
    assert (table["half"] > 0).all() and verdicts(table) == [HOLDS, HOLDS]
    assert claims.theoretical([judge]).empty


def block() -> str:
    """What RESULTS.md says of the claims."""
    text = (Path(__file__).parent / "RESULTS.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"<!-- claims -->\n(.*?)\n<!-- /claims -->", text, re.DOTALL)
    return found


@pytest.mark.slow
def test_what_the_results_say_is_computed_from_the_files():
    printed, computed = (
        [section for section in text.split("\n\n**") if not section.startswith(("Directions", "Theoretical"))]
        for text in (block(), "\n\n".join(claims.claims([load(name) for name in MEASURED], names=EXACT)))
    )
    assert printed == computed
    sections = {name: [line.split("|") for line in _section(name)] for name in ("Directions", "Both terms low")}
    table = claims.directions([load(name) for name in MEASURED])
    rows = {(cells[1].strip(), int(cells[2])): cells for cells in sections["Directions"][2:]}
    assert len(rows) == len(table) == len(sections["Both terms low"]) - 2
    for row in table.itertuples():
        cells = rows[row.landscape, row.b]
        angle = float(cells[4].replace("-  ", "nan"))
        assert angle == pytest.approx(row.angle, abs=1, nan_ok=True) and cells[-2].strip() == row.verdict


@pytest.mark.slow
def test_the_negative_result_of_the_appendix_is_computed_from_the_files():
    [computed] = claims.claims([load(name) for name in MEASURED], names=[THEORETICAL])
    assert computed in block() and " does not hold" not in computed and "cannot be told" not in computed


def _section(name: str) -> list[str]:
    """The lines of a claim's table."""
    (section,) = [text for text in block().removeprefix("**").split("\n\n**") if text.startswith(f"{name}.**")]
    return section.split("\n\n")[1].splitlines()
