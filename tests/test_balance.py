"""Recipes and the balance they amount to, against counted pairs."""

import itertools

import pytest

from tune_cd import balance


@pytest.mark.parametrize("b, k", [(64, 2), (16, 2), (64, 4), (6, 3)])
def test_the_global_average_weighs_all_pairs_alike(b, k):
    labels = [i // k for i in range(b)]
    pairs = [(i, j) for i, j in itertools.product(range(b), repeat=2) if i != j]
    positive = sum(labels[i] == labels[j] for i, j in pairs)
    assert balance.average_weights("global", b, k) == pytest.approx((positive / len(pairs), 1 - positive / len(pairs)))


def test_the_papers_case():
    assert balance.average_weights("global", 64) == pytest.approx((1 / 63, 1 - 1 / 63), rel=1e-15)
    assert balance.average_weights("separate", 64) == (1.0, 1.0)
    assert balance.from_recipe(0.1, "global", 64) == pytest.approx({"Lambda_p": 0.1 / 63, "Lambda_e": 6.2 / 63})


def test_off_diagonal_is_zero_on_it_and_counts_octaves():
    for average in balance.AVERAGES:
        assert balance.off_diagonal(balance.from_recipe(0.3, average, 32), average, 32) == pytest.approx(0)
    assert balance.off_diagonal({"Lambda_p": 1.0, "Lambda_e": 8.0}, "separate", 32) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, "global", 64),
        (-1.0, "global", 64),
        (float("nan"), "global", 64),
        (0.1, "mean", 64),
        (0.1, "global", 63),
        (0.1, "global", 2),
    ],
)
def test_impossible_recipes(arguments):
    with pytest.raises(ValueError):
        balance.from_recipe(*arguments)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("lr=0.1,average=global,b=128", balance.from_recipe(0.1, "global", 128) | {"batch_size": 128}),
        ("lr=0.1, average=separate", {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64}),
        ("average=global,lr=2,b=32,k=4", balance.from_recipe(2.0, "global", 32, 4) | {"batch_size": 32}),
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
    "text",
    [
        "",
        "lr=0.1",
        "lr=x,average=global",
        "lr=0.1,average=mean",
        "lr=0.1,lambda_p=1",
        "lr=0.1,average=global,lambda_p=1",
        "lr=0.1,average=global,b=64.5",
        "lr=0.1,lr=0.2,average=global",
        "lr=0.1,average=global,momentum=0.9",
        "lr=0.1,lambda_p=0,lambda_e=1",
        "lr=-0.1,lambda_p=-1,lambda_e=-1",
        "lr=0.1,average=global,b=63",
    ],
)
def test_recipes_that_do_not_fit(text):
    with pytest.raises(ValueError):
        balance.parse_recipe(text)


def test_the_command_says_where_a_recipe_lies(capsys):
    assert balance.main(["lr=0.1,average=separate,b=64"]) == 0
    said = capsys.readouterr().out
    assert (
        "Lambda_p=0.1,Lambda_e=0.1,batch_size=64" in said
        and "+0.00 from separate" in said
        and "-5.95 from global" in said
    )
    assert balance.main(["lr=0.1"]) == 2 and "lr=0.1" in capsys.readouterr().err
