"""Sampling: what every batch holds, that nothing is preferred, and what is refused."""

import math
from collections import Counter

import pytest
import torch
from embedded import seeded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from trainables.data import sampling
from trainables.data.sampling import KPerClass, ViewsPerImage, check_batch_size


@pytest.fixture
def one_by_one(monkeypatch):
    """As the images of large classes are drawn. Those of small ones are the slow table's, below."""
    monkeypatch.setattr(sampling, "KEYED", 0)


@pytest.mark.usefixtures("one_by_one")
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), k=st.integers(2, 4), per_batch=st.integers(2, 5), seed=st.integers(0, 2**32))
def test_every_batch_holds_k_different_images_of_different_classes(data, k, per_batch, seed):
    sizes = data.draw(st.lists(st.integers(k, 9), min_size=per_batch, max_size=8))
    names = data.draw(st.lists(st.integers(-50, 50), min_size=len(sizes), max_size=len(sizes), unique=True))
    labels = torch.tensor(names).repeat_interleave(torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=seeded(seed))]
    indices, y = KPerClass(labels, per_batch * k, k).draw(seeded(seed))
    assert indices.shape == y.shape == (per_batch * k,)
    assert torch.equal(labels[indices], y)
    assert len(set(indices.tolist())) == per_batch * k
    groups = y.reshape(per_batch, k)  # items of one class are adjacent
    assert (groups == groups[:, :1]).all()
    assert len(set(groups[:, 0].tolist())) == per_batch


@settings(max_examples=30, deadline=None, derandomize=True)
@given(k=st.integers(2, 4), per_batch=st.integers(2, 6), more=st.integers(0, 5), seed=st.integers(0, 2**32))
def test_views_repeat_different_images(k, per_batch, more, seed):
    indices, y = ViewsPerImage(per_batch + more, per_batch * k, k).draw(seeded(seed))
    groups = indices.reshape(per_batch, k)
    assert (groups == groups[:, :1]).all()
    assert len(set(groups[:, 0].tolist())) == per_batch
    assert 0 <= int(indices.min()) <= int(indices.max()) < per_batch + more
    assert torch.equal(y, torch.arange(per_batch).repeat_interleave(k))


def assert_uniform(outcomes, cells):
    """Pearson's chi-square below its 99.9 % quantile (the draws are seeded: this either always holds or never)."""
    counts = Counter(outcomes)
    assert len(counts) == cells
    expected = len(outcomes) / cells
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < chi2.ppf(0.999, cells - 1)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("k", [2, 3])
def test_every_ordered_set_of_a_class_is_equally_likely(k):
    sampler, generator, drawn = KPerClass([0, 1, 0, 1, 0, 1, 0, 1, 1], 2 * k, k), seeded(2), {0: [], 1: []}
    for _ in range(5000):
        indices, y = sampler.draw(generator)
        for label, sets in drawn.items():
            sets.append(tuple(indices[y == label].tolist()))
    assert_uniform(drawn[0], cells=math.perm(4, k))
    assert_uniform(drawn[1], cells=math.perm(5, k))


@pytest.mark.parametrize("sizes, k", [([12] * 40, 2), ([2, 3, 6, 9, 12] * 4, 4), ([2, 3, 2], 3), ([1024, 5, 5], 2)])
def test_the_draws_of_a_seed_are_those_of_a_table_with_all_classes(sizes, k):
    """With which the landscapes were measured: a row a class, a random key for each image, the k largest keys."""
    order = torch.randperm(sum(sizes), generator=seeded(5))
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))[order]
    sampler, ours, theirs = KPerClass(labels, 2 * k, k), seeded(6), seeded(6)
    rows = [(labels == label).nonzero().flatten() for label in range(len(sizes))]
    for _ in range(30):
        indices, y = sampler.draw(ours)
        classes = torch.rand(len(sizes), generator=theirs).topk(2).indices
        keys = torch.rand(2, max(sizes), generator=theirs)
        expected = []
        for label, key in zip(classes.tolist(), keys):
            best = key[: sizes[label]].topk(min(k, sizes[label])).indices
            expected += [int(rows[label][best[n % len(best)]]) for n in range(k)]
        assert indices.tolist() == expected and torch.equal(y, classes.repeat_interleave(k))


def test_one_large_class_costs_neither_memory_nor_time(monkeypatch):
    """90,000 labels, one class of 30,000 among 20,000 of 3: a table of all classes would take 4.5 GiB."""
    labels = torch.cat([torch.zeros(30_000).long(), torch.arange(1, 20_001).repeat_interleave(3)])
    sampler, generator = KPerClass(labels, 64), seeded()
    assert sum(value.nbytes for value in vars(sampler).values() if torch.is_tensor(value)) < 2e6
    rand, asked = torch.rand, []
    monkeypatch.setattr(torch, "rand", lambda *shape, **more: asked.append(math.prod(shape)) or rand(*shape, **more))
    sampler.draw(generator)
    assert sum(asked) <= 20_001 + 64 * 4, "random numbers: one a class, and a few an image"


@pytest.mark.parametrize("batch_size, k, message", [
    (512, 2, "needs 256 training classes; this dataset has 155: --batch-size or --batch-sizes up to 310"),
    (63, 2, "batch_size 63 is not a multiple of 2 per class"),
    (4, 4, "batch_size 4 with 4 per class holds 1 classes; 2 at least"),
    (0, 2, "batch_size 0 with 2 per class holds 0 classes"),
])  # fmt: skip
def test_batches_that_cannot_be_drawn_are_refused(batch_size, k, message):
    with pytest.raises(ValueError, match=message):
        check_batch_size(batch_size, k, 155)
    with pytest.raises(ValueError, match=message):
        KPerClass(torch.arange(155).repeat_interleave(4), batch_size, k)
    with pytest.raises(ValueError, match=message.replace("classes; this", "images; this")):
        ViewsPerImage(155, batch_size, k)


@pytest.mark.usefixtures("one_by_one")
def test_small_classes_give_all_their_images_and_some_again():
    """As SOP with 4 per class, of whose classes many have 2 or 3 images; larger classes are drawn as before."""
    labels = torch.tensor([0] * 2 + [1] * 3 + [2] * 6)
    sampler, generator, repeated = KPerClass(labels, 12, 4), seeded(), Counter()
    for _ in range(300):
        indices, y = sampler.draw(generator)
        assert torch.equal(labels[indices], y) and sorted(y.tolist()) == [0] * 4 + [1] * 4 + [2] * 4
        drawn = {label: Counter(indices[y == label].tolist()) for label in range(3)}
        assert drawn[0] == {0: 2, 1: 2} and sorted(drawn[1].values()) == [1, 1, 2] and set(drawn[2].values()) == {1}
        repeated.update(image for image, count in drawn[1].items() if count == 2)
    assert set(repeated) == {2, 3, 4} and min(repeated.values()) > 70, "none is preferred"
