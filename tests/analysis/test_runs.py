"""Trials that paused: what their rows say of each run, and the curves over what they cost."""

import json

import numpy as np
import pandas as pd
import pytest
from studies import row, search_study, table

from tune_cd.analysis import best_so_far, curves_of, summary
from tune_cd.analysis.runs import counted, runs_of
from tune_cd.results.rows import RUNS, earlier_runs

WHOLE = {"images_seen": 800, "network": "small_conv"}


def run(index, images, score, times, status="stopped", earlier=(), seed=0):
    config = WHOLE | ({RUNS: list(earlier)} if earlier else {})
    return row(
        index, status, score, search="cd", params={"Lambda_p": 2.0**index, "Lambda_e": 1.0}, times=times, seed=seed,
        config=config, images_seen=images, test_score=score - 0.1 if status == "completed" else None,
        attempt=len(earlier),
    )  # fmt: skip


@pytest.fixture
def trials():
    """Two short ones, then the second goes on twice, to its end."""
    first, second = run(0, 100, 0.3, (0, 10)), run(1, 100, 0.4, (10, 20))
    on = run(1, 400, 0.5, (20, 50), earlier=earlier_runs(stored(second)))
    whole = run(1, 800, 0.6, (60, 100), "completed", earlier=earlier_runs(stored(on)))
    return table([first, whole])


def stored(one):
    [back] = table([one]).astype(object).where(table([one]).notna(), None).to_dict("records")
    return back


def test_a_row_lists_its_earlier_runs(trials):
    runs = runs_of(trials)
    assert runs["images_seen"].tolist() == [100, 800, 100, 400] and runs["status"].tolist()[1:] == [
        "completed", "stopped", "stopped",
    ]  # fmt: skip
    assert runs["share"].tolist() == [0.125, 0.5, 0.125, 0.375] and runs["val_score"].tolist() == [0.3, 0.6, 0.4, 0.5]
    assert runs["paused"].tolist() == [True, False, True, True] and runs["pauses"].all()
    seconds = (runs["ended_at"] - runs["started_at"]).dt.total_seconds()
    assert seconds.tolist() == [10, 40, 10, 30]


def test_curves_are_over_what_was_paid(trials):
    """A short training's weights are weights: its validation score counts, as the search was told."""
    over_images = best_so_far(trials)
    assert over_images.index.tolist() == [0.125, 0.25, 0.625, 1.125] and over_images.tolist() == [0.3, 0.4, 0.5, 0.6]
    (curve,) = curves_of(trials, "val_score")
    assert curve.clock("trials").tolist() == [0.125, 0.25, 0.625, 1.125] and curve.by_trial.tolist() == [0.5, 0.6]
    assert summary([curve]).iloc[0][["best", "n95", "stuck"]].tolist() == [0.6, 2, 0], "no run is left out"
    (tested,) = curves_of(trials)
    assert tested.score == "val_score" and tested.waiting == 0, "what has paused was not tested"


def test_methods_are_compared_at_equal_images(trials):
    full = search_study([0.2, 0.7], search="tpe", config=WHOLE).assign(study="s")
    both = summary(curves_of(joined(trials, full)))
    assert both.set_index("method").loc["cd", "auc5"] == pytest.approx((0.5 + 4 * 0.6) / 5) and len(both) == 2


def joined(*tables):
    return pd.concat(tables, ignore_index=True)


def test_trials_that_never_pause_are_what_they_were():
    trials = search_study([0.1, 0.5, None, 0.4], config=WHOLE)
    runs = runs_of(trials)
    assert len(runs) == 4 and (runs["share"] == 1).all() and not runs["pauses"].any()
    assert best_so_far(trials).index.tolist() == [1, 2, 3, 4]
    assert curves_of(trials)[0].shares is None


def test_what_a_scheduler_stopped_is_still_no_training():
    """A user's own trainable does not say how long a whole one is."""
    trials = table([row(0, "stopped", 0.9), row(1, "completed", 0.5, params={"Lambda_p": 2.0, "Lambda_e": 1.0})])
    runs = counted(runs_of(trials))
    assert runs["status"].tolist() == ["stopped", "completed"] and best_so_far(trials).tolist()[1] == 0.5


def test_seeds_of_a_setting_are_one_run():
    pair = [run(0, 100, score, (0, 10), seed=seed) for seed, score in enumerate((0.2, 0.4))]
    on = [
        run(0, 400, score, (10, 30), earlier=earlier_runs(stored(one)), seed=seed)
        for (seed, score), one in zip(enumerate((0.5, 0.7)), pair)
    ]
    reached = best_so_far(table(on))
    assert reached.tolist() == pytest.approx([0.3, 0.6]) and reached.index.tolist() == [0.125, 0.5]


def test_a_row_that_did_not_pause_has_no_earlier_runs():
    assert earlier_runs(None) == [] and earlier_runs(stored(row(0, "failed", error="gone", failure_kind="lost"))) == []
    assert np.isfinite(json.loads(json.dumps(earlier_runs(stored(run(0, 100, 0.3, (0, 1))))))[0]["images_seen"])
