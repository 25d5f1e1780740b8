"""Scores of self-supervised networks that need no labels."""

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.metrics.nearest_neighbours import AT_ONCE

RANK_EPSILON = 1e-7  # Garrido et al., eq. 1


@torch.no_grad()
def rankme(z: Tensor) -> Tensor:
    """RankMe (Garrido et al., ICML 2023) of embeddings z [n, d] as a share of d: exp of the entropy of their singular
    values, divided by d. A float64 scalar in (0, 1] on their device, NaN for embeddings that are not finite."""
    values = torch.linalg.svdvals(z.double().nan_to_num(0, 0, 0))
    shares = values / values.sum() + RANK_EPSILON
    rank = torch.exp(-(shares * shares.log()).sum()).clamp(max=z.shape[1])
    return torch.where(z.isfinite().all(), rank / z.shape[1], torch.nan)


@torch.no_grad()
def view_retrieval(one: Tensor, other: Tensor) -> Tensor:
    """The share of rows of `one` whose nearest row of `other`, by cosine, is that of the same image. one, other:
    embeddings [n, d] of two views of n images. A float64 scalar on their device."""
    one, other = (F.normalize(z.float(), dim=1) for z in (one, other))
    found = [(rows @ other.T).argmax(1) for rows in one.split(max(1, AT_ONCE // len(other)))]
    return (torch.cat(found) == torch.arange(len(one), device=one.device)).double().mean()
