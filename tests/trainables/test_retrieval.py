"""Retrieval scores: golden values, loops, pytorch-metric-learning, and the laws of a ranking in blocks."""

import numpy as np
import pytest
import reference
import torch
from embedded import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from torch.utils._python_dispatch import TorchDispatchMode

from trainables.metrics.retrieval import BLOCK_BYTES, SCORES, retrieval_scores, revisited_map, scores_per_query


def noisy_classes(sizes, seed=0, dtype=torch.float64, dimensions=6, noise=1.0):
    """Embeddings [N, dimensions] around one centre per class, rows shuffled, of any length; and labels [N]."""
    generator = seeded(seed)
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    centres = torch.randn(len(sizes), dimensions, generator=generator, dtype=dtype)
    embeddings = centres[labels] + noise * torch.randn(len(labels), dimensions, generator=generator, dtype=dtype)
    order = torch.randperm(len(labels), generator=generator)
    return 3 * embeddings[order], labels[order]


UNEVEN = [1, 2, 2, 3, 5, 8, 13, 1, 20, 2]


@pytest.mark.parametrize(
    ("ranks_of_hits", "ap_top_r", "ap_at_r"), [({1, 4}, 0.75, 0.375), ({4}, 0.25, 0.0625), (set(), 0.0, 0.0)]
)
def test_golden_values(ranks_of_hits, ap_top_r, ap_at_r):
    hits = torch.tensor([[rank in ranks_of_hits for rank in range(1, 7)]])
    expected = [ap_top_r, ap_at_r, float(1 in ranks_of_hits), len(ranks_of_hits) / 4]
    assert SCORES == ("r_map", "map_at_r", "precision_at_1", "r_precision")
    assert scores_per_query(hits, torch.tensor([4])).tolist() == [expected]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=5), st.data())
def test_scores_per_query_are_the_loops_and_keep_the_identity(rel, data):
    relevant = data.draw(st.lists(st.integers(1, 9), min_size=len(rel), max_size=len(rel)))
    scores = scores_per_query(torch.tensor(rel), torch.tensor(relevant))
    expected = [reference.ranking_scores([int(hit) for hit in row], r) for row, r in zip(rel, relevant, strict=True)]
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)
    r_map, map_at_r, _, r_precision = scores.T
    torch.testing.assert_close(map_at_r, r_map * r_precision, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [[4] * 15, UNEVEN, [40, 2]], ids=str)
def test_scores_are_the_loops_with_recall_or_without_in_blocks_of_any_size(monkeypatch, sizes, dtype):
    for seed in range(3):
        embeddings, labels = noisy_classes(sizes, seed, dtype, noise=2.0)
        rows, classes, depths = embeddings.numpy(), labels.tolist(), [1, 2, 10, len(labels) - 1]
        plain = reference.retrieval_scores(rows, classes)
        recall = {f"recall_at_{k}": reference.recall_at(rows, classes, k) for k in depths}
        for block_bytes in (1, 5_000, 2**20):
            monkeypatch.setitem(BLOCK_BYTES, "cpu", block_bytes)
            assert retrieval_scores(embeddings, labels) == pytest.approx(plain, rel=1e-12)
            scores = retrieval_scores(embeddings, labels, recall_at=depths)
            assert scores == pytest.approx(plain | recall, rel=1e-12) and list(scores) == [*plain, *recall]
            assert scores["precision_at_1"] == scores["recall_at_1"]


@pytest.mark.parametrize("sizes", [[4] * 15, UNEVEN], ids=str)
def test_scores_equal_pytorch_metric_learning(sizes):
    embeddings, labels = noisy_classes(sizes, seed=3)
    ours = retrieval_scores(embeddings, labels)
    theirs = ("mean_average_precision_at_r", "precision_at_1", "r_precision")
    how = {"k": "max_bin_count", "knn_func": CustomKNN(CosineSimilarity()), "device": torch.device("cpu")}
    foreign = AccuracyCalculator(include=theirs, **how).get_accuracy(embeddings, labels)
    assert [foreign[name] for name in theirs] == pytest.approx([ours[name] for name in SCORES[1:]], rel=1e-12)


def test_equal_cosines_are_ranked_in_the_order_of_the_rows(monkeypatch):
    """One-hot embeddings: every cosine is exactly 0 or 1, so nearly every rank is a tie."""
    generator = seeded(6)
    embeddings = torch.eye(3)[torch.randint(3, (40,), generator=generator)]
    labels = torch.randint(4, (40,), generator=generator)
    expected = reference.retrieval_scores(embeddings.numpy(), labels.tolist())
    for block_bytes in (1, 2**20):
        monkeypatch.setitem(BLOCK_BYTES, "cpu", block_bytes)
        assert retrieval_scores(embeddings, labels) == pytest.approx(expected, rel=1e-12)


def test_no_tensor_is_larger_than_a_block_or_the_embeddings(monkeypatch):
    class Largest(TorchDispatchMode):
        bytes = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for value in result if isinstance(result, tuple) else [result]:
                if isinstance(value, torch.Tensor):
                    self.bytes = max(self.bytes, value.numel() * value.element_size())
            return result

    embeddings, labels = noisy_classes([4] * 150, dtype=torch.float32)
    monkeypatch.setitem(BLOCK_BYTES, "cpu", 2**16)
    with Largest() as largest:
        retrieval_scores(embeddings, labels)
    assert embeddings.numel() * 4 <= largest.bytes < 2**16  # N x N cosines would take 1.4 MB


def test_the_callers_precision_neither_counts_nor_changes():
    embeddings, labels = noisy_classes(UNEVEN, dtype=torch.float32)
    expected = retrieval_scores(embeddings, labels)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert retrieval_scores(embeddings, labels) == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_arrays_and_names_of_classes_are_taken_as_they_are():
    embeddings, labels = noisy_classes(UNEVEN, dtype=torch.float32)
    expected, names = retrieval_scores(embeddings, labels), [f"class {label}" for label in labels.tolist()]
    for kind in (labels.numpy(), names, np.array(names), np.array(names, dtype=object)):
        assert retrieval_scores(embeddings.numpy(), kind) == expected


def random_ground_truth(queries=6, images=30, seed=0, ties=False):
    """Similarities and lists of random lengths, some empty."""
    generator = seeded(seed)
    similarities = torch.randn(queries, images, generator=generator, dtype=torch.float64)
    truth = []
    for query in range(queries):
        kinds = torch.randint(query % 2, 5, (images,), generator=generator)  # every other query has no easy image
        truth.append({name: np.flatnonzero(kinds == kind) for kind, name in enumerate(("easy", "hard", "junk"))})
    return similarities.round() if ties else similarities, truth


@pytest.mark.parametrize(("ranks", "score"), [([0, 2], 0.7916666666666667), ([1], 0.25), ([0], 1.0), ([0, 1, 2], 1.0)])
def test_golden_values_of_revisited_ap(ranks, score):
    """The database in order of similarity, for a query with easy and for one with hard images at these ranks."""
    truth = [{"easy": ranks, "hard": [], "junk": []}, {"easy": [], "hard": ranks, "junk": []}]
    expected = pytest.approx(dict.fromkeys(("easy_map", "medium_map", "hard_map"), score))
    assert revisited_map(torch.tensor([[0.0, -1.0, -2.0, -3.0]] * 2), truth) == expected


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_revisited_map_is_the_loop(seed, ties):
    similarities, truth = random_ground_truth(seed=seed, ties=ties)
    expected = reference.revisited_map(similarities.tolist(), truth)
    assert revisited_map(similarities, truth) == pytest.approx(expected, rel=1e-12)
