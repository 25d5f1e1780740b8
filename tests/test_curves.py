"""AUC@k and n-95 on curves small enough to do by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from tune_cd.analysis import auc_at, best_so_far, best_trial, means_over_seeds, n_to_reach


def table(scores, search="cd"):
    status = ["completed" if math.isfinite(score) else "diverged" for score in scores]
    return pd.DataFrame({"study": "s", "search": search, "trial_index": range(len(scores)), "val_score": scores, "status": status})


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
    rows = [("a", 0, 0, "completed", 0.2, 0.1), ("a", 0, 1, "diverged", None, None), ("a", 0, 2, "completed", 0.4, 0.3), ("a", 1, 0, "failed", None, None)]
    table = pd.DataFrame(rows, columns=["search", "trial_index", "seed", "status", "val_score", "test_score"]).assign(study="s")
    table["scores"] = [{"test_x": 1.0}, {}, {"test_x": 2.0}, {}]
    means = means_over_seeds(table).set_index("trial_index")
    assert means["val_score"][0] == pytest.approx(0.3) and means["test_std"][0] == pytest.approx(0.2 / 2**0.5) and means["seeds"].tolist() == [2, 0]
    assert means["status"].tolist() == ["completed", "failed"] and means["scores"].tolist() == [{"test_x": 1.5}, {}] and np.isnan(means["val_score"][1])
