"""Which pairs of a batch count: beside loops, and beside pytorch-metric-learning."""

import math
from functools import partial

import pytest
import torch
from embedded import BATCHES, assert_equal, batches, gradient, unit_rows
from pytorch_metric_learning import distances, losses, miners
from reference import distance as distance_of

from trainables.losses import infonce_terms, margin_terms
from trainables.losses.mining import MINING, mined
from trainables.training.setup import NEGATIVES


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
    d = partial(distance_of, kind="euclidean")
    expected = [
        math.fsum(value(d(z[i].tolist(), z[j].tolist())) for i, j in pairs) / max(len(pairs), 1)
        for pairs, value in ((positives, lambda x: x), (negatives, lambda x: max(0.0, 0.5 - x)))
    ]
    assert_equal(margin_terms(z, torch.tensor(labels), 0.5, mining=mining), expected)


CHOICES = [(negatives, mining) for negatives in NEGATIVES for mining in MINING]
CHOICES.remove(("decoupled", "semihard"))  # an anchor without a semi-hard negative has an empty K


@batches
@pytest.mark.parametrize("negatives, mining", CHOICES)
def test_infonce_takes_each_choice_of_k(labels, negatives, mining):
    z, tau = unit_rows(labels), 0.2
    pairs, repelled = kept(z, labels, mining)
    every = kept(z, labels, "none")[0]

    def logit(i, k):
        return (z[i] @ z[k]).item() / tau - 1 / tau

    def entropy(i, j):
        chosen = {k for other, k in repelled if other == i}
        chosen |= {"others": {j}, "decoupled": set(), "all": {k for other, k in every if other == i}}[negatives]
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

    theirs = partial(losses.SupConLoss(temperature=0.1), labels=y)
    assert_equal([ours(z)], [theirs(z)], 1e-9)
    torch.testing.assert_close(gradient(ours, z), gradient(theirs, z), rtol=1e-9, atol=1e-9)
    if labels is BATCHES["two per class"]:
        assert_equal([sum(infonce_terms(z, y))], [ours(z)])  # NT-Xent: with two views, K is all but the anchor


@pytest.mark.parametrize("mining", MINING)
def test_a_batch_whose_negatives_are_all_far_has_entropy_0(mining):
    apart = torch.eye(12, dtype=torch.float64)[torch.arange(12) // 2]
    positive, entropy = margin_terms(apart, torch.tensor(BATCHES["two per class"]), 0.5, mining=mining)
    assert entropy == 0 and positive < 1e-5
