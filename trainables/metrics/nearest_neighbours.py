"""Classification of frozen features by their nearest neighbours, a score of self-supervised networks without training.

The protocol is Wu et al.'s (Unsupervised Feature Learning via Non-Parametric Instance Discrimination, CVPR 2018, sec.
3.4): the k training features of largest cosine similarity s vote for their classes with weights exp(s / 0.07). k is 20,
not their 200, as is usual for data sets of few images.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

NEIGHBOURS = 20
TEMPERATURE = 0.07  # Wu et al., sec. 3.4
AT_ONCE = 2**25  # similarities in memory, 128 MB


@torch.no_grad()
def knn_accuracies(train_features: Tensor, train_labels: Tensor, test_features: Tensor, test_labels: Tensor) -> Tensor:
    """Accuracies, float64 [members], on the test features of the weighted vote of the NEIGHBOURS nearest training
    features (all, where there are fewer), by cosine similarity. Of equal votes the lowest label wins. The host waits
    for the number of classes alone.

    train_features, test_features: [members, n, d] floating point, computed in float32.  train_labels, test_labels:
    int64 [n] from 0 on, the same for all members.  All are on one device and not checked."""
    classes = int(train_labels.max()) + 1
    accuracies = [
        (_voted(x, train_labels, x_test, classes) == test_labels).double().mean()
        for x, x_test in zip(train_features, test_features)
    ]
    return torch.stack(accuracies)


def _voted(x: Tensor, y: Tensor, x_test: Tensor, classes: int) -> Tensor:
    """The classes [m] of x_test [m, d] by the vote of their nearest neighbours among x [n, d] with labels y [n]."""
    x, x_test = (F.normalize(features.float(), dim=1) for features in (x, x_test))
    voted = []
    for rows in x_test.split(max(1, AT_ONCE // len(x))):
        similarities, nearest = (rows @ x.T).topk(min(NEIGHBOURS, len(x)), dim=1)  # [rows, k] each
        weights = torch.exp((similarities - 1) / TEMPERATURE)  # at most 1, up to rounding
        votes = weights.new_zeros(len(rows), classes).scatter_add_(1, y[nearest], weights)
        voted.append(votes.argmax(1))
    return torch.cat(voted)
