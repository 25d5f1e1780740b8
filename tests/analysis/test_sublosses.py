"""Both terms of the loss against the score: a point per setting."""

import numpy as np
import pytest
from studies import empty, lost, plain, row, table

from tune_cd.analysis import sublosses

pytestmark = pytest.mark.filterwarnings("error")


def terms(points, scores=None):
    """Completed trainings with these terms, each of its own setting."""
    scores = np.linspace(0.1, 0.9, len(points)) if scores is None else scores
    return table(
        row(n, val=float(score), positive_term=p, entropy_term=e, params={"Lambda_p": 1.0 + n, "Lambda_e": 1.0})
        for n, ((p, e), score) in enumerate(zip(points, scores))
    )


def test_the_columns_and_which_score():
    trials = terms([(1.0, 2.0), (2.0, 1.0)], scores=[0.3, 0.6]).assign(test_score=[0.5, 0.4])
    found = sublosses(trials, "test_score")
    assert [*found] == ["positive_term", "entropy_term", "score", "Lambda_p", "Lambda_e", "batch_size", "trial_id"]
    assert found["score"].tolist() == [0.5, 0.4] and found["Lambda_p"].tolist() == [1, 2]
    assert found["trial_id"].tolist() == trials["trial_id"].tolist()
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
    assert found["trial_id"].tolist() == ["grid-0-0-0"] and found.index.tolist() == [0]


def test_seeds_of_a_setting_are_one_point_with_their_means():
    """Trainings that were lost or lack a term do not count."""
    trials = terms([(0.1, 2.0), (0.3, 4.0), (9.0, 9.0), (np.nan, 9.0), (0.5, 1.0)], [0.2, 0.4, 0.9, 0.9, 0.5])
    setting = {"trial_index": [0, 0, 0, 0, 1], "seed": range(5), "Lambda_p": [1.0, 1.0, 1.0, 1.0, 2.0]}
    trials = trials.assign(**setting, params=[{"Lambda_p": p, "Lambda_e": 1.0} for p in setting["Lambda_p"]])
    trials.loc[2, ["status", "val_score"]] = ["failed", np.nan]
    for some in (trials, plain(trials), trials.set_axis([0] * 5)):
        found = sublosses(some)
        assert found[["positive_term", "entropy_term", "score", "Lambda_p"]].to_numpy() == pytest.approx(
            np.array([[0.2, 3.0, 0.3, 1], [0.5, 1.0, 0.5, 2]])
        )
        assert found["trial_id"].tolist() == [trials["trial_id"][0], trials["trial_id"][4]]
        assert found.index.tolist() == [0, 1]


@pytest.mark.parametrize("trials", [empty(), lost(), table([row()])], ids=["empty", "lost", "no terms"])
def test_nothing_measured_is_an_empty_table_of_the_same_columns(trials):
    found, some = sublosses(trials), sublosses(terms([(1.0, 2.0)]))
    assert found.empty and list(found.columns) == list(some.columns)
