"""Pairwise contrastive losses as two unweighted terms, positive and entropy (sec:background, sec:balance).

The caller adds them up, so that the balance is visible there (eq:contrastive_decomposition_update):

    loss = Lambda_p * positive + Lambda_e * entropy

Each loss has a rectangular core, `margin_of` or `infonce_of`. It takes the similarities of n anchors with m others, and
a mask each of the positive and the negative pairs. Inside a batch the others are the batch itself (`margin_terms`,
`infonce_terms`); in `trainables.losses.memory` they are remembered embeddings. Distances are computed from the
similarities, so a loss needs one n x m matrix product and no differences of vectors.

Masks are applied elementwise, never used as indices. Shapes do not depend on the labels' values and nothing waits for
the device, so that a step can be recorded as a CUDA graph. A batch without a pair of one kind has NaN for that term:
samplers do not draw such batches.
"""

import torch
from torch import Tensor

from trainables.losses.mining import mined
from trainables.losses.registry import NEGATIVES

# Distances of unit vectors lie in [0, 2], euclidean (at most two radii) and cosine (1 - s, s >= -1) alike.
LARGEST_DISTANCE = 2.0

# Keeps the square root's slope finite at distance 0. torch.cdist is not used: inexact near 0, NaN slopes at 0.
SMALLEST_SQUARED_DISTANCE = 1e-12


def margin_terms(
    z: Tensor, labels: Tensor, margin: float = 0.5, distance: str = "euclidean", q: int = 1, mining: str = "none"
) -> tuple[Tensor, Tensor]:
    """Positive and entropy term of the contrastive margin loss (eq:contrastive, averaged as eq:contrastive_means).

    z: [b, d] floating point, rows L2-normalised by the caller; half precision is computed in float32.
    labels: [b] integers, any number of rows per class.
    margin: m in (0, 2], in the unit of `distance`. 0.5 is the paper's; it reaches further in the cosine distance.
    distance: "euclidean" (sqrt(2 - 2 s)) or "cosine" (1 - s), s the cosine similarity.
    q: exponent of both terms, 1 (the paper's) or 2 (Hadsell's).
    mining: which pairs count, see `mining.mined`; "none", the paper's, is all. Semi-hard ones lie within `margin`.
    Returns scalars: d^q averaged over the pairs of equal label, max(0, m - d)^q averaged over the pairs of different
    labels. NaN where the batch has no such pair, 0 where mining keeps none. ValueError for arguments of other shapes,
    kinds or ranges.
    """
    check_batch(z, labels)
    return margin_of(_similarities(z), *_pairs(labels), margin, distance, q, mining)


def infonce_terms(
    z: Tensor, labels: Tensor, temperature: float = 0.1, distance: str = "cosine", negatives: str = "others",
    mining: str = "none",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Positive and entropy term of InfoNCE (eq:infoNCE_onepair, averaged as eq:infoNCE_means).

    z, labels: as in `margin_terms`.  temperature: tau > 0, in the unit of `distance`; 0.1 is the paper's.
    distance: "cosine" (1 - s) or "euclidean" (sqrt(2 - 2 s)), s the cosine similarity.
    negatives: K_ij. "others": j and every row of another label than i's, the paper's, and NT-Xent's with two views.
        "all": every row but i, SupCon's (Khosla et al. 2020).
    mining: see `mining.mined`; "none", the paper's, is all. Semi-hard ones are any that are farther than a positive.
    Returns scalars, both averaged over the positive pairs (i, j): d_ij / tau, and log sum_k exp(-d_ik / tau) over k in
    K_ij. NaN where the batch has no positive pair. ValueError for arguments of other shapes, kinds or ranges.
    """
    check_batch(z, labels)
    return infonce_of(_similarities(z), *_pairs(labels), temperature, distance, negatives, mining)


def margin_of(
    similarities: Tensor, positives: Tensor, negatives: Tensor, margin: float, distance: str, q: int,
    mining: str = "none",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The two margin terms of any pairs of anchors with others; `margin_terms` is this on a batch with itself.

    similarities: [n, m] floating point, cosines of n anchors with m others, finite outside the masks as well.
    positives, negatives: [n, m] bool, the pairs of each kind; a pair of neither kind is ignored.
    Returns scalars, averages over the pairs of a mask; NaN where a mask is empty, 0 where mining has emptied it.
    ValueError for a margin, distance, q or mining that is not allowed.
    """
    if not 0 < margin <= LARGEST_DISTANCE:
        raise ValueError(
            f"margin {margin} is outside (0, {LARGEST_DISTANCE:g}], the {distance} distances of unit vectors"
        )
    if q not in (1, 2):
        raise ValueError(f"q is {q}; the exponent is 1 or 2")
    d = _distances(similarities, distance)  # [n, m]
    kept, repelled = mined(similarities, d, positives, negatives, mining, margin)
    return _mean(d**q, kept, positives), _mean(torch.relu(margin - d) ** q, repelled, negatives)


def infonce_of(
    similarities: Tensor, positives: Tensor, negatives: Tensor, temperature: float, distance: str,
    k_ij: str = "others", mining: str = "none",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The two InfoNCE terms of any pairs of anchors with others; `infonce_terms` is this on a batch with itself.

    similarities, positives, negatives: as in `margin_of`; k_ij: the `negatives` of `infonce_terms`.
    Returns scalars, averages over the positive pairs; NaN where there is none. ValueError for a temperature, distance,
    k_ij or mining that is not allowed.
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}; it is a finite number above 0")
    if k_ij not in NEGATIVES:
        raise ValueError(f"negatives is {k_ij!r}; one of {', '.join(NEGATIVES)} is expected")
    d = _distances(similarities, distance)  # [n, m]
    logits = -d / temperature
    kept, repelled = mined(similarities, d, positives, negatives, mining)
    # All K_ij of one anchor i share its negatives: their logsumexp is taken once per row, then j is added pair by pair.
    # The lowest finite number replaces -inf, which would give a row without negatives a gradient of NaN.
    lowest = torch.finfo(logits.dtype).min
    shared = repelled | positives if k_ij == "all" else repelled
    of_row = logits.masked_fill(~shared, lowest).logsumexp(dim=1, keepdim=True)  # [n, 1]
    entropy = torch.logaddexp(logits, of_row) if k_ij == "others" else of_row.expand_as(logits)
    return _mean(-logits, kept, positives), _mean(entropy, kept, positives)


def pair_statistics(z: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Statistics of a batch's pairs, logged beside the terms: scalars on z's device, so that the host does not wait.

    "positive_similarity" and "negative_similarity" are mean cosines, NaN without such pairs; "positive_pairs" and
    "negative_pairs" are |P| and |E|, ordered pairs as in sec:balance. z, labels: as in `margin_terms`, and ValueError
    for other shapes or kinds.
    """
    check_batch(z, labels)
    similarities = _similarities(z.detach())
    positives, negatives = _pairs(labels)
    return {
        "positive_similarity": _mean(similarities, positives, positives),
        "negative_similarity": _mean(similarities, negatives, negatives),
        "positive_pairs": positives.sum(),
        "negative_pairs": negatives.sum(),
    }


def check_batch(z: Tensor, labels: Tensor) -> None:
    """Raise ValueError unless z is [b, d] floating point and labels are [b] integers. Reads no values."""
    check_tensors(z=z, labels=labels)
    if z.ndim != 2 or not z.is_floating_point():
        raise ValueError(f"z is {z.dtype} of shape {tuple(z.shape)}; floating point of shape [b, d] is expected")
    if labels.shape != z.shape[:1]:
        raise ValueError(f"labels have shape {tuple(labels.shape)}; [{z.shape[0]}] is expected, one label a row of z")
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels are {labels.dtype}; integers are expected")


def check_tensors(**arguments: Tensor) -> None:
    """Raise ValueError for arguments of other types."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} is of type {type(value).__name__}; a tensor is required, for the gradients")


def products(z: Tensor, others: Tensor) -> Tensor:
    """Inner products [n, m] of rows z [n, d] with rows others [m, d]; of unit rows the cosine similarities.

    Computed in the wider of the two types and at least in float32, inside an autocast region too.
    """
    kind = torch.promote_types(torch.promote_types(z.dtype, others.dtype), torch.float32)
    with torch.autocast(z.device.type, enabled=False):
        return z.to(kind) @ others.to(kind).T


def _similarities(z: Tensor) -> Tensor:
    """Cosine similarities [b, b] of unit rows z [b, d]."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))  # once: both sides' gradients are added before rounding
    return products(z, z)


def _distances(similarities: Tensor, distance: str) -> Tensor:
    """Distances [n, m], the paper's M, from the similarities [n, m] of unit rows."""
    if distance == "euclidean":
        return (2 - 2 * similarities).clamp(min=SMALLEST_SQUARED_DISTANCE).sqrt()
    if distance == "cosine":
        return 1 - similarities
    raise ValueError(f"distance is {distance!r}; one of euclidean, cosine is expected")


def _pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Masks [b, b] of the ordered pairs P = {i != j, y_i = y_j} and E = {y_i != y_j} (sec:balance)."""
    same = labels[:, None] == labels[None, :]
    itself = torch.eye(labels.shape[0], dtype=torch.bool, device=labels.device)
    return same & ~itself, ~same


def _mean(values: Tensor, pairs: Tensor, among: Tensor) -> Tensor:
    """Mean of values [n, m] over the pairs of a mask [n, m], a part of `among`: NaN where that is empty, 0 where only
    the part is. Values must be finite outside the mask as well."""
    return (values * pairs).sum() / torch.maximum(pairs.sum(), among.sum().clamp(max=1))
