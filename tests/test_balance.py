"""Recipes and the balance they amount to, against counted pairs."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from trainables.losses import LOSSES
from tune_cd import balance
from tune_cd.balance.__main__ import main
from tune_cd.balance.known_bests import table


@pytest.mark.parametrize("b, k", [(64, 2), (16, 2), (64, 4), (6, 3)])
def test_the_global_average_weighs_all_pairs_alike(b, k):
    labels = [i // k for i in range(b)]
    pairs = [(i, j) for i, j in itertools.product(range(b), repeat=2) if i != j]
    positive = sum(labels[i] == labels[j] for i, j in pairs)
    assert balance.average_weights("global", b, k) == pytest.approx((positive / len(pairs), 1 - positive / len(pairs)))


def test_off_diagonal_is_zero_on_it_and_counts_octaves():
    for average in balance.AVERAGES:
        assert balance.off_diagonal(balance.from_recipe(0.3, average, 32), average, 32) == pytest.approx(0)
    assert balance.off_diagonal({"Lambda_p": 1.0, "Lambda_e": 8.0}, "separate", 32) == 3


@pytest.mark.parametrize(
    "text, expected",
    [
        ("lr=0.1,average=global,b=128", balance.from_recipe(0.1, "global", 128) | {"batch_size": 128}),
        ("lr=0.1,average=global,batch_size=128", balance.from_recipe(0.1, "global", 128) | {"batch_size": 128}),
        ("lr=0.1, average=separate", {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64}),
        ("average=global,lr=2,b=32,k=4", balance.from_recipe(2.0, "global", 32, 4) | {"batch_size": 32}),
        ("lr=63,average=global,lambda_p=2,lambda_e=1,b=64", {"Lambda_p": 2.0, "Lambda_e": 62.0, "batch_size": 64}),
        ("lr=0.01,lambda_p=3,lambda_e=60", {"Lambda_p": 0.03, "Lambda_e": 0.6, "batch_size": 64}),
    ],
)
def test_recipes_in_words(text, expected):
    assert balance.parse_recipe(text) == pytest.approx(expected)


def test_the_xbm_authors_balance_is_the_global_averages():
    """Per anchor sums over pairs weigh the terms (k-1, b-k): 3 to 60 at b = 64 with 4 per class (sec:xbm)."""
    published = balance.parse_recipe("lr=0.1,lambda_p=3,lambda_e=60,b=64,k=4")
    assert balance.off_diagonal(published, "global", 64, 4) == pytest.approx(0)


@pytest.mark.parametrize(
    "recipe",
    [
        (0.0, "global", 64), (-1.0, "global", 64), (float("nan"), "global", 64), (0.1, "mean", 64), (0.1, "global", 63),
        (0.1, "global", 2), "", "lr=0.1", "lr=x,average=global", "lr=0.1,average=mean", "lr=0.1,lambda_p=1",
        "lr=0.1,average=global,lambda_p=1", "lr=0.1,average=global,lambda_p=1,lambda_e=0",
        "lr=0.1,lambda_sim=25,lambda_std=25,lambda_cov=1", "lr=0.1,average=global,b=64.5",
        "lr=0.1,lr=0.2,average=global", "lr=0.1,average=global,momentum=0.9", "lr=0.1,lambda_p=0,lambda_e=1",
        "lr=-0.1,lambda_p=-1,lambda_e=-1", "lr=0.1,average=global,b=63",
    ],
)  # fmt: skip
def test_recipes_that_do_not_fit(recipe):
    with pytest.raises(ValueError):
        balance.parse_recipe(recipe) if isinstance(recipe, str) else balance.from_recipe(*recipe)


def test_the_command_says_where_a_recipe_lies(capsys):
    assert main(["lr=0.1,average=separate,b=64"]) == 0
    said = capsys.readouterr().out
    told = "Lambda_p=0.1,Lambda_e=0.1,batch_size=64", "+0.00 from separate", "-5.95 from global"
    assert all(words in said for words in told)
    assert main(["lr=0.1"]) == 2 and "lr=0.1" in capsys.readouterr().err


H = {"Lambda_p": 0.7, "Lambda_e": 17.0}


@pytest.mark.parametrize("k", [2, 4])
def test_the_recipes_for_weights_lead_back_to_them(k):
    """Against sums over counted pairs: lr times the gradient's weight of each pair is the weight of its term's mean."""
    separate, everywhere = balance.recipes(H, 64, k)
    positive, negative = 64 * (k - 1), 64 * (64 - k)
    assert separate.learning_rate == 0.7 and separate.factors["Lambda_e"] == pytest.approx(17 / 0.7)
    for name, pairs in (("Lambda_p", positive), ("Lambda_e", negative)):
        a_pair = everywhere.learning_rate * everywhere.factors[name] / (positive + negative)
        assert a_pair * pairs == pytest.approx(H[name])
        assert everywhere.learning_rate * everywhere.weights[name] == pytest.approx(H[name])
    assert not separate.reached and not everywhere.reached


def test_what_the_learning_rate_alone_does_not_reach():
    """It comes nearest where both weights are equally many octaves away."""
    separate, _ = balance.recipes(H, 64)
    assert separate.nearest == pytest.approx((0.7 * 17) ** 0.5) and set(separate.off) == {"Lambda_e"}
    assert balance.recipes(balance.from_recipe(0.3, "global", 64), 64)[1].reached
    h, weights = {"Lambda_a": 5.0, "Lambda_b": 2.0}, {"Lambda_a": 25.0, "Lambda_b": 1.0}
    (published,) = balance.recipes(h, 64, published=weights)
    assert published.learning_rate == 0.2 and published.weights == {"Lambda_a": 25.0, "Lambda_b": 10.0}
    assert published.off == {"Lambda_b": 10.0}


WEIGHTS = ["Lambda_p=0.7,Lambda_e=17,b=64", "Lambda_p=3e-05,Lambda_e=0.123456789,batch_size=20,k=5"] + [
    ",".join(f"{name}={0.0123 * weight * 2**n}" for n, (name, weight) in enumerate(loss.coefficients.items()))
    for loss in LOSSES.values()
    if not loss.pairwise
]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_command_reads_the_recipes_that_it_prints(weights, capsys):
    given = dict(part.split("=") for part in weights.split(","))
    expected = {name: float(value) for name, value in given.items() if "Lambda" in name}
    size = int(given.get("b") or given.get("batch_size", 64))
    assert main([weights]) == 0
    printed = capsys.readouterr().out.splitlines()
    recipes = [line for line in printed if line.startswith("lr=")]
    assert len(recipes) == 1 + ("Lambda_p=" in weights) and max(map(len, printed)) <= 80
    for recipe in recipes:
        assert main([recipe]) == 0
        head = capsys.readouterr().out.splitlines()[0]
        found = {name: float(value) for name, value in (part.split("=") for part in head.split(","))}
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)
        assert found.get("batch_size", 64) == size


def test_the_command_explains_itself(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: python -m tune_cd.balance RECIPE") and max(map(len, said.splitlines())) <= 80
    assert main([]) == 2


@pytest.mark.parametrize(
    "weights, message",
    [
        ("Lambda_p=0.7", "Lambda_p=...,Lambda_e=..."), ("Lambda_p=0.7,Lambda_e=0", "finite numbers > 0"),
        ("Lambda_p=0.7,Lambda_e=inf", "finite numbers > 0"), ("Lambda_p=0.7,Lambda_e=1,b=63", "batch_size 63"),
        ("Lambda_p=0.7,Lambda_e=1,b=64,batch_size=64", "'batch_size=64' is not one of"),
        ("lr=0.1,b=65", "is needed with average=separate|global, with lambda_p"), ("lr=-1", "lr=-1: a finite number"),
        ("Lambda_p=0.7,Lambda_x=1", "vicreg: sim, std, cov"), ("Lambda_p=0.7,Lambda_e=1,lr=3", "'lr=3' is not one of"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit(weights, message, capsys):
    assert main([weights]) == 2
    assert message in capsys.readouterr().err


def test_the_papers_best_settings():
    """The table of `ssec:best_hp_values`."""
    printed = {
        ("omniglot", "margin"): (8e-3, 2.0), ("sop", "margin"): (1e-2, 4.0), ("landmarks", "margin"): (4e-3, 0.5),
        ("tinyimagenet", "margin"): (1.0, 8.0), ("tinyimagenet", "infonce"): (1.0, 2.0),
    }  # fmt: skip
    assert {(row.dataset, row.loss): tuple(row.weights.values()) for row in table() if row.published} == printed
    assert {row.batch_size for row in table() if row.published} == {64}
    with pytest.raises(ValueError, match="glyphs with margin; it has for omniglot with margin"):
        balance.published("glyphs", "margin")


def test_our_best_settings_are_the_geometric_means_of_the_searches_in_the_table_of_gains():
    text = (Path(__file__).parent / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    line = r"\| (\w+)[-\d]* +\| (margin|infonce) +\| (\d+) +\| 3 +\| [\d.]+ +\| ((?:\([^)]+\)(?:, )?){3})"
    measured = {(dataset, loss, int(b)): searches for dataset, loss, b, searches in re.findall(line, text)}
    ours = {(row.dataset, row.loss, row.batch_size): row for row in table() if not row.published}
    assert ours.keys() == measured.keys()
    for key, row in ours.items():
        found = np.log2([[float(one) for one in pair.split(",")] for pair in re.findall(r"\(([^)]+)\)", measured[key])])
        means = found.mean(0)
        assert np.log2([*row.weights.values()]) == pytest.approx(means, abs=0.1), key
        assert row.spread == pytest.approx(abs(found - means).max(), abs=0.06), key


def test_a_known_best_is_of_the_same_loss_task_and_kind_of_network():
    found = balance.known("margin", "dml", batch_size=128)
    assert [row.dataset for row in found] == ["omniglot", "landmarks"], "SOP's is within an octave of Omniglot's"
    assert balance.known("margin", "ssl", pretrained=False)[0].weights == {"Lambda_p": 1.0, "Lambda_e": 8.0}
    assert balance.known("vicreg", "ssl", pretrained=False) == [] == balance.known("margin", "ssl")
    wrong = [
        ({"task": "retrieval"}, "task 'retrieval': one of"),
        ({"network": "resnet18"}, "network 'resnet18': one of"),
    ]
    wrong += [({"batch_size": b}, f"batch_size {b}: a finite number > 0") for b in (0, -3, float("nan"))]
    wrong += [
        ({"loss": loss}, f"loss '{loss}': '{meant}'") for loss, meant in (("margn", "margin"), ("InfoNCE", "infonce"))
    ]
    for given, said in [*wrong, ({"pretrained": "no"}, "pretrained 'no': one of")]:
        with pytest.raises(ValueError, match=said):
            balance.known(**{"loss": "margin", "task": "dml"} | given)
    assert balance.known("m:infonce", "ssl") == [], "a user's own"


def test_a_dataset_starts_from_its_own_best_at_the_nearest_batch_size_unless_it_is_left_out():
    small = {"network": "small", "pretrained": False}
    own = balance.known("margin", "dml", **small, batch_size=200, dataset="glyphs")
    assert [(row.dataset, row.batch_size) for row in own] == [("glyphs", 256)]
    others = balance.known("margin", "dml", **small, batch_size=20, leave_out="glyphs")
    assert [(row.dataset, row.batch_size) for row in others] == [("omniglot", 16)]
