"""Heads: layers between a network's features and the embedding that the loss sees."""

import itertools
from collections.abc import Sequence

from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}
"""Of the projection head; Patacchiola and Storkey's SimCLR (methods/simclr.py) has torch's LeakyReLU, slope 0.01."""

HIDDEN = 256
"""Hidden units of the projection head."""


def head_of(features: int, *, activation: str | None, embedding: int, projector: Sequence[int]) -> nn.Module | None:
    """Build the head on so many features; None if the embedding is the features.

    activation: of the usual projection head, one of ACTIVATIONS: 64-256-64 on ResNet-32; None: no projection.
    embedding: its dimension; 0: the projection's usual 64, or without a projection the features'.
    projector: widths of layers without bias that replace the projection, with batch normalisation and ReLU after all
        but the last. It is that of Barlow Twins' authors (main.py). VICReg's (main_vicreg.py) has biases in the inner
        layers, which the batch normalisation removes again.
    """
    if projector:
        layers: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise((features, *projector)):
            layers += [nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out), nn.ReLU()]
        return nn.Sequential(*layers[:-2])
    if activation is not None:
        hidden = nn.Linear(features, HIDDEN), nn.BatchNorm1d(HIDDEN), ACTIVATIONS[activation]()
        return nn.Sequential(*hidden, nn.Linear(HIDDEN, embedding or 64))
    return nn.Linear(features, embedding) if embedding else None
