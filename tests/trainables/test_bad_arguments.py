"""What losses and metrics refuse, and in which words: (call, words)."""

import math
from functools import partial

import pytest
import torch

from trainables.losses import (
    alignment_uniformity_terms,
    barlow_twins_terms,
    infonce_terms,
    margin_terms,
    siglip_terms,
    vicreg_terms,
)
from trainables.probe import linear_probe
from trainables.retrieval import retrieval_scores, revisited_map

EYE, FEW = torch.eye(4), torch.tensor([0, 0, 1, 1])
LOSSES = [
    *((partial(margin_terms, EYE, FEW, margin=margin), rf"margin {margin} is outside \(0, 2\]")
      for margin in (0, -0.5, 2.01, math.nan)),
    *((partial(infonce_terms, EYE, FEW, temperature=value), f"temperature is {value}")
      for value in (0, -1, math.inf, math.nan)),
    (partial(margin_terms, EYE, FEW, q=3), "q is 3"),
    *((partial(terms, *wrong), words) for terms in (margin_terms, infonce_terms) for wrong, words in (
        ((EYE[0], FEW), r"shape \(4,\).*\[b, d\]"),
        ((EYE.long(), FEW), "z is torch.int64"),
        ((EYE.numpy(), FEW), "z is of type ndarray; a tensor is required"),
        ((EYE, [0, 0, 1, 1]), "labels is of type list; a tensor is required"),
        ((EYE, FEW[:3]), r"labels have shape \(3,\); \[4\]"),
        ((EYE, FEW.float()), "labels are torch.float32"),
        ((EYE, FEW, 0.5, "l1"), "distance is 'l1'; one of euclidean, cosine"),
    )),
    *((partial(terms, *wrong), words)
      for terms in (alignment_uniformity_terms, barlow_twins_terms, siglip_terms, vicreg_terms) for wrong, words in (
        ((torch.ones(4), torch.ones(4, 2)), r"z is torch.float32 of shape \(4,\); .* \[n, d\]"),
        ((torch.ones(4, 2), torch.ones(4, 2).long()), "other is torch.int64"),
        ((torch.ones(4, 2), [[1.0, 1.0]] * 4), "other is of type list; a tensor is required"),
        ((torch.ones(4, 2), torch.ones(4, 3)), r"z has shape \(4, 2\), other \(4, 3\)"),
        ((torch.ones(1, 2), torch.ones(1, 2)), r"\(1, 2\); equal shapes \[n, d\] of 2 images or more"),
    )),
]  # fmt: skip

TWO, PAIRS = torch.ones(4, 2), [0, 0, 1, 1]
NOT_FINITE = torch.tensor([[1.0, 1], [1, 1], [1, math.nan], [math.inf, 1]])
RETRIEVAL = [
    *((partial(retrieval_scores, *wrong), words) for wrong, words in (
        ((NOT_FINITE, PAIRS), "2 of 4 embeddings are not finite, the first is row 2"),
        ((torch.ones(4), PAIRS), r"shape \(4,\).*\[N, d\]"),
        ((TWO.long(), PAIRS), "embeddings are torch.int64"),
        ((TWO, [0, 0, 1]), r"labels are torch.int64 of shape \(3,\); integers or strings of shape \[4\]"),
        ((TWO, ["a", "a", 1, None]), "labels are of several kinds"),
        ((TWO, [0.0, 0.0, 1.0, 1.0]), "labels are torch.float32"),
        ((TWO, [0, 1, 2, 3]), "no two of the 4 images have the same label"),
    )),
    *((partial(retrieval_scores, TWO, PAIRS, recall_at=[1, k]), f"recall_at has {k}; integers from 1 to 3 are allowed")
      for k in (0, -1, 4, 2.0, True)),
    *((partial(revisited_map, similarities, [dict(zip(("easy", "hard", "junk"), lists, strict=True))]), words)
      for similarities, lists, words in (
        (torch.ones(4), ([0], [], []), r"shape \(4,\).*\[1 queries, database\]"),
        (torch.ones(2, 4), ([0], [], []), r"shape \(2, 4\)"),
        (torch.ones(1, 4).long(), ([0], [], []), "similarities are torch.int64"),
        (torch.full((1, 4), math.nan), ([0], [], []), "similarities are not finite"),
        (torch.ones(1, 4), ([4], [], []), "query 0: easy has a position that is not an integer of 0 to 3"),
        (torch.ones(1, 4), ([0], [0.5], []), "query 0: hard has a position"),
        (torch.ones(1, 4), ([0], [], [1, 0]), "query 0: an image is twice in the lists"),
        (torch.ones(1, 4), ([0], [], [1]), "no query has a positive at the level 'hard'"),
    )),
]  # fmt: skip

X, Y = torch.ones(4, 2), torch.tensor([0, 1, 1, 0])
PROBE = [
    *((partial(linear_probe, *train, X, Y), words) for train, words in (
        ((torch.ones(4), Y), r"train_features .* shape \(4,\)"),
        ((X.long(), Y), "train_features are torch.int64"),
        ((torch.ones(0, 2), Y[:0]), r"train_features .* shape \(0, 2\)"),
        ((X / 0, Y), "train_features are not finite: 8 of 8"),
        ((X, Y[:3]), r"train_labels are torch.int64 of shape \(3,\); integers of shape \[4\]"),
        ((X, Y.float()), "train_labels are torch.float32"),
        ((X, Y - 1), "train_labels reach down to -1"),
        ((X, ["a", "b", "a", "b"]), "labels are of several kinds"),
    )),
    (partial(linear_probe, X, [*"bccb"], X, [*"aabc"]), "test_labels reach 2; the training labels reach 1 only"),
    (partial(linear_probe, X, Y, X, Y + 1), "test_labels reach 2; the training labels reach 1 only"),
    (partial(linear_probe, X, Y, torch.ones(4, 3), Y), "train_features have 2 dimensions, test_features 3"),
    (partial(linear_probe, X, Y, X * math.nan, Y), "test_features are not finite"),
    *((partial(linear_probe, X, Y, X, Y, **{name: value}), f"{name} is {value}") for name, value in (
        ("epochs", 0), ("epochs", 1.5), ("steps", -1), ("batch_size", 0), ("learning_rate", 0.0),
        ("learning_rate", math.nan))),
]  # fmt: skip


@pytest.mark.parametrize("call, words", [*LOSSES, *RETRIEVAL, *PROBE])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
