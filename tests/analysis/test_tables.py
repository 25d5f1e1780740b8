"""The paper's tables: what stands in them, and how they are printed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from printed_tables import cells_of, parsed
from studies import empty, lost, plain, row, search_study, table

from tune_cd import results
from tune_cd.analysis import Curve, curves_of, summary
from tune_cd.analysis.memory_table import memory_modes
from tune_cd.analysis.tables import BASE_NUMBERS, CELLS, base_numbers, best_values, compared, latex, markdown, memory
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.replay import store
from tune_cd.landscapes.simulation import replay_all
from tune_cd.results.rows import DIGEST
from tune_cd.search.methods import OPTIMISERS

pytestmark = pytest.mark.filterwarnings("error")


def curve(landscape, method, seed, reached):
    ended = np.arange(1.0, len(reached) + 1)
    return Curve(landscape, method, seed, np.array(reached, dtype=float), 0.0, ended)


CURVES = [
    curve(landscape, method, seed, np.array([0.2, 0.5, 0.8]) + 0.1 * seed + (0.05 if method == "b_2" else 0))
    for landscape in ("one", "two & more")
    for method in ("a", "b_2")
    for seed in (0, 1)
]
SUMMARY = summary(CURVES[:-2], "a")


def test_methods_compared():
    printed = compared(SUMMARY, list(CELLS))
    joined = parsed(markdown(printed))
    assert [line[0] for line in joined[1:]] == ["a", "b_2"]
    assert [line[1:] for line in joined[1:]] == printed.to_numpy().tolist()
    assert joined[0][1:] == [" ".join(name) for name in printed.columns]


def test_the_cells_are_the_summarys_numbers():
    printed = compared(SUMMARY, ["AUC@10", "n-95", "stuck", "ΔAUC@10", "p@10", "t-95"])
    one = printed["one"]
    assert one.loc["b_2"].tolist()[:3] == ["-", ">3", "50.0%"], "three trials have no AUC@10"
    assert set(one[["ΔAUC@10", "p@10"]].to_numpy().ravel()) == {"-"}
    assert one.loc["a", "t-95"] == "never"
    assert (printed.loc["b_2", "two & more"] == "").all(), "it was not run there"
    told = SUMMARY.set_index(["landscape", "method"]).loc["one", "b_2"]
    longer = compared(SUMMARY.assign(trials=10), ["ΔAUC@10", "p@10"])["one"]
    assert longer.loc["b_2"].tolist() == [f"+0.050 ±{told.d10_ci:.3f}", f"{told.d10_p:.2g}"]
    assert longer.loc["a", "ΔAUC@10"] == "-"
    eight = summary([curve("one", "a", seed, [0.1 * seed, 0.2 * seed]) for seed in range(8)])
    low, high = (f"{count:.0f}" if np.isfinite(count) else ">2" for count in eight.loc[0, ["n95_low", "n95_high"]])
    assert compared(eight, ["n-95"]).iloc[0, 0] == f">2 ({low} to {high})", "where there are enough searches for one"
    with pytest.raises(ValueError, match=r"columns \['AUC@30'\]: any of"):
        compared(SUMMARY, ["AUC@30"])


def test_small_losses_are_told_with_three_digits():
    losses = [curve("one", "a", seed, [3e-3, *[1e-4 * (1 + seed)] * 4]) for seed in range(2)]
    told = summary([replace(one, sign=-1.0) for one in losses])
    assert compared(told, ["AUC@5"]).iloc[0, 0] == f"{told.auc5[0]:.6f} ±{told.auc5_ci[0]:.6f}" and told.best[0] == 1e-4


def test_the_table_of_replays_is_the_same_from_rows_that_were_stored(tmp_path):
    """Failures included; without noise, by one worker, whose trials end in the order of asking."""
    failing = {"sop": 0.2}
    landscapes = [replace(LANDSCAPES[name], failures=failing.get(name, 0.0)) for name in ("omniglot", "sop")]
    methods = {name: OPTIMISERS[name] for name in ("random", "cd")}
    trajectories = replay_all(methods, landscapes, range(3), trials=12, processes=1)
    store(str(tmp_path), trajectories, landscapes, {"trials": 12})
    curves = curves_of(results.read(tmp_path))
    found = {(one.landscape, one.method, one.seed): one for one in trajectories}
    assert len(curves) == len(found) == 12
    for read in curves:
        one = found[read.landscape, read.method, read.seed]
        had = np.maximum.accumulate([trial.value is not None for trial in one.trials])
        tests = [trial.test for t in trajectories if t.landscape == read.landscape for trial in t.trials]
        low = min(test for test in tests if test is not None)
        assert read.reached == pytest.approx(np.where(had, one.as_curve().reached, low))
    ordered = sorted((one.as_curve() for one in trajectories), key=lambda c: (c.landscape, c.method, c.seed))
    ours, theirs = summary(curves, "cd"), summary(ordered, "cd")
    exact = ours["landscape"] != "sop"  # there the landscape's lowest is not known from a table
    columns = [name for name in CELLS if name != "t-95"]
    assert compared(ours[exact], columns).equals(compared(theirs[exact], columns))
    assert compared(ours, ["n-95"]).equals(compared(theirs, ["n-95"]))


def test_the_best_balance_is_chosen_by_means_over_seeds_on_validation():
    settings = [
        ((0.1, 1.0, 64), [0.5, 0.9], [0.1, 0.2]),
        ((0.2, 2.0, 64), [0.8, 0.8, 0.8], [0.3, None, 0.5]),
        ((0.4, 2.0, 32), [0.795, 0.795], [0.9, 0.9]),
    ]
    rows = [
        row(i, val=v, seed=seed, test_score=t, params=dict(zip(("Lambda_p", "Lambda_e", "batch_size"), h)))
        for i, (h, vals, tests) in enumerate(settings)
        for seed, (v, t) in enumerate(zip(vals, tests))
    ]
    best = best_values(table(rows)).iloc[0]
    assert (best.Lambda_p, best.Lambda_e, best.batch_size, best.seeds) == (0.2, 2.0, 64, 3)
    interval = 12.7062047 * 0.1  # Student's t at 0.975 of one degree of freedom, times the error: two were tested
    assert [best.val_score, best.test_score, best.test_ci] == pytest.approx([0.8, 0.4, interval])
    alike = (best.alike, best.alike_Lambda_p, best.alike_Lambda_e)
    assert alike == (2, (0.2, 0.4), (2, 2)), "0.795 is less than 1 % below 0.8, 0.7 is not"
    below = table(row(i, val=val, params={"Lambda_p": 2.0**i, "Lambda_e": 1.0}) for i, val in enumerate((-1, -1.009)))
    assert best_values(below)["alike"].tolist() == [2], "a negative score has settings alike too"


def test_scores_by_different_metrics_are_never_compared():
    """A larger recall is no better balance than a smaller R-mAP: each metric has a row of its own."""
    rows = [
        row(val=0.4, params={"Lambda_p": 2.0, "Lambda_e": 1.0}, scores={"test_precision_at_1": 0.5}),
        row(val=0.9, params={"Lambda_p": 8.0, "Lambda_e": 1.0}, scores={"test_precision_at_1": 0.7}, study="t",
            metric_name="recall"),
    ]  # fmt: skip
    best, numbers = best_values(table(rows)), base_numbers(table(rows))
    assert best[["metric_name", "Lambda_p", "alike"]].values.tolist() == [["r_map", 2.0, 1], ["recall", 8.0, 1]]
    assert numbers.loc[numbers["source"] == "this table", "P@1"].tolist() == [0.5, 0.7]


def of_two_set_ups() -> pd.DataFrame:
    """SOP as the paper trains it, and a better run of the experiment on memory with another network and more
    dimensions."""
    plain_one = {"network": "resnet18_gem", "embedding": 0, "memory": "none"}
    memory_one = {"network": "resnet50", "embedding": 128, "memory": "fixed", "memory_size": 55_000}
    scores = [(plain_one, 0.70), (plain_one, 0.71), (memory_one, 0.79)]
    return table(
        row(
            i, val=recall, dataset="sop", study=config["network"], config={DIGEST: config}, params={"Lambda_p": 2.0**i,
            "Lambda_e": 1.0}, search="cd" if config is plain_one else "S3", scores={"test_precision_at_1": recall},
        )
        for i, (config, recall) in enumerate(scores)
    )  # fmt: skip


def test_a_run_with_memory_is_not_the_number_of_one_without():
    """Each set-up has a row of its own, which says it; the best of a larger network is nobody else's."""
    numbers, best = base_numbers(of_two_set_ups()), best_values(of_two_set_ups())
    own = numbers[numbers["source"] == "this table"].set_index("set_up")["P@1"].to_dict()
    assert own == {"network=resnet18_gem": 0.71, "network=resnet50": 0.79}
    assert (numbers["dataset"] == "sop").all() and len(numbers) == 6
    expected = [["network=resnet18_gem", 2.0, 0.71, 1], ["network=resnet50", 4.0, 0.79, 1]]
    assert best[["set_up", "Lambda_p", "val_score", "alike"]].values.tolist() == expected
    one = of_two_set_ups()[:2]
    assert "set_up" not in best_values(one) and "set_up" not in base_numbers(one), "there is one alone"


def test_a_setting_that_two_studies_trained_has_one_mean():
    """Three seeds of one study and a lucky one of another are four trainings of one setting; the same seed twice is one
    training."""
    trainings = [("s", 0, 0.5), ("s", 1, 0.4), ("s", 2, 0.3), ("t", 3, 0.6), ("u", 0, 0.5)]
    rows = [row(0, val=val, seed=seed, study=study, test_score=val) for study, seed, val in trainings]
    rows.append(row(1, val=0.449, params={"Lambda_p": 2.0, "Lambda_e": 1.0}))
    best = best_values(table(rows)).iloc[0]
    assert (best.Lambda_p, best.seeds, best.alike) == (1.0, 4, 2)
    assert [best.val_score, best.test_score] == pytest.approx([0.45, 0.45])


def test_base_numbers_stand_beside_the_papers():
    scores = {"test_precision_at_1": 0.7, "test_map_at_r": 0.4, "test_r_map": 0.5}
    better, worse = {name: score + 0.1 for name, score in scores.items()}, dict.fromkeys(scores, 0.9)
    rows = [
        row(0, val=0.2, dataset="sop", params={"Lambda_p": 2.0, "Lambda_e": 1.0}, scores=worse),
        row(1, val=0.6, dataset="sop", scores=scores),
        row(1, val=0.6, dataset="sop", seed=1, scores=better),
        row(2, val=0.3, dataset="tinyimagenet-20", loss="infonce", task="ssl", scores={"test_probe_accuracy": 0.31}),
        row(3, "failed", dataset="omniglot"),
    ]
    for trials in (table(rows), plain(table(rows))):
        numbers = base_numbers(trials)
        published = [source for source in BASE_NUMBERS if source[0] in ("sop", "tinyimagenet")]
        assert numbers["dataset"].is_monotonic_increasing and len(numbers) == len(published) + 2, (
            "those of landmarks have nothing to stand beside"
        )
        own = numbers[numbers["source"] == "this table"].set_index("dataset")
        assert own.loc["sop", ["P@1", "R-mAP", "MAP@R"]].tolist() == pytest.approx([0.75, 0.55, 0.45])
        assert np.isnan(own.loc["sop", "accuracy"]) and own.loc["tinyimagenet-20", "accuracy"] == 0.31
        printed = numbers[numbers["source"] == "Musgrave et al. 2020"].iloc[0]
        assert (printed["dataset"], printed["P@1"], printed["MAP@R"]) == ("sop", 0.73, 0.44)
    assert ["sop", "this table", "margin", "0.75", "0.55", "0.45", "-", "-"] in cells_of(base_numbers(table(rows)))
    assert base_numbers(empty()).empty and base_numbers(table([row(0, dataset="sop")])).empty, "no such score"


@pytest.mark.parametrize("trials", [empty(), lost(), search_study([0.5])], ids=["empty", "lost", "one"])
def test_tables_without_much_in_them(trials):
    count = int((trials["status"] == "completed").sum())
    assert len(cells_of(best_values(trials))) == 1 + count and len(cells_of(base_numbers(trials))) == 1
    assert set(memory(trials).to_numpy().ravel()) == {"- / -"} and len(cells_of(memory(trials))) == 5
    assert memory_modes(trials).isna().all(axis=None) and len(cells_of(memory_modes(trials))) == 7
    printed = compared(summary(curves_of(trials)))
    assert len(printed) == (len(trials) > 0)
    assert len(trials) or markdown(printed) == ""


def test_values_in_cells():
    values = {
        "a|b": (0.123456, "0.1235"), "none": (np.nan, "-"), "whole": (3, "3"), "small": (1e-7, "1e-07"),
        "large": (123456.0, "1.235e+05"), "range": ((0.5, 0.25), "0.5 to 0.25"), "missing": (None, "-"),
        "one": ((1.0, 1.0), "1"), "below": (-0.25, "-0.25"),
    }  # fmt: skip
    cells = cells_of(pd.DataFrame({"name": list(values), "value": [value for value, _ in values.values()]}))
    assert cells == [["name", "value"], *([name, text] for name, (_, text) in values.items())]


def test_latex_has_the_same_cells():
    """Of two levels as well; whatever LaTeX reads as its own is escaped."""
    text = latex(compared(SUMMARY, ["n-95", "ΔAUC@10"]), "100 % of a_b")
    rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    assert rows[0].split(" & ")[:3] == ["method", "one n-95", r"one $\Delta$AUC@10"]
    assert [row.split(" & ")[0] for row in rows[1:]] == ["a", r"b\_2"] and r"two \& more n-95" in rows[0]
    assert r"\caption{100 \% of a\_b}" in text and r"\toprule" in text


def test_an_index_is_a_column_where_it_says_something():
    assert cells_of(pd.DataFrame({"x": [1]}, index=["row"])) == [["", "x"], ["row", "1"]]
    assert cells_of(pd.DataFrame({"x": [1]}, index=pd.Index([7], name="k"))) == [["k", "x"], ["7", "1"]]
    assert cells_of(pd.DataFrame({"x": [1], "y": ["z"]})) == [["x", "y"], ["1", "z"]]
