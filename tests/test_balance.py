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


@pytest.mark.parametrize("arguments", [(0.0, "global", 64), (-1.0, "global", 64), (float("nan"), "global", 64), (0.1, "mean", 64), (0.1, "global", 63), (0.1, "global", 2)])
def test_impossible_recipes(arguments):
    with pytest.raises(ValueError):
        balance.from_recipe(*arguments)
