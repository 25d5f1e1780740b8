"""Batches of embeddings for losses: labels, unit rows, seeded draws, and the comparison of values and gradients."""

import pytest
import torch

BATCHES = {
    "two per class": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    "four per class": [7, 7, 7, 7, 1, 1, 1, 1, 3, 3, 3, 3],
    "uneven, shuffled, one alone": [4, 0, 2, 0, 4, 4, 9, 0, 2, 4, 4],
}
batches = pytest.mark.parametrize("labels", BATCHES.values(), ids=BATCHES)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def alike(one, other):
    """Whether two networks are equal to the bit."""
    one, other = one.state_dict(), other.state_dict()
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def unit_rows(labels, seed=0, dimensions=5):
    """Unit rows [b, dimensions], float64, crowded around a common centre so that hinges are open and closed."""
    z = torch.randn(len(labels), dimensions, generator=seeded(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(z + 0.8, dim=1)


def clusters(n, classes, seed, spread=0.1, dimensions=8):
    """Features [n, dimensions] around well separated centres, the same for every seed, and labels [n]."""
    generator = seeded(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    centres = 3 * torch.nn.functional.one_hot(labels, dimensions).float()
    return centres + spread * torch.randn(n, dimensions, generator=generator), labels


def assert_equal(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(
        torch.stack(tuple(ours)), torch.as_tensor(theirs, dtype=torch.float64), rtol=tolerance, atol=tolerance
    )


def gradient(loss, z):
    z = z.clone().requires_grad_()
    return torch.autograd.grad(loss(z), z)[0]
