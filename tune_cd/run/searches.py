"""The searches of a study: the one asked for and the baselines beside it, or those of an experiment."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tune_cd import balance
from tune_cd.baselines import OPTIMISERS
from tune_cd.baselines.line import most_trials
from tune_cd.baselines.listed import grid_cells
from tune_cd.baselines.methods import line_search
from tune_cd.optimiser import Optimiser
from tune_cd.space import Space
from trainables.tasks import Setup, published_best

DEFAULT_TRIALS = 20

STARTS = "conventional, blind, paper, Lambda_p=...,Lambda_e=...[,batch_size=...], or a recipe lr=...,average=...[,b=...]"


@dataclass(frozen=True)
class Search:
    """One search of a study: the one asked for, or a baseline that walks one line of the same space."""

    name: str  # the results table's `search`
    num_samples: int  # at most; a search may end before
    make: Callable[..., Optimiser]  # (space, start=...)
    start: dict | None
    setup: Setup  # what its trials train
    knows: str | None = None  # an earlier search of the study, from whose trials this one sets out
    workers: int | None = None  # settings it may have trained at a time; None: as many as the study
    line: bool = False  # it searches one line, and ends when that is exhausted


def searches_of(options: argparse.Namespace, setup: Setup, space: Space) -> list[Search]:
    """The search asked for, then the baselines. Raises ValueError for options that do not fit the space, ImportError
    for a method that is not installed."""
    make, samples = partial(OPTIMISERS[options.search], seed=options.seed), options.num_samples
    if options.search == "grid":
        make = partial(make, step=options.grid_step)
        samples = sum(1 for _ in grid_cells(space, options.grid_step)) if samples is None else samples
    samples = DEFAULT_TRIALS if samples is None else samples
    if samples < 1:
        raise ValueError(f"--num-samples {samples}: at least 1")
    start = None if options.search == "grid" else start_of(options, setup, space)
    asked = Search(options.search, samples, make, start, setup)
    searches = _xbm(asked, options, space) if options.experiment == "xbm" else [asked, *_baselines(options, setup, space)]
    for search in searches:
        search.make(space, start=search.start)  # refuses what does not fit, now
    return searches


def groups_of(searches: list[Search]) -> list[list[Search]]:
    """The searches that can share a Tune run, in order: neighbours of one set-up, unless one needs to know another's end."""
    groups: list[list[Search]] = []
    for search in searches:
        if groups and search.knows is None and groups[-1][-1].setup == search.setup:
            groups[-1].append(search)
        else:
            groups.append([search])
    return groups


def averages_of(setup: Setup) -> tuple[str, ...]:
    """The recipes people use: InfoNCE has one balance only, its own (`subsec:infonce_loss`)."""
    return balance.AVERAGES if setup.loss == "margin" else ("separate",)


def start_of(options: argparse.Namespace, setup: Setup, space: Space) -> dict | None:
    """The first configuration, None for blind. Raises ValueError naming what `--start` may be, or what is out of the box."""
    if options.start == "blind":
        return None
    if options.start == "conventional":
        return space.check(_recipe("global" if options.experiment == "xbm" else "separate", options, setup))
    if options.start == "paper":
        return space.check(published_best(setup) | {"batch_size": options.batch_size})
    if options.start.startswith("lr="):
        return space.check(balance.parse_recipe(options.start, options.batch_size, setup.k))
    start = {"batch_size": options.batch_size}
    for assignment in options.start.split(","):
        name, _, text = (part.strip() for part in assignment.partition("="))
        if name not in ("Lambda_p", "Lambda_e", "batch_size"):
            raise ValueError(f"--start {options.start!r}: {STARTS}")
        try:
            start[name] = int(text) if name == "batch_size" else float(text)
        except ValueError:
            raise ValueError(f"--start {options.start!r}: {text!r} is not a number") from None
    return space.check(start)


def with_start_batch(options: argparse.Namespace, explicit: dict) -> argparse.Namespace:
    """A batch size named in `--start` is the study's, where it is not searched. Raises ValueError where both differ."""
    named = re.search(r"(?:^|,)\s*(?:b|batch_size)\s*=\s*(\d+)\s*(?:,|$)", options.start)
    if named is None or options.tune_batch_size or int(named[1]) == options.batch_size:
        return options
    if "batch_size" in explicit:
        raise ValueError(f"--start {options.start!r} and --batch-size {options.batch_size} name two batch sizes; --tune-batch-size searches over them")
    return argparse.Namespace(**{**vars(options), "batch_size": int(named[1])})


def _baselines(options: argparse.Namespace, setup: Setup, space: Space) -> list[Search]:
    return [_line(average, average, options, setup, space) for average in averages_of(setup)] if options.baseline else []


def _line(name: str, average: str, options: argparse.Namespace, setup: Setup, space: Space) -> Search:
    """Tune the learning rate alone, on the recipe's diagonal, until that line is exhausted or --baseline-trials are run."""
    try:
        start = space.check(_recipe(average, options, setup))
    except ValueError as error:
        raise ValueError(
            f"the search {name!r} starts at the usual learning rate: {error}; widen --range, or leave it out with --no-baseline"
        ) from None
    joint = [1.0, 1.0, 0.0][: len(space.names)]
    make = partial(line_search, direction=joint, name="joint", seed=options.seed)
    samples = options.baseline_trials or most_trials(space, start, joint)
    return Search(name, samples, make, start, setup, workers=1, line=True)


def _xbm(asked: Search, options: argparse.Namespace, space: Space) -> list[Search]:
    """The rows of `table:xbm`. The XBM authors' balance is the global average's, k-1 to b-k: on it the learning rate alone
    is tuned (S1, S2 and the loss without memory). Then S3 and its counterpart without memory have the whole plane."""
    without, variable, fixed = (replace(asked.setup, memory=memory) for memory in ("none", "variable", "fixed"))
    if not options.baseline:
        return [replace(asked, name="without-tuned", setup=without), replace(asked, name="S3", setup=fixed)]
    lines = [_line(name, "global", options, setup, space) for name, setup in {"without": without, "S1": variable, "S2": fixed}.items()]
    tuned = {"without-tuned": ("without", without), "S3": ("S2", fixed)}
    start = None if options.start == "conventional" else asked.start  # None: the best of the line
    return lines + [replace(asked, name=name, setup=setup, start=start, knows=line) for name, (line, setup) in tuned.items()]


def _recipe(average: str, options: argparse.Namespace, setup: Setup) -> dict:
    rate = setup.learning_rate if setup.optimizer == "sgd" else 1.0  # Adam has a learning rate of its own
    return balance.from_recipe(rate, average, options.batch_size, setup.k) | {"batch_size": options.batch_size}
