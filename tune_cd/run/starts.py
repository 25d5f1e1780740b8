"""Starts of a search of any loss: weights that others found, its authors' coefficients at a learning rate, a recipe."""

import re
from contextlib import suppress
from math import isfinite

from trainables.losses import Loss
from trainables.training.setup import Setup
from tune_cd import balance
from tune_cd.search.space import Space

SMALL_NETWORK = "small_conv"
LEFT_OUT = "glyphs"
"""A dataset that does not start from its own bests: it stands for data of which nothing is known yet."""


def known_starts(setup: Setup, batch_size: int, space: Space) -> list[balance.Known]:
    """What others found for the set-up's loss, task and kind of network, inside the box; [] where nothing is known, and
    under Adam, whose learning rate is no part of the weights."""
    if setup.optimizer != "sgd":
        return []
    found = balance.known(
        setup.loss, setup.task, network="small" if setup.network == SMALL_NETWORK else "large",
        pretrained=setup.weights != "none", batch_size=batch_size, dataset=setup.dataset,
        leave_out=LEFT_OUT if setup.dataset == LEFT_OUT else None,
    )  # fmt: skip
    ranges = {axis.name: (axis.low, axis.high) for axis in space.axes}
    return [
        row for row in found
        if all(low <= row.weights[name] <= high for name, (low, high) in ranges.items() if name in row.weights)
    ]  # fmt: skip


def usual_weights(loss: Loss, rate: float) -> dict[str, float]:
    """Weights in the published ratios; the largest is the rate, the usual one of a loss of weight 1. Plain SGD diverges
    with VICReg's published 25 times 0.1."""
    return {name: rate / max(loss.published) * coefficient for name, coefficient in loss.coefficients.items()}


def usual_rate(setup: Setup) -> float:
    """The learning rate that the usual weights contain; 1 under Adam, which has its own."""
    return setup.learning_rate if setup.optimizer == "sgd" else 1.0


def recipe_at(start: str, loss: Loss, batch_size: int, k: int) -> dict[str, float]:
    """The configuration of `--start lr=...[,b=...]`, with an average=... of the pairwise losses, else at the published
    weights; batches have k items of a class. Raises ValueError naming what is allowed, also for another k."""
    if loss.pairwise:
        if (named := balance.assignments(start).get("k", k)) != k:
            raise ValueError(f"--start {start!r}: k = {named}, and the set-up's batches have k = {k}; --set k={named}")
        return balance.parse_recipe(start, batch_size, k)
    found, rate = re.fullmatch(r"lr=([^,=]+)(?:,\s*b=(\d+))?", start), 0.0
    with suppress(ValueError):
        rate = float(found[1]) if found else 0.0
    if not found or not (rate > 0 and isfinite(rate)):
        raise ValueError(f"--start {start!r}: {starts_for(loss)}; a learning rate is a finite number > 0")
    weights = {name: rate * coefficient for name, coefficient in loss.coefficients.items()}
    return weights | {"batch_size": int(found[2] or batch_size)}


def starts_for(loss: Loss) -> str:
    """The forms of `--start` with this loss, for a message."""
    weights = ",".join(f"{name}=..." for name in loss.weights)
    recipe = "lr=...,average=...[,b=...]" if loss.pairwise else "lr=...[,b=...] for the published weights"
    return f"known, conventional, blind, {'paper, ' * loss.pairwise}{weights}[,batch_size=...], or a recipe {recipe}"
