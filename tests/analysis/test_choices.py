"""Categories are parameters like any other, and where a smaller score is better, it is."""

import json

import numpy as np
import pandas as pd
import pytest
import studies
from rows import minimal
from studies import table

from tune_cd.analysis import best_so_far, best_trial, comparable, curves_of, grid, summary
from tune_cd.analysis.means import means_over_settings, setting_numbers
from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import categories, coded, parameter, parameter_names, settings, signs, varied
from tune_cd.results.__main__ import studies_table, trials_table

SOLVERS = ["adam", "sgd", "null"]


def row(index, lr, solver, score, seed=0, mode="min", **more):
    given = {"params": {"lr": lr}, "choices": {"solver": solver}, "search": "cd", "metric_name": "loss"}
    return studies.row(index, val=score, seed=seed, mode=mode, **given | more)


def study(mode="min") -> pd.DataFrame:
    """Every solver at two rates with two seeds; the second solver has the smallest scores."""
    rows = []
    for lr in (0.1, 0.01):
        for place, solver in enumerate(SOLVERS):
            for seed in (0, 1):
                rows.append(row(len(rows), lr, solver, (3, 1, 2)[place] + lr + seed / 100, seed, mode=mode))
    return table(rows)


def test_two_settings_that_differ_in_a_category_are_two_settings():
    trials = study()
    assert list(categories(trials)) == ["solver"] and coded(categories(trials)["solver"])[0] == sorted(SOLVERS)
    assert varied(trials) == ("lr", "solver") and parameter_names(trials) == ["lr", "solver"]
    assert parameter(trials, "solver")[:6].tolist() == [0, 0, 2, 2, 1, 1]
    assert len(settings(trials).drop_duplicates()) == setting_numbers(trials).nunique() == 6
    means = means_over_settings(trials)
    assert len(means) == 6 and means["seeds"].eq(2).all()
    assert set(categories(means)["solver"]) == set(SOLVERS)


def test_a_category_is_an_axis_of_the_grid_by_its_texts():
    found = grid(study())
    assert found.names == ("lr", "solver") and [tick.tolist() for tick in found.ticks] == [[0.01, 0.1], sorted(SOLVERS)]
    assert found.values[0].tolist() == pytest.approx([3.015, 2.015, 1.015]) and np.isnan(found.steps[1])
    top = found.top(2)
    assert top["solver"].tolist() == ["sgd", "sgd"] and top["value"].is_monotonic_increasing
    assert grid(study("max")).top(1)["solver"].tolist() == ["adam"]


def test_a_null_map_and_a_null_mode_may_be_any_readers():
    """DuckDB gives NA for a null map, pandas' nullable types for all."""
    trials = studies.search_study([0.1, 0.5])
    for some in (trials, trials.assign(choices=pd.NA), trials.assign(choices=pd.NA, mode=pd.NA)):
        assert grid(some).counts.sum() == 2 and curves_of(some, "val_score")[0].reached.tolist() == [0.1, 0.5]
        assert best_so_far(some).tolist() == [0.1, 0.5]


def test_a_balance_beside_a_category_is_split_by_it():
    weights = {"Lambda_p": 1.0, "Lambda_e": 2.0}
    rows = [row(n, 0.1, solver, 0.5) | weights | {"params": weights} for n, solver in enumerate(SOLVERS)]
    assert parameter_names(table(rows)) == ["Lambda_p", "Lambda_e", "batch_size", "solver"]
    assert grid(table(rows)).counts.astype(bool).sum() == 3


def test_a_searched_category_and_a_grown_range_are_no_other_set_up():
    """`optimizer` is a field by which set-ups are told apart, unless it was searched."""
    space = [{"name": "lr", "low": 0.1, "high": 1.0}]
    rows = [
        minimal(
            trial_id=f"t{n}", trial_index=n, status="completed", val_score=0.5, params={"lr": 0.1},
            choices={"optimizer": name}, config=json.dumps({"optimizer": name, "space": space[:n]}),
        )
        for n, name in enumerate(("adam", "sgd"))
    ]  # fmt: skip
    require_one(table(rows))
    assert len(list(comparable(table(rows)))) == 1
    fixed = [one | {"choices": None} for one in rows]
    assert len(list(comparable(table(fixed)))) == 2


def test_rows_without_categories_are_as_before():
    trials = table([row(0, 0.1, "adam", 0.5) | {"choices": None}])
    assert categories(trials) == {}
    assert categories(trials.drop(columns="choices")) == {} and signs(trials.drop(columns="mode")).tolist() == [1.0]
    joined = pd.concat([trials.drop(columns="choices"), study()], ignore_index=True)
    assert np.isnan(parameter(joined, "solver")[0]) and list(categories(joined)) == ["solver"]


# Where smaller is better


def test_the_smallest_score_is_the_best_in_the_users_own_numbers():
    trials = study()
    assert signs(trials).tolist() == [-1.0] * 12
    assert best_trial(trials)["val_score"] == 1.01 == trials["val_score"].min()
    assert best_trial(study("max"))["val_score"] == trials["val_score"].max()
    assert best_so_far(trials).tolist() == np.minimum.accumulate(trials["val_score"]).tolist()
    accuracy = 10 - trials["val_score"]
    reached = best_so_far(trials.assign(test_score=accuracy), "test_score").tolist()
    assert reached == np.maximum.accumulate(accuracy).tolist(), "the incumbent's, by the loss"
    assert best_trial(trials.assign(status="failed")) is None


def test_curves_and_their_comparison_follow_the_mode():
    def searches(mode, turned):
        rows = []
        for method, scores in {"cd": [5, 2, 1, 1], "random": [5, 4, 3, 2]}.items():
            for seed in (0, 1):
                rows += [
                    row(n, 0.1 * 2.0**n, "adam", turned * (score + seed / 10), None, mode=mode, search=method,
                        search_seed=seed) | {"trial_id": f"{method}-{seed}-{n}"}
                    for n, score in enumerate(scores)
                ]  # fmt: skip
        return summary(curves_of(table(rows)), "random").set_index("method")

    small, large = searches("min", 1.0), searches("max", -1.0)
    assert small.loc["cd", "best"] == 1 and large.loc["cd", "best"] == -1
    for column in ("auc5", "auc10"):
        assert small[column].tolist() == pytest.approx((-large[column]).tolist())
    for column in ("d5", "n95", "stuck"):
        assert small[column].tolist() == pytest.approx(large[column].tolist(), nan_ok=True), column
    assert small.loc["cd", "d5"] > 0, "ahead"


def test_tables_in_the_terminal_show_the_best_first(tmp_path):
    trials = study()
    first, *_ = trials_table(trials).splitlines()[1:]
    assert "1.01" in first and " sgd" in first and "solver" in trials_table(trials).splitlines()[0]
    assert " 1.01 " in studies_table(trials) and " loss " in studies_table(trials)
