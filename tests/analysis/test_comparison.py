"""Search methods compared: means over searches, intervals, paired tests and times, on curves checked by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from scipy.stats import wilcoxon
from studies import empty, lost, search_study

from tune_cd.analysis import Curve, curves_of, mean_curve, summary
from tune_cd.analysis.comparison import BUDGETS, FEWEST

pytestmark = pytest.mark.filterwarnings("error")


def curve(reached, seed=0, method="a", ended=None, study="", landscape="l"):
    ended = np.arange(1.0, len(reached) + 1) if ended is None else np.array(ended, dtype=float)
    return Curve(landscape, method, seed, np.array(reached, dtype=float), 0.0, ended, study)


# The mean curve -----------------------------------------------------------------------------------------------


def test_means_over_trials_continue_what_ended():
    mean = mean_curve([curve([0.2, 0.4, 0.6]), curve([0.4], 1)])
    assert mean.index.name == "trials" and mean.index.tolist() == [1, 2, 3] and mean["searches"].tolist() == [2, 2, 2]
    assert mean["mean"].tolist() == pytest.approx([0.3, 0.4, 0.5])
    eight = mean_curve([curve([0.2 + 0.1 * seed, 0.4 + 0.1 * seed], seed) for seed in range(8)])
    assert (
        (eight["low"] < eight["mean"]).all()
        and (eight["mean"] < eight["high"]).all()
        and eight["low"].iloc[0] >= 0.2
        and eight["high"].iloc[0] <= 0.9
    )


def test_means_over_time_are_those_of_steps():
    curves = [curve([0.2, 0.6], ended=[1.0, 4.0]), curve([0.5, 0.7, 0.8], 1, ended=[0.5, 2.0, 8.0])]
    mean = mean_curve(curves, "seconds")
    assert mean.index.name == "seconds" and mean.index[0] == 0 and mean.index[-1] == pytest.approx(8)
    for clock, value in mean["mean"].items():
        steps = [
            [0.0, *(reached for reached, ended in zip(c.reached, c.ended) if ended <= clock + 1e-9)][-1] for c in curves
        ]
        assert value == pytest.approx(np.mean(steps)) if clock + 1e-9 >= 0.5 else np.isnan(value), (
            "nothing before the first trial ended"
        )


@pytest.mark.parametrize("over", ["trials", "seconds"])
@pytest.mark.parametrize("count", [1, 2, FEWEST - 1, FEWEST, FEWEST + 1])
def test_less_than_eight_searches_have_no_interval(count, over):
    mean = mean_curve([curve([0.2 + 0.01 * seed, 0.4], seed) for seed in range(count)], over)
    assert FEWEST == 8 and (mean["searches"] == count).all() and mean["mean"].iloc[-1] == pytest.approx(0.4)
    assert mean["mean"].notna().equals(pd.Series(mean.index >= 1 - 1e-9, index=mean.index)), (
        "from the end of the first trial on"
    )
    assert (
        mean[["low", "high"]].notna().eq(mean["mean"].notna(), axis=0)
        if count >= FEWEST
        else mean[["low", "high"]].isna()
    ).all(axis=None)


def test_there_is_no_curve_before_there_is_a_score():
    """The lowest of the landscape was not reached by a search whose first trials failed; beside another's score it
    counts as that."""
    waits, found = replace(curve([0.0, 0.0, 0.4]), waiting=2), replace(curve([0.0, 0.6, 0.6], 1), waiting=1)
    assert mean_curve([waits])["mean"].tolist() == pytest.approx([np.nan, np.nan, 0.4], nan_ok=True)
    assert mean_curve([waits, found])["mean"].tolist() == pytest.approx([np.nan, 0.3, 0.5], nan_ok=True)
    never = replace(curve([np.nan, np.nan]), waiting=2)
    assert mean_curve([never])["mean"].isna().all() and mean_curve([never], "seconds")["mean"].isna().all()


def test_bootstrap_intervals_hold_the_mean():
    """Of 30 searches, in 90 to 99 % of 150 repetitions at every trial."""
    values = np.maximum.accumulate(np.random.default_rng(0).beta(2, 5, (4500, 4)), axis=1)
    hits = np.zeros(4)
    for repetition in range(150):
        mean = mean_curve(
            [curve(reached, seed) for seed, reached in enumerate(values[repetition * 30 :][:30])], seed=repetition
        )
        hits += (mean["low"] <= values.mean(0)) & (values.mean(0) <= mean["high"])
    assert (hits >= 0.9 * 150).all() and (hits <= 0.99 * 150).all(), hits


def test_other_curves_are_refused():
    several = [curve([0.1]), curve([0.1], method="b")], [curve([0.1]), curve([0.1], landscape="m")], []
    for curves in several:
        with pytest.raises(ValueError, match="one method on one landscape"):
            mean_curve(curves)
    with pytest.raises(ValueError, match="over 'hours': one of"):
        mean_curve([curve([0.1])], "hours")
    unknown = curve([0.1], ended=[np.nan])
    assert mean_curve([curve([0.1]), unknown])["mean"].tolist() == [0.1]
    with pytest.raises(ValueError, match="1 searches do not say when"):
        mean_curve([curve([0.1]), unknown], "seconds")


# The numbers --------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_table_by_hand():
    curves = [curve([0.2, 1.0, 1.0], 0), curve([0.4, 0.4, 0.9], 1), curve([0.5, 0.5], 0, "b")]
    row = summary(curves).set_index("method").loc["a"]
    assert (row.trajectories, row.trials, row.best) == (2, 3, 1.0)
    aucs = np.array([[0.2, 1, 1, 1, 1], [0.4, 0.4, 0.9, 0.9, 0.9]]).mean(1)
    assert row.auc5 == pytest.approx(aucs.mean()) and row.auc5_ci == pytest.approx(
        student.ppf(0.975, 1) * aucs.std(ddof=1) / 2**0.5
    )
    assert (row.n95, row.t95) == (3, pytest.approx(3.0)) and row.stuck == 0.5
    other = summary(curves).set_index("method").loc["b"]
    assert (other.n95, other.t95, other.stuck) == (inf, inf, 1.0) and np.isnan([other.n95_low, other.n95_high]).all()
    assert np.isnan(other.auc5_ci) and summary(curves)[[f"d{k}" for k in BUDGETS]].isna().all(axis=None)


def test_the_target_is_of_each_landscape_and_order_is_that_of_appearance():
    table = summary([curve([0.5], landscape="z"), curve([0.96], method="b"), curve([1.0], method="c")])
    assert table[["landscape", "method"]].values.tolist() == [["z", "a"], ["l", "b"], ["l", "c"]] and table[
        "n95"
    ].tolist() == [1, 1, 1]


def pairs(count, seed=0, shift=0.02):
    rng = np.random.default_rng(seed)
    first = rng.uniform(0, 1, (count, 6)).cumsum(1)
    return first, first + rng.normal(shift, 0.05, (count, 6))


@pytest.mark.parametrize("count", [2, 7, 40])
def test_differences_and_p_are_those_of_the_pairs(count):
    first, second = pairs(count)
    order = np.random.default_rng(1).permutation(count)
    table = summary(
        [curve(first[i], i) for i in range(count)] + [curve(second[i], int(i), "b") for i in order], reference="a"
    ).set_index("method")
    for k in BUDGETS:
        at = np.minimum(np.arange(k), 5)
        gains = second[:, at].mean(1) - first[:, at].mean(1)
        assert table.loc["b", f"d{k}"] == pytest.approx(gains.mean()) and table.loc["b", f"d{k}_p"] == pytest.approx(
            wilcoxon(gains).pvalue
        )
        assert table.loc["b", f"d{k}_ci"] == pytest.approx(
            student.ppf(0.975, count - 1) * gains.std(ddof=1) / count**0.5
        )
    assert table.loc["a", [f"d{k}{suffix}" for k in BUDGETS for suffix in ("", "_ci", "_p")]].isna().all()


@pytest.mark.parametrize(
    "gains, p", [([0.0, 0.0], np.nan), ([0.1], np.nan), ([0.1, 0.0, 0.0], 1.0), ([0.1, 0.1, -0.1, 0.0, 0.2], None)]
)
def test_ties_zeros_and_single_pairs(gains, p):
    curves = [curve([0.5], seed) for seed in range(len(gains))] + [
        curve([0.5 + gain], seed, "b") for seed, gain in enumerate(gains)
    ]
    row = summary(curves, "a").set_index("method").loc["b"]
    assert row.d5 == pytest.approx(np.mean(gains))
    assert row.d5_p == pytest.approx(
        wilcoxon([0.5 + gain - 0.5 for gain in gains]).pvalue if p is None else p, nan_ok=True
    )


def test_pairs_are_by_seed_and_of_several_searches_with_one_seed_the_mean_counts():
    apart = [curve([0.5], 0, study="s"), curve([0.7], 0, "b", study="t")]
    assert summary(apart, "a").set_index("method").loc["b", "d5"] == pytest.approx(0.2)
    twice = [
        curve([0.5], 0, study="s"),
        curve([0.1], 0, study="t"),
        curve([0.6], 0, "b", study="s"),
        curve([0.4], 0, "b", study="t"),
    ]
    for curves in (twice, twice[::-1]):
        assert summary(curves, "a").set_index("method").loc["b", "d5"] == pytest.approx(
            (0.6 + 0.4) / 2 - (0.5 + 0.1) / 2
        )
    assert summary(twice[:3], "a").set_index("method").loc["b", "d5"] == pytest.approx(0.6 - (0.5 + 0.1) / 2), (
        "the reference alone has its seeds twice"
    )
    assert summary(twice[1:], "b").set_index("method").loc["a", "d5"] == pytest.approx(0.1 - (0.6 + 0.4) / 2)
    more = [*twice, curve([0.2, 0.4], 7), curve([0.9, 0.9], 7, "b")]
    row, gains = summary(more, "a").set_index("method").loc["b"], np.array([0.2, 0.9 - (0.2 + 4 * 0.4) / 5])
    assert row.d5 == pytest.approx(gains.mean()) and row.d5_ci == pytest.approx(
        student.ppf(0.975, 1) * gains.std(ddof=1) / 2**0.5
    ), "two pairs, not three"
    assert row.d5_p == pytest.approx(wilcoxon(gains).pvalue) and row.trajectories == 3


def test_of_negative_scores_the_target_lies_below_the_best():
    """The best is -1, five per cent of its size below it -1.05; 0.95 * -1 is better than what any search reached."""
    curves = [curve([-4.0, -1.04, -1.0], 0), curve([-2.0, -1.2, -1.06], 1), curve([-3.0, -3.0], 0, "b")]
    table = summary([replace(one, low=-4.0) for one in curves]).set_index("method")
    assert (table.loc["a", "best"], table.loc["a", "n95"], table.loc["a", "stuck"]) == (-1.0, 3, 0.5) and table.loc[
        "a", "t95"
    ] == pytest.approx(3.0)
    assert (table.loc["b", "n95"], table.loc["b", "t95"], table.loc["b", "stuck"]) == (inf, inf, 1.0)
    zero = summary([curve([-1.0, 0.0], 0), curve([-1.0, -0.01], 1)]).iloc[0]
    assert (zero.n95, zero.stuck) == (inf, 0.5), "five per cent of nothing is nothing"


def test_the_interval_of_n95_is_that_of_resampling():
    """Seven of eight searches are there after 1 trial: means of resamples are there at once where the eighth is not
    among them."""
    quick, slow = ([curve(reached, seed) for seed in range(FEWEST)] for reached in ([1.0, 1.0, 1.0], [0.1, 0.1, 1.0]))
    row = summary([quick[0], *slow[1:]]).iloc[0]
    assert (row.n95, row.n95_low, row.n95_high) == (3, 3, 3)
    row = summary([*quick[1:], replace(slow[0], reached=np.array([0.55, 1.0, 1.0]))]).iloc[0]
    assert (row.n95, row.n95_low, row.n95_high) == (2, 1, 2), "without the slow one they are there after one"
    never = summary([*quick[1:], curve([0.1, 0.1, 0.1], 9)]).iloc[0]
    assert (never.n95, never.n95_low, never.n95_high) == (inf, 1, inf)
    few = summary(quick[1:]).iloc[0]
    assert few.n95 == 1 and np.isnan([few.n95_low, few.n95_high]).all(), (
        "of less than eight it would hold the mean too rarely"
    )


def test_unknown_times_are_never_whoever_comes_first():
    curves = [curve([1.0]), curve([1.0], 1, ended=[np.nan])]
    for order in (curves, curves[::-1]):
        row = summary(order).iloc[0]
        assert row.n95 == 1 and np.isnan(row.t95), "not known is not never"


def test_what_is_not_there():
    assert summary([]).empty and summary(curves_of(empty())).empty
    with pytest.raises(ValueError, match=r"reference 'c': one of \['a'\]"):
        summary([curve([0.1])], "c")
    row = summary(curves_of(lost())).iloc[0]
    assert np.isnan(row.auc20) and row.n95 == inf and np.isnan(row.t95) and row.stuck == 1.0
    some = summary(curves_of(pd.concat([search_study([None, None], "b"), search_study([0.5, 0.7])])), "cd").set_index(
        "method"
    )
    assert some.loc["b", "auc5"] == pytest.approx(0.3) and some.loc["b", "stuck"] == 1.0, (
        "what a search of failures has is the lowest there is"
    )
