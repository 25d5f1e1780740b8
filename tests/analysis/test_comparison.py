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


def interval(values):
    """Half of the 95 % interval of a mean, by Student's t."""
    return student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5


def of(method, curves, reference=None):
    """The numbers of one method."""
    return summary(curves, reference).set_index("method").loc[method]


def test_means_over_trials_continue_what_ended():
    mean = mean_curve([curve([0.2, 0.4, 0.6]), curve([0.4], 1)])
    assert mean.index.name == "trials" and mean.index.tolist() == [1, 2, 3] and mean["searches"].tolist() == [2, 2, 2]
    assert mean["mean"].tolist() == pytest.approx([0.3, 0.4, 0.5])
    eight = mean_curve([curve([0.2 + 0.1 * seed, 0.4 + 0.1 * seed], seed) for seed in range(8)])
    assert (eight["low"] >= 0.2).all() and (eight["high"] <= 1.1).all()
    assert (eight["low"] < eight["mean"]).all() and (eight["mean"] < eight["high"]).all()


def test_means_over_time_are_those_of_steps():
    curves = [curve([0.2, 0.6], ended=[1.0, 4.0]), curve([0.5, 0.7, 0.8], 1, ended=[0.5, 2.0, 8.0])]
    mean = mean_curve(curves, "seconds")
    assert mean.index.name == "seconds" and mean.index[0] == 0 and mean.index[-1] == pytest.approx(8)
    assert mean["mean"][mean.index < 0.5 - 1e-9].isna().all(), "nothing before the first trial ended"
    for clock, value in mean["mean"].dropna().items():
        done = [[0.0, *one.reached[one.ended <= clock + 1e-9]][-1] for one in curves]
        assert value == pytest.approx(np.mean(done))


@pytest.mark.parametrize("over", ["trials", "seconds"])
@pytest.mark.parametrize("count", [1, 2, FEWEST - 1, FEWEST, FEWEST + 1])
def test_less_than_eight_searches_have_no_interval(count, over):
    """The mean is there from the end of the first trial on."""
    mean = mean_curve([curve([0.2 + 0.01 * seed, 0.4], seed) for seed in range(count)], over)
    there = mean.index >= 1 - 1e-9
    assert FEWEST == 8 and (mean["searches"] == count).all() and mean["mean"].iloc[-1] == pytest.approx(0.4)
    assert mean["mean"].notna().tolist() == there.tolist()
    for end in ("low", "high"):
        assert mean[end].notna().tolist() == (there & (count >= FEWEST)).tolist()


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
        searches = [curve(reached, seed) for seed, reached in enumerate(values[repetition * 30 :][:30])]
        mean = mean_curve(searches, seed=repetition)
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


def test_the_numbers_of_a_table_by_hand():
    curves = [curve([0.2, 1.0, 1.0], 0), curve([0.4, 0.4, 0.9], 1), curve([0.5, 0.5], 0, "b")]
    row, other = of("a", curves), of("b", curves)
    aucs = np.array([[0.2, 1, 1, 1, 1], [0.4, 0.4, 0.9, 0.9, 0.9]]).mean(1)
    assert (row.trajectories, row.trials, row.best) == (2, 3, 1.0)
    assert (row.n95, row.t95, row.stuck) == pytest.approx((3, 3.0, 0.5))
    assert row.auc5 == pytest.approx(aucs.mean()) and row.auc5_ci == pytest.approx(interval(aucs))
    assert (other.n95, other.t95, other.stuck) == (inf, inf, 1.0) and np.isnan([other.n95_low, other.n95_high]).all()
    assert np.isnan(other.auc5_ci) and summary(curves)[[f"d{k}" for k in BUDGETS]].isna().all(axis=None)


def test_the_target_is_of_each_landscape_and_order_is_that_of_appearance():
    table = summary([curve([0.5], landscape="z"), curve([0.96], method="b"), curve([1.0], method="c")])
    assert table[["landscape", "method"]].values.tolist() == [["z", "a"], ["l", "b"], ["l", "c"]]
    assert table["n95"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [2, 7, 40])
def test_differences_and_p_are_those_of_the_pairs(count):
    """Values that a random walk reaches, and such that are ahead of them; in any order."""
    rng = np.random.default_rng(0)
    first = rng.uniform(0, 1, (count, 6)).cumsum(1)
    second = first + rng.normal(0.02, 0.05, (count, 6))
    curves = [curve(first[i], i) for i in range(count)]
    curves += [curve(second[i], int(i), "b") for i in rng.permutation(count)]
    row, reference = of("b", curves, "a"), of("a", curves, "a")
    for k in BUDGETS:
        at = np.minimum(np.arange(k), 5)
        gains = second[:, at].mean(1) - first[:, at].mean(1)
        expected = [gains.mean(), interval(gains), wilcoxon(gains).pvalue]
        assert row[[f"d{k}", f"d{k}_ci", f"d{k}_p"]].tolist() == pytest.approx(expected)
        assert reference[[f"d{k}", f"d{k}_ci", f"d{k}_p"]].isna().all()


@pytest.mark.parametrize(
    "gains, p", [([0.0, 0.0], np.nan), ([0.1], np.nan), ([0.1, 0.0, 0.0], 1.0), ([0.1, 0.1, -0.1, 0.0, 0.2], None)]
)
def test_ties_zeros_and_single_pairs(gains, p):
    curves = [curve([0.5], seed) for seed in range(len(gains))]
    row = of("b", curves + [curve([0.5 + gain], seed, "b") for seed, gain in enumerate(gains)], "a")
    told = wilcoxon([0.5 + gain - 0.5 for gain in gains]).pvalue if p is None else p
    assert (row.d5, row.d5_p) == pytest.approx((np.mean(gains), told), nan_ok=True)


def test_pairs_are_by_seed_and_of_several_searches_with_one_seed_the_mean_counts():
    assert of("b", [curve([0.5], 0, study="s"), curve([0.7], 0, "b", study="t")], "a").d5 == pytest.approx(0.2)
    ours, theirs = ([curve([value], 0, method, study=study) for value, study in zip(values, "st")]
                    for method, values in (("a", (0.5, 0.1)), ("b", (0.6, 0.4))))  # fmt: skip
    for curves in (ours + theirs, theirs + ours):
        assert of("b", curves, "a").d5 == pytest.approx(0.5 - 0.3)
    assert of("b", ours + theirs[:1], "a").d5 == pytest.approx(0.6 - 0.3), "the reference alone has its seeds twice"
    assert of("a", ours[1:] + theirs, "b").d5 == pytest.approx(0.1 - 0.5)
    row = of("b", [*ours, *theirs, curve([0.2, 0.4], 7), curve([0.9, 0.9], 7, "b")], "a")
    gains = np.array([0.2, 0.9 - (0.2 + 4 * 0.4) / 5])
    assert row.trajectories == 3 and row.d5_ci == pytest.approx(interval(gains)), "two pairs, not three"
    assert (row.d5, row.d5_p) == pytest.approx((gains.mean(), wilcoxon(gains).pvalue))


def test_of_negative_scores_the_target_lies_below_the_best():
    """The best is -1, five per cent of its size below it -1.05; 0.95 * -1 is better than what any search reached."""
    curves = [curve([-4.0, -1.04, -1.0], 0), curve([-2.0, -1.2, -1.06], 1), curve([-3.0, -3.0], 0, "b")]
    row, other = (of(method, [replace(one, low=-4.0) for one in curves]) for method in "ab")
    assert (row.best, row.n95, row.t95, row.stuck) == pytest.approx((-1.0, 3, 3.0, 0.5))
    assert (other.n95, other.t95, other.stuck) == (inf, inf, 1.0)
    zero = of("a", [curve([-1.0, 0.0], 0), curve([-1.0, -0.01], 1)])
    assert (zero.n95, zero.stuck) == (inf, 0.5), "five per cent of nothing is nothing"


def test_the_interval_of_n95_is_that_of_resampling():
    """Seven of eight searches are there after 1 trial: means of resamples are there at once where the eighth is not
    among them. Of less than eight searches it would hold the mean too rarely."""
    quick, slow = ([curve(reached, seed) for seed in range(FEWEST)] for reached in ([1.0, 1.0, 1.0], [0.1, 0.1, 1.0]))
    nearly, never = replace(slow[0], reached=np.array([0.55, 1.0, 1.0])), curve([0.1, 0.1, 0.1], 9)
    for curves, expected in (
        ([quick[0], *slow[1:]], (3, 3, 3)), ([*quick[1:], nearly], (2, 1, 2)), ([*quick[1:], never], (inf, 1, inf)),
        (quick[1:], (1, np.nan, np.nan)),
    ):  # fmt: skip
        row = of("a", curves)
        assert (row.n95, row.n95_low, row.n95_high) == pytest.approx(expected, nan_ok=True)


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
    some = of("b", curves_of(pd.concat([search_study([None, None], "b"), search_study([0.5, 0.7])])), "cd")
    assert (some.auc5, some.stuck) == pytest.approx((0.3, 1.0)), "a search of failures has the lowest there is"
