"""Losses: equal to loops over the paper's formulas and to pytorch-metric-learning, in float64, values and gradients."""

import pytest
import reference
import torch
from embedded import BATCHES, assert_equal, batches, gradient, unit_rows
from pytorch_metric_learning import losses
from reference_losses import contrastive

from trainables.losses.terms import infonce_terms, margin_terms, pair_statistics

VARIANTS = {
    "margin euclidean": lambda z, y: margin_terms(z, y, margin=1.2),
    "margin euclidean q=2": lambda z, y: margin_terms(z, y, margin=1.2, q=2),
    "margin cosine": lambda z, y: margin_terms(z, y, margin=1.2, distance="cosine"),
    "margin cosine q=2": lambda z, y: margin_terms(z, y, margin=1.2, distance="cosine", q=2),
    "infonce cosine": lambda z, y: infonce_terms(z, y),
    "infonce euclidean": lambda z, y: infonce_terms(z, y, temperature=0.3, distance="euclidean"),
}
variants = pytest.mark.parametrize("terms", VARIANTS.values(), ids=VARIANTS)
distances_of = pytest.mark.parametrize("distance", ["euclidean", "cosine"])


@batches
@distances_of
@pytest.mark.parametrize("q", [1, 2])
def test_margin_is_the_papers_formula(labels, distance, q):
    z = unit_rows(labels)
    for margin in (0.1, 0.5, 1.5):
        ours = margin_terms(z, torch.tensor(labels), margin, distance, q)
        assert_equal(ours, reference.margin_terms(z.tolist(), labels, margin, distance, q))


@batches
@distances_of
def test_infonce_is_the_papers_formula(labels, distance):
    z = unit_rows(labels)
    for temperature in (0.05, 0.1, 2.0):
        ours = infonce_terms(z, torch.tensor(labels), temperature, distance)
        assert_equal(ours, reference.infonce_terms(z.tolist(), labels, temperature, distance))


@distances_of
def test_the_global_average_is_a_weighting_of_the_two_terms(distance):
    labels = BATCHES["two per class"]
    z, b = unit_rows(labels), len(labels)
    positive, entropy = margin_terms(z, torch.tensor(labels), 1.2, distance)
    weighted = positive / (b - 1) + (1 - 1 / (b - 1)) * entropy
    assert_equal([weighted], [reference.global_margin_loss(z.tolist(), labels, 1.2, distance, 1)])


def assert_same_loss(ours, theirs, z):
    """And the same slope."""
    assert_equal([ours(z)], [theirs(z)])
    assert_equal(gradient(ours, z), gradient(theirs, z))


@batches
@distances_of
@pytest.mark.parametrize("balance", ["separate", "global", (0.07, 4.0)], ids=str)
def test_margin_equals_pytorch_metric_learning(labels, distance, balance):
    z, y, b = unit_rows(labels), torch.tensor(labels), len(labels)
    weights = {"separate": (1.0, 1.0), "global": (1 / (b - 1), 1 - 1 / (b - 1))}.get(balance, balance)
    foreign = contrastive(distance, 0.5, *weights)

    def ours(z):
        positive, entropy = margin_terms(torch.nn.functional.normalize(z), y, 0.5, distance)
        return weights[0] * positive + weights[1] * entropy

    assert_same_loss(ours, lambda z: foreign(z, y), z)


@batches
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 2.0)], ids=str)
def test_infonce_equals_pytorch_metric_learning(labels, weights):
    z, y, temperature = unit_rows(labels), torch.tensor(labels), 0.1
    ntxent = losses.NTXentLoss(temperature=temperature)
    of_pairs = torch.tensor(reference.positive_pairs(labels)).T

    def foreign(z):  # its one loss is positive + entropy; another balance adds positive terms
        u = torch.nn.functional.normalize(z)
        positive = (1 - (u[of_pairs[0]] * u[of_pairs[1]]).sum(1)).mean() / temperature
        return weights[1] * ntxent(z, y) + (weights[0] - weights[1]) * positive

    def ours(z):
        positive, entropy = infonce_terms(torch.nn.functional.normalize(z), y, temperature)
        return weights[0] * positive + weights[1] * entropy

    assert_same_loss(ours, foreign, z)


@batches
@variants
def test_gradients_are_the_slopes_of_the_values(terms, labels):
    z, y = unit_rows(labels, dimensions=3).requires_grad_(), torch.tensor(labels)
    assert torch.autograd.gradcheck(lambda z: terms(torch.nn.functional.normalize(z), y), z)


@variants
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_identical_embeddings_have_finite_gradients(terms, dtype):
    z = torch.nn.functional.normalize(torch.ones(6, 7, dtype=dtype))
    y = torch.tensor([0, 0, 1, 1, 2, 2])
    assert gradient(lambda z: sum(terms(z, y)), z).isfinite().all()


@distances_of
def test_infonce_without_negatives_is_flat_and_finite(distance):
    """K_ij = {j}: the entropy term is -d/tau, it cancels the positive one."""
    y = torch.zeros(5, dtype=torch.int64)
    z = unit_rows(y)
    assert_equal([sum(infonce_terms(z, y, distance=distance))], [0.0])
    assert_equal([gradient(lambda z: sum(infonce_terms(z, y, distance=distance)), z).abs().max()], [0.0])


@variants
def test_half_precision_is_computed_in_float32(terms):
    labels = BATCHES["four per class"]
    z, y = unit_rows(labels), torch.tensor(labels)
    for dtype in (torch.bfloat16, torch.float16):
        half = z.to(dtype)
        assert all(term.dtype == torch.float32 for term in terms(half, y))
        assert terms(half, y) == terms(half.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        within = terms(z.float(), y)
    assert within == terms(z.float(), y)
    assert all(term.dtype == torch.float64 for term in terms(z, y))


@batches
def test_pair_statistics(labels):
    z = unit_rows(labels)
    statistics = pair_statistics(z, torch.tensor(labels))
    positives, negatives = reference.positive_pairs(labels), reference.negative_pairs(labels)
    assert (statistics["positive_pairs"], statistics["negative_pairs"]) == (len(positives), len(negatives))
    for name, pairs in {"positive_similarity": positives, "negative_similarity": negatives}.items():
        assert_equal([statistics[name]], [reference.mean(float(z[i] @ z[j]) for i, j in pairs)])
