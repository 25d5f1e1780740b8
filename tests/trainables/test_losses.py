"""Losses, and which pairs of a batch count: equal to loops over the paper's formulas and to pytorch-metric-learning, in
float64, values and gradients."""

import math
from functools import partial

import pytest
import reference
import torch
from embedded import BATCHES, assert_equal, batches, gradient, unit_rows
from pytorch_metric_learning import distances, losses, miners
from reference_losses import contrastive

from trainables.losses.mining import MINING, mined
from trainables.losses.terms import NEGATIVES, infonce_terms, margin_terms, pair_statistics

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


def assert_same_loss(ours, theirs, z, tolerance=1e-12):
    """And the same slope."""
    assert_equal([ours(z)], [theirs(z)], tolerance)
    assert_equal(gradient(ours, z), gradient(theirs, z), tolerance)


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


# --- in-batch mining


def masks(labels):
    y = torch.tensor(labels)
    same = y[:, None] == y
    return same & ~torch.eye(len(y), dtype=torch.bool), ~same


def kept(z, labels, mining, margin=math.inf):
    """The pairs that are kept, as two sets of (i, j)."""
    similarities = z @ z.T
    pairs = mined(similarities, (2 - 2 * similarities).clamp(min=0).sqrt(), *masks(labels), mining, margin)
    return [set(map(tuple, mask.nonzero().tolist())) for mask in pairs]


def as_sets(anchors, positives, others, negatives):
    return [set(zip(one.tolist(), other.tolist())) for one, other in ((anchors, positives), (others, negatives))]


EUCLIDEAN = distances.LpDistance(normalize_embeddings=True, p=2, power=1)


@batches
def test_batch_hard_and_easy_positives_are_those_of_pytorch_metric_learning(labels):
    z, y = unit_rows(labels), torch.tensor(labels)
    every = kept(z, labels, "none")
    with_positives = {i for i, _ in every[0]}  # of the others it keeps some negatives, and some not
    for name, strategies in (("hard", ("hard", "hard")), ("easy_positive", ("easy", "all"))):
        miner = miners.BatchEasyHardMiner(*strategies, distance=EUCLIDEAN)
        ours, theirs = (
            [{(i, k) for i, k in pairs if i in with_positives} for pairs in both]
            for both in (kept(z, labels, name), as_sets(*miner(z, y)))
        )
        assert ours == theirs, name
    assert kept(z, labels, "easy_positive")[1] == every[1]


@batches
@pytest.mark.parametrize("margin", [0.05, 0.3, math.inf])
def test_semi_hard_negatives_are_those_of_pytorch_metric_learning(labels, margin):
    z, y = unit_rows(labels), torch.tensor(labels)
    anchors, _, negatives = miners.TripletMarginMiner(min(margin, 9.0), "semihard", distance=EUCLIDEAN)(z, y)
    ours = kept(z, labels, "semihard", margin)
    assert ours[1] == set(zip(anchors.tolist(), negatives.tolist()))
    assert ours[0] == kept(z, labels, "none")[0]


@batches
@pytest.mark.parametrize("mining", MINING)
def test_margin_terms_are_means_over_the_pairs_that_are_kept(labels, mining):
    z = unit_rows(labels)
    positives, negatives = kept(z, labels, mining, 0.5)
    d = partial(reference.distance, kind="euclidean")
    expected = [
        math.fsum(value(d(z[i].tolist(), z[j].tolist())) for i, j in pairs) / max(len(pairs), 1)
        for pairs, value in ((positives, lambda x: x), (negatives, lambda x: max(0.0, 0.5 - x)))
    ]
    assert_equal(margin_terms(z, torch.tensor(labels), 0.5, mining=mining), expected)


@batches
@pytest.mark.parametrize("mining", MINING)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_infonce_takes_each_choice_of_k(labels, negatives, mining):
    z, tau = unit_rows(labels), 0.2
    pairs, repelled = kept(z, labels, mining)
    every = kept(z, labels, "none")[0]

    def logit(i, k):
        return (z[i] @ z[k]).item() / tau - 1 / tau

    def entropy(i, j):
        chosen = {k for other, k in repelled if other == i}
        chosen |= {"others": {j}, "all": {k for other, k in every if other == i}}[negatives]
        return math.log(math.fsum(math.exp(logit(i, k)) for k in chosen))

    expected = [math.fsum(-logit(i, j) for i, j in pairs) / len(pairs),
                math.fsum(entropy(i, j) for i, j in pairs) / len(pairs)]  # fmt: skip
    assert_equal(infonce_terms(z, torch.tensor(labels), tau, negatives=negatives, mining=mining), expected)


@pytest.mark.parametrize("labels", [BATCHES["two per class"], BATCHES["four per class"]])
def test_all_is_supcon_with_equally_many_items_a_class(labels):
    """Khosla's L_out averages over an anchor's positives, then over anchors."""
    z, y = unit_rows(labels), torch.tensor(labels)

    def ours(z):
        return sum(infonce_terms(torch.nn.functional.normalize(z), y, 0.1, negatives="all"))

    assert_same_loss(ours, partial(losses.SupConLoss(temperature=0.1), labels=y), z, 1e-9)
    if labels is BATCHES["two per class"]:
        assert_equal([sum(infonce_terms(z, y))], [ours(z)])  # NT-Xent: with two views, K is all but the anchor


@pytest.mark.parametrize("mining", MINING)
def test_a_batch_whose_negatives_are_all_far_has_entropy_0(mining):
    apart = torch.eye(12, dtype=torch.float64)[torch.arange(12) // 2]
    positive, entropy = margin_terms(apart, torch.tensor(BATCHES["two per class"]), 0.5, mining=mining)
    assert entropy == 0 and positive < 1e-5
