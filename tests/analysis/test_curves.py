"""AUC@k and n-95 on curves small enough to do by hand."""

import math
from datetime import timedelta
from itertools import product

import numpy as np
import pandas as pd
import pytest
from studies import BEGIN, empty, lost, plain, row, search_study, table

from tune_cd.analysis import Curve, auc_at, best_so_far, best_trial, curves_of, means_over_seeds, n_to_reach
from tune_cd.analysis.means import means_over_settings
from tune_cd.results import trainings

pytestmark = pytest.mark.filterwarnings("error")


def curve(reached, ended):
    return Curve("l", "m", 0, np.array(reached), 0.0, np.array(ended))


def test_best_so_far_orders_by_asking_and_passes_over_failures():
    trials = search_study([None, 0.3, 0.1, None, 0.5])
    curve = best_so_far(trials.sample(frac=1, random_state=1))
    assert curve.to_dict() == pytest.approx({1: math.nan, 2: 0.3, 3: 0.3, 4: 0.3, 5: 0.5}, nan_ok=True)
    for other in ({"search": "random"}, {"seed": 1}):
        with pytest.raises(ValueError, match="more than one search"):
            best_so_far(pd.concat([search_study([0.1]), search_study([0.2], **other)]))


def test_best_trial_is_completed_and_the_first_asked_of_equals():
    assert best_trial(search_study([0.2, None, 0.7, 0.7]))["trial_index"] == 2
    assert best_trial(search_study([None])) is None
    together = [table([row(3, val=0.7), row(1, val=0.2)]), table([row(2, val=0.7, study="t"), row(0, "diverged")])]
    assert best_trial(pd.concat(together))["trial_index"] == 2, "labels of rows repeat"


def test_auc_and_n_by_hand():
    curves = [[0.0, 0.5, 1.0], [0.2, 0.2, 0.4]]
    assert auc_at(2, curves) == pytest.approx((0.25 + 0.2) / 2)
    assert auc_at(4, curves) == pytest.approx(np.mean([[0, 0.5, 1, 1], [0.2, 0.2, 0.4, 0.4]]))
    assert [n_to_reach(target, curves) for target in (0.1, 0.35, 0.7, 0.71)] == [1, 2, 3, None]


@pytest.mark.parametrize("call, words", [
    (lambda: auc_at(0, [[1.0]]), "k >= 1"),
    (lambda: auc_at(3, []), "at least one trial"),
    (lambda: auc_at(3, [[1.0], []]), "at least one trial"),
    (lambda: auc_at(3, [0.1, 0.2]), "a list of trajectories"), (lambda: n_to_reach(0, [0.1]), "a list of trajectories"),
    (lambda: curve([], []), "at least one, and as many times as values"),
    (lambda: curve([0.1], [0.0, 1.0]), "at least one, and as many times as values"),
    (lambda: curve([0.1], [1.0]).clock("hours"), "over 'hours': one of"),
    (lambda: best_so_far(pd.concat([search_study([0.1]), search_study([0.1], study="t")])), "more than one study"),
    (lambda: best_trial(table([row(0), row(1, metric_name="loss", mode="min")])), r"one metric: \['loss', 'r_map'\]"),
    (lambda: curves_of(search_study([0.1]), "none"), r"score 'none': one of \['val_score', 'test_score'\]"),
])  # fmt: skip
def test_what_has_no_number_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_mean_over_seeds_is_what_a_search_is_told_of_a_setting():
    """To the last digit, in whatever order the trainings ended: one definition for both."""
    scores = [0.1, 0.2, 0.3]
    trials = table(row(0, val=score, test_score=score, seed=seed) for seed, score in enumerate(scores))
    for some in (trials, trials.iloc[::-1], trials.sample(frac=1, random_state=1)):
        means = means_over_seeds(some)
        assert [one.last for one in trainings(some)] == means["val_score"].tolist() == [math.fsum(scores) / 3]
        assert means["test_score"].tolist() == means["val_score"].tolist()


def test_means_over_other_fields_are_those_of_a_loop():
    """Of two searches, by the balance: what was begun, what completed, and means of what each training measured."""
    rng, rows = np.random.default_rng(1), []
    settings = [{"Lambda_p": 1.0, "Lambda_e": 2.0}, {"Lambda_p": 1.0, "Lambda_e": 4.0, "batch_size": 64}]
    for search, (i, params), seed in product("ab", enumerate(settings), range(3)):
        gone = (search, seed) == ("a", i)
        measured = {} if gone else {"x": float(rng.uniform())} | ({"y": 1.0} if seed else {})
        status, value = "diverged" if gone else "completed", float(rng.uniform())
        rows.append(row(i, status, value, search=search, seed=seed, scores=measured, params=params))
    trials = pd.concat([table(rows[:6]), table(rows[6:])])  # labels repeat
    for some in (trials, plain(trials), trials.sample(frac=1, random_state=0)):
        means = means_over_seeds(some, by=("Lambda_p", "Lambda_e", "batch_size"))
        assert means[["trained", "seeds", "Lambda_e"]].values.tolist() == [[6, 5, 2], [6, 5, 4]]
        for mean in means.to_dict("records"):
            completed = [one for one in rows if one["status"] == "completed"]
            done = [one for one in completed if one["params"]["Lambda_e"] == mean["Lambda_e"]]
            assert mean["val_score"] == pytest.approx(np.mean([one["val_score"] for one in done]))
            maps = [one["scores"] for one in done]
            expected = {name: np.mean([scores[name] for scores in maps if name in scores]) for name in "xy"}
            assert mean["scores"] == pytest.approx(expected)
        each = means_over_seeds(some)[["search", "trial_index", "trained", "seeds"]].values.tolist()
        assert each == [["a", 0, 3, 2], ["a", 1, 3, 2], ["b", 0, 3, 3], ["b", 1, 3, 3]]


def test_several_seeds_of_a_setting_are_one_trial_with_their_mean():
    scores = {0: [(0.2, 0.5), (0.4, 0.7)], 1: [(0.9, 0.1), (None, None)], 2: [(0.4, 0.9), (0.6, 0.3)]}
    rows = [
        row(i, "completed" if val else "failed", val, search="cd", seed=seed, test_score=test,
            scores={"x": test} if test else {})
        for i, pairs in scores.items()
        for seed, (val, test) in enumerate(pairs)
    ]  # fmt: skip
    for trials in (table(rows), plain(table(rows))):
        for score in ("test_score", "x"):
            (curve,) = curves_of(trials, score)
            assert curve.reached.tolist() == pytest.approx([0.6, 0.1, 0.1]) == best_so_far(trials, score).tolist()
        assert best_so_far(trials).to_dict() == pytest.approx({1: 0.3, 2: 0.9, 3: 0.9})
        means = means_over_seeds(trials)
        assert [scores["x"] for scores in means["scores"]] == pytest.approx([0.6, 0.1, 0.6])
        assert means["val_std"].tolist() == pytest.approx([0.1 * 2**0.5, np.nan, 0.1 * 2**0.5], nan_ok=True)


def test_trainings_of_an_unknown_seed_are_a_mean_and_no_seeds():
    """As of one script that was run twice; one of a third setting failed."""
    pairs = [(0, None, 0.4), (0, None, 0.4), (1, None, 0.2), (1, 0, 0.4), (1, 1, 0.6), (2, None, 0.3), (2, None, None)]
    trials = table(
        row(i, "completed" if val else "failed", val, search="cd", seed=seed, params={"Lambda_p": 2.0**i})
        for i, seed, val in pairs
    )
    for means in (means_over_seeds(trials), means_over_settings(trials)):
        assert means["val_score"].tolist() == pytest.approx([0.4, 0.4, 0.3])
        assert means[["seeds", "trained"]].values.tolist() == [[1, 1], [2, 2], [1, 2]]
        assert means["val_std"].tolist() == pytest.approx([np.nan, 0.1 * 2**0.5, np.nan], nan_ok=True)


PARALLEL = [  # status, validation, test, began, ended
    ("completed", 0.3, 0.6, 0.0, 10.0),
    ("failed", None, None, 0.0, 35.0),
    ("completed", 0.5, 0.4, 10.0, 20.0),
    ("completed", 0.4, 0.9, 20.0, 30.0),
    ("diverged", None, float("nan"), 30.0, 31.0),
    ("completed", 0.7, 0.8, 31.0, 50.0),
]
"""Two workers; trial 1 is slow and fails."""


def parallel():
    return table(row(i, status, val, test_score=test, times=(began, ended), search="cd")
                 for i, (status, val, test, began, ended) in enumerate(PARALLEL))  # fmt: skip


def test_curves_choose_by_what_was_told_and_give_what_is_reported_in_the_order_of_ending():
    (curve,) = curves_of(parallel().sample(frac=1, random_state=2))
    assert curve.ended.tolist() == [10, 20, 30, 31, 35, 50]
    assert curve.reached.tolist() == [0.6, 0.4, 0.4, 0.4, 0.4, 0.8] and curve.low == 0.4 and len(curve) == 6
    assert (curve.landscape, curve.method, curve.seed, curve.study) == ("glyphs", "cd", 0, "s")
    assert curve.clock("trials").tolist() == [1, 2, 3, 4, 5, 6] and (curve.clock("seconds") == curve.ended).all()
    assert curve.at(np.array([0, 9.9, 10, 49, 50, 99]), "seconds").tolist() == [0.4, 0.4, 0.6, 0.4, 0.8, 0.8]


HELD = {
    "the lowest of its landscape, while it has nothing": (
        {"a": [(None, None), (0.4, 0.5), (0.6, 0.3)], "b": [(0.9, 0.2)]}, {"a": [0.2, 0.5, 0.3], "b": [0.2]}),
    "the first to end of equal values": ({"a": [(0.5, 0.1), (0.5, 0.9), (0.5, 0.2)]}, {"a": [0.1, 0.1, 0.1]}),
    "what was told, where nothing was tested": ({"a": [(0.1, None), (0.4, None), (0.2, None)]}, {"a": [0.1, 0.4, 0.4]}),
    "what was tested: the best by validation was not": (
        {"a": [(0.3, 0.8), (0.9, None), (0.5, 0.6)], "b": [(0.7, None), (0.1, None)]},
        {"a": [0.8, 0.8, 0.6], "b": [0.6, 0.6]}),
}  # fmt: skip
"""What a search has -> (validation, test) of its trials, and its curve."""


@pytest.mark.parametrize("searches, expected", HELD.values(), ids=HELD)
def test_what_a_search_has_after_each_trial(searches, expected):
    """Another dataset's scores, lower and never tested, change nothing."""
    parts = [search_study([val for val, _ in pairs], name, test=[test for _, test in pairs])
             for name, pairs in searches.items()]  # fmt: skip
    other = search_study([0.05, 0.01], "c", study="t", dataset="own", test=[None, None])
    found = {curve.method: curve for curve in curves_of(pd.concat([*parts, other]))}
    assert {name: found[name].reached.tolist() for name in expected} == expected
    assert (found["c"].reached.tolist(), found["c"].low, found["c"].score) == ([0.05, 0.05], 0.01, "val_score")


def test_a_search_waits_until_it_has_a_score():
    waits = {"a": [None, None, 0.4, None], "b": [0.3], "c": [None, None], "d": [None, 0.9]}
    curves = curves_of(pd.concat([search_study(scores, search, test=scores) for search, scores in waits.items()]))
    assert {curve.method: curve.waiting for curve in curves} == {"a": 2, "b": 0, "c": 2, "d": 1}
    for one in curves:
        held = [score for score in waits[one.method] if score is not None][:1]
        assert one.reached.tolist() == [0.3] * one.waiting + held * (len(one) - one.waiting) and one.low == 0.3
    (untested,) = curves_of(search_study([0.3, 0.6, 0.5], test=[None, 0.2, 0.7]))
    assert untested.waiting == 1 and untested.reached.tolist() == [0.2, 0.2, 0.2], "its first counts for nothing"
    assert curve([1.0], [1.0]).waiting == 0


def test_only_completed_trials_count():
    rows = [row(0, val=0.2, search="cd"), row(1, "stopped", 0.9, search="cd"), row(2, val=0.4, search="cd")]
    trials = table(rows)
    assert best_so_far(trials).tolist() == curves_of(trials, "val_score")[0].reached.tolist() == [0.2, 0.2, 0.4]
    assert best_trial(trials)["trial_index"] == 2


def test_a_setting_takes_the_time_of_all_its_seeds():
    """Two settings of two seeds: the first one's side by side, the second one's one after the other."""
    times = {(0, 0): (0, 10), (0, 1): (2, 14), (1, 0): (14, 20), (1, 1): (20, 30)}
    rows = [row(i, val=0.1 + i, search="cd", seed=seed, times=span, gpus=1.0) for (i, seed), span in times.items()]
    [curve] = curves_of(table(rows))
    assert curve.ended.tolist() == [14, 30]


def test_a_trial_that_was_lost_without_times_costs_no_clock():
    """It took no time that is known, and changed nothing; a completed one without times leaves the clock unknown."""
    rows = [row(0, val=0.2, search="cd", times=(0, 10)), row(1, "failed", search="cd"),
            row(2, "failed", search="cd", ended_at=BEGIN + timedelta(seconds=12)),
            row(3, val=0.5, search="cd", times=(10, 20))]  # fmt: skip
    (curve,) = curves_of(table(rows))
    assert curve.ended.tolist() == [10, 12, 20, 20] and curve.reached.tolist() == [0.2, 0.2, 0.5, 0.5]
    (unknown,) = curves_of(table([*rows, row(4, val=0.1, search="cd")]))
    assert np.isnan(unknown.ended).sum() == 1 and unknown.score == "val_score"


def test_set_ups_are_landscapes_of_their_own():
    """Named by what tells those of one problem apart, and no more."""
    modes = {"fixed": 0.5, "none": 0.1, "variable": 0.3}
    rows = [row(0, val=0.9, test_score=score, search="cd", study=mode, config={"memory": mode, "k": 2})
            for mode, score in modes.items()]  # fmt: skip
    other = row(0, val=0.9, search="cd", study="own", dataset="other", config={"memory": "none", "k": 9})
    curves = curves_of(table([*rows, other]).sample(frac=1, random_state=1))
    expected = {f"glyphs memory={mode}": [score] for mode, score in modes.items()}
    assert {curve.landscape: curve.reached.tolist() for curve in curves} == expected | {"other": [0.9]}
    assert [curve.landscape for curve in curves] == [*expected, "other"]


def test_a_landscape_is_a_dataset_with_its_task_loss_and_metric_where_there_are_several():
    one = search_study([0.1])
    infonce = search_study([0.2], study="t", loss="infonce")
    task = search_study([0.3], study="u", task="ssl", dataset="x")
    metric = search_study([0.4], study="t", metric_name="recall")
    for parts, names in [
        ([one], ["glyphs"]),
        ([one, infonce, task], ["glyphs infonce", "glyphs margin", "x margin"]),  # the task says no more
        ([one, metric], ["glyphs r_map", "glyphs recall"]),
        ([search_study([0.1], dataset=None)], ["s"]),  # the study's name
    ]:
        assert [curve.landscape for curve in curves_of(pd.concat(parts))] == names


def test_a_curve_a_landscape_search_seed_and_study_in_that_order():
    parts = [search_study([0.1], search, seed, study=f"{study}-{dataset}", dataset=dataset)
             for dataset in "ba" for search in ("y", "x") for seed in (1, 0) for study in "ts"]  # fmt: skip
    curves = curves_of(pd.concat(parts, ignore_index=True))
    expected = [(d, m, n, f"{s}-{d}") for d in "ab" for m in "xy" for n in (0, 1) for s in "st"]
    assert [(c.landscape, c.method, c.seed, c.study) for c in curves] == expected


def test_tables_without_a_completed_trial():
    assert curves_of(empty()) == [] and means_over_seeds(empty()).empty
    assert best_trial(empty()) is None and best_trial(lost()) is None
    (curve,) = curves_of(lost())
    assert np.isnan(curve.reached).all() and np.isnan(curve.low)
    assert best_so_far(empty()).empty and best_so_far(lost()).isna().all()
