"""Where a search begins, by `--start`: weights that others found, its authors' coefficients at a learning rate, a
recipe, or weights."""

import re
from contextlib import suppress
from math import isfinite

from trainables.losses import Loss, find_loss
from trainables.training.setup import Setup
from trainables.training.setups import xbm_balance
from tune_cd import balance
from tune_cd.balance.recipes import parse_h
from tune_cd.run.config import StudyConfig, usual_rate, usual_weights
from tune_cd.search.space import Space

USUAL = ("conventional", "known")
"""Starts at the recipe in use, `known` where nothing is known."""
SMALL_NETWORK = "small_conv"
LEFT_OUT = "glyphs"
"""A dataset that does not start from its own bests: it stands for data of which nothing is known yet."""


def start_of(config: StudyConfig, setup: Setup, space: Space) -> dict | list[dict] | None:
    """The first configuration, or those that others ended at, which a search that pauses tries short; None for blind.
    Raises ValueError for an unknown form, or a value outside the box."""
    if config.start == "blind":
        return None
    if found := known(config, setup):
        starts = [space.check(row.weights | {"batch_size": config.batch_size}) for row in found]
        return starts if config.pauses else starts[0]
    start = _named(config, setup)
    try:
        return space.check(start)
    except ValueError as error:
        raise ValueError(f"--start {config.start}: {error}; --range LO,HI is that of every weight") from None


def known(config: StudyConfig, setup: Setup) -> list[balance.Known]:
    """Where `--start known` begins: what others found for the set-up's loss, task and kind of network, inside the
    range. [] where nothing is known, or another start is asked for, and under Adam, whose learning rate is no part of
    the weights."""
    if config.start != "known" or config.experiment != "balance" or setup.optimizer != "sgd":
        return []
    found = balance.known(
        setup.loss, setup.task, network="small" if setup.network == SMALL_NETWORK else "large",
        pretrained=setup.weights != "none", batch_size=config.batch_size, dataset=setup.dataset,
        leave_out=LEFT_OUT if setup.dataset == LEFT_OUT else None,
    )  # fmt: skip
    low, high = config.range
    return [row for row in found if all(low <= weight <= high for weight in row.weights.values())]


def recipe(average: str, config: StudyConfig, setup: Setup) -> dict:
    """The configuration of a recipe at the usual learning rate."""
    rate, size = usual_rate(setup), config.batch_size
    if average == balance.PUBLISHED:
        return usual_weights(find_loss(setup.loss), rate) | {"batch_size": size}
    return balance.from_recipe(rate, average, size, setup.k) | {"batch_size": size}


def authors(config: StudyConfig, setup: Setup) -> dict:
    """The XBM authors' balance in the space of this study."""
    if setup.optimizer == "sgd":
        return recipe("global", config, setup)
    return xbm_balance(config.batch_size, setup.k) | {"batch_size": config.batch_size}


def _named(config: StudyConfig, setup: Setup) -> dict:
    """The configuration that `--start` names. Raises ValueError naming the allowed forms."""
    start, loss, size = config.start, find_loss(setup.loss), config.batch_size
    if start in USUAL:
        usual = "separate" if loss.pairwise else balance.PUBLISHED
        return authors(config, setup) if config.experiment == "xbm" else recipe(usual, config, setup)
    if start == "paper":
        return balance.published(setup.dataset, setup.loss).weights | {"batch_size": size}
    if start.startswith("lr="):
        if setup.optimizer != "sgd":
            raise ValueError(
                f"--start {start!r}: under {setup.optimizer} the learning rate is no part of the weights: "
                "--set learning_rate=..., and --start with the weights themselves"
            )
        return _of_rate(start, loss, size, setup.k)
    text = start if re.search(r"\bb(?:atch_size)?\s*=", start) else f"{start},b={size}"
    try:
        found = parse_h(text, [name.removeprefix(balance.WEIGHT) for name in loss.weights])
    except ValueError as error:
        raise ValueError(f"--start {start!r}: {error}; {_forms(loss)}") from None
    return {name: value for name, value in found.items() if name != "k"}


def _of_rate(start: str, loss: Loss, batch_size: int, k: int) -> dict[str, float]:
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
        raise ValueError(f"--start {start!r}: {_forms(loss)}; a learning rate is a finite number > 0")
    weights = {name: rate * coefficient for name, coefficient in loss.coefficients.items()}
    return weights | {"batch_size": int(found[2] or batch_size)}


def _forms(loss: Loss) -> str:
    """The forms of `--start` with this loss, for a message."""
    weights = ",".join(f"{name}=..." for name in loss.weights)
    recipe = "lr=...,average=...[,b=...]" if loss.pairwise else "lr=...[,b=...] for the published weights"
    return f"known, conventional, blind, {'paper, ' * loss.pairwise}{weights}[,batch_size=...], or a recipe {recipe}"
