"""The linear probe: equal to torch's own layer, loss and Adam; right on data whose accuracy is known."""

import pytest
import torch
from embedded import clusters, seeded

from trainables.metrics.linear_probe import fit, linear_probe, linear_probes


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


@pytest.mark.parametrize("where", ["train", "test"])
def test_a_member_that_is_not_finite_has_no_accuracy_and_changes_no_other(where):
    (x, y), (x_test, y_test) = stacked(3, 300, seed=8), stacked(3, 200, seed=9)
    expected = linear_probes(x, y, x_test, y_test, epochs=3)
    (x if where == "train" else x_test)[1, 7, 2] = float("inf")
    found = linear_probes(x, y, x_test, y_test, epochs=3)
    assert found[1].isnan() and torch.equal(found[[0, 2]], expected[[0, 2]])


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
