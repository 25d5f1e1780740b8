"""AUC@k and n-95 on curves small enough to do by hand."""

import math
from datetime import timedelta
from itertools import product

import numpy as np
import pandas as pd
import pytest
from studies import BEGIN, empty, lost, plain, row, search_study
from studies import table as results_table

from tune_cd.analysis import Curve, auc_at, best_so_far, best_trial, curves_of, means_over_seeds, n_to_reach
from tune_cd.analysis.curves import means_over_settings
from tune_cd.results import history

pytestmark = pytest.mark.filterwarnings("error")


def table(scores, search="cd"):
    status = ["completed" if math.isfinite(score) else "diverged" for score in scores]
    return pd.DataFrame(
        {"study": "s", "search": search, "trial_index": range(len(scores)), "val_score": scores, "status": status}
    )


def test_best_so_far_orders_by_asking_and_passes_over_failures():
    trials = table([math.nan, 0.3, 0.1, math.nan, 0.5])
    curve = best_so_far(trials.sample(frac=1, random_state=1))
    assert curve.index.tolist() == [1, 2, 3, 4, 5]
    assert math.isnan(curve[1]) and curve.tolist()[1:] == [0.3, 0.3, 0.3, 0.5]
    assert len(best_so_far(table([]))) == 0


def test_best_so_far_refuses_a_mixture():
    with pytest.raises(ValueError, match="search"):
        best_so_far(pd.concat([table([0.1]), table([0.2], "random")]))


def test_best_trial_is_completed_and_the_first_of_equals():
    assert best_trial(table([0.2, math.nan, 0.7, 0.7]))["trial_index"] == 2
    assert best_trial(table([math.nan])) is None


def test_auc_and_n_by_hand():
    curves = [[0.0, 0.5, 1.0], [0.2, 0.2, 0.4]]
    assert auc_at(2, curves) == pytest.approx((0.25 + 0.2) / 2)
    assert auc_at(4, curves) == pytest.approx(np.mean([[0, 0.5, 1, 1], [0.2, 0.2, 0.4, 0.4]]))
    assert [n_to_reach(target, curves) for target in (0.1, 0.35, 0.7, 0.71)] == [1, 2, 3, None]


@pytest.mark.parametrize("k, curves", [(0, [[1.0]]), (3, []), (3, [[1.0], []])])
def test_auc_refuses_what_has_no_mean(k, curves):
    with pytest.raises(ValueError):
        auc_at(k, curves)


def test_means_over_seeds_leave_out_what_did_not_complete():
    rows = [
        ("a", 0, 0, "completed", 0.2, 0.1),
        ("a", 0, 1, "diverged", None, None),
        ("a", 0, 2, "completed", 0.4, 0.3),
        ("a", 1, 0, "failed", None, None),
    ]
    table = pd.DataFrame(rows, columns=["search", "trial_index", "seed", "status", "val_score", "test_score"]).assign(
        study="s"
    )
    table["scores"] = [{"test_x": 1.0}, {}, {"test_x": 2.0}, {}]
    means = means_over_seeds(table).set_index("trial_index")
    assert (
        means["val_score"][0] == pytest.approx(0.3)
        and means["test_std"][0] == pytest.approx(0.2 / 2**0.5)
        and means["seeds"].tolist() == [2, 0]
    )
    assert (
        means["status"].tolist() == ["completed", "failed"]
        and means["scores"].tolist() == [{"test_x": 1.5}, {}]
        and np.isnan(means["val_score"][1])
    )


def test_the_mean_over_seeds_is_what_a_search_is_told_of_a_setting():
    """To the last digit, in whatever order the trainings ended: one definition for both."""
    scores, seeds = [0.1, 0.2, 0.3], range(3)
    trials = results_table(row(0, val=score, test_score=score, seed=seed) for score, seed in zip(scores, seeds))
    for table in (trials, trials.iloc[::-1], trials.sample(frac=1, random_state=1)):
        means = means_over_seeds(table)
        assert [told.value for told in history(table)] == means["val_score"].tolist() == [math.fsum(scores) / 3]
        assert means["test_score"].tolist() == means["val_score"].tolist()


def test_means_over_other_fields_are_those_of_a_loop():
    """Of two searches, by the balance: what was begun, what completed, and means of what each training measured."""
    rng, rows = np.random.default_rng(1), []
    settings = [{"Lambda_p": 1.0, "Lambda_e": 2.0}, {"Lambda_p": 1.0, "Lambda_e": 4.0, "batch_size": 64}]
    for search, (i, params), seed in product("ab", enumerate(settings), range(3)):
        lost = (search, seed) == ("a", i)
        measured = {} if lost else {"x": float(rng.uniform())} | ({"y": 1.0} if seed else {})
        status, value = "diverged" if lost else "completed", float(rng.uniform())
        rows.append(row(i, status, value, search=search, seed=seed, scores=measured, params=params))
    trials = pd.concat([results_table(rows[:6]), results_table(rows[6:])])  # labels repeat
    balance = ("Lambda_p", "Lambda_e", "batch_size")
    for table in (trials, plain(trials), trials.sample(frac=1, random_state=0)):
        means = means_over_seeds(table, by=balance)
        assert (
            means["trained"].tolist() == [6, 6]
            and means["seeds"].tolist() == [5, 5]
            and means["Lambda_e"].tolist() == [2, 4]
        )
        for mean in means.to_dict("records"):
            of_setting = [
                one for one in rows if one["params"]["Lambda_e"] == mean["Lambda_e"] and one["status"] == "completed"
            ]
            assert mean["val_score"] == pytest.approx(np.mean([one["val_score"] for one in of_setting]))
            expected = {
                name: np.mean([one["scores"][name] for one in of_setting if name in one["scores"]]) for name in "xy"
            }
            assert mean["scores"] == pytest.approx(expected)
        each = means_over_seeds(table)
        assert each[["search", "trial_index", "trained", "seeds"]].values.tolist() == [
            ["a", 0, 3, 2],
            ["a", 1, 3, 2],
            ["b", 0, 3, 3],
            ["b", 1, 3, 3],
        ]


# Results tables -----------------------------------------------------------------------------------------------

PARALLEL = [  # index, status, validation, test, began, ended, gpus
    (0, "completed", 0.3, 0.6, 0.0, 10.0, 1.0),
    (1, "failed", None, None, 0.0, 35.0, 1.0),
    (2, "completed", 0.5, 0.4, 10.0, 20.0, 0.5),
    (3, "completed", 0.4, 0.9, 20.0, 30.0, None),
    (4, "diverged", None, float("nan"), 30.0, 31.0, 1.0),
    (5, "completed", 0.7, 0.8, 31.0, 50.0, 2.0),
]
"""Two workers; trial 1 is slow and fails, trial 3 runs without a GPU."""


def parallel(**fields):
    return results_table(row(i, status, val, test_score=test, times=(began, ended), gpus=gpus, search="cd", **fields)
                         for i, status, val, test, began, ended, gpus in PARALLEL)  # fmt: skip


def test_curves_choose_by_what_was_told_and_give_what_is_reported_in_the_order_of_ending():
    (curve,) = curves_of(parallel().sample(frac=1, random_state=2))
    assert curve.ended.tolist() == [10, 20, 30, 31, 35, 50] and curve.started.tolist() == [0, 10, 20, 30, 0, 31]
    assert curve.reached.tolist() == [0.6, 0.4, 0.4, 0.4, 0.4, 0.8] and curve.low == 0.4 and len(curve) == 6
    assert curve.gpus.tolist() == [1, 0.5, 0, 1, 1, 2] and (curve.landscape, curve.method, curve.seed, curve.study) == (
        "glyphs",
        "cd",
        0,
        "s",
    )
    assert (
        curve.clock("trials").tolist() == [1, 2, 3, 4, 5, 6] and curve.clock("seconds").tolist() == curve.ended.tolist()
    )
    assert curve.clock("gpu_seconds").tolist() == [20, 35, 45, 47, 59, 89]
    assert curve.at(np.array([0, 9.9, 10, 49, 50, 99]), "seconds").tolist() == [0.4, 0.4, 0.6, 0.4, 0.8, 0.8]
    assert curve.at(np.array([19, 20, 35, 88, 89]), "gpu_seconds").tolist() == [0.4, 0.6, 0.4, 0.4, 0.8]
    assert (curve.used(25.0), curve.used(100.0)) == (10 + 25 + 5, 89)


def test_a_search_has_the_lowest_of_its_landscape_while_it_has_nothing():
    one = [search_study([None, 0.4, 0.6], "a", test=[None, 0.5, 0.3]), search_study([0.9], "b", test=[0.2])]
    trials = pd.concat([*one, search_study([0.9], "c", test=[0.1], dataset="other")])
    a, b, c = curves_of(trials)
    assert a.reached.tolist() == [0.2, 0.5, 0.3] and a.low == b.low == 0.2 and c.low == 0.1


def test_of_equal_values_the_first_to_end_is_held():
    (curve,) = curves_of(search_study([0.5, 0.5, 0.5], test=[0.1, 0.9, 0.2]))
    assert curve.reached.tolist() == [0.1, 0.1, 0.1]


def test_only_completed_trials_count():
    rows = [
        row(0, val=0.2, search="cd"),
        row(1, "stopped", 0.9, search="cd", test_score=0.9),
        row(2, val=0.4, search="cd"),
    ]
    trials = results_table(rows)
    assert best_so_far(trials).tolist() == [0.2, 0.2, 0.4] and curves_of(trials, "val_score")[0].reached.tolist() == [
        0.2,
        0.2,
        0.4,
    ]
    assert best_trial(trials)["trial_index"] == 2


def test_where_no_test_score_was_measured_the_told_one_is_reported():
    without = search_study([0.1, 0.4, 0.2], dataset="own", study="own", test=[None] * 3)
    assert [curve.reached.tolist() for curve in curves_of(without)] == [[0.1, 0.4, 0.4]]
    both = curves_of(pd.concat([search_study([0.3, 0.2], test=[0.7, 0.9]), without]))
    assert [curve.reached.tolist() for curve in both] == [[0.7, 0.7], [0.1, 0.4, 0.4]]


def test_other_scores_can_be_told_and_reported():
    rows = [
        row(i, val=0.5, search="cd", scores={"told": told, "other": other})
        for i, (told, other) in enumerate([(0.1, 0.9), (0.4, 0.2), (0.3, 0.8)])
    ]
    for trials in (results_table(rows), plain(results_table(rows))):
        assert curves_of(trials, "other", "told")[0].reached.tolist() == [0.9, 0.2, 0.2]
        with pytest.raises(ValueError, match=r"score 'none': one of \['val_score', 'other', 'told'\]"):
            curves_of(trials, "none")


def test_trials_without_a_gpu_take_the_seconds_of_their_processes():
    for gpus in (None, 0.0):
        (curve,) = curves_of(search_study([0.1, 0.2, 0.3], workers=2, gpus=gpus))
        assert (
            curve.gpus.tolist() == [1, 1, 1]
            and curve.clock("gpu_seconds").tolist() == [20, 20, 30]
            and curve.clock("seconds").tolist() == [10, 10, 20]
        )


@pytest.mark.parametrize("gpus", [0.125, 1.0, None])
def test_gpu_time_of_eight_parallel_trials_is_that_of_all_of_them(gpus):
    """Against adding up the running trials second by second: at the first value the seven others have run nearly as
    long."""
    ends = {i: (0.0, 10.0 + i) for i in range(8)} | {8: (10.0, 40.0), 9: (11.0, 30.0)}
    rows = [row(i, val=i / 10, test_score=i / 10, search="cd", times=span, gpus=gpus) for i, span in ends.items()]
    (curve,) = curves_of(results_table(rows).sample(frac=1, random_state=0))
    each = gpus or 1.0
    running = [sum(began <= second < ended for began, ended in ends.values()) * each for second in range(40)]
    assert curve.clock("gpu_seconds").tolist() == pytest.approx([sum(running[: int(ended)]) for ended in curve.ended])
    assert curve.clock("gpu_seconds")[[0, -1]].tolist() == pytest.approx([80 * each, (8 * 10 + 28 + 30 + 19) * each])
    assert curve.at(np.array([79.9, 80]) * each, "gpu_seconds").tolist() == [0.0, 0.0] and curve.at(
        np.array([90.0]) * each, "gpu_seconds"
    ).tolist() == [0.1]
    assert [curve.used(until) for until in curve.ended] == curve.clock("gpu_seconds").tolist()
    assert best_so_far(results_table(rows), over="gpu_seconds").index.tolist() == pytest.approx(
        curve.clock("gpu_seconds").tolist()
    )


def test_a_search_waits_until_it_has_a_score():
    waits = {"a": [None, None, 0.4, None], "b": [0.3], "c": [None, None], "d": [None, 0.9]}
    curves = curves_of(pd.concat([search_study(scores, search, test=scores) for search, scores in waits.items()]))
    assert {curve.method: curve.waiting for curve in curves} == {"a": 2, "b": 0, "c": 2, "d": 1}
    for curve in curves:
        held = [score for score in waits[curve.method] if score is not None]
        assert (
            curve.reached.tolist() == [curve.low] * curve.waiting + held[:1] * (len(curve) - curve.waiting)
            and curve.low == 0.3
        )
    (one,) = curves_of(search_study([0.3, 0.6, 0.5], test=[None, 0.2, 0.7]))
    assert one.waiting == 1 and one.reached.tolist() == [0.2, 0.2, 0.2], (
        "its first trial has no reported score, and counts for nothing"
    )
    assert Curve("l", "m", 0, np.ones(1), 0.0, np.ones(1), np.ones(1), np.ones(1)).waiting == 0


def test_where_only_some_trials_have_the_reported_score_the_others_count_for_nothing():
    """The best by validation was not tested, so another is held; a landscape without any test is reported by
    validation."""
    some, none = (
        search_study([0.3, 0.9, 0.5], test=[0.8, None, 0.6]),
        search_study([0.3, 0.9], study="t", test=[None, None], dataset="own"),
    )
    own, tested = sorted(curves_of(pd.concat([some, none])), key=len)
    assert (
        tested.reached.tolist() == [0.8, 0.8, 0.6]
        and tested.low == 0.6
        and (own.reached.tolist(), own.low) == ([0.3, 0.9], 0.3)
    )
    first, second = curves_of(pd.concat([some, search_study([0.7, 0.1], "x", test=[None, None])]))
    assert first.reached.tolist() == [0.8, 0.8, 0.6] and (second.reached.tolist(), second.waiting) == ([0.6, 0.6], 2), (
        "of one landscape, it has nothing"
    )


MEMORY = ("none", "variable", "fixed")


def memories(**fields):
    """One setting and training seed without memory and with two of its modes, by a search each."""
    return [
        row(
            0,
            val=0.2 + 0.2 * i,
            test_score=0.1 + 0.2 * i,
            search="cd",
            study=f"xbm-{mode}",
            config={"memory": mode, "k": 2, "Lambda_p": 1.0},
            **fields,
        )
        for i, mode in enumerate(MEMORY)
    ]


def test_set_ups_are_landscapes_of_their_own():
    curves = curves_of(results_table(memories()).sample(frac=1, random_state=1))
    assert {curve.landscape: curve.reached.tolist() for curve in curves} == {
        f"glyphs memory={mode}": [0.1 + 0.2 * i] for i, mode in enumerate(MEMORY)
    }
    other = row(0, val=0.9, search="cd", study="own", dataset="other", config={"memory": "none", "k": 9})
    names = [curve.landscape for curve in curves_of(results_table([*memories(), other]))]
    assert names == [*(f"glyphs memory={mode}" for mode in sorted(MEMORY)), "other"], (
        "what tells the set-ups of one problem apart, and no more"
    )
    metric = [row(0, val=0.3, search="cd"), row(0, val=0.4, search="cd", study="t", metric_name="recall")]
    assert [curve.landscape for curve in curves_of(results_table(metric))] == ["glyphs r_map", "glyphs recall"]


def test_several_seeds_of_a_setting_are_one_trial_with_their_mean():
    scores = {0: [(0.2, 0.5), (0.4, 0.7)], 1: [(0.9, 0.1), (None, None)], 2: [(0.4, 0.9), (0.6, 0.3)]}
    rows = [
        row(
            i,
            "completed" if val else "failed",
            val,
            search="cd",
            seed=seed,
            test_score=test,
            scores={"x": test} if test else {},
        )
        for i, pairs in scores.items()
        for seed, (val, test) in enumerate(pairs)
    ]
    for trials in (results_table(rows), plain(results_table(rows))):
        (curve,) = curves_of(trials)
        assert curve.reached.tolist() == pytest.approx([0.6, 0.1, 0.1]) and curves_of(trials, "x")[
            0
        ].reached.tolist() == pytest.approx([0.6, 0.1, 0.1])
        means = means_over_seeds(trials)
        assert means["seeds"].tolist() == [2, 1, 2] and [scores["x"] for scores in means["scores"]] == pytest.approx(
            [0.6, 0.1, 0.6]
        )
        assert means["val_std"].tolist() == pytest.approx([0.1 * 2**0.5, np.nan, 0.1 * 2**0.5], nan_ok=True)


def test_trainings_of_an_unknown_seed_are_a_mean_and_no_seeds():
    """As of one script that was run twice; one of a third setting failed."""
    pairs = [(0, None, 0.4), (0, None, 0.4), (1, None, 0.2), (1, 0, 0.4), (1, 1, 0.6), (2, None, 0.3), (2, None, None)]
    rows = [
        row(i, "completed" if val else "failed", val, search="cd", seed=seed, params={"Lambda_p": 2.0**i})
        for i, seed, val in pairs
    ]
    trials = results_table(rows)
    for means in (means_over_seeds(trials), means_over_settings(trials)):
        assert means["val_score"].tolist() == pytest.approx([0.4, 0.4, 0.3])
        assert means["seeds"].tolist() == [1, 2, 1] and means["trained"].tolist() == [1, 2, 2]
        assert means["val_std"].tolist() == pytest.approx([np.nan, 0.1 * 2**0.5, np.nan], nan_ok=True)


def test_a_curve_a_landscape_search_seed_and_study_in_that_order():
    parts = [search_study([0.1], search, seed, study=f"{study}-{dataset}", dataset=dataset)
             for dataset in "ba" for search in ("y", "x") for seed in (1, 0) for study in "ts"]  # fmt: skip
    curves = curves_of(pd.concat(parts, ignore_index=True))
    expected = [(d, m, n, f"{s}-{d}") for d in "ab" for m in "xy" for n in (0, 1) for s in "st"]
    assert [(c.landscape, c.method, c.seed, c.study) for c in curves] == expected


def test_a_landscape_is_a_dataset_with_its_task_and_loss_where_there_are_several():
    assert [curve.landscape for curve in curves_of(search_study([0.1]))] == ["glyphs"]
    several = pd.concat(
        [
            search_study([0.1]),
            search_study([0.2], study="t", loss="infonce"),
            search_study([0.3], study="u", task="ssl", dataset="x"),
        ]
    )
    assert [curve.landscape for curve in curves_of(several)] == ["glyphs infonce", "glyphs margin", "x margin"], (
        "the task says no more"
    )
    assert curves_of(search_study([0.1], dataset=None))[0].landscape == "s", "the study's name"


def test_unknown_seeds_of_search_and_training_are_no_reason_to_lose_a_row():
    rows = [{**row(i, val=0.1 * i, search="cd"), "search_seed": None, "seed": None} for i in range(4)]
    (curve,) = curves_of(results_table(rows))
    assert (
        curve.reached.tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3])
        and np.isnan(curve.ended).all()
        and curve.seed == 0
    )


def test_best_so_far_over_time_by_hand():
    trials = parallel().sample(frac=1, random_state=3)
    assert best_so_far(trials).tolist() == [0.3, 0.3, 0.5, 0.5, 0.5, 0.7]
    assert best_so_far(trials, over="seconds").to_dict() == {10: 0.3, 20: 0.5, 30: 0.5, 31: 0.5, 35: 0.5, 50: 0.7}
    used = best_so_far(trials, "test_score", "gpu_seconds")
    assert (
        used.index.tolist() == [20, 35, 45, 47, 59, 89]
        and used.tolist() == [0.6, 0.6, 0.9, 0.9, 0.9, 0.9]
        and used.index.name == "gpu_seconds"
    )
    with pytest.raises(ValueError, match="over 'hours': one of"):
        best_so_far(trials, over="hours")
    with pytest.raises(ValueError, match="more than one study"):
        best_so_far(pd.concat([trials, parallel(study="t")]))


def test_best_trials_of_tables_that_were_put_together():
    trials = pd.concat(
        [
            results_table([row(3, val=0.7), row(1, val=0.2)]),
            results_table([row(2, val=0.7, study="t"), row(0, "diverged")]),
        ]
    )
    assert best_trial(trials)["trial_index"] == 2, (
        "labels of rows repeat, and the first asked of equals is not the first row"
    )


@pytest.mark.parametrize("arrays", [([], [], [], []), ([0.1], [0.0, 1.0], [1.0], [1.0])])
def test_curves_of_nothing_or_of_other_lengths_are_refused(arrays):
    reached, started, ended, gpus = map(np.array, arrays)
    with pytest.raises(ValueError, match="at least one, and as many times as values"):
        Curve("l", "m", 0, reached, 0.0, started, ended, gpus)
    with pytest.raises(ValueError, match="over 'hours'"):
        Curve("l", "m", 0, np.ones(1), 0.0, np.ones(1), np.ones(1), np.ones(1)).clock("hours")


def test_tables_without_a_completed_trial():
    assert (
        curves_of(empty()) == []
        and means_over_seeds(empty()).empty
        and best_trial(empty()) is None
        and best_trial(lost()) is None
    )
    (curve,) = curves_of(lost())
    assert np.isnan(curve.reached).all() and np.isnan(curve.low)
    for over in ("trials", "seconds", "gpu_seconds"):
        assert best_so_far(empty(), over=over).empty and best_so_far(lost(), over=over).isna().all()


def test_a_trial_that_was_lost_without_times_costs_no_clock():
    """It took no time that is known, and changed nothing; a completed one without times leaves the clock unknown."""
    rows = [row(0, val=0.2, search="cd", times=(0, 10)), row(1, "failed", search="cd"),
            row(2, "failed", search="cd", ended_at=BEGIN + timedelta(seconds=12)),
            row(3, val=0.5, search="cd", times=(10, 20))]  # fmt: skip
    (curve,) = curves_of(results_table(rows))
    assert (
        curve.ended.tolist() == [10, 12, 20, 20]
        and curve.started.tolist() == [0, 12, 10, 20]
        and curve.reached.tolist() == [0.2, 0.2, 0.5, 0.5]
    )
    assert curve.clock("gpu_seconds").tolist() == [10, 12, 20, 20]
    (unknown,) = curves_of(results_table([*rows, row(4, val=0.1, search="cd")]))
    assert np.isnan(unknown.ended).sum() == 1 and unknown.score == "val_score"


def test_numbers_that_a_reader_gave_as_objects_are_numbers():
    trials = search_study([0.2, None, 0.6])
    objects = trials.astype(dict.fromkeys(("val_score", "test_score", "Lambda_p", "gpus", "seed"), object))
    assert [curve.reached.tolist() for curve in curves_of(objects)] == [
        curve.reached.tolist() for curve in curves_of(trials)
    ]


def test_a_setting_takes_the_time_of_all_its_seeds():
    """Two settings of two seeds: the first one's side by side on two GPUs, the second one's one after the other on
    one."""
    times = {(0, 0): (0, 10), (0, 1): (2, 14), (1, 0): (14, 20), (1, 1): (20, 30)}
    rows = [row(i, val=0.1 + i, search="cd", seed=seed, times=span, gpus=1.0) for (i, seed), span in times.items()]
    [curve] = curves_of(results_table(rows))
    assert curve.ended.tolist() == [14, 30] and curve.started.tolist() == [0, 14]
    assert curve.clock("gpu_seconds").tolist() == pytest.approx([22, 22 + 16]) and curve.used(14.0) == pytest.approx(22)
