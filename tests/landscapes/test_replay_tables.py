"""The paper's tables side by side: printed numbers, what holds and what reverses."""

from dataclasses import replace

import numpy as np
import pytest
from replays import summary, trajectory

from tune_cd.landscapes import replay as command
from tune_cd.landscapes.ablation import ABLATION, ABLATION_3D, notes_of
from tune_cd.landscapes.find import find
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.paper_tables import TABLES, differences, verdict, with_printed
from tune_cd.landscapes.printed import ABLATION as PRINTED_ABLATION
from tune_cd.landscapes.printed import COLUMNS, HP_RES, ROWS
from tune_cd.landscapes.simulation import replay_all
from tune_cd.search.methods import NOTES, OPTIMISERS

PLANE = LANDSCAPES["omniglot"]


def test_the_printed_numbers_agree_with_each_other():
    """The paper prints its own search twice: as CD and as A_O (3,3)."""
    for dataset, rows in PRINTED_ABLATION.items():
        assert rows["A_O (3,3)"] == HP_RES[dataset]["cd-paper"][1] == max(rows.values())
    for rows in HP_RES.values():
        assert all(rows["cd-paper"][at] >= row[at] for row in rows.values() for at in (0, 1))
        assert all(rows["cd-paper"][2] <= row[2] for row in rows.values())


def made_up(landscape: str, gains: dict[str, float], spread: float = 0.01):
    """Eight searches a method, that many hundredths ahead of the reference in pairs of equal seeds."""
    searches = []
    for method, gain in {"A_O (3,3)": 0.0, **gains}.items():
        for seed in range(8):
            level = 0.5 + 0.1 * seed / 8 + gain + (spread * (-1) ** seed if method != "A_O (3,3)" else 0.0)
            searches.append(replace(trajectory(method, seed, [level] * 20), landscape=landscape))
    return searches


def test_the_words_follow_from_paired_differences_alone():
    searches = made_up("omniglot", {"A_I (3,3)": -0.08, "cd-local": 0.04})
    searches += made_up("glyphs-margin", {"A_I (3,3)": 0.06, "cd-local": 0.001})
    numbers = summary(searches, "A_O (3,3)")
    verdicts = {(row.landscape, row.method): verdict(row) for row in numbers.itertuples() if row.method != "A_O (3,3)"}
    assert verdicts == {
        ("omniglot", "A_I (3,3)"): "behind", ("omniglot", "cd-local"): "ahead",
        ("glyphs-margin", "A_I (3,3)"): "ahead", ("glyphs-margin", "cd-local"): "level",
    }  # fmt: skip
    sure = summary(made_up("omniglot", {"A_I (3,3)": -0.004, "A_O (7,7)": -0.006}, spread=0.0), "A_O (3,3)")
    said = [verdict(row) for row in sure.itertuples()][1:]
    assert said == ["level", "behind"], "however sure, two digits do not show 0.004"
    table = differences(numbers, TABLES["ablation"])
    assert table["the paper's order"].tolist() == [
        "-",
        "holds: omniglot; reverses: glyphs-margin",
        "level: glyphs-margin; ahead: omniglot",
    ]  # the last is no row of the paper: nothing of it holds there
    assert table.loc["A_I (3,3)"].tolist()[:2] == ["-0.080 ±0.009 [-0.08]", "+0.060 ±0.009"]
    turned = summary(made_up("omniglot", {"A_I (3,3)": +0.08}), "A_O (3,3)")
    assert differences(turned, TABLES["ablation"]).loc["A_I (3,3)", "the paper's order"] == "reverses: omniglot"


def test_no_order_is_said_of_a_difference_that_is_not_known():
    """Searches that all end before 20 trials, a single search, a row that was not run, and a reference that ended."""
    table = TABLES["ablation"]
    by_landscape = {
        "short": [replace(one, trials=one.trials[:12]) if one.method == "A_I (3,3)" else one
                  for one in made_up("short", {"A_I (3,3)": 0.0, "A_O (7,7)": -0.08})],
        "single": [one for one in made_up("single", {"A_I (3,3)": 0.0, "A_O (7,7)": -0.08}) if not one.seed],
        "without": made_up("without", {"A_O (7,7)": -0.08}),
        "ended": [replace(one, trials=one.trials[:12]) if one.method == "A_O (3,3)" else one
                  for one in made_up("ended", {"A_I (3,3)": 0.08, "A_O (7,7)": -0.08})],
    }  # fmt: skip
    numbers = summary([one for searches in by_landscape.values() for one in searches], table.reference)
    said = differences(numbers, table)
    assert said["the paper's order"].to_dict() == {
        "A_O (3,3)": "-",
        "A_I (3,3)": "not known: short, single, without, ended",
        "A_O (7,7)": "holds: short, without; not known: single, ended",
    }
    assert said.loc["A_I (3,3)"].tolist()[:1] == ["-"] and said.loc["A_I (3,3)", "without"] == ""
    assert said.loc["A_O (7,7)", "ended"] == said.loc["A_I (3,3)", "ended"] == "-"


def test_cells_stand_beside_the_printed_numbers():
    numbers = summary(made_up("sop", {"A_I (3,3)": -0.01}) + made_up("mine", {}), "A_O (3,3)")
    table = with_printed(numbers, "AUC@20")
    assert table.loc["A_I (3,3)", "sop"].endswith("[0.65]") and table.loc["A_I (3,3)", "mine"] == ""
    assert "[" not in table.loc["A_O (3,3)", "mine"] and table.index.name == "AUC@20"


@pytest.mark.slow
def test_the_ablations_order_holds_on_fitted_and_measured_ridges():
    """A_O is ahead of A_I on every fitted ridge and a measured one, and nowhere behind."""
    pair = {row: ABLATION[row] for row in ("A_O (3,3)", "A_I (3,3)")}
    ran = [
        trajectory
        for names, searches in ((HP_RES, 24), (("glyphs-margin", "omniglot-242-margin"), 40))
        for trajectory in replay_all(pair, [find(name) for name in names], range(searches), trials=20, processes=1)
    ]
    said = differences(summary(ran, "A_O (3,3)"), TABLES["ablation"]).loc["A_I (3,3)", "the paper's order"]
    orders = {order: names.split(", ") for order, names in (part.split(": ") for part in said.split("; "))}
    assert {*HP_RES, "glyphs-margin"} <= set(orders["holds"])
    assert "reverses" not in orders


@pytest.mark.slow
@pytest.mark.parametrize("searches", [40, pytest.param(80, marks=pytest.mark.faults)])
def test_the_papers_search_is_ahead_of_random_on_measured_ridges(searches):
    pair = {name: OPTIMISERS[name] for name in ("random", "cd-paper")}
    landscapes = [find(name) for name in ("glyphs-margin", "omniglot-242-infonce", "omniglot-242-margin")]
    table = summary(replay_all(pair, landscapes, range(searches), trials=20, processes=1), "cd-paper")
    less = table[table["method"] == "random"].set_index("landscape")
    assert (less["d20"] + less["d20_ci"] < 0).all(), less


def test_a_table_has_printed_numbers_differences_and_notes(capsys):
    asked = "--table ablation --landscapes sop glyphs-margin --trajectories 2 --trials 8 --processes 1"
    assert command.main(asked.split()) == 0
    parts = capsys.readouterr().out.strip().split("\n\n")
    assert parts[0] == "## tab:ablation" and "2 on sop glyphs-margin" in parts[1]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in parts[2].splitlines()]
    assert cells[0] == ["AUC@20", "sop", "glyphs-margin"] and [row[0] for row in cells[2:]] == list(ABLATION)
    gaps = [[cell.strip() for cell in line.split("|")[1:-1]] for line in parts[3].splitlines()]
    assert gaps[0] == ["AUC@20 less A_O (3,3)", "sop", "glyphs-margin", "the paper's order"]
    assert NOTES["cd-paper"] in parts[4]
    assert command.main([*asked.split(), "--start", "near:4"]) == 0
    assert "began at near:4, the paper's began blind" in capsys.readouterr().out and "began blind" not in parts[1]


def test_hp_res_has_all_the_papers_rows_in_all_its_columns(capsys):
    pytest.importorskip("optuna")
    asked = "--table hp_res --landscapes tinyimagenet --trajectories 2 --trials 5 --processes 1"
    assert command.main(asked.split()) == 0
    parts = capsys.readouterr().out.strip().split("\n\n")
    assert [part.split("|")[1].strip() for part in parts[2:5]] == list(COLUMNS)
    for part, at in zip(parts[2:5], range(3)):
        rows = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in part.splitlines()[2:]}
        assert list(rows) == ["random", "tpe-paper", "cmaes", "cd-paper", "cd-local", "cd"]
        assert rows["cd-paper"].endswith(("[0.19]", "[0.22]", "[27]")[at]) and rows["cmaes"].endswith(
            ("[0.17]", "[0.19]", "[>50]")[at]
        )
    assert all(note in parts[-1] for note in NOTES.values())


def test_every_table_that_prints_the_papers_search_says_that_repeated_points_are_free(capsys):
    few = "--landscapes sop --trajectories 1 --trials 2 --processes 1"
    for asked, free in (
        ("--methods cd-paper", True),
        ("--methods random cd-local", True),
        ("--ablation", True),
        ("--methods random cd", False),
    ):
        assert command.main(f"{few} {asked}".split()) == 0
        assert ("repeated points" in capsys.readouterr().out) == free
    assert notes_of(["random", "cd"]) == [] and notes_of(ABLATION_3D) == [NOTES["cd-paper"]]


def test_all_rows_of_the_paper_are_variants_that_there_are():
    assert tuple(ABLATION)[: len(ROWS)] == ROWS and set(TABLES["ablation"].claimed) < set(ABLATION)
    for name, make in ABLATION.items():
        search = make(PLANE.space, seed=0, start=None, workers=1)
        assert PLANE.space.key(search.ask()) == PLANE.space.key(PLANE.space.sample(np.random.default_rng(0))), name


def test_a_search_with_a_local_bracket_is_ahead_from_a_known_start():
    """4 octaves off the optimum, where the paper's looks from end to end of the box first."""
    pair = {name: OPTIMISERS[name] for name in ("cd-paper", "cd-local")}
    table = summary(replay_all(pair, [PLANE], range(20), trials=10, start="near:4", processes=1), "cd-paper")
    row = table.set_index("method").loc["cd-local"]
    assert row.d10 - row.d10_ci > 0
