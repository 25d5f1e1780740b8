"""Cross-batch memory: a queue like collections.deque, terms like loops, pytorch-metric-learning's and the published."""

from collections import deque

import pytest
import reference
import torch
from embedded import assert_equal, gradient, seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning import losses
from reference_losses import contrastive
from torch.nn.functional import normalize

from trainables.losses.memory import CrossBatchMemory, memory_terms, memory_weights
from trainables.losses.terms import margin_terms

B, K, D, SIZE = 8, 2, 5, 27  # 27 is no multiple of 8: the fourth batch wraps around
VARIANTS = {
    "margin euclidean": {"loss": "margin", "distance": "euclidean", "margin": 1.2},
    "margin euclidean q=2": {"loss": "margin", "distance": "euclidean", "margin": 1.2, "q": 2},
    "margin cosine": {"loss": "margin", "distance": "cosine", "margin": 0.5},
    "margin cosine q=2": {"loss": "margin", "distance": "cosine", "margin": 0.5, "q": 2},
    "infonce cosine": {"loss": "infonce", "distance": "cosine", "temperature": 0.1},
    "infonce euclidean": {"loss": "infonce", "distance": "euclidean", "temperature": 0.3},
}
variants = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def batch(step):
    """(z [B, D] unit rows around a common centre, labels [B]): K of each class, other classes in other steps."""
    generator = seeded(step)
    z = normalize(torch.randn(B, D, generator=generator, dtype=torch.float64) + 0.8, dim=1)
    classes = torch.randperm(12, generator=generator)[: B // K]
    return z, classes.repeat_interleave(K)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.lists(st.integers(1, size), max_size=8))))
def test_the_memory_is_a_deque(size_and_batches):
    size, batches = size_and_batches
    memory, model, enqueued = CrossBatchMemory(size, 2), deque(maxlen=size), 0
    for b in batches:
        numbers = range(enqueued, enqueued + b)  # item n is the embedding (n, -n) of class n // 2
        z, labels = torch.tensor([[float(n), -n] for n in numbers]), torch.tensor([n // 2 for n in numbers])
        slots = memory.enqueue(z, labels)
        model.extend(numbers)
        enqueued += b

        assert slots.tolist() == [n % size for n in numbers]
        assert memory.enqueued == enqueued
        remembered = {n % size: n for n in model}
        for slot in range(size):
            n = remembered.get(slot, 0)  # unfilled slots are zero
            assert (memory.embeddings[slot].tolist(), memory.labels[slot]) == ([n, -n], n // 2)
        positives, negatives = memory.pairs(labels, slots)
        for i, n in enumerate(numbers):
            alike = {slot for slot, other in remembered.items() if other // 2 == n // 2 and other != n}
            assert set(positives[i].nonzero().flatten().tolist()) == alike
            unlike = {slot for slot, other in remembered.items() if other // 2 != n // 2}
            assert set(negatives[i].nonzero().flatten().tolist()) == unlike


@variants
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
def test_the_terms_are_loops_over_the_pairs(variant, steps):
    memory = CrossBatchMemory(SIZE, D).double()
    for step in range(steps):
        z, labels = batch(step)
        slots = memory.enqueue(z, labels)
    filled = min(SIZE, steps * B)
    others, other_labels = memory.embeddings[:filled].tolist(), memory.labels[:filled].tolist()
    pairs = reference.memory_pairs(labels.tolist(), slots.tolist(), other_labels)
    if variant["loss"] == "margin":
        how = variant["margin"], variant["distance"], variant.get("q", 1)
        slow = reference.margin_terms_of(z.tolist(), others, *pairs, *how)
    else:
        slow = reference.infonce_terms_of(z.tolist(), others, *pairs, variant["temperature"], variant["distance"])
    positive, entropy, positive_pairs, negative_pairs = memory_terms(z, labels, slots, memory, **variant)
    assert_equal((positive, entropy), slow)
    assert (positive_pairs, negative_pairs) == (len(pairs[0]), len(pairs[1]))


@pytest.mark.parametrize("size", [B, 24, SIZE])
@pytest.mark.parametrize("loss, weights", [("margin", (0.3, 2.0)), ("infonce", (1.0, 1.0))])
def test_it_equals_pytorch_metric_learnings_memory(loss, weights, size):
    """Theirs enqueues first too, leaves out the item's own copy alone, and gives the memory's loss alone."""
    of_batch = losses.NTXentLoss(temperature=0.1) if loss == "infonce" else contrastive("cosine", 0.5, *weights)
    foreign = losses.CrossBatchMemory(of_batch, embedding_size=D, memory_size=size)
    memory = CrossBatchMemory(size, D).double()
    variant = VARIANTS[f"{loss} cosine"]
    for step in range(9):
        z, labels = batch(step)
        slots = memory.enqueue(z, labels)

        def ours(z, labels=labels, slots=slots):
            positive, entropy, _, _ = memory_terms(normalize(z), labels, slots, memory, **variant)
            return weights[0] * positive + weights[1] * entropy

        theirs = z.clone().requires_grad_()
        value = foreign(theirs, labels)
        assert_equal([ours(z)], [value.detach()])
        assert_equal(gradient(ours, z), torch.autograd.grad(value, theirs)[0])
    assert_equal(foreign.embedding_memory, memory.embeddings)
    assert torch.equal(foreign.label_memory, memory.labels)


@pytest.mark.parametrize("k", [2, 4])
def test_variable_weights_are_the_published_loss(k):
    """The same slope at every iteration, filling and wrapping around.

    Values differ: they sum s over s > 0.5, where the hinge sums s - 0.5, and so jump whenever a pair passes 0.5.
    """
    b, size, how = 8, 19, {"distance": "cosine", "margin": 0.5}
    memory = CrossBatchMemory(size, D).double()
    for step in range(5):
        z, labels = batch(step)[0], (torch.arange(b // k) + step % 2).repeat_interleave(k)
        slots = memory.enqueue(z, labels)
        filled, y = min(size, (step + 1) * b), labels.tolist()
        others, other_labels = memory.embeddings[:filled].clone(), memory.labels[:filled].tolist()

        def published(z, y=y, others=others, other_labels=other_labels):
            of_batch = reference.published_memory_loss(z, y, z, y)
            return of_batch + reference.published_memory_loss(z, y, others, other_labels)

        def ours(z, labels=labels, slots=slots):
            terms = margin_terms(z, labels, **how)
            *of_memory, p, e = memory_terms(z, labels, slots, memory, loss="margin", **how)
            factors = memory_weights("variable", p.double(), e.double(), b, k)
            weighted = zip((k - 1, b - k), terms, factors, of_memory, strict=True)
            return sum(weight * (term + factor * other) for weight, term, factor, other in weighted)

        slope = gradient(ours, z)
        assert slope.abs().max() > 1e-2
        assert_equal(slope, gradient(published, z))
        assert abs(ours(z) - published(z)) > 0.1
