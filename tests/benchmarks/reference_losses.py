"""pytorch-metric-learning's part of `reference_trainer`: its losses with two weights, and its sampler."""

from pytorch_metric_learning import distances, losses, reducers
from pytorch_metric_learning.samplers import MPerClassSampler
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.training.setup import Setup


def build_sampler(labels: list[int], k: int, batch_size: int) -> MPerClassSampler:
    """k items a class; an epoch is as many images as there are."""
    return MPerClassSampler(labels, m=k, batch_size=batch_size, length_before_new_iter=len(labels))


class Weighted(reducers.MeanReducer):
    """The mean over all pairs times a weight."""

    def __init__(self, weight: float):
        super().__init__()
        self.weight = weight

    def element_reduction(self, values, *_):
        return self.weight * values.mean()


def weighted_infonce(Lambda_p: float, Lambda_e: float, temperature: float):
    """`NTXentLoss` is positive + entropy term at equal weights; another balance adds positive terms."""
    both = losses.NTXentLoss(temperature=temperature)

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: [b, d], two rows of each label, one after the other."""
        u = F.normalize(embeddings)
        positive = (1 - (u[0::2] * u[1::2]).sum(1)).mean() / temperature
        return Lambda_e * both(embeddings, labels) + (Lambda_p - Lambda_e) * positive

    return loss


def contrastive(distance: str, margin: float, Lambda_p: float, Lambda_e: float) -> nn.Module:
    """The weighted margin loss with averages over all pairs; pytorch-metric-learning's default drops the pairs at 0."""
    reducer = reducers.MultipleReducers({"pos_loss": Weighted(Lambda_p), "neg_loss": Weighted(Lambda_e)})
    if distance == "cosine":
        return losses.ContrastiveLoss(1, 1 - margin, distance=distances.CosineSimilarity(), reducer=reducer)
    euclidean = distances.LpDistance(normalize_embeddings=True, p=2, power=1)
    return losses.ContrastiveLoss(0, margin, distance=euclidean, reducer=reducer)


def build_loss(setup: Setup, Lambda_p: float, Lambda_e: float):
    """(embeddings [b, d], labels [b]) -> the weighted loss. Raises ValueError for a loss that was not written here."""
    kind = setup.loss, setup.loss_distance, setup.q, setup.k
    if kind == ("infonce", "cosine", 1, 2):
        return weighted_infonce(Lambda_p, Lambda_e, setup.temperature)
    if kind[:3] != ("margin", "euclidean", 1):
        raise ValueError(
            f"loss, distance, q and k = {kind}: the reference has margin, euclidean, 1 and any k; infonce, cosine, 1 "
            f"and 2"
        )
    return contrastive("euclidean", setup.margin, Lambda_p, Lambda_e)
