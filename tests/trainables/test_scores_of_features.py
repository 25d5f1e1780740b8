"""Scores of features: the linear probe beside torch's own layer, loss and Adam, the vote of the nearest neighbours
beside a loop, and those that need no labels beside their formulas."""

import math

import numpy as np
import oracles
import pytest
import torch
from embedded import clusters, seeded

from trainables.metrics import nearest_neighbours
from trainables.metrics.linear_probe import fit, linear_probe, linear_probes
from trainables.metrics.nearest_neighbours import knn_accuracies
from trainables.metrics.unlabelled import rankme, view_retrieval


def test_training_equals_torchs_linear_layer_and_adam():
    x, y = clusters(200, 5, seed=2, spread=1.0)
    ones = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    [ours] = fit(ones[None], y, 5, 4, 32, 0.01, seeded(7))

    generator, layer = seeded(7), torch.nn.Linear(8, 5)
    start = torch.empty(9, 5).uniform_(-(8**-0.5), 8**-0.5, generator=generator)
    layer.load_state_dict({"weight": start[:-1].T, "bias": start[-1]})
    adam = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(4):
        order = torch.randperm(len(x), generator=generator)
        for batch in order.split(32):  # the last one has 8
            adam.zero_grad()
            torch.nn.functional.cross_entropy(layer(x[batch]), y[batch]).backward()
            adam.step()
    theirs = torch.cat([layer.weight.T, layer.bias[None]]).detach()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def stacked(members, n, seed):
    """Features [members, n, 8] of several difficulties and their labels [n]."""
    made = [clusters(n, 5, seed, spread=0.5 + member) for member in range(members)]
    return torch.stack([features for features, _ in made]), made[0][1]


@pytest.mark.parametrize("standardised", [False, True])
def test_probes_trained_together_are_those_trained_alone(standardised):
    """To the last digit: torch's batched products on a CPU have the bits of the single ones."""
    (x, y), (x_test, y_test) = stacked(4, 300, seed=8), stacked(4, 200, seed=9)
    settings = {"epochs": 5, "batch_size": 32, "seed": 3, "learning_rate": 0.03, "standardised": standardised}
    together = linear_probes(x, y, x_test, y_test, **settings).tolist()
    alone = [linear_probe(x[i], y, x_test[i], y_test, **settings) for i in range(4)]
    assert together == alone and len(set(alone)) == 4
    assert linear_probe(x[3], y, x_test[3], y_test, **settings | {"seed": 4}) != alone[3], "the seed decides"


def test_arrays_lists_and_names_are_taken_as_tensors_are():
    (x, y), (x_test, y_test) = clusters(200, 5, seed=2, spread=2.0), clusters(200, 5, seed=3, spread=2.0)
    expected = linear_probe(x, y, x_test, y_test, epochs=3)
    assert linear_probe(x.numpy(), y.tolist(), x_test.numpy(), y_test.numpy(), epochs=3) == expected
    order = list(dict.fromkeys(y.tolist()))  # names are numbered as they appear
    y, y_test = ([order.index(label) for label in labels.tolist()] for labels in (y, y_test))
    named, named_test = ([f"class {order[number]}" for number in numbers] for numbers in (y, y_test))
    assert linear_probe(x, named, x_test, named_test, epochs=3) == linear_probe(x, y, x_test, y_test, epochs=3)


def test_standardised_features_are_judged_whatever_their_size():
    """Features of one small direction each in its own size and place: raw ones need more steps than there are."""
    (x, y), (x_test, y_test) = clusters(400, 5, seed=0), clusters(300, 5, seed=1)
    sizes, settings = torch.logspace(-3, -2, x.shape[1]), {"epochs": 30, "learning_rate": 0.01}
    small = (x * sizes + 0.01, y, x_test * sizes + 0.01, y_test)
    assert linear_probe(*small, **settings) < 0.6
    assert linear_probe(*small, **settings, standardised=True) > 0.99
    assert linear_probe(x, y, x_test, y_test, **settings, standardised=True) > 0.99


def test_a_dimension_without_spread_counts_for_nothing():
    (x, y), (x_test, y_test) = clusters(300, 4, seed=2, spread=2.0), clusters(300, 4, seed=3, spread=2.0)
    flat, other = torch.full((300, 1), 0.3), 5 * torch.randn(300, 1, generator=seeded())
    rounded = flat * (1 + 1e-7 * other)
    with_flat = [linear_probe(torch.cat([x, f], 1), y, torch.cat([x_test, flat + other], 1), y_test, standardised=True)
                 for f in (flat, rounded)]  # fmt: skip
    assert with_flat[0] == with_flat[1] > 0.6, "what it is in the test split changes nothing"
    assert linear_probe(0 * x, y, x_test, y_test, standardised=True) < 0.5


@pytest.mark.parametrize(("epochs", "enough"), [(1, 4), (7, 7)])
def test_few_images_have_more_epochs(epochs, enough):
    train, test = clusters(100, 4, seed=4), clusters(100, 4, seed=5)
    found = linear_probe(*train, *test, epochs=epochs, steps=13, batch_size=32)
    assert found == linear_probe(*train, *test, epochs=enough, batch_size=32)


def knn_accuracy(x, y, x_test, y_test):
    return knn_accuracies(x[None], y, x_test[None], y_test).item()


def noisy(n, seed, spread=1.5):
    return clusters(n, 4, seed, spread, dimensions=6)


@pytest.mark.parametrize("k, temperature", [(1, 0.07), (5, 0.07), (20, 0.07), (20, 1.0), (500, 0.3)])
def test_it_is_the_weighted_vote(k, temperature, monkeypatch):
    train, test = noisy(60, seed=0), noisy(40, seed=1)
    expected = oracles.knn_accuracy(*(part.tolist() for part in (*train, *test)), k, temperature)
    monkeypatch.setattr(nearest_neighbours, "NEIGHBOURS", k)
    monkeypatch.setattr(nearest_neighbours, "TEMPERATURE", temperature)
    assert knn_accuracy(*train, *test) == pytest.approx(expected, abs=1e-12)
    assert 0.3 < expected < 1, "neither guessing nor trivial"
    monkeypatch.setattr(nearest_neighbours, "AT_ONCE", 130)  # similarities: two rows at once
    assert knn_accuracy(*train, *test) == pytest.approx(expected, abs=1e-12)


def test_a_class_that_training_does_not_have_is_never_right():
    train, (x, y) = noisy(80, 0, spread=0.08), noisy(50, 1, spread=0.08)
    assert knn_accuracy(*train, x, torch.where(y == 0, 9, y)) == pytest.approx((y != 0).double().mean().item())


def test_rankme_is_the_published_formula():
    z = torch.randn(50, 8, generator=seeded()) * torch.tensor([3, 1, 1, 0.5, 0.1, 0.1, 0.01, 0])
    values = np.linalg.svd(z.double().numpy(), compute_uv=False)
    shares = values / values.sum() + 1e-7
    assert rankme(z).item() == pytest.approx(np.exp(-(shares * np.log(shares)).sum()) / 8, abs=1e-9)
    assert rankme(100 * z).item() == pytest.approx(rankme(z).item(), abs=1e-7), "whatever the scale"
    assert rankme(torch.eye(8).repeat(3, 1)).item() == pytest.approx(1, abs=1e-5)
    assert rankme(torch.ones(9, 8)).item() == pytest.approx(1 / 8, abs=1e-5), "all embeddings in one place"
    assert math.isnan(rankme(torch.full((3, 2), math.inf)))


def test_view_retrieval_is_the_share_whose_other_view_is_nearest():
    one, other = torch.randn(2, 40, 5, generator=seeded())
    other += one
    cosines = np.array([[torch.cosine_similarity(a, b, dim=0).item() for b in other] for a in one])
    expected = np.mean(cosines.argmax(1) == np.arange(40))
    assert view_retrieval(one, other).item() == expected and 0.1 < expected < 1
    assert view_retrieval(3 * one, one) == 1
