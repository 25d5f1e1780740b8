"""Where a search begins, by `--start`: weights that others found, its authors' coefficients at a learning rate, a
recipe, or weights."""

import re
from dataclasses import replace

from trainables.losses import LOSSES, Loss, find_loss
from trainables.training.setup import Setup
from trainables.training.setups import xbm_balance
from tune_cd import balance
from tune_cd.balance.recipes import parse_h
from tune_cd.run.config import StudyConfig, usual_rate, usual_weights
from tune_cd.search.space import Space

SMALL_NETWORK = "small_conv"
OF_SCALE = ("temperature", "distance", "q")
"""Fields of a set-up on which the sizes of the terms' gradients depend."""
LEFT_OUT = "glyphs"
"""A dataset that does not start from its own bests: it stands for data of which nothing is known yet."""


def starts_of(config: StudyConfig, setup: Setup, space: Space) -> list[dict]:
    """The first configuration, or those that others ended at, which a search that pauses tries short; [] for blind and
    for a grid. Raises ValueError for an unknown form, or a value outside the box."""
    if config.start == "blind" or config.search == "grid":
        return []
    if found := known(config, setup):
        starts = [space.check(row.weights | {"batch_size": config.batch_size}) for row in found]
        return starts if config.pauses else starts[:1]
    start = _named(config, setup)
    try:
        return [space.check(start)]
    except ValueError as error:
        raise ValueError(f"--start {config.start}: {error}; --range LO,HI is that of every weight") from None


def known(config: StudyConfig, setup: Setup) -> list[balance.Known]:
    """Where `--start known` begins: what others found for the set-up's loss, task and kind of network, inside the
    range. [] where nothing is known, or another start or none is asked for; under Adam, whose learning rate is no part
    of the weights; with hard mining, which keeps as many negatives as positives, and so has another best balance; and
    where a field OF_SCALE has an effect and is not the usual one, with which these bests were found."""
    if config.start != "known" or config.experiment != "balance" or config.search == "grid":
        return []
    usual = replace(setup, **{name: getattr(Setup, name) for name in OF_SCALE})
    if setup.optimizer != "sgd" or setup.mining == "hard" or setup.digest != usual.digest:
        return []
    found = balance.known(
        setup.loss, setup.task, network="small" if setup.network == SMALL_NETWORK else "large",
        pretrained=setup.weights != "none", batch_size=config.batch_size, dataset=setup.dataset,
        leave_out=LEFT_OUT if setup.dataset == LEFT_OUT else None,
    )  # fmt: skip
    low, high = config.bounds
    return [row for row in found if all(low <= weight <= high for weight in row.weights.values())]


def recipe(average: str, config: StudyConfig, setup: Setup) -> dict:
    """The configuration of a recipe at the usual learning rate."""
    rate, size = usual_rate(setup), config.batch_size
    if average == balance.PUBLISHED:
        return usual_weights(find_loss(setup.loss), rate) | {"batch_size": size}
    return balance.from_recipe(rate, average, size, setup.k) | {"batch_size": size}


def authors(config: StudyConfig, setup: Setup) -> dict:
    """The XBM authors' balance in the space of this study."""
    return xbm_balance(config.batch_size, setup.k) | {"batch_size": config.batch_size}


def _named(config: StudyConfig, setup: Setup) -> dict:
    """The configuration that `--start` names. Raises ValueError naming the allowed forms."""
    start, loss, size = config.start, find_loss(setup.loss), config.batch_size
    if start in ("conventional", "known"):  # nothing is known
        usual = "separate" if loss.pairwise else balance.PUBLISHED
        return authors(config, setup) if config.experiment == "xbm" else recipe(usual, config, setup)
    if start == "paper":
        return balance.published(setup.dataset, setup.loss).weights | {"batch_size": size}
    try:
        if start.startswith("lr="):
            return _of_rate(start, loss, size, setup)
        found = {name: value for name, value in parse_h(start, _terms(loss)).items() if name != "k"}
        return found if re.search(r"\bb(?:atch_size)?\s*=", start) else found | {"batch_size": size}
    except ValueError as error:
        raise ValueError(f"--start {start!r}: {error}; allowed are {_forms(loss)}") from None


def _of_rate(start: str, loss: Loss, batch_size: int, setup: Setup) -> dict[str, float]:
    """The configuration of `--start lr=...[,b=...]`, with an average=... of the pairwise losses, else at the published
    weights. Raises ValueError naming what is allowed, also for batches with another k."""
    if setup.optimizer != "sgd":
        said = "the learning rate is no part of the weights: --set learning_rate=..., and --start with weights"
        raise ValueError(f"under {setup.optimizer} {said}")
    published = {f"lambda_{term}": loss.coefficients[f"{balance.WEIGHT}{term}"] for term in _terms(loss)}
    usual = {} if loss.pairwise else published
    given, averages = balance.assignments(start, _terms(loss), usual), balance.averages_of(loss.name, loss.pairwise)
    if loss.name in LOSSES and (average := given.get("average", averages[0])) not in averages:
        raise ValueError(f"average={average}: {loss.name} has only {', '.join(averages)}")
    if (named := given.get("k", setup.k)) != setup.k:
        raise ValueError(f"k = {named}, and the set-up's batches have k = {setup.k}; --set k={named}")
    return balance.parse_recipe(start, batch_size, setup.k, _terms(loss), usual)


def _terms(loss: Loss) -> tuple[str, ...]:
    return tuple(name.removeprefix(balance.WEIGHT) for name in loss.weights)


def _forms(loss: Loss) -> str:
    """The forms of `--start` with this loss, for a message."""
    weights = ",".join(f"{name}=..." for name in loss.weights)
    recipe = "lr=...,average=...[,b=...]" if loss.pairwise else "lr=...[,b=...] for the published weights"
    return f"known, conventional, blind, {'paper, ' * loss.pairwise}{weights}[,batch_size=...], or a recipe {recipe}"
