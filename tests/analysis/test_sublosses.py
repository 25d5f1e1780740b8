"""Both terms of the loss against the score: the front by comparing all pairs, correlations by ranks in a loop."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata, spearmanr
from studies import empty, lost, plain, row, table

from tune_cd.analysis import subloss_statistics, sublosses

pytestmark = pytest.mark.filterwarnings("error")


def terms(points, scores=None, **fields):
    scores = np.linspace(0.1, 0.9, len(points)) if scores is None else scores
    return table(
        row(
            i,
            val=float(score),
            positive_term=p,
            entropy_term=e,
            params={"Lambda_p": 1.0 + i, "Lambda_e": 1.0},
            **fields,
        )
        for i, ((p, e), score) in enumerate(zip(points, scores))
    )


def dominated(points, i):
    return any(
        all(other[k] <= points[i][k] for k in (0, 1)) and any(other[k] < points[i][k] for k in (0, 1))
        for other in points
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [3, 10, 10_000])
def test_the_front_is_what_no_pair_refutes_ties_included(seed, levels):
    points = (np.random.default_rng(seed).integers(0, levels, (60, 2)) / 8).tolist()
    found = sublosses(terms(points))
    assert found["front"].dtype == bool and found["front"].tolist() == [not dominated(points, i) for i in range(60)]


def test_the_front_by_hand():
    points = [(0, 3), (1, 2), (1, 2), (1, 3), (2, 2), (3, 0), (4, 0), (-1, 3)]
    assert sublosses(terms(points))["front"].tolist() == [False, True, True, False, False, True, False, True]


def test_the_columns_and_which_score():
    trials = terms([(1.0, 2.0), (2.0, 1.0)], scores=[0.3, 0.6]).assign(test_score=[0.5, 0.4])
    found = sublosses(trials, "test_score")
    assert list(found.columns) == [
        "positive_term",
        "entropy_term",
        "score",
        "Lambda_p",
        "Lambda_e",
        "batch_size",
        "trial_id",
        "front",
    ]
    assert (
        found["score"].tolist() == [0.5, 0.4]
        and found["trial_id"].tolist() == trials["trial_id"].tolist()
        and found["Lambda_p"].tolist() == [1, 2]
    )
    own = table([row(0, positive_term=1.0, entropy_term=2.0, scores={"recall": 0.25})])
    assert sublosses(own, "recall")["score"].tolist() == sublosses(plain(own), "recall")["score"].tolist() == [0.25]


def test_trials_without_both_terms_or_a_score_are_left_out():
    rows = [
        row(0, positive_term=1.0, entropy_term=1.0, test_score=0.5),
        row(1, positive_term=None, entropy_term=0.0, test_score=0.5),
        row(2, positive_term=0.0, entropy_term=float("nan"), test_score=0.5),
        row(3, positive_term=0.0, entropy_term=float("-inf"), test_score=0.5),
        row(4, positive_term=0.0, entropy_term=0.0, test_score=float("nan")),
        row(5, "stopped", 0.9, positive_term=0.0, entropy_term=0.0, test_score=0.5),
        row(6, "diverged", positive_term=0.0, entropy_term=0.0),
    ]
    found = sublosses(table(rows), "test_score")
    assert (
        found["trial_id"].tolist() == ["grid-0-0-0"]
        and found["front"].tolist() == [True]
        and found.index.tolist() == [0]
    )


def test_seeds_of_a_setting_are_one_point_with_their_means():
    """Three settings of up to three seeds against a loop, two of a batch size; trainings that were lost or lack a term
    do not count."""
    rng, rows = np.random.default_rng(0), []
    for i in range(3):
        for seed in range(3):
            p, e, val = rng.uniform(0, 1, 3)
            status, p = ("failed" if (i, seed) == (0, 1) else "completed"), (float("nan") if (i, seed) == (1, 0) else p)
            params = {"Lambda_p": 2.0**i, "Lambda_e": 1.0} | ({"batch_size": 64} if i else {})
            rows.append(row(i, status, val, seed=seed, positive_term=p, entropy_term=e, params=params))
    usable = [one for one in rows if one["status"] == "completed" and np.isfinite(one["positive_term"])]
    counted = {i: [one for one in usable if one["trial_index"] == i] for i in range(3)}
    assert [len(trainings) for trainings in counted.values()] == [2, 2, 3]
    expected = [
        [np.mean([one[name] for one in trainings]) for name in ("positive_term", "entropy_term", "val_score")]
        for trainings in counted.values()
    ]
    points = [point[:2] for point in expected]
    apart = pd.concat([table([one]) for one in rows])  # every row has the label 0
    for trials in (table(rows), plain(table(rows)), apart):
        found = sublosses(trials)
        assert found[["positive_term", "entropy_term", "score"]].to_numpy() == pytest.approx(
            np.array(expected)
        ) and found.index.tolist() == [0, 1, 2]
        assert found["trial_id"].tolist() == [trainings[0]["trial_id"] for trainings in counted.values()]
        assert found["front"].tolist() == [True, *(not dominated(points[1:], i) for i in range(2))]
        assert found["Lambda_p"].tolist() == [1, 2, 4]


@pytest.mark.parametrize("levels", [4, 1000])
def test_correlations_are_scipys(levels):
    rng = np.random.default_rng(levels)
    points, scores = rng.integers(0, levels, (37, 2)) / 4, rng.integers(0, levels, 37) / levels
    found = subloss_statistics(sublosses(terms(points.tolist(), scores)))
    assert found.index.tolist() == ["positive_term", "entropy_term"]
    for axis, term in enumerate(found.index):
        ours, expected = found.loc[term], spearmanr(points[:, axis], scores)
        ranks = np.corrcoef(rankdata(points[:, axis]), rankdata(scores))[0, 1]
        assert ours["correlation"] == pytest.approx(ranks) == pytest.approx(expected.statistic)
    assert list(found.columns) == ["correlation", "rank_of_best", "place_of_best"], "no p-value of a search's settings"


def test_the_best_tenth_by_hand():
    """Of 20 trials the best two have the terms' ranks 0 and 3 of 0 to 19, and 10 twice (a tie of 9 to 11)."""
    first = list(range(20))
    second = [10.0 if i in (0, 3, 7) else (i if i < 10 else i + 1.0) for i in range(20)]
    scores = [0.9 if i == 0 else 0.8 if i == 3 else 0.1 + i / 100 for i in range(20)]
    found = subloss_statistics(sublosses(terms(list(zip(first, second)), scores)))
    assert found.loc["positive_term", "rank_of_best"] == pytest.approx((0 + 3) / 2 / 19)
    assert found.loc["entropy_term", "rank_of_best"] == pytest.approx((rankdata(second)[0] - 1) / 19)
    assert found.loc["positive_term", "place_of_best"] == pytest.approx((0 + 3) / 2 / 19)
    assert found.loc["entropy_term", "place_of_best"] == pytest.approx((10 - 1) / (20 - 1))
    alone = subloss_statistics(sublosses(terms([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], [0.1, 0.2, 0.3])))
    assert alone["rank_of_best"].tolist() == [1.0, 0.0] and alone["correlation"].tolist() == pytest.approx([1.0, -1.0])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_of_less_than_three_trials_nothing_is_said(count):
    found = subloss_statistics(sublosses(terms([(1.0, 2.0), (2.0, 1.0)][:count])))
    assert found.isna().all(axis=None)


def test_settings_are_compared_with_those_of_their_batch_size():
    """InfoNCE's entropy term grows with the logarithm of the batch size, and says nothing by that."""
    rng = np.random.default_rng(0)
    points, scores = rng.uniform(0, 1, (40, 2)), rng.uniform(0, 1, 40)
    trials = terms(points.tolist(), scores)
    larger = trials.assign(batch_size=256, entropy_term=trials["entropy_term"] + 5, val_score=trials["val_score"] / 9)
    alone, both = sublosses(trials), sublosses(pd.concat([trials.assign(batch_size=64), larger]))
    assert both["front"].tolist() == alone["front"].tolist() * 2
    assert subloss_statistics(both).to_numpy() == pytest.approx(subloss_statistics(alone).to_numpy())
    few = sublosses(pd.concat([trials.assign(batch_size=64), larger.head(2)]))
    assert subloss_statistics(few).equals(subloss_statistics(alone)), "two of a batch size say nothing"


def test_constant_terms_and_scores_have_no_correlation():
    found = subloss_statistics(sublosses(terms([(1.0, i) for i in range(5)])))
    assert np.isnan(found.loc["positive_term", "correlation"]) and found.loc[
        "entropy_term", "correlation"
    ] == pytest.approx(1)
    assert subloss_statistics(sublosses(terms([(i, i) for i in range(5)], [0.5] * 5)))["correlation"].isna().all()


@pytest.mark.parametrize("trials", [empty(), lost(), table([row()])], ids=["empty", "lost", "no terms"])
def test_nothing_measured_is_an_empty_table_of_the_same_columns(trials):
    found, some = sublosses(trials), sublosses(terms([(1.0, 2.0)]))
    assert (
        found.empty
        and list(found.columns) == list(some.columns)
        and found["front"].dtype == bool
        and found[found["front"]].columns.equals(some.columns)
    )


def test_refusals():
    with pytest.raises(ValueError, match="more than one loss"):
        sublosses(table([row(0), row(1, loss="infonce")]))
    with pytest.raises(ValueError, match=r"more than one set-up: memory \['fixed', 'none'\]"):
        sublosses(table([row(0, config={"memory": "none"}), row(1, config={"memory": "fixed"})]))
    with pytest.raises(ValueError, match=r"score 'recall': one of \['val_score', 'positive_term', 'entropy_term'\]"):
        sublosses(terms([(1.0, 2.0)]), "recall")
