"""The report's Python: findings checked by hand, sentences, the page's content, the command; the page: test_page.py."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import studies
from odd_studies import odd
from studies import full_grid, own_tuner, paused_tuner, row, store, table
from warned import no_warnings

from tune_cd import Space, balance, results
from tune_cd.analysis import grid, on_diagonal
from tune_cd.analysis.importance import MOST
from tune_cd.analysis.scores import per_class, score_words
from tune_cd.landscapes.measured import load
from tune_cd.report.__main__ import main
from tune_cd.report.findings import Findings
from tune_cd.report.first_screen import images_of, use_it, worth
from tune_cd.report.payload import payload
from tune_cd.report.words import summarise
from tune_cd.report.writing import content, write_report
from tune_cd.results.parquet import serialise
from tune_cd.results.redaction import LONGEST
from tune_cd.results.rows import with_own
from tune_cd.results.schema import CUT
from tune_cd.results.store import store_of
from tune_cd.results.study_files import keep_network

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

SPACE = Space(Lambda_p=(1e-6, 16.0), Lambda_e=(1e-6, 16.0), batch_size=[16, 32, 64, 128])
COMMAND = "python -m tune_cd.run --study s"


def h(positive: float, entropy: float, size: int = 64) -> dict:
    return {"Lambda_p": positive, "Lambda_e": entropy, "batch_size": size}


def said(found, command=None) -> dict[str, str]:
    """Heads -> texts: the cautions and next steps, and of each thing that the best is compared with."""
    told = ("gain", "verdict", "how")
    compared = {row["label"]: " ".join(row.get(name, "") for name in told) for row in worth(found)["rows"]}
    return compared | {head: text for head, (text, _) in summarise(found, command).items()}


def shown(page) -> dict:
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


SEARCHED = [
    (0.1, 0.1, 0.5), (0.2, 1.0, 0.6), (0.2, 4.0, 0.7), (0.5, 8.0, 0.8), (1.0, 16.0, 0.9), (0.5, 16.0, 0.85),
    (0.3, 16.0, 0.7), (1.0, 10.0, 0.8), (2.0, 16.0, 0.7), (1.0, 12.0, 0.892),
]  # fmt: skip
"""Lambda_p, Lambda_e and the score of the trials of a search."""


def job(seeds=(0,)) -> pd.DataFrame:
    """Ten trials of a search and two each of both averages; the search's best beats theirs by 0.1 and 0.05 on test."""
    p, e = balance.average_weights("global", 64)
    lines = {
        "separate": [(0.1, 0.1, 0.75), (0.4, 0.4, 0.8)],
        "global": [(0.1 * p, 0.1 * e, 0.75), (0.4 * p, 0.4 * e, 0.85)],
    }
    rows = []
    for seed in seeds:
        for search, trials in ({"cd": SEARCHED} | lines).items():
            for index, (p, e, score) in enumerate(trials):
                direction = "joint" if search != "cd" else ("balance", "joint")[index // 4 % 2] if index else "start"
                val = score + {0: 0.0, 1: 0.01, 2: -0.01}[seed]
                rows.append(row(
                    index, val=val, test_score=val - 0.1, params=h(p, e), search=search, seed=seed, gpus=1.0,
                    times=(index * 10.0, index * 10.0 + 10), direction=direction,
                    line_position=0.5 * index if search == "cd" else 0.0, config={"space": SPACE.to_json()},
                ))  # fmt: skip
    return table(rows)


# Findings and sentences ---------------------------------------------------------------------------------------


def test_the_best_and_what_it_gains_over_each_average():
    found = Findings(job())
    assert found.best["trial_index"] == 4 and found.best["seeds"] == 1 and np.isnan(found.noise[0])
    gains = {recipe.average: (recipe.gain.value, recipe.learning_rate, recipe.tried) for recipe in found.recipes}
    assert gains["separate"] == (pytest.approx(0.1), pytest.approx(0.4), 2), "the search's start is one of them"
    assert gains["global"] == (pytest.approx(0.05), pytest.approx(0.4), 2) and found.missing == ()
    assert all(np.isnan(recipe.gain.low) for recipe in found.recipes)
    assert found.edges == {"Lambda_e": "upper"} and sorted(found.alike["Lambda_e"]) == [12.0, 16.0]


def test_repeats_without_a_seed_say_nothing_about_noise():
    """One script, run twice: it is deterministic, and has no seed."""
    once = job().assign(seed=None)
    trials = pd.concat([once, once.assign(trial_id=once["trial_id"] + "-again", trial_index=once["trial_index"] + 50)])
    found = Findings(trials.reset_index(drop=True))
    assert found.noise[1] == 0 and (found.best["seeds"], found.best["trained"]) == (1, 1)
    assert all(np.isnan(recipe.gain.low) and not recipe.gain.seeds for recipe in found.recipes)
    text = said(found)
    assert "No setting was trained with two known seeds: how much of a difference is chance is not" in text["How sure"]
    assert "how much is chance is not known" in text["separate average, best rate"]


def test_gains_over_several_seeds_are_paired_and_their_interval_is_students():
    trials = job(seeds=(0, 1, 2))
    found = Findings(trials)
    assert found.best["seeds"] == 3 and found.noise[0] == pytest.approx(0.01)
    assert found.noise[1] == 2 * 13, "one of the 14 settings is of both cd and separate"
    for recipe, gain in zip(found.recipes, (0.1, 0.05)):
        same = (recipe.gain.value, recipe.gain.low, recipe.gain.high)
        assert recipe.gain.seeds == 3 and same == pytest.approx((gain,) * 3), "one luck for both"
    at = (trials["search"] == "separate") & (trials["trial_index"] == 1)
    trials.loc[at, "test_score"] = [0.70, 0.72, 0.65]  # seeds 0, 1, 2; the best has 0.80, 0.81, 0.79
    gain, gains = Findings(trials).recipes[0].gain, np.array([0.10, 0.09, 0.14])
    half = 4.302653 * gains.std(ddof=1) / 3**0.5  # Student's t at 0.975 with two degrees of freedom
    mean = gains.mean()
    assert (gain.value, gain.low, gain.high) == pytest.approx((mean, mean - half, mean + half))


def test_averages_are_compared_where_they_mean_something():
    """Not where no trial is on a diagonal; InfoNCE has one average, and other parameters have none."""
    trials = job()
    found = Findings(trials[(trials["search"] == "cd") & (trials["trial_index"] > 0)])
    assert found.recipes == () and found.missing == ("separate", "global")
    assert "not known" in said(found)["separate average"]
    assert [recipe.average for recipe in Findings(trials.assign(loss="infonce")).recipes] == ["separate"]
    own = table([row(i, val=0.1 * i, search="cd", params={"lr": 10.0**-i, "momentum": 0.5 + i / 10}) for i in range(4)])
    assert Findings(own).recipes == Findings(own).missing == ()


@pytest.mark.parametrize("average, k, within", [("separate", 2, 0.5), ("global", 2, 0.5), ("global", 4, 1.0)])
def test_reachable_trials_against_brute_force(average, k, within):
    trials = full_grid(9, (16, 64))
    off = [abs(balance.off_diagonal(trial, average, trial["batch_size"], k)) for _, trial in trials.iterrows()]
    assert on_diagonal(trials, average, k, within).equals(trials[np.array(off) <= within + 1e-9])
    with pytest.raises(ValueError, match=r"average 'Global': one of \['separate', 'global', 'published'\]"):
        on_diagonal(trials, "Global", k)


UNKNOWN = "2 learning rates trained: on one side of the best none was tried, which is too few to know it."


@pytest.mark.parametrize("rates, best, words", [
    ([0.1, 0.4], 0.4, UNKNOWN),
    ([0.1, 0.11, 0.12], 0.11, "3 learning rates trained: the best is bracketed within 0.26 octaves."),
    ([14.0, 16.0], 16.0, f"{UNKNOWN} It is at the upper end of the range: a wider one may hold better."),
    ([1e-6, 0.5], 1e-6, f"{UNKNOWN} It is at the lower end of the range: a wider one may hold better."),
])  # fmt: skip
def test_a_baseline_says_how_well_its_learning_rate_was_tuned(rates, best, words):
    """Rates of another batch size and those of failed trials do not count."""
    other, config = h(1.01 * best, 1.01 * best, 32), {"space": SPACE.to_json()}
    rows = [row(9, val=0.9, search="cd", params=h(0.5, 4.0)), row(10, val=0.1, search="separate", params=other),
            row(11, "failed", search="separate", params=h(1.02 * best, 1.02 * best))]  # fmt: skip
    for i, rate in enumerate(rates):
        rows.append(row(i, val=0.5 + 0.1 * (rate == best), search="separate", params=h(rate, rate), config=config))
    assert worth(Findings(table(rows)))["rows"][1]["how"].endswith(words)


def test_under_adam_the_scale_of_the_weights_is_no_learning_rate():
    trials = job().assign(config='{"optimizer": "adam"}')
    found, alone = Findings(trials), Findings(trials[trials["search"] == "separate"])
    assert [recipe.learning_rate for recipe in found.recipes] == [None, None]
    how = "Best at b = 64. 2 settings trained; under Adam"
    assert how in said(found)["separate average"] and said(alone)["separate average"].startswith("Nothing")
    assert not any("learning rate" in text for text in [*said(found, COMMAND).values(), *said(alone).values()])


@pytest.mark.parametrize("freedom, half", [(1, 12.7062), (2, 4.30265), (6, 2.44691)])
def test_how_far_two_trainings_may_differ_is_students(freedom, half):
    """Each setting has two seeds, 0.01 * 2 ** 0.5 apart: a standard deviation of 0.01 and a degree of freedom each."""
    rows = [
        row(index, val=0.5, test_score=0.5 + seed * 0.01 * 2**0.5, params=h(2.0**index, 1.0), seed=seed, search="cd")
        for index in range(freedom)
        for seed in (0, 1)
    ]
    found = Findings(table(rows))
    assert found.noise == (pytest.approx(0.01), freedom)
    assert f"differ by less than {half * 0.01 * 2**0.5:.4f} in 95 of 100 cases" in said(found)["How sure"]


def test_sentences_about_what_failed():
    errors = {1: ("failed", "lost: node n2\ntrace"), 2: ("diverged", "the loss is nan"), 3: ("failed", "lost: node n2")}
    rows = [row(n, status, search="cd", error=error) for n, (status, error) in errors.items()]
    text = said(Findings(table([row(0, search="cd"), *rows])), COMMAND)["Trials that did not complete"]
    assert "2 trials failed, 1 trial diverged" in text and "2 x: lost: node n2." in text
    assert "--study s --resume` runs them again" in text


def test_rows_of_lost_trainings_do_not_say_how_many_items_a_class_has():
    """The first row's training was lost with its node: the others say k = 4."""
    own = {"search": "cd", "params": h(*balance.average_weights("global", 64, 4)), "config": {"k": 4}}
    rows = [row(0, "failed", search="cd", params=h(0.1, 0.1), config={"Lambda_p": 0.1}), row(1, **own), row(2, **own)]
    assert per_class(table(rows)) == 4 and [recipe.average for recipe in Findings(table(rows)).recipes] == ["global"]
    assert per_class(table([row(0, config={"k": "many"})])) == 2 == per_class(table([]))


def test_the_test_score_of_a_revisited_benchmark_is_of_another_metric():
    trials = table([row(0, test_score=0.6, dataset="landmarks", config={"test": "roxford5k"})])
    words = [score_words(trials, name) for name in ("val_score", "test_score", "test_map_at_r")]
    assert words == ["validation r_map", "test roxford5k medium mAP", "test_map_at_r"]
    several = table([row(0), row(0, study="t", metric_name="recall")])
    assert score_words(several, "test_score") == "test score"
    assert score_words(table([]), "val_score") == "validation score"


# The page's content -------------------------------------------------------------------------------------------


def test_of_many_unusable_files_the_first_are_named_and_the_others_counted():
    assert payload(table([]), "t")["studies"] == []
    notes = payload(job(), "t", notes=[f"file {n}" for n in range(9)])["notes"]
    assert notes == [*(f"file {n}" for n in range(5)), "… and 4 more of these"]


def test_places_scales_and_lengths_of_a_users_own_tuner():
    trials, curves = own_tuner()
    [study] = payload(trials, "t", curves=curves)["studies"]
    params = {param["name"]: param for param in study["params"]}
    assert {name: param["scale"] for name, param in params.items()} == {
        "lr": "log", "momentum": "linear", "layers": "log", "optimizer": "category",
    }  # fmt: skip
    momentum = np.array([params["momentum"]["values"], params["momentum"]["at"]])
    assert momentum[0].min() < 0 and np.allclose(momentum[1], (momentum[0] + 0.5) / 1.49, atol=1e-3)
    places = {"sgd": 0, "adamw": 0.5, "lion": 1}
    assert params["optimizer"]["at"] == [places[name] for name in params["optimizer"]["values"]]
    epochs = [scores["epoch"] for scores in trials["scores"]]
    known = [n for n, status in enumerate(trials["status"]) if status in ("completed", "stopped")]
    assert [study["trials"]["share"][n] for n in known] == [epochs[n] / 16 for n in known]
    assert set(study["trials"]["state"]) == {"trained to the end", "stopped early", "failed", "diverged"}
    assert {line["row"]: len(line["x"]) for line in study["learning"]["lines"]} == {n: epochs[n] for n in known}
    assert sorted(label for label, *_ in study["importance"]) == sorted(params)
    assert "category" not in [study["params"][n]["scale"] for n in study["axes"]], "a category has shapes"
    assert study["curves"]["x"]["label"] == "trials ended", "a scheduler's short trainings are no whole ones"
    assert eval(study["use"]["in your script"].removeprefix("config = "))["optimizer"] in ("sgd", "adamw", "lion")


@pytest.mark.slow
def test_studies_of_a_users_own_are_compared_by_their_metric():
    own, _ = own_tuner()
    both = pd.concat([own, own.assign(study="again", val_score=own["val_score"] + 0.01)], ignore_index=True)
    [compared] = [one for one in payload(both, "t")["tables"] if one["title"].startswith("Studies")]
    assert compared["title"] == "Studies by their accuracy"
    assert [line[0] for line in compared["rows"]] == ["again", "my-net"]
    assert "optimizer = " in compared["rows"][0][1]
    small = both.assign(val_score=1e-9 * both["val_score"])
    [compared] = [one for one in payload(small, "t")["tables"] if one["title"].startswith("Studies")]
    assert [(name, float(best) > 0) for name, _, best, *_ in compared["rows"]] == [("again", True), ("my-net", True)]


def test_categories_are_used_as_what_they_stand_for():
    chosen = [{"bias": "true", "norm": "null", "name": "adam", "digit": '"2"'}] * 2
    trials = table([row(n, params={"opt/lr": 0.5 + n, "layers": 3.0}, search="cd") for n in (0, 1)]).assign(
        choices=chosen
    )
    ways = payload(trials, "t")["studies"][0]["use"]
    expected = {"opt": {"lr": 0.5}, "layers": 3, "bias": True, "norm": None, "name": "adam", "digit": "2"}
    assert eval(ways["in your script"].removeprefix("config = ")) == expected


def test_settings_alike_are_told_with_every_parameter_in_which_they_differ():
    rows = [row(n, val=0.5, params={"lr": 1e-5 * (1 + n), "layers": 3.0}, search="cd") for n in (0, 1)]
    trials = table(rows).assign(choices=[{"name": "sgd"}, {"name": "adam"}])
    alike = "2 settings are within 1 % of the best (lr 1e-5 to 2e-5, name adam or sgd)."
    assert alike in said(Findings(trials))["How sure"]


def test_paused_is_one_word_and_its_share_is_of_the_images():
    rows = [
        row(n, "completed" if images == 800 else "stopped", 0.1 * n, params={"lr": 2.0**n}, search="cd",
            config={"images_seen": 800}, images_seen=images)
        for n, images in enumerate([100, 200, 800, 400])
    ]  # fmt: skip
    [study] = payload(table([*rows[:3], rows[3] | {"error": CUT}]), "t")["studies"]
    assert study["trials"]["state"][3] == "cut off" and "1 cut off" in study["chips"][0]
    [study] = payload(table(rows), "t")["studies"]
    assert study["trials"]["state"] == ["paused", "paused", "trained to the end", "paused"]
    assert study["trials"]["share"] == [0.125, 0.25, 1, 0.5]
    assert study["curves"]["x"]["label"] == "whole trainings' worth"
    assert study["chips"][:2] == [
        "4 trainings: 3 paused, 1 trained to the end", "cost: 1.88 whole trainings (all to the end: 2.1 times that)",
    ]  # fmt: skip


def test_on_ties_headline_and_star_are_the_same_trial():
    rows = [row(n, val=0.5 if n in (2, 5) else 0.1, search="cd", params=h(2.0**n, 1.0)) for n in (5, 2, 0, 1)]
    [study] = payload(table(rows), "t")["studies"]
    assert study["trials"]["trial_id"][study["best"][0]] == "cd-0-2-0" and "Λp 4" in study["setting"]


def test_a_first_setting_that_paused_is_compared_at_its_own_length():
    """Its loss of 2.0 is of an eighth of a training, where the best one's was 1.5."""
    found = Findings(paused_tuner((2.0,), (1.5, 1.0, 0.8, 0.4), (1.6, 1.1, 0.9, 0.5)))
    best, first = worth(found)["rows"]
    assert best["value"] == 0.4 and first["value"] is None, "no value of a short training beside one of a whole one"
    assert first["gain"] == "-0.500 (-25.0 %)"
    assert first["verdict"].startswith("against the first setting tried, both at 12.5 % of their length; of one")
    assert "At 12.5 % of that it had 2, and the best setting 1.5." in first["how"]


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_first_setting_without_a_score_is_named_and_one_that_is_the_best_is_worth_nothing_more(status):
    trials = paused_tuner((2.0,), (1.5, 1.0, 0.8, 0.4))
    trials.loc[0, ["status", "val_score"]] = status, np.nan
    told = worth(Findings(trials))["rows"][1]
    assert told["value"] is None and "gain" not in told and f"it {status}" in told["how"]
    told = worth(Findings(paused_tuner((1.5, 1.0, 0.8, 0.4), (1.6, 1.1, 0.9, 0.5))))["rows"][1]
    assert (told["label"], told["gain"]) == ("first setting tried", "Nothing")


def test_the_curves_of_a_users_trainings_are_over_their_own_length_or_reports():
    trials, curves = own_tuner()
    unknown = json.dumps({"space": studies.OWN_SPACE})
    for config, label, step in ((trials["config"], "epoch", 0.5), (unknown, "reports", 1)):
        [study] = payload(trials.assign(config=config), "t", curves=curves)["studies"]
        learning = study["learning"]
        assert learning["x"]["label"] == label and learning["lines"][0]["x"][:2] == [step, 2 * step]


def test_an_equal_score_of_another_search_is_not_ahead():
    rows = [row(0, val=0.8, search="cd"), row(0, val=0.8, search="separate", params={"Lambda_p": 0.5, "Lambda_e": 0.5})]
    assert Findings(table(rows[::-1])).ahead is None
    rows[1]["val_score"] = 0.81
    assert Findings(table(rows)).ahead["search"] == "separate"


def test_the_study_that_ended_last_comes_first():
    rows = [row(0, study=name, times=(at, at + 1.0)) for name, at in (("a", 50.0), ("b", 90.0), ("c", 10.0))]
    assert [study["name"] for study in payload(table(rows), "t")["studies"]] == ["b", "a", "c"]


def test_a_study_took_the_time_in_which_a_training_ran():
    times = [(0.0, 30.0), (5.0, 10.0), (20.0, 45.0), (9000.0, 9015.0), None]
    rows = [row(n, search="cd", times=at, params={"lr": 2.0**n}, gpus=0.0) for n, at in enumerate(times)]
    assert "took 60 s, without a GPU" in payload(table(rows), "t")["studies"][0]["chips"]
    runs = [{"images_seen": 2, "val_score": 0.1, "started_at": "2026-01-01T00:00:00+00:00", "hostname": "a",
             "ended_at": "2026-01-01T00:00:30+00:00", "device": "cpu", "scores": {}}]  # fmt: skip
    rows = [row(times=(9000.0, 9030.0), images_seen=4, config={"images_seen": 4, "runs": runs})]  # gpus: not known
    assert "took 60 s" in payload(table(rows), "t")["studies"][0]["chips"]


def test_studies_of_one_task_are_compared():
    worse = job().assign(study="one", val_score=lambda trials: trials["val_score"] - 0.1)
    trials = studies.several([worse, job().assign(study="two")])
    [compared] = [one for one in payload(trials, "t")["tables"] if one["title"].startswith("Studies of")]
    assert compared["title"] == "Studies of glyphs, margin" and [line[0] for line in compared["rows"]] == ["two", "one"]
    assert compared["rows"][0][1:4] == ["Λp = 1, Λe = 16, b = 64", "0.9", "0.8000"]


def test_of_a_smaller_is_better_metric_the_small_ones_are_bright():
    rows = [row(n, val=1.0 / (n + 1), search="cd", metric_name="loss", params={"lr": 2.0**n}) for n in range(9)]
    [study] = payload(table(rows).assign(mode="min"), "t")["studies"]
    told = study["scores"][0]
    assert (told["label"], told["down"], told["values"][0]) == ("validation loss", True, 1)
    assert not payload(table(rows), "t")["studies"][0]["scores"][0]["down"]


def test_a_loss_beside_an_accuracy_is_better_small_on_the_page_and_in_a_grid():
    scores = [{"loss": 1.0 / (n + 1), "Top5Error": 0.1, "entropy_term": 0.2, "recall": 0.5} for n in range(9)]
    trials = table(row(n, val=n, search="cd", scores=one, params={"lr": 2.0**n}) for n, one in enumerate(scores))
    [study] = payload(trials, "t")["studies"]
    down = {score["name"]: score["down"] for score in study["scores"]}
    assert {name for name in down if down[name]} == {"loss", "Top5Error", "entropy_term"} and not down["recall"]
    assert grid(trials, "loss").sign == -1 and grid(trials, "loss").top(1)["lr"].item() == 2.0**8


def test_scores_of_a_users_own_may_have_the_names_of_ours_and_of_columns():
    """The first score, by which the table is sorted, is the metric; others are as they were reported."""
    told = {"score": 0.5, "loss": 2.0, "seed": 7.0, "images_seen": 300.0, "test_score": 0.25}
    rows = [row(n, val=0.5 + n, metric_name="score", params={"lr": 2.0**n}, scores=told) for n in range(3)]
    [study] = payload(table(rows).assign(dataset=None, loss=None), "t")["studies"]
    shown = {score["label"]: score["values"] for score in study["scores"]}
    assert [*shown] == ["validation score", "test score", "images_seen", "loss", "seed"]
    assert shown.pop("validation score") == [0.5, 1.5, 2.5]
    assert {values[0] for values in shown.values()} == {0.25, 300, 2, 7}


@pytest.mark.slow
def test_a_long_study_is_shown_whole():
    """More rows than a list in a configuration may have values, as a stored replay of 80 searches a method has."""
    trials = pd.concat([job()] * 800, ignore_index=True)
    trials = trials.assign(trial_index=range(len(trials)), trial_id=[f"t{n}" for n in range(len(trials))])
    [study] = payload(trials, "t")["studies"]
    assert len(study["trials"]["trial_id"]) == len(trials) > LONGEST


def test_worth_is_the_recipes_scores_with_intervals_over_seeds_and_a_verdict():
    [study] = payload(job(seeds=(0, 1, 2)), "t")["studies"]
    best, separate, common = study["worth"]["rows"]
    assert study["worth"]["chosen"] == "0.9, the mean of 3 seeds", "not that of the named trial"
    half = 4.302653 * 0.01 / 3**0.5
    assert (best["value"], best["low"], best["high"]) == pytest.approx((0.8, 0.8 - half, 0.8 + half))
    assert (separate["value"], common["value"]) == pytest.approx((0.7, 0.75))
    assert separate["gain"] == "+0.100 (+14.3 %)"
    assert separate["verdict"].endswith("+0.100 over 3 pairs of seeds): beyond chance.")
    single = payload(job(), "t")["studies"][0]["worth"]
    once = single["rows"]
    assert [line["low"] for line in once] == [None] * 3 and "how much is chance is not known" in once[1]["verdict"]
    assert single["chosen"] == "0.9"


@pytest.mark.parametrize("first, best, gain", [
    (-0.02, 0.02, "+0.0400"), (-0.4, -0.3, "+0.100 (+25.0 %)"), (0.0, 0.5, "+0.500"), (0.4, 0.5, "+0.100 (+25.0 %)"),
])  # fmt: skip
def test_a_gain_is_a_share_only_of_a_score_of_the_same_sign(first, best, gain):
    rows = [row(n, val=value, search="cd", params={"lr": 2.0**n}) for n, value in enumerate((first, best))]
    assert worth(Findings(table(rows)))["rows"][1]["gain"] == gain


def test_a_gain_over_what_was_not_tested_is_one_of_validation():
    trials = job()
    untested = trials.assign(test_score=trials["test_score"].where(trials["search"] == "cd"))
    row = payload(untested[untested["trial_index"] != 0], "t")["studies"][0]["worth"]["rows"][1]
    assert row["gain"] == "+0.100 (+12.5 %)" and "in validation, since it was not tested" in row["verdict"]


def test_a_users_parameters_beside_the_weights_are_shown_and_keys_of_ours_tell_no_set_ups():
    space = Space(Lambda_p=(1e-3, 10.0), Lambda_e=(1e-3, 10.0), temperature=(0.01, 1.0), lengths=[1, 2, 3])
    rows = []
    for n in range(3):
        h = {"Lambda_p": 0.1 * 2**n, "Lambda_e": 1.0, "temperature": 0.05 * (n + 1), "lengths": n + 1.0}
        own = with_own(h, {"space": space.to_json(), "lengths": [1.0]})
        rows.append(row(n, val=0.5 + 0.1 * n, params=h, search="cd", config=own))
    [study] = payload(table(rows).assign(dataset=None, loss=None, task=None), "t")["studies"]
    assert study["setting"] == ["Λp 0.4", "Λe 1", "temperature 0.15", "lengths 3"]
    assert study["use"]["in your loop"].endswith("\n# temperature = 0.15\n# lengths = 3")
    assert [param["name"] for param in study["params"]] == ["Lambda_p", "temperature", "lengths"]


def gradient(code: str, weights: dict[str, float]) -> dict[str, float]:
    """What a step of the code's loop multiplies each term's gradient with."""
    rate = float(re.search(r"lr=([\d.e+-]+)\)", code)[1])
    loss = re.search(r"^loss = (.+?)(  #.*)?$", code, re.MULTILINE)[1]
    ends = [eval(loss, {name: float(name == one) for name in weights} | {"n_pairs": 64 * 63}) for one in weights]
    return {name: rate * end * times for (name, times), end in zip(weights.items(), ends)}


def test_the_code_to_use_trains_with_the_best_weights():
    """Of 64 * 63 pairs 64 are of one class: a sum over them is their mean times their number."""
    [study] = payload(job(), "t")["studies"]
    ways = study["use"]
    expected = pytest.approx([1.0, 16.0], rel=1e-3)
    assert list(gradient(ways["in your loop"], {"positive": 1.0, "entropy": 1.0}).values()) == expected
    sums = {"sum_positive": 64.0, "sum_entropy": 64.0 * 62.0}
    assert list(gradient(ways["with a global average"], sums).values()) == expected
    assert "2 images a class" in ways["in your loop"]
    [unlabelled] = payload(job().assign(task="ssl"), "t")["studies"]
    assert unlabelled["use"]["in your loop"].endswith("batches of 64 views, 2 of each image")
    three = payload(studies.searched_terms(studies.VICREG).assign(task="ssl"), "t")["studies"][0]
    assert three["use"]["in your loop"].endswith("batches of 64 views, 2 of each image")
    names = {name.removeprefix("Lambda_"): 1.0 for name in studies.VICREG}
    row = three["best"][0]
    best = {param["name"].removeprefix("Lambda_"): param["values"][row] for param in three["params"]}
    assert gradient(three["use"]["in your loop"], names) == pytest.approx(best, rel=1e-3)


def test_a_loss_is_weighed_and_shaded_as_its_negative_and_one_huge_loss_changes_little():
    """With more settings than the process takes: the best of them count."""
    rng = np.random.default_rng(0)
    places = rng.uniform(-4, 4, (MOST + 50, 2))
    loss = 1.0 + (places[:, 0] - 1) ** 2 + 0.1 * (places[:, 1] + 1) ** 2
    params = [dict(zip(("lr", "decay"), (10.0**at).tolist())) for at in places]

    def page(values, **fields):
        rows = [row(n, val=float(value), params=h, **fields) for n, (h, value) in enumerate(zip(params, values))]
        return payload(table(rows), "t")["studies"][0]

    found, negative = page(loss, mode="min", metric_name="loss"), page(-loss)
    assert found["importance"] == negative["importance"] and found["best"] == negative["best"]
    cells = [np.array(one["shades"][0]["z"], dtype=float) for one in (found, negative)]
    assert np.array_equal(cells[0], -cells[1], equal_nan=True) and np.isfinite(cells[0]).any()
    loss[int(places[:, 1].argmax())] = 1e6
    huge = page(loss, mode="min", metric_name="loss")
    assert [label for label, *_ in huge["importance"]] == ["lr", "decay"]
    assert abs(huge["importance"][0][1] - found["importance"][0][1]) < 0.05


@pytest.mark.parametrize("count, known", [(7, True), (60, True), (2208, True), (None, False), (10_000, False)])
def test_the_number_of_images_is_read_from_scores_that_are_shares_of_them(count, known):
    rng = np.random.default_rng(0)
    shares = [int(k) / count if count else float(rng.random()) for k in rng.integers(1, (count or 9) - 1, 30)]
    trials = table(row(n, val=0.5, scores={"val_precision_at_1": share}) for n, share in enumerate(shares))
    assert images_of(trials) == ({"val_score": count} if known else {}), "10,000: scores rounded to four decimals"
    assert images_of(trials.iloc[:2]) == {}, "too few values tell nothing"


def test_a_difference_of_one_image_is_warned_of():
    hits = [3, 4, 1, 5, 2, 5]
    rows = [row(n, val=k / 6, search="cd", metric_name="accuracy", params={"lr": 2.0**n}) for n, k in enumerate(hits)]
    [study] = payload(table(rows), "t")["studies"]
    [warned] = [text for head, text, _ in study["words"] if head == "Few images"]
    assert warned.startswith("6 images validate, so one is worth 0.17 of the score")
    assert "images: 6 validate" in study["chips"]
    assert "Few images" not in said(Findings(job()))


def test_a_failed_first_trial_has_no_best_so_far():
    rows = [row(0, "failed", search="cd", times=(0, 1)), row(1, val=0.4, test_score=0.3, search="cd", times=(1, 2))]
    [curve] = payload(table(rows), "t")["studies"][0]["curves"]["lines"]
    assert (curve["x"], curve["y"]) == ([1, 2], [None, 0.4])


def test_numbers_are_rounded_and_errors_hold_no_secrets():
    rows = [row(0, val=1 / 3, params=h(1 / 3, 123456789.123)), row(1, "failed", error="https://user:hunter2@host/x")]
    study = payload(table(rows), "t")["studies"][0]
    assert study["scores"][0]["values"][0] == 0.333333
    assert study["params"][1]["values"][0] == 123456789 and "hunter2" not in json.dumps(study)


def test_recipes_are_lines_through_the_settings_that_they_reach():
    [study] = payload(studies.main_job(), "t")["studies"]
    at = {param["name"]: np.array(param["at"], dtype=float) for param in study["params"]}
    for line in study["recipes"]:
        own = np.array([search == line["label"].split()[0] for search in study["trials"]["search"]])
        (x0, y0), (x1, y1) = line["points"]
        expected = y0 + (at["Lambda_p"][own] - x0) / (x1 - x0) * (y1 - y0)
        assert own.sum() > 3 and np.allclose(at["Lambda_e"][own], expected, atol=1e-3)
    assert [line["label"] for line in study["recipes"]] == ["separate average", "global average"]


def test_trials_of_another_set_up_are_a_part_of_their_own():
    trials = job()
    memory = np.where(trials["search"] == "separate", "fixed", "none")
    trials["config"] = [json.dumps({"memory": mode, "k": 2}) for mode in memory]
    parts = {study["name"]: study for study in payload(trials, "t")["studies"]}
    counts = {name: len(part["trials"]["trial_id"]) for name, part in parts.items()}
    assert counts == {"s: memory=fixed": 2, "s: memory=none": 12}
    how = parts["s: memory=none"]["worth"]["rows"][1]["how"]
    assert "1 learning rate trained: on one side of the best none was tried" in how, "the search's own start alone"


def test_a_parameter_named_as_a_word_of_the_glossary_is_not_explained_as_that():
    own, plain = (table([row(n, params={name: 1.0 + n}) for n in range(3)]) for name in ("b", "lr"))
    assert "b" in payload(plain, "t")["glossary"] and "b" not in payload(own, "t")["glossary"]


def test_a_parameter_named_as_a_column_keeps_its_own_values():
    trials = odd()["names of columns"]
    [study] = payload(trials, "t")["studies"]
    for param in study["params"]:
        assert param["values"] == [h[param["name"]] for h in trials["params"]]
    cells = grid(trials, axes=["value", "lost"]).frame()
    assert cells["value (parameter)"].tolist() == [1, 2, 3, 4, 5]
    assert cells["value"].tolist() == trials["val_score"].tolist()


# The command --------------------------------------------------------------------------------------------------


def test_the_command_writes_one_page_with_each_named_study(tmp_path, capsys):
    """However the option is written; nothing is fetched."""
    for name in "abc":
        store(tmp_path / "r", job().assign(study=name))
    page = tmp_path / "page.html"
    for named in (["--study", "a", "b"], ["--study", "a", "--study", "b"]):
        assert main([str(tmp_path / "r"), "-o", str(page), *named]) == 0
        assert "28 trials of 2 studies:" in capsys.readouterr().out
        assert "+0.100 (+14.3 %)" in page.read_text() and "default-src 'none'" in page.read_text()


@pytest.mark.parametrize("argv, message", [
    (["nowhere"], "no results folder"),
    (["r", "--study", "other"], "no study 'other' in"), (["r", "--study", "other", "s"], "study other: not in"),
    (["r", "-o", "no/such/folder/page.html"], "in a folder that exists"),
    (["r", "-o", "r"], "not a folder"), (["r", "--figures", "file"], "--figures file: a folder, not a file"),
    (["r", "-o", "/dev/null"], "not a folder or a device"),
    (["~no-such-user/r"], "no-such-user"),
    (["r/trials"], "RESULTS is the folder that holds trials/"),
    (["nowhere.parquet"], "nowhere.parquet"),
])  # fmt: skip
def test_the_command_refuses_with_a_message(tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "r", job())
    (tmp_path / "file").touch()
    assert main(argv) == 2 and message in capsys.readouterr().err and not (tmp_path / "report.html").exists()


def test_a_study_that_cannot_be_shown_is_named_in_its_place_and_costs_no_other(tmp_path, capsys):
    store(tmp_path, job())
    [alone] = content(tmp_path)["studies"]
    studies.foreign(tmp_path, "hurt", software="{damaged")
    page = tmp_path / "page.html"
    assert main([str(tmp_path), "-o", str(page)]) == 1
    said = capsys.readouterr()
    assert "error: study hurt could not be shown: JSONDecodeError: " in said.err and "of 1 study:" in said.out
    good, hurt = shown(page)["studies"]
    assert good == alone and hurt["name"] == "hurt" and "JSONDecodeError" in hurt["failed"]
    with pytest.raises(ValueError, match="JSONDecodeError"):
        write_report(tmp_path, "hurt")


def test_the_command_and_the_networks_are_those_of_the_study(tmp_path):
    store(tmp_path, job())
    (tmp_path / "studies/s").mkdir(parents=True)
    (tmp_path / "studies/s/study.json").write_text(json.dumps({"version": 1, "options": {"range": [1e-6, 16.0]}}))
    told = {head: text for head, text, _ in content(tmp_path)["studies"][0]["words"]}
    assert "Λe is at the upper end of its range" in told["What to try next"]
    assert "further on (`--range LO,HI` in a new study)" in told["What to try next"]
    for search in ("cd", "separate"):
        keep_network(store_of(tmp_path), "s", search, f"{search}-3", 0.5, lambda: b"tensors")
    file = tmp_path / "studies/s/networks/cd~0.500000000~cd-3.pt"
    ways = content(tmp_path)["studies"][0]["use"]
    assert f"trained.load({str(file)!r})" in ways["its network"] and "--study s --resume" in ways["search on"]


@pytest.mark.parametrize("network, own", [("mine:net", {"network": "mine:net"}), ("timm:resnet10t", {})])
def test_the_code_to_load_a_network_runs_for_a_bucket_and_a_users_own_network(tmp_path, monkeypatch, network, own):
    (tmp_path / "n.pt").write_bytes(b"tensors")
    monkeypatch.setattr("trainables.trained.load", lambda file, **named: lambda images: (file.read(), named))
    found = Findings(table([row(n, search="cd", config={"network": network}) for n in (0, 1)]))
    names = {"images": None}
    exec(use_it(found, None, (tmp_path / "n.pt").as_uri())["its network"], names)
    assert names["vectors"] == (b"tensors", own)


def test_one_parquet_file_is_enough(tmp_path):
    trials = load("omniglot-242-margin").at(64).rows().astype(object)
    rows = [results.check_trial(row) for row in trials.where(trials.notna(), None).to_dict("records")]
    (tmp_path / "grid.parquet").write_bytes(serialise(pa.Table.from_pylist(rows, results.TRIALS)))
    with no_warnings():
        found = content(tmp_path / "grid.parquet")
    [study] = found["studies"]
    assert len(study["trials"]["trial_id"]) == len(trials) and len(study["params"]) == 2


def check_content(parts, trials):
    """Whatever a study's rows hold: every trial is shown, columns are of one length, words say something."""
    assert sum(len(part["trials"]["trial_id"]) for part in parts) == len(trials)
    for part in parts:
        assert part["words"] or not part["best"]
        assert all(text and not re.search(r"\bnan\b", text) for _, text, _ in part["words"])
        columns = [*part["trials"].values(), *(score["values"] for score in part["scores"])]
        columns += [values for param in part["params"] for values in (param["at"], param["values"])]
        assert len({len(column) for column in columns}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [slice(1, None, 2), pytest.param(slice(0, None, 2), marks=pytest.mark.faults)])
def test_odd_studies_cost_no_other_study_anything(tmp_path, capsys, chosen):
    """Studies with odd rows in one folder with a healthy one: all are shown, the healthy one as if it were alone. Those
    that are not chosen in the short run are drawn in `test_report_figures.py`."""
    healthy, tables = studies.main_job(), list(odd().values())[chosen]
    [alone] = payload(healthy, "t")["studies"]
    for trials in (healthy, *tables):
        store(tmp_path, trials)
    assert main([str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0
    assert f" of {1 + len(tables)} studies:" in capsys.readouterr().out
    found = shown(tmp_path / "page.html")
    assert found["notes"] == []
    for trials in tables:
        check_content([part for part in found["studies"] if part["study"] == trials["study"][0]], trials)
    assert next(study for study in found["studies"] if study["study"] == "glyphs-margin") == alone
