"""The searches of a study: the requested one and the baselines beside it, or those of an experiment."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from trainables.losses import find_loss
from trainables.training.setup import Setup
from trainables.training.setups import XBM_SCHEDULES
from tune_cd import balance
from tune_cd.results.schema import CONFIRM, DECAY
from tune_cd.run.config import DEFAULT_TRIALS, DEFAULT_WORTH, WORTH_FROM_KNOWN, StudyConfig
from tune_cd.run.curves import lengths_of
from tune_cd.run.starts import authors, known, recipe, starts_of
from tune_cd.search.baselines.listed import grid_cells
from tune_cd.search.methods import CONFIGURED, OPTIMISERS, given
from tune_cd.search.protocol import Optimiser
from tune_cd.search.search import CoordinateDescent
from tune_cd.search.space import Space


@dataclass(frozen=True)
class Search:
    """One search of a study: the requested one, or a baseline that walks one line of the same space."""

    name: str  # the results table's `search`
    num_samples: int  # at most: configurations, or full trainings' worth if trainings pause
    make: Callable[..., Optimiser]  # (space, start=...)
    starts: list[dict]  # []: the method's own
    setup: Setup  # of its trainings
    seeds: tuple[int, ...] = (0,)  # every configuration is trained with each
    workers: int | None = None  # configurations trained at a time; None: as many as the study
    line: bool = False  # searches one line until its best is bracketed
    retrains_best_of: tuple[str, ...] = ()  # earlier searches, whose best it trains again; CONFIRM that of each
    pauses: bool = False  # decides how long to train


def searches_of(config: StudyConfig, setup: Setup) -> list[Search]:
    """All searches of a study, in order. Raises ValueError for options that do not fit the space, ImportError for a
    method that is not installed."""
    space = config.space
    make, samples = partial(OPTIMISERS[config.search], seed=config.seed), config.num_samples
    if config.search == "grid":
        make = partial(make, step=config.grid_step)
        samples = samples or sum(1 for _ in grid_cells(space, config.grid_step))
    worth = WORTH_FROM_KNOWN if known(config, setup) else DEFAULT_WORTH
    samples = samples or (worth if config.pauses else DEFAULT_TRIALS)
    if config.search in CONFIGURED:
        make = partial(make, **_learning(config, setup))
    box = space if config.search == "cd" else space.fixed  # of the other searches only the averages' lines grow
    asked = Search(config.search, samples, make, starts_of(config, setup, box), setup, pauses=config.pauses)
    asked = _balance_line(asked, config, space)
    # under Adam all points of an average's line train alike (`_balance_line`)
    averages = averages_of(setup) if config.baseline and setup.optimizer == "sgd" else ()
    if config.experiment == "xbm":
        searches = _xbm(asked, config, space)
    else:
        searches = [asked, *(_line(average, config, setup, space) for average in averages)]
    first = config.seed + config.replicates  # the first seed that has no part in the searches
    searches = [replace(search, seeds=tuple(range(config.seed, first))) for search in searches]
    if config.confirm:
        seeds, names = tuple(range(first, first + config.confirm)), tuple(search.name for search in searches)
        searches.append(Search(CONFIRM, len(names), given, [], setup, seeds=seeds, retrains_best_of=names))
    for search in searches:
        if not search.retrains_best_of:
            search.make(space, start=search.starts)  # raises now if the options do not fit
    return searches


def groups_of(searches: list[Search]) -> list[list[Search]]:
    """Groups of searches that can share a Tune run, in order: neighbours that are `alike`, unless one must wait for
    another."""
    groups: list[list[Search]] = []
    for search in searches:
        awaited = groups and {*search.retrains_best_of} & {other.name for other in groups[-1]}
        if groups and alike(groups[-1][-1], search) and not awaited:
            groups[-1].append(search)
        else:
            groups.append([search])
    return groups


def alike(one: Search, other: Search) -> bool:
    """Whether two searches have the same set-up and seeds, so that a common configuration is trained once."""
    return (one.setup, one.seeds) == (other.setup, other.seeds)


def averages_of(setup: Setup) -> tuple[str, ...]:
    """The averages of the set-up's loss (`balance.averages_of`); none for a single term."""
    loss = find_loss(setup.loss)
    return balance.averages_of(setup.loss, loss.pairwise) if len(loss.terms) > 1 else ()


def _line(average: str, config: StudyConfig, setup: Setup, space: Space) -> Search:
    """A search of the learning rate alone, on the recipe's diagonal."""
    try:
        start = space.check(recipe(average, config, setup))
    except ValueError as error:
        said = f"the search {average!r} starts at the usual learning rate: {error}; widen --range, or --no-baseline"
        raise ValueError(said) from None
    joint = {"joint": [float(name != "batch_size") for name in space.names]}
    samples = config.baseline_trials or (DEFAULT_WORTH if config.pauses else DEFAULT_TRIALS)
    make = partial(CoordinateDescent, rule="line", **_learning(config, setup) | {"directions": joint})
    return Search(average, samples, make, [start], setup, workers=1, line=True, pauses=config.pauses)


def _learning(config: StudyConfig, setup: Setup) -> dict[str, Any]:
    """Arguments of a `CoordinateDescent`, with directions and prior of the balance where several weights are
    searched."""
    of_balance = balance.of(config.space) if len(config.weighted.weights) > 1 else {}
    return of_balance | {"seed": config.seed, "lengths": lengths_of(setup) if config.pauses else (1.0,)}


def _xbm(asked: Search, config: StudyConfig, space: Space) -> list[Search]:
    """The searches of `table:xbm`, untuned and tuned: without memory, with a variable balance (S1), with a fixed one
    (S2, S3). Raises ValueError for another optimizer than the XBM authors', and for a memory, of which all kinds are.

    At the authors' balance, k-1 to b-k, one training is made, as theirs. The search begins there too. What is chosen in
    each row is trained once more with learning rate decay: the set-up's if it has any, else the authors'.
    """
    if asked.setup.optimizer != "adam":
        raise ValueError(f"--set optimizer={asked.setup.optimizer}: --experiment xbm trains under Adam, as its authors")
    if asked.setup.memory != "fixed":  # the experiment's default
        raise ValueError(f"--set memory={asked.setup.memory}: --experiment xbm trains with every kind, and none")
    constant, decay = XBM_SCHEDULES
    decay = decay if asked.setup.schedule == constant else asked.setup.schedule
    rows = {"none": ("without", "without-tuned"), "variable": ("S1", "S1-tuned"), "fixed": ("S2", "S3")}
    searches, decayed = [], []
    for memory, (untuned, tuned) in rows.items():
        setup = replace(asked.setup, memory=memory, schedule=constant)
        if config.baseline:
            searches.append(Search(untuned, 1, given, [space.check(authors(config, setup))], setup))
        searches.append(replace(asked, name=tuned, setup=setup))
        among = {untuned: (untuned,), tuned: (untuned, tuned)} if config.baseline else {tuned: (tuned,)}
        later = partial(Search, num_samples=1, make=given, starts=[], setup=replace(setup, schedule=decay))
        decayed += [later(f"{name}{DECAY}", retrains_best_of=chosen) for name, chosen in among.items()]
    return searches + decayed


def _balance_line(asked: Search, config: StudyConfig, space: Space) -> Search:
    """Under Adam, the search over two weights becomes one line search along the balance.

    Adam divides by the joint scale of both weights, and only weight decay depends on it: along 19 octaves of it R@1
    stayed within 0.47 and 0.52 on validation (Omniglot-small, 12 trials each of the plane without and with memory).
    """
    if asked.setup.optimizer == "sgd" or config.search not in ("cd", "cd-paper") or len(space.names) > 2:
        return asked
    directions = {"balance": balance.A_O["balance"][:2]}
    make = partial(CoordinateDescent, rule="line", **_learning(config, asked.setup) | {"directions": directions})
    return replace(
        asked, make=make, starts=asked.starts or [space.sample(np.random.default_rng(config.seed))], line=True
    )
