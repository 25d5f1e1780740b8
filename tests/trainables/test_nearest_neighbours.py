"""The vote of the nearest neighbours: equal to a loop, right on data whose accuracy is known."""

import oracles
import pytest
import torch
from embedded import clusters

from trainables.metrics import nearest_neighbours
from trainables.metrics.nearest_neighbours import knn_accuracies


def knn_accuracy(x, y, x_test, y_test):
    return knn_accuracies(x[None], y, x_test[None], y_test).item()


def noisy(n, classes, seed, spread=1.5):
    return clusters(n, classes, seed, spread, dimensions=6)


@pytest.mark.parametrize("k, temperature", [(1, 0.07), (5, 0.07), (20, 0.07), (20, 1.0), (500, 0.3)])
def test_it_is_the_weighted_vote(k, temperature, monkeypatch):
    train, test = noisy(60, 4, seed=0), noisy(40, 4, seed=1)
    expected = oracles.knn_accuracy(*(part.tolist() for part in (*train, *test)), k, temperature)
    monkeypatch.setattr(nearest_neighbours, "NEIGHBOURS", k)
    monkeypatch.setattr(nearest_neighbours, "TEMPERATURE", temperature)
    assert knn_accuracy(*train, *test) == pytest.approx(expected, abs=1e-12)
    assert 0.3 < expected < 1, "neither guessing nor trivial"
    monkeypatch.setattr(nearest_neighbours, "AT_ONCE", 130)  # similarities: two rows at once
    assert knn_accuracy(*train, *test) == pytest.approx(expected, abs=1e-12)


def test_a_class_that_training_does_not_have_is_never_right():
    train, (x, y) = noisy(80, 4, 0, spread=0.08), noisy(50, 4, 1, spread=0.08)
    assert knn_accuracy(*train, x, torch.where(y == 0, 9, y)) == pytest.approx((y != 0).double().mean().item())


def test_several_networks_at_once_are_each_alone():
    made = [(noisy(80, 4, 0, spread)[0], noisy(50, 4, 1, spread)[0]) for spread in (0.75, 1.5, 3.0)]
    x, x_test = (torch.stack(parts) for parts in zip(*made, strict=True))
    y, y_test = noisy(80, 4, 0)[1], noisy(50, 4, 1)[1]
    alone = [knn_accuracy(a, y, b, y_test) for a, b in made]
    assert knn_accuracies(x, y, x_test, y_test).tolist() == alone and len(set(alone)) == 3
    x_test[1, 3, 2] = float("nan")
    found = knn_accuracies(x, y, x_test, y_test)
    assert found[1].isnan() and found[[0, 2]].tolist() == [alone[0], alone[2]]
