"""Losses of two views: equal to loops over the papers' formulas and to others' code, in float64, and their laws."""

import oracles
import pytest
import torch
from embedded import seeded
from pytorch_metric_learning import losses
from torch.func import grad
from torch.nn import functional as F

from trainables.losses import LOSSES, alignment_uniformity_terms, barlow_twins_terms, siglip_terms, vicreg_terms
from trainables.losses.two_views import two_views

TERMS = {
    "alignment_uniformity": (alignment_uniformity_terms, oracles.alignment_uniformity),
    "barlow_twins": (barlow_twins_terms, oracles.barlow_twins),
    "vicreg": (vicreg_terms, oracles.vicreg),
    "siglip": (siglip_terms, oracles.siglip),
}
names = pytest.mark.parametrize("name", TERMS)
UNIT = {"alignment_uniformity", "siglip"}


def views(name, n=6, d=4, seed=0, dtype=torch.float64):
    """Two views [n, d] of n images: 0.3 apart, of deviations around 1, so that hinges are open and closed."""
    generator = seeded(seed)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64) * torch.linspace(0.5, 1.5, d) + 0.4
    other = z + 0.3 * torch.randn(n, d, generator=generator, dtype=torch.float64)
    return tuple((F.normalize(view, dim=1) if name in UNIT else view).to(dtype) for view in (z, other))


def weighed(name, z, other):
    """The loss with the published coefficients: a scalar."""
    loss = LOSSES[name]
    terms = TERMS[name][0](z, other)
    return sum(weight * terms[term] for term, weight in zip(loss.terms, loss.published, strict=True))


def assert_same(ours, theirs, tolerance=1e-10):
    assert ours.keys() == theirs.keys()
    for term, value in theirs.items():
        assert float(ours[term]) == pytest.approx(float(value), rel=tolerance, abs=tolerance), term


@names
@pytest.mark.parametrize("shape", [(2, 3), (6, 4), (5, 1), (7, 12)], ids=str)
def test_terms_are_the_papers_formulas(name, shape):
    terms, oracle = TERMS[name]
    for seed in range(3):
        z, other = views(name, *shape, seed=seed)
        assert_same(terms(z, other), oracle(z.tolist(), other.tolist()))


@pytest.mark.parametrize("t, beta", [(1.0, 0.0), (10.0, -3.0), (300.0, -10.0)])
def test_scale_and_bias_of_siglip(t, beta):
    """At t = 300 logits reach 290, where a sigmoid is 0 in floating point and its logarithm is not."""
    z, other = views("siglip")
    assert_same(siglip_terms(z, other, t, beta), oracles.siglip(z.tolist(), other.tolist(), t, beta))
    assert all(term.isfinite() for term in siglip_terms(z.float(), -z.float(), t, beta).values())


def test_vicreg_equals_pytorch_metric_learning():
    foreign = losses.VICRegLoss()  # its coefficients are 25, 25 and 1, too
    for seed in range(3):
        z, other = views("vicreg", n=16, d=8, seed=seed)
        both = [lambda z, other=other: weighed("vicreg", z, other), lambda z, other=other: foreign(z, ref_emb=other)]
        torch.testing.assert_close(*(loss(z) for loss in both), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(*(grad(loss)(z) for loss in both), rtol=1e-10, atol=1e-12)


def test_barlow_twins_equals_torchs_batch_normalisation():
    """As in the authors' main.py: C = bn(z1)^T bn(z2) / n."""
    z, other = views("barlow_twins", n=16, d=8)
    norm = torch.nn.BatchNorm1d(8, affine=False, dtype=torch.float64)
    c = norm(z).T @ norm(other) / 16
    off = c - c.diagonal().diag()
    assert_same(barlow_twins_terms(z, other), {"on": (c.diagonal() - 1).pow(2).sum(), "off": off.pow(2).sum()}, 1e-12)


def test_uniformity_equals_torchs_pairwise_distances():
    """As in the authors' align_uniform: pdist, squared."""
    z, other = views("alignment_uniformity", n=16, d=8)
    uniform = [torch.pdist(view).pow(2).mul(-2).exp().mean().log() for view in (z, other)]
    expected = {"align": (z - other).norm(dim=1).pow(2).mean(), "uniform": sum(uniform) / 2}
    assert_same(alignment_uniformity_terms(z, other), expected, 1e-12)


def test_siglip_equals_torchs_binary_cross_entropy():
    z, other = views("siglip", n=16, d=8)
    logits = 10 * z @ other.T - 10
    whole = F.binary_cross_entropy_with_logits(logits, torch.eye(16, dtype=z.dtype), reduction="sum") / 16
    torch.testing.assert_close(sum(siglip_terms(z, other).values()), whole, rtol=1e-12, atol=1e-12)


@names
def test_gradients_are_the_slopes_of_the_values(name):
    z, other = (view.requires_grad_() for view in views(name))
    for term in LOSSES[name].terms:
        assert torch.autograd.gradcheck(lambda z, other, term=term: TERMS[name][0](z, other)[term], (z, other))


@names
def test_views_that_coincide_have_finite_slopes(name):
    z = views(name)[0].requires_grad_()
    (slope,) = torch.autograd.grad(weighed(name, z, z), z)
    assert slope.isfinite().all()
    same = torch.ones(4, 3, dtype=torch.float64) / 3**0.5  # all images, too
    assert grad(lambda z: weighed(name, z, same))(same).isfinite().all()


@names
def test_half_precision_is_computed_in_float32(name):
    terms = TERMS[name][0]
    for dtype in (torch.bfloat16, torch.float16):
        z, other = views(name, dtype=dtype)
        assert all(term.dtype == torch.float32 for term in terms(z, other).values())
        assert terms(z, other) == terms(z.float(), other.float())
    z, other = views(name, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        within = terms(z, other)
    assert within == terms(z, other)
    assert_same(within, terms(*views(name)), 1e-3 if name == "barlow_twins" else 1e-4)


def test_two_views_of_a_batch_lie_side_by_side():
    one, other = two_views(torch.arange(12.0).reshape(6, 2))
    assert one.tolist() == [[0, 1], [4, 5], [8, 9]] and other.tolist() == [[2, 3], [6, 7], [10, 11]]
