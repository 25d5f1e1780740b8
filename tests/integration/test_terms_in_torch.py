"""What the axes of `tune_cd.balance.terms` claim, on real trainings of three terms as VICReg's, in float64.

Under SGD learning rate and weights count as their products alone. Under Adam a common factor of the weights does
nothing, and the learning rate does. Which rates and weights a configuration has: test_terms.py.
"""

import pytest
import torch
from torch.nn.functional import mse_loss, relu

STEPS = 30
SGD = {"plain": {}, "momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}}
ADAM = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}


def vicreg_terms(one, other):
    """Two views' outputs [n, d] each -> the three terms, unweighted."""
    covariances = [torch.cov(z.T) for z in (one, other)]
    return {
        "sim": mse_loss(one, other),
        "std": sum(relu(1 - (z.var(0) + 1e-4).sqrt()).mean() / 2 for z in (one, other)),
        "cov": sum((c - c.diag().diag()).square().sum() / len(c) for c in covariances),
    }


def trained(optimizer, rate, weights, **options):
    """All parameters, in a row, after a training on the same batches from the same beginning.

    The last layer has no bias: no term feels it, so that its gradient is rounding alone, which Adam makes as large as
    any other.
    """
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    last = torch.nn.Linear(16, 4, bias=False)
    network = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), last).double()
    steps = optimizer(network.parameters(), lr=rate, **options)
    for _ in range(STEPS):
        x = torch.randn(32, 6, generator=generator, dtype=torch.float64)
        views = [network(x + 0.3 * torch.randn(x.shape, generator=generator, dtype=torch.float64)) for _ in range(2)]
        values = vicreg_terms(*views)
        steps.zero_grad()
        sum(weights[name] * values[name] for name in values).backward()
        steps.step()
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def times(weights, factor):
    return {name: factor * weight for name, weight in weights.items()}


WEIGHTS = {"sim": 25.0, "std": 20.0, "cov": 1.0}


@pytest.mark.parametrize("options", SGD.values(), ids=SGD)
def test_under_sgd_rate_and_weights_are_their_products(options):
    end = trained(torch.optim.SGD, 0.01, WEIGHTS, **options)
    assert torch.allclose(end, trained(torch.optim.SGD, 1.0, times(WEIGHTS, 0.01), **options), atol=1e-9)
    assert not torch.allclose(end, trained(torch.optim.SGD, 1.0, WEIGHTS, **options), atol=1e-3)
    assert not torch.allclose(end, trained(torch.optim.SGD, 0.01, WEIGHTS | {"cov": 4.0}, **options), atol=1e-3)


@pytest.mark.parametrize("optimizer", ADAM.values(), ids=ADAM)
def test_under_adam_a_common_factor_does_nothing_and_the_rate_does(optimizer):
    """eps is added to the size of the gradient, whose unit the factor changes: it is made small."""
    end = trained(optimizer, 1e-3, WEIGHTS, eps=1e-14)
    for factor in (0.01, 8.0):
        assert torch.allclose(end, trained(optimizer, 1e-3, times(WEIGHTS, factor), eps=1e-14), atol=1e-6)
    assert not torch.allclose(end, trained(optimizer, 2e-3, WEIGHTS, eps=1e-14), atol=1e-3)
    assert not torch.allclose(end, trained(optimizer, 1e-3, WEIGHTS | {"cov": 40.0}, eps=1e-14), atol=1e-3)
