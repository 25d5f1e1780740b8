"""The report's Python: findings checked by hand, sentences, the page's content, the command; the page: test_page.py."""

import json
import math
import re

import kinds
import numpy as np
import pandas as pd
import pytest
from studies import full_grid, row, store, table
from warned import no_warnings

from tune_cd import balance, results
from tune_cd.analysis import best_trial, grid, on_diagonal, rate_search, search_lines
from tune_cd.analysis.scores import BALANCE, per_class, score_words
from tune_cd.report.__main__ import main
from tune_cd.report.findings import findings
from tune_cd.report.payload import payload
from tune_cd.report.words import summarise
from tune_cd.report.writing import content
from tune_cd.results.networks import Networks
from tune_cd.results.parquet import serialise

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

BOX = {"Lambda_p": (1e-6, 16.0), "Lambda_e": (1e-6, 16.0)}


def h(positive: float, entropy: float, size: int = 64) -> dict:
    return {"Lambda_p": positive, "Lambda_e": entropy, "batch_size": size}


SEARCHED = [
    (0.1, 0.1, 0.5), (0.2, 1.0, 0.6), (0.2, 4.0, 0.7), (0.5, 8.0, 0.8), (1.0, 16.0, 0.9), (0.5, 16.0, 0.85),
    (0.3, 16.0, 0.7), (1.0, 10.0, 0.8), (2.0, 16.0, 0.7), (1.0, 12.0, 0.892),
]  # fmt: skip
"""Lambda_p, Lambda_e and the score of the trials of a search."""


def search_study(seeds=(0,)) -> pd.DataFrame:
    """Ten trials of a search and two each of both averages; the search's best beats theirs by 0.1 and 0.05 on test."""
    rows = []

    def trial(index, seed, score, params, **fields):
        score += {0: 0.0, 1: 0.01, 2: -0.01}[seed]
        times = (index * 10.0, index * 10.0 + 10)
        rows.append(
            row(index, val=score, test_score=score - 0.1, params=params, times=times, seed=seed, gpus=1.0, **fields)
        )

    for seed in seeds:
        for index, (positive, entropy, score) in enumerate(SEARCHED):
            direction = "start" if not index else ("balance", "joint")[index // 4 % 2]
            params = h(positive, entropy)
            trial(index, seed, score, params, search="cd", direction=direction, line_position=0.5 * index)
        for average, weights in (("separate", (1.0, 1.0)), ("global", balance.average_weights("global", 64))):
            for index, (rate, score) in enumerate([(0.1, 0.75), (0.4, {"separate": 0.8, "global": 0.85}[average])]):
                params = h(rate * weights[0], rate * weights[1])
                trial(index, seed, score, params, search=average, direction="joint", line_position=0.0)
    return table(rows)


def test_the_best_and_what_it_gains_over_each_average():
    found = findings(search_study(), BOX)
    assert found.best["trial_index"] == 4 and found.seeds == 1 and np.isnan(found.noise)
    gains = {recipe.average: (recipe.gain, recipe.learning_rate, recipe.rates.settings) for recipe in found.recipes}
    assert gains["separate"] == (pytest.approx(0.1), pytest.approx(0.4), 2), "the search's start is one of them"
    assert gains["global"] == (pytest.approx(0.05), pytest.approx(0.4), 2) and found.missing == ()
    assert all(np.isnan(recipe.low) for recipe in found.recipes)
    assert found.edges == {"Lambda_e": "upper"} and found.alike == 2 and found.alike_ranges["Lambda_e"] == (12.0, 16.0)


def test_repeats_without_a_seed_say_nothing_about_noise():
    """One script, run twice: it is deterministic, and has no seed."""
    once = search_study().assign(seed=None)
    trials = pd.concat([once, once.assign(trial_id=once["trial_id"] + "-again", trial_index=once["trial_index"] + 50)])
    found = findings(trials.reset_index(drop=True))
    assert np.isnan(found.noise) and found.freedom == 0 and (found.seeds, found.unfinished) == (1, 0)
    assert all(np.isnan(recipe.low) and not recipe.pairs for recipe in found.recipes)
    said = {sentence.head: sentence.text for sentence in summarise(found)}
    assert "No setting was trained with two known seeds: how much of a difference is chance cannot" in said["How sure"]
    assert "over 2 seeds" not in said["Its score"] and "interval" not in said["Over the separate average"]


def test_gains_over_several_seeds_are_paired():
    found = findings(search_study(seeds=(0, 1, 2)))
    assert found.seeds == 3 and found.noise == pytest.approx(0.01)
    assert found.freedom == 2 * 13, "one of the 14 settings is of both cd and separate"
    for recipe, gain in zip(found.recipes, (0.1, 0.05)):
        assert recipe.pairs == 3 and recipe.gain == pytest.approx(gain)
        assert (recipe.low, recipe.high) == (pytest.approx(gain), pytest.approx(gain)), (
            "the seeds' luck is the same on both sides"
        )


def test_the_interval_over_seeds_is_students():
    trials = search_study(seeds=(0, 1, 2))
    at = (trials["search"] == "separate") & (trials["trial_index"] == 1)
    trials.loc[at, "test_score"] = [0.70, 0.72, 0.65]  # seeds 0, 1, 2; the best has 0.80, 0.81, 0.79
    recipe = findings(trials).recipes[0]
    gains = np.array([0.10, 0.09, 0.14])
    half = 4.302653 * gains.std(ddof=1) / 3**0.5  # Student's t at 0.975 with two degrees of freedom
    assert recipe.gain == pytest.approx(gains.mean()) and (recipe.low, recipe.high) == pytest.approx(
        (gains.mean() - half, gains.mean() + half)
    )


def test_where_no_trial_is_on_a_diagonal_no_gain_is_claimed():
    trials = search_study()
    found = findings(trials[(trials["search"] == "cd") & (trials["trial_index"] > 0)])
    assert found.recipes == () and found.missing == ("separate", "global")
    assert any("not known" in sentence.text for sentence in summarise(found))


def test_trials_of_another_set_up_are_a_part_of_their_own():
    trials = search_study()
    trials["config"] = np.where(
        trials["search"] == "separate", '{"memory": "fixed", "k": 2}', '{"memory": "none", "k": 2}'
    )
    parts = {study["name"]: study for study in payload(trials, "t")["studies"]}
    assert {name: len(part["trials"]["trial_id"]) for name, part in parts.items()} == {
        "s: memory=fixed": 2,
        "s: memory=none": 12,
    }
    [gain] = [
        sentence for sentence in parts["s: memory=none"]["words"] if sentence["head"] == "Over the separate average"
    ]
    assert "1 learning rate trained, which is too few to know the best" in gain["text"], "the search's own start alone"


def test_infonce_has_one_average_and_other_parameters_have_none():
    assert [recipe.average for recipe in findings(search_study().assign(loss="infonce")).recipes] == ["separate"]
    own = table([row(i, val=0.1 * i, search="cd", params={"lr": 10.0**-i, "momentum": 0.5 + i / 10}) for i in range(4)])
    assert findings(own).recipes == findings(own).missing == () and findings(own).names == ("lr", "momentum")


def test_reachable_trials_against_brute_force():
    trials = full_grid(9, (16, 64))
    for average, k, within in (("separate", 2, 0.5), ("global", 2, 0.5), ("global", 4, 1.0)):
        near = [
            abs(balance.off_diagonal(trial, average, trial["batch_size"], k)) <= within + 1e-9
            for _, trial in trials.iterrows()
        ]
        found = on_diagonal(trials, average, k, within)
        done = trials[near][trials[near]["status"] == "completed"]
        assert found.equals(trials[near]) and best_trial(found)["val_score"] == done["val_score"].max()


FEW = "learning rates trained, which is too few to know the best: the next"
WIDER = "end of the range: a wider one may hold better."
LOWEST, BELOW = "2 learning rates trained, which is too few to know the best", f"It is at the lower {WIDER}"
RATES = [
    ([0.1, 0.4], 0.4, f"2 {FEW} lower one is 2 octaves away and no higher one was tried."),
    ([0.1, 0.11, 0.12], 0.11, "3 learning rates trained: the best is bracketed within 0.26 octaves."),
    (
        [0.1, 14.0, 16.0],
        16.0,
        f"3 {FEW} lower one is 0.19 octaves away and no higher one was tried. It is at the upper {WIDER}",
    ),
    ([1e-6, 0.5], 1e-6, f"{LOWEST}: no lower one was tried and the next higher one is 19 octaves away. {BELOW}"),
]


@pytest.mark.parametrize("rates, best, said", RATES)
def test_a_baseline_says_how_well_its_learning_rate_was_tuned(rates, best, said):
    rows = [
        row(i, val=0.5 + 0.1 * (rate == best), search="separate", params=h(rate, rate)) for i, rate in enumerate(rates)
    ]
    rows += [
        row(9, val=0.9, search="cd", params=h(0.5, 4.0)),
        row(10, val=0.1, search="separate", params=h(1.01 * best, 1.01 * best, 32)),
    ]
    gain = next(one for one in summarise(findings(table(rows), BOX)) if one.head == "Over the separate average")
    assert gain.text.endswith(said) and gain.kind == ("caution" if "too few" in said else "result")


def test_the_rates_of_a_line_are_those_of_one_batch_size_and_failures_tell_nothing():
    rows = [
        row(0, val=0.9, params=h(1.0, 1.0)),
        row(1, "failed", params=h(1.1, 1.1)),
        row(2, "diverged", params=h(2.0, 2.0)),
        row(3, val=0.5, params=h(0.9, 0.9, 32)),
    ]
    trials = table(rows)
    rates = rate_search(on_diagonal(trials, "separate", 2), best_trial(trials), {})
    assert (rates.settings, rates.below, rates.above, rates.end) == (2, math.inf, 1.0, None) and not rates.exhausted


def test_sentences_say_the_numbers():
    both = search_study()
    trials = both.assign(params=[{name: h[name] for name in BALANCE[:2]} for h in map(dict, both["params"])])
    command = "python -m tune_cd.run --study s"
    said = {sentence.head: sentence.text for sentence in summarise(findings(trials, BOX), command)}
    assert (
        said["Best setting"] == "Λp = 1, Λe = 16, b = 64"
        and said["Its score"]
        == "Validation r_map 0.9000, test 0.8000. Found by cd as trial cd-0-4-0; 14 trials completed."
    )
    assert (
        "+0.1000 on the test split, +14.3 %" in said["Over the separate average"]
        and "0.7000, at a learning rate of 0.4, b = 64" in said["Over the separate average"]
    )
    assert "+0.0500" in said["Over the global average"]
    assert "once" in said["How sure"] and "2 settings are within 1 % of the best" in said["How sure"]
    assert (
        "Λe is at the upper end of its range" in said["What to try next"]
        and "--tune-batch-size" in said["What to try next"]
    )
    searched = {sentence.head: sentence.text for sentence in summarise(findings(both, BOX), command)}
    assert "--tune-batch-size" not in searched["What to try next"], "it was searched, though it took one value so far"


def test_under_adam_the_scale_of_the_weights_is_no_learning_rate():
    trials = search_study().assign(config='{"optimizer": "adam"}')
    found = findings(trials, BOX)
    said = {sentence.head: sentence for sentence in summarise(found, "python -m tune_cd.run --study s")}
    gain = said["Over the separate average"]
    assert [recipe.learning_rate for recipe in found.recipes] == [None, None] and gain.kind == "result"
    assert "The separate average reached 0.7000, b = 64. 2 of its settings trained; under Adam" in gain.text
    alone = findings(trials[trials["search"] == "separate"])
    assert "reaches the best setting (0.7000, b = 64)" in summarise(alone)[2].text
    assert not any("learning rate" in sentence.text for sentence in [*said.values(), *summarise(alone)])


@pytest.mark.parametrize("freedom, half", [(1, 12.7062), (2, 4.30265), (6, 2.44691)])
def test_how_far_two_trainings_may_differ_is_students(freedom, half):
    """Each setting has two seeds, 0.01 * 2 ** 0.5 apart: a standard deviation of 0.01 and a degree of freedom each."""
    rows = [
        row(index, val=0.5, test_score=0.5 + seed * 0.01 * 2**0.5, params=h(2.0**index, 1.0), seed=seed, search="cd")
        for index in range(freedom)
        for seed in (0, 1)
    ]
    found = findings(table(rows))
    assert (found.noise, found.freedom) == (pytest.approx(0.01), freedom)
    [sure] = [sentence.text for sentence in summarise(found) if sentence.head == "How sure"]
    assert f"differ by less than {half * 0.01 * 2**0.5:.4f} in 95 of 100 cases" in sure


def test_sentences_about_what_failed():
    rows = [
        row(0, val=0.5, search="cd"),
        row(1, "failed", search="cd", error="lost: node n2\ntrace"),
        row(2, "diverged", search="cd", error="the loss is nan"),
        row(3, "failed", search="cd", error="lost: node n2\nother"),
    ]
    said = {
        sentence.head: sentence.text for sentence in summarise(findings(table(rows)), "python -m tune_cd.run --study s")
    }["Trials that did not complete"]
    assert (
        "2 trials failed, 1 trial diverged" in said
        and "2 x: lost: node n2." in said
        and "--study s --resume` runs them again" in said
    )


@pytest.mark.parametrize("rows", [
    [row(0, "failed", error="no"), row(1, "diverged")],
    [row(0)],
    [row(0, val=0.0), row(1, val=0.0)],
    [row(0, val=-1.0), row(1, val=-2.0, params=h(2.0, 2.0))],
    [row(i, val=0.1 * i, params=h(2.0**i, 1.0)) for i in range(5)],
    [row(i, val=0.1, test_score=float("nan"), params=h(2.0**i, 2.0**-i)) for i in range(5)],
    [row(i, val=0.5, search="cd", params={"lr": 10.0**-i}) for i in range(3)],
    [row(i, val=0.5, search="cd", params={}) for i in range(3)],
    [row(i, val=0.5, search="cd", params={"a": 1.0 + i, "b": 2.0 + i, "c": 3.0 + i, "d": 4.0}) for i in range(20)],
    [row(i, "stopped", val=0.5, params=h(2.0**i, 1.0)) for i in range(3)],
    [
        row(i, val=0.5, search_seed=None, seed=None, task=None, loss=None, dataset=None, params=h(2.0**i, 1.0))
        for i in range(3)
    ],
    [row(i, val=0.5 + i, dataset=name, params=h(2.0, 1.0)) for i, name in enumerate("ab")],
    [row(i, val=0.5, study=name, params=h(2.0, 1.0)) for i, name in enumerate("ab")],
    [row(0, params=h(1.0, 1.0, 10**6))],
    [row(i, val=0.5 + i, search="cd", params={"lr": 2.0**i, "momentum": 0.0 if i % 2 else 0.9}) for i in range(12)],
    [
        row(i, val=-1.0 - i, search="cd", params={"lr": 2.0**i, "warm": 2.0 + i}, study=name, dataset=None)
        for i in range(12)
        for name in "ab"
    ],
    [row(0, "failed", error=""), row(1, "failed", error="Traceback (most recent call last):\n  File\nValueError: no")],
    [row(i, val=0.5, params=h(2.0**i, 1.0, 6), config={"k": 4}) for i in range(3)],
])  # fmt: skip
def test_every_kind_of_table_gives_content_that_is_json(rows):
    trials = table(rows)
    found = payload(trials, "t")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert sum(len(study["trials"]["trial_id"]) for study in found["studies"]) == len(trials)
    for study in found["studies"]:
        assert study["words"] and all(sentence["text"] and "nan" not in sentence["text"] for sentence in study["words"])
        lengths = {len(values) for name, values in study["trials"].items() if isinstance(values, list)}
        assert len(lengths) == 1 and all(
            len(values) in lengths for part in ("params", "scores") for values in study["trials"][part].values()
        )


def test_no_trials_give_content_without_studies():
    assert payload(table([]), "t")["studies"] == []


def test_cells_are_the_grids_and_know_their_trials():
    trials = full_grid(7, (16, 64), seeds=(0, 1))
    study = payload(trials, "t")["studies"][0]
    cells, expected = study["grid"]["cells"], grid(trials, "test_score")
    assert study["grid"]["full"] and [axis["name"] for axis in study["axes"]] == ["Lambda_p", "Lambda_e", "batch_size"]
    assert len(cells["at"]) == (expected.counts + expected.lost > 0).sum()
    columns = study["trials"]
    for place, members, lost, value, spread in zip(
        cells["at"], cells["trials"], cells["lost"], cells["values"]["test_score"], cells["spread"]["test_score"]
    ):
        at = tuple(place)
        for number, name in enumerate(("Lambda_p", "Lambda_e", "batch_size")):
            assert {columns["params"][name][trial] for trial in members} == {study["grid"]["ticks"][number][at[number]]}
        scores = [columns["scores"]["test_score"][trial] for trial in members]
        scores = [
            score
            for trial, score in zip(members, scores)
            if score is not None and columns["status"][trial] == "completed"
        ]
        assert value == (pytest.approx(np.mean(scores), rel=1e-5) if scores else None) and lost == sum(
            columns["status"][trial] != "completed" for trial in members
        )
        assert spread == (pytest.approx(np.std(scores, ddof=1), abs=1e-5) if len(scores) > 1 else None)
    assert sum(map(len, cells["trials"])) == len(trials)
    ratios = {average["name"]: average["ratio"] for average in study["averages"]}
    assert ratios == {"separate": [1.0, 1.0], "global": [pytest.approx(14.0), pytest.approx(62.0)]}


def test_a_search_is_points_curves_and_lines():
    study = payload(search_study(), "t", ranges={"s": BOX}, commands={"s": "python -m tune_cd.run --study s"})[
        "studies"
    ][0]
    assert not study["grid"]["full"] and study["status"] == {"completed": 14}
    curve = next(curve for curve in study["curves"] if curve["search"] == "cd")
    assert curve["best"] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9] and curve["test"] == pytest.approx(
        [value - 0.1 for value in curve["best"]]
    )
    assert curve["seconds"] == curve["gpu_seconds"] == [10 * n for n in range(1, 11)]
    lines = [
        (line["direction"], [study["trials"]["trial_index"][trial] for trial in line["trials"]])
        for line in study["lines"]
        if line["search"] == "cd"
    ]
    assert (
        lines == [(line.direction, list(line.trials)) for line in search_lines(search_study()[:10])]
        and sum(len(trials) for _, trials in lines) == 9
    )
    for line in study["lines"]:
        on = [[study["trials"]["params"][name][trial] for name in ("Lambda_p", "Lambda_e")] for trial in line["trials"]]
        assert line["points"][-len(on) :] == on and len(line["points"]) == len(on) + 1, "and where the line began"


def test_a_failed_first_trial_has_no_best_so_far():
    rows = [
        row(0, "failed", search="cd", params=h(1.0, 1.0), times=(0, 1)),
        row(1, val=0.4, test_score=0.3, search="cd", params=h(2.0, 1.0), times=(1, 2)),
    ]
    curve = payload(table(rows), "t")["studies"][0]["curves"][0]
    assert curve["best"] == [None, 0.4] and curve["test"] == [None, 0.3]


def test_numbers_are_rounded_and_errors_hold_no_secrets():
    rows = [
        row(0, val=1 / 3, params=h(1 / 3, 123456789.123)),
        row(1, "failed", error="could not open https://user:hunter2@host/x"),
    ]
    study = payload(table(rows), "t")["studies"][0]
    assert (
        study["trials"]["scores"]["val_score"][0] == 0.333333 and study["trials"]["params"]["Lambda_e"][0] == 123456789
    )
    assert "hunter2" not in json.dumps(study)


def test_rows_of_lost_trainings_do_not_say_how_many_items_a_class_has():
    """The first row's training was lost with its node: the others say k = 4."""
    rows = [row(0, "failed", search="cd", params=h(0.1, 0.1), config={"Lambda_p": 0.1})]
    rows += [
        row(
            1 + n,
            val=0.5,
            search="cd",
            params=dict(zip(("Lambda_p", "Lambda_e", "batch_size"), (*balance.average_weights("global", 64, 4), 64))),
            config={"k": 4},
        )
        for n in range(2)
    ]
    assert per_class(table(rows)) == 4 and [recipe.average for recipe in findings(table(rows)).recipes] == ["global"]
    assert per_class(table([row(0, config={"k": "many"})])) == 2 == per_class(table([]))


def test_a_study_in_several_set_ups_is_one_study(tmp_path, capsys):
    store(tmp_path / "r", kinds.memory())
    assert main([str(tmp_path / "r"), "-o", str(tmp_path / "page.html")]) == 0
    assert "23 trials of 1 study:" in capsys.readouterr().out
    shown = payload(kinds.memory(), "t")
    assert [study["name"] for study in shown["studies"]] == [
        f"xbm: memory={mode}" for mode in ("fixed", "none", "variable")
    ]
    memory, best = (
        next(one for one in shown["tables"] if one["title"] == title)
        for title in ("Cross-batch memory, xbm", "Best balances")
    )
    assert len(memory["rows"]) == 6 and [row[best["columns"].index("set-up")] for row in best["rows"]] == [
        "memory=fixed",
        "memory=none",
        "memory=variable",
    ]


def test_own_parameters_are_looked_along_in_their_order_and_a_score_stands_there_once():
    study = payload(kinds.own_parameters(), "t")["studies"][0]
    assert [axis["name"] for axis in study["axes"]] == ["lr", "weight_decay"]
    assert [score["label"] for score in study["scores"]] == ["validation accuracy", "loss"]


def test_the_test_score_of_a_revisited_benchmark_is_of_another_metric():
    trials = table(
        [
            row(0, val=0.5, test_score=0.6, dataset="landmarks", config={"test": "roxford5k"}),
            row(1, val=0.4, dataset="landmarks", config={"test": "roxford5k"}),
        ]
    )
    assert [score_words(trials, name) for name in ("val_score", "test_score", "test_map_at_r")] == [
        "validation r_map",
        "test roxford5k medium mAP",
        "test_map_at_r",
    ]
    several = table([row(0), row(0, study="t", metric_name="recall")])
    assert (
        score_words(several, "test_score") == "test score" and score_words(table([]), "val_score") == "validation score"
    )


def test_the_command_writes_one_page(tmp_path, capsys):
    store(tmp_path / "r", search_study())
    assert main([str(tmp_path / "r"), "--study", "s", "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "14 trials of 1 study:" in capsys.readouterr().out and "+0.1000 on the test split" in page
    assert "default-src 'none'" in page, "nothing is fetched"


@pytest.mark.parametrize("argv, message", [
    (["nowhere"], "no results folder"),
    (["r", "--study", "other"], "study other: not in"),
    (["r", "-o", "no/such/folder/page.html"], "there is no folder"),
    (["r", "-o", "r"], "not a folder"),
    (["r", "-o", "/dev/null"], "not a folder or a device"),
    (["~no-such-user/r"], "no-such-user"),
    (["r/trials"], "RESULTS is the folder that holds trials/"),
    (["nowhere.parquet"], "nowhere.parquet"),
])  # fmt: skip
def test_the_command_refuses_with_a_message(tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "r", search_study())
    assert main(argv) == 2 and message in capsys.readouterr().err and not (tmp_path / "report.html").exists()


def test_a_damaged_file_is_named_on_the_page(tmp_path, capsys):
    store(tmp_path, search_study())
    (tmp_path / "trials/s/broken.parquet").write_bytes(b"PAR1")
    assert main([str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0
    assert "broken.parquet" in capsys.readouterr().err and "broken.parquet" in (tmp_path / "page.html").read_text()


def test_ranges_and_commands_are_those_the_study_was_run_with(tmp_path):
    store(tmp_path, search_study())
    (tmp_path / "studies/s").mkdir(parents=True)
    options = {"range": [1e-6, 16.0], "tune_batch_size": False, "batch_sizes": [16, 32]}
    (tmp_path / "studies/s/study.json").write_text(json.dumps({"version": 1, "options": options}))
    text = json.dumps(content(tmp_path), ensure_ascii=False)
    assert "Λe is at the upper end of its range" in text and "`--range LO,HI` in a new study" in text
    found = findings(search_study().assign(trial_index=lambda table: 9 - table["trial_index"]), BOX)
    [idea] = [
        sentence.text
        for sentence in summarise(found, "python -m tune_cd.run --study s")
        if sentence.head == "What to try next"
    ]
    assert "`python -m tune_cd.run --study s --resume --num-samples 20`" in idea or not found.late


def test_the_network_of_the_best_setting_is_named_where_it_is_kept(tmp_path):
    store(tmp_path, search_study())

    def said():
        return {sentence["head"]: sentence["text"] for sentence in content(tmp_path)["studies"][0]["words"]}

    assert "Its network" not in said()
    for search in ("cd", "separate"):
        Networks(tmp_path, "s").keep(search, f"{search}-3", 0.5, lambda: b"tensors")
    file = tmp_path / "studies/s/networks/cd~0.500000000~cd-3.pt"
    assert said()["Its network"] == f"`{file}`; `trainables.trained.load` reads it."


def test_one_parquet_file_is_enough(tmp_path):
    trials = kinds.landscape("omniglot-242-margin").astype(object)
    rows = [results.check_trial(row) for row in trials.where(trials.notna(), None).to_dict("records")]
    (tmp_path / "grid.parquet").write_bytes(serialise(rows, results.TRIALS))
    with no_warnings():
        found = content(tmp_path / "grid.parquet")
    assert found["studies"][0]["grid"]["full"] and len(found["studies"][0]["trials"]["trial_id"]) == len(trials)


def shown(page) -> dict:
    """The content of a page on disk."""
    return json.loads(
        re.search(
            r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL
        )[1]
    )


def test_paused_trainings_are_listed_with_what_is_believed_of_them():
    """The most promising first, how far each is, and within which deviation its end is expected."""
    looks = [
        (0.1, 1 / 8, 0.4),
        (0.2, 1 / 8, 0.45),
        (0.4, 1 / 4, 0.6),
        (0.8, 1.0, 0.8),
        (1.6, 1 / 8, 0.5),
        (3.2, 1 / 8, 0.3),
    ]
    rows = [
        row(
            n, "completed" if share == 1 else "stopped", score, params={"Lambda_p": at, "Lambda_e": 1.0}, search="cd",
            config={"images_seen": 800}, images_seen=int(800 * share), batch_size=64,
        )
        for n, (at, share, score) in enumerate(looks)
    ]  # fmt: skip
    [study] = payload(table(rows), "t", ranges={"s": BOX})["studies"]
    [shown] = [one for one in study["tables"] if one["title"] == "Paused trainings"]
    columns = dict(zip(shown["columns"], zip(*shown["rows"])))
    assert len(shown["rows"]) == 5 and set(columns["paused at"]) == {"12%", "25%"}
    ends, deviations = zip(*(map(float, end.split(" ± ")) for end in columns["believed to end at"]))
    assert list(ends) == sorted(ends, reverse=True) and min(deviations) > 0
    whole = payload(table(rows[3:4]), "t")["studies"][0]["tables"]
    assert "Paused trainings" not in [one["title"] for one in whole]


def test_of_a_search_that_pauses_whole_trainings_are_offered():
    """30 settings, 29 of them an eighth long, are the images of five trainings; the best is the last."""
    rows = [
        row(
            n, "completed" if n == 29 else "stopped", 0.1 + n / 50, search="cd", params={"Lambda_p": 1.1**n},
            config={"images_seen": 800}, images_seen=800 if n == 29 else 100, Lambda_p=1.1**n, search_seed=0, seed=0,
        )
        for n in range(30)
    ]  # fmt: skip
    said = {one.head: one.text for one in summarise(findings(table(rows), BOX), "python -m tune_cd.run --study s")}
    assert "--resume --num-samples 15`" in said["What to try next"]


def test_odd_studies_cost_no_other_study_anything(tmp_path, capsys):
    """All kinds of odd rows in one folder with a healthy study: all are shown, the healthy one as if it were alone."""
    healthy, odd = kinds.main_job(), kinds.odd()
    [alone] = payload(healthy, "t")["studies"]
    found = payload(kinds.several([healthy, *odd.values()]), "t")
    assert found["left_out"] == {} and found["notes"] == []
    assert next(study for study in found["studies"] if study["study"] == "glyphs-margin") == alone
    named = {study["study"] for study in found["studies"]}
    assert named == {"glyphs-margin", *(trials["study"].iloc[0] for trials in odd.values())}
    for name in ("parameters changed", "a parameter missing", "other weights", "halves of characters"):
        store(tmp_path / "r", odd[name])
    store(tmp_path / "r", healthy)
    assert main([str(tmp_path / "r"), "-o", str(tmp_path / "page.html")]) == 0
    assert " of 5 studies:" in capsys.readouterr().out
    [written] = [study for study in shown(tmp_path / "page.html")["studies"] if study["study"] == "glyphs-margin"]
    assert written["words"][0] == alone["words"][0] and written["grid"] == alone["grid"]


def test_a_parameter_named_as_a_column_keeps_its_own_values():
    trials = kinds.odd()["names of columns"]
    [study] = payload(trials, "t")["studies"]
    for axis, ticks in zip(study["axes"], study["grid"]["ticks"]):
        assert ticks == sorted({h[axis["name"]] for h in trials["params"]})
    cells = grid(trials, axes=["value", "lost"]).frame()
    assert (
        cells["value (parameter)"].tolist() == [1, 2, 3, 4, 5]
        and cells["value"].tolist() == trials["val_score"].tolist()
    )


def test_a_study_that_raises_is_left_out_and_named_and_the_others_are_shown(tmp_path, capsys, monkeypatch):
    """As one whose configurations are no JSON, which no file with checks has."""
    damaged = kinds.own_parameters().assign(config="{")
    found = payload(kinds.several([kinds.main_job(), damaged]), "t")
    assert [study["study"] for study in found["studies"]] == ["glyphs-margin"]
    assert list(found["left_out"]) == ["study my-study"] and "JSONDecodeError" in found["left_out"]["study my-study"]
    assert found["notes"] == [f"study my-study could not be shown: {found['left_out']['study my-study']}"]

    def refused(found, *rest):
        raise RuntimeError("no words") if found.study == "my-study" else ValueError("none for the others either")

    store(tmp_path / "r", kinds.own_parameters())
    monkeypatch.setattr("tune_cd.report.payload.summarise", refused)
    assert main([str(tmp_path / "r"), "-o", str(tmp_path / "page.html")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == ["warning: study my-study could not be shown: RuntimeError: no words"]
    assert shown(tmp_path / "page.html")["notes"] == ["study my-study could not be shown: RuntimeError: no words"]


@pytest.mark.parametrize("given", [5, "ab", None, ["a", "b"], [1.0], {"a": 1}])
def test_stored_options_of_another_type_cost_no_page(tmp_path, given):
    store(tmp_path, kinds.main_job())
    options = {"range": given, "tune_batch_size": True, "batch_sizes": given}
    (tmp_path / "studies/glyphs-margin").mkdir(parents=True)
    (tmp_path / "studies/glyphs-margin/study.json").write_text(json.dumps({"options": options}))
    assert content(tmp_path)["left_out"] == {}
