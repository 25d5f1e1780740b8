"""The family of ridges that the Random rows leave open, and how printed rows are held against it."""

from dataclasses import replace

import numpy as np
import pytest
from fits import ANGLES, ASPECTS, METHODS, VARIANTS, as_text, family, predictions, sections
from replays import trajectory

from tune_cd.landscapes.formulas import FITTED, PRINTED, random_curve
from tune_cd.landscapes.printed import printed
from tune_cd.landscapes.simulation import replay_all


@pytest.mark.parametrize("name", PRINTED)
def test_every_member_has_the_random_row(name):
    row, members = PRINTED[name], family(name)
    assert len({member.name for member in members}) == len(members) == 1 + (len(ASPECTS) - 1) * len(ANGLES)
    for member in members:
        curve = random_curve(member.validation, 50, cells=60)
        assert curve[:10].mean() == pytest.approx(row.auc10, abs=0.0075) and curve[:20].mean() == pytest.approx(
            row.auc20, abs=0.0075
        )
        assert member.validation.centre == row.centre
    chosen = next(member.validation for member in members if member.name == f"{name} aspect 2 angle 0")
    assert (chosen.peak, chosen.s_balance) == (
        pytest.approx(FITTED[name][0], abs=1e-3),
        pytest.approx(FITTED[name][1], abs=1e-2),
    )


def test_only_datasets_with_a_random_row_have_a_family():
    with pytest.raises(ValueError, match="dataset 'narrow': one of .*'omniglot'"):
        family("narrow")


def searches(member: str, method: str, levels: list[float]):
    """One search a level, constant, after a first trial that found nothing."""
    return [
        replace(trajectory(method, seed, [0.0, *[level] * 19]), landscape=f"omniglot {member}")
        for seed, level in enumerate(levels)
    ]


def test_verdicts_by_hand():
    """Printed of cd-paper on omniglot: AUC@20 0.77; of A_I (3,3): 0.69."""
    low, high = [0.70, 0.72], [0.80, 0.82]  # AUC@20 is 0.95 of these: 0.6745 and 0.7695
    made = searches("aspect 1 angle 0", "cd-paper", low) + searches("aspect 2 angle 0", "cd-paper", high)
    made += searches("aspect 1 angle 0", "A_I (3,3)", [0.9, 0.9]) + searches(
        "aspect 2 angle 0", "A_I (3,3)", [0.72, 0.90]
    )
    table = predictions(made).set_index(["method", "column"])
    assert set(table["dataset"]) == {"omniglot"} and list(table.loc["cd-paper"].index) == ["AUC@10", "AUC@20", "n-95"]
    row = table.loc["cd-paper", "AUC@20"]
    assert (row.printed, row.low, row.high, row.verdict) == (
        0.77,
        pytest.approx(0.6745),
        pytest.approx(0.7695),
        "inside",
    )
    other = table.loc["A_I (3,3)", "AUC@20"]
    assert (other.low, other.high) == (
        pytest.approx(0.7695),
        pytest.approx(0.855),
    ) and other.verdict == "below (noise)", "one member's interval holds it"
    assert table.loc["A_I (3,3)"].index.tolist() == ["AUC@20"]
    narrow = predictions(searches("aspect 1 angle 0", "A_I (3,3)", [0.9, 0.9])).iloc[0]
    assert narrow.verdict == "below"
    assert predictions(searches("aspect 1 angle 0", "A_I (3,3)", [0.5, 0.5])).iloc[0].verdict == "above"


def test_a_number_of_trials_that_is_never_reached_is_above_50():
    """omniglot's printed n-95 of cmaes is 15; a member on which it is not reached predicts more than 50."""
    made = searches("aspect 1 angle 0", "cmaes", [0.5] * 4) + searches("aspect 1 angle 0", "cd-paper", [0.9] * 4)
    row = predictions(made).set_index(["method", "column"]).loc["cmaes", "n-95"]
    assert row.low == row.high == np.inf and row.verdict == "below"
    assert as_text(predictions(made)).loc["cmaes n-95", "omniglot"] == "15 below >50 to >50"


@pytest.mark.slow
@pytest.mark.parametrize("searches", [16, pytest.param(40, marks=pytest.mark.faults)])
def test_what_omniglots_printed_rows_test(searches):
    """CD and A_I lie in the range of what ridges of any aspect and angle predict, so they speak for none of them; A_O
    (7,7) lies below all."""
    methods = {"cd-paper": METHODS["cd-paper"], "A_I (3,3)": VARIANTS["A_I (3,3)"], "A_O (7,7)": VARIANTS["A_O (7,7)"]}
    table = predictions(replay_all(methods, family("omniglot"), range(searches), trials=20, processes=1)).set_index(
        ["method", "column"]
    )
    verdicts = {method: table.loc[(method, "AUC@20"), "verdict"] for method in methods}
    assert verdicts == {"cd-paper": "inside", "A_I (3,3)": "inside", "A_O (7,7)": "below"}
    wide = table.loc[("A_I (3,3)", "AUC@20")]
    assert wide.high - wide.low > 0.08, "and a row that any orientation predicts says little"


@pytest.mark.slow
def test_tinyimagenets_printed_n95_is_that_of_turned_ridges():
    """Along A_O's directions it takes CD 8 or 9 trials instead of the printed 27."""
    members = {member.name.removeprefix("tinyimagenet "): member for member in family("tinyimagenet")}
    chosen = [members[name] for name in ("aspect 2 angle 0", "aspect 2 angle -45", "aspect 2 angle 45")]
    row = (
        predictions(replay_all({"cd-paper": METHODS["cd-paper"]}, chosen, range(80), trials=50, processes=1))
        .set_index("column")
        .loc["n-95"]
    )
    assert row.low < 10 and row.verdict.startswith(("inside", "above (noise)"))


def test_what_was_fitted_and_what_the_rows_test_is_printed():
    pytest.importorskip("optuna")
    parts = "\n\n".join(sections(["sop"], range(2), 6, 1)).split("\n\n")
    assert len(parts[2].splitlines()) == 2 + 11 and "repeated points" in parts[-1]
    rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in parts[-2].splitlines()[2:]}
    assert len(rows) == 4 * 3 + 4 and all(" to " in cell for cell in rows.values())
    assert rows["cd-paper AUC@20"].startswith(f"{printed('sop', 'cd-paper', 'AUC@20'):.2f} ")
