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

    activation: of the usual projection head; None: no projection.
    embedding: its dimension; 0: the projection's usual 64, or without a projection the features'.
    projector: widths of a `perceptron` that replaces the projection.
    """
    if projector:
        return perceptron(features, projector)
    if activation is not None:
        return projection_head(features, out=embedding or 64, activation=activation)
    return nn.Linear(features, embedding) if embedding else None


def projection_head(features: int, out: int, activation: str) -> nn.Module:
    """The projection between features and the self-supervised loss, with HIDDEN units: 64-256-64 on ResNet-32.

    activation: one of ACTIVATIONS.
    """
    return nn.Sequential(
        nn.Linear(features, HIDDEN), nn.BatchNorm1d(HIDDEN), ACTIVATIONS[activation](), nn.Linear(HIDDEN, out)
    )


def perceptron(features: int, widths: Sequence[int]) -> nn.Module:
    """Linear layers without bias, batch normalisation and ReLU after all but the last.

    Maps [b, features] to [b, widths[-1]].
    It is the projector of Barlow Twins' authors (main.py). VICReg's (main_vicreg.py) has biases in the inner layers,
    which the batch normalisation removes again.
    """
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise((features, *widths[:-1])):
        layers += [nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear((features, *widths)[-2], widths[-1], bias=False))
