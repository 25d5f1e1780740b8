"""In-batch mining: which pairs of a batch count, as masks on the pair matrix (the mask of sec:background).

Masks are computed elementwise from the similarities and take no gradient. Pairs that are equally similar are kept or
left together.
"""

from math import inf

import torch
from torch import Tensor

from trainables.losses.registry import MINING


def mined(
    similarities: Tensor, distances: Tensor, positives: Tensor, negatives: Tensor, mining: str, margin: float = inf
) -> tuple[Tensor, Tensor]:
    """The pairs that a way of mining keeps: (positives, negatives), parts of those given. ValueError for another way.

    similarities, distances: [n, m] floating point, of n anchors with m others; distances fall with similarities.
    positives, negatives: [n, m] bool, the pairs of each kind; "semihard" may leave none of the negatives.
    mining: "none": all pairs. "hard": of each anchor the farthest positive and the nearest negative (batch hard,
        Hermans et al. 2017). "semihard": all positives; the negatives that are farther from the anchor than one of its
        positives, by less than `margin` (Schroff et al. 2015). "easy_positive": of each anchor the nearest positive,
        and all negatives (Xuan et al. 2020).
    margin: of "semihard", in the unit of the distances; inf: any distance farther.
    """
    similarities, distances = similarities.detach(), distances.detach()
    if mining == "none":
        return positives, negatives
    if mining == "hard":
        return _nearest(-similarities, positives), _nearest(similarities, negatives)
    if mining == "semihard":
        beyond = distances - _next_positive_below(distances, positives)  # [n, m]; inf: no positive is nearer
        return positives, negatives & (beyond > 0) & (beyond < margin)
    if mining == "easy_positive":
        return _nearest(similarities, positives), negatives
    raise ValueError(f"mining is {mining!r}; one of {', '.join(MINING)} is expected")


def _nearest(similarities: Tensor, pairs: Tensor) -> Tensor:
    """Mask [n, m] of each row's largest similarity among its pairs."""
    lowest = torch.finfo(similarities.dtype).min
    among = similarities.masked_fill(~pairs, lowest)
    return pairs & (among == among.amax(dim=1, keepdim=True))


def _next_positive_below(distances: Tensor, positives: Tensor) -> Tensor:
    """The largest distance of a row's positives that is not above an entry's own [n, m]; -inf without one."""
    order = distances.argsort(dim=1)
    sorted_positives = distances.masked_fill(~positives, -inf).gather(1, order)
    return sorted_positives.cummax(dim=1).values.gather(1, order.argsort(dim=1))
