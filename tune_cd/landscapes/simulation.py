"""Searches on landscapes instead of trainings, on a simulated clock: thousands of trials a second, without Ray.

    trajectories = replay_all({"cd": OPTIMISERS["cd"]}, [LANDSCAPES["omniglot"]], seeds=range(80))
    python -m tune_cd.replay --methods cd-paper random --trajectories 80        # prints tables like tab:hp_res

A trajectory depends on its seed alone, not on other runs or the number of processes.
"""

import heapq
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import isfinite
from multiprocessing import get_context

import numpy as np

from tune_cd.analysis import Curve
from tune_cd.landscapes.landscape import Landscape, knowledge
from tune_cd.search.category import value_in
from tune_cd.search.methods import CONFIGURED
from tune_cd.search.protocol import Optimiser

Method = Callable[..., Optimiser]
"""A constructor, (space, *, seed, start, workers) -> Optimiser, that can be pickled; as in `methods.OPTIMISERS`."""

CONVENTIONAL = {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64}
"""The most common recipe: equal weights, a learning rate of 0.1 (SGD's usual one, as in the tasks of `tune_cd.run`)."""


@dataclass(frozen=True)
class Trial:
    """One simulated trial. Times are in units of a typical trial's duration, from the start of the search.

    index: place in the order of asking. value: told to the search; test: the reported score of h; both None unless
    completed. reached: reported score, without noise, of the incumbent after this trial; the landscape's lowest value
    while there is none.
    """

    index: int
    h: dict
    direction: str
    line_position: float
    status: str
    value: float | None
    test: float | None
    reached: float
    started: float
    ended: float


@dataclass(frozen=True)
class Trajectory:
    """One search on one landscape. trials: in the order of ending, ties in that of asking. sign: `Landscape.sign`."""

    method: str
    landscape: str
    seed: int
    trials: tuple[Trial, ...]
    sign: float = 1.0

    @property
    def curve(self) -> np.ndarray:
        """`Trial.reached` after each ended trial [n_trials]."""
        return np.array([trial.reached for trial in self.trials])

    def as_curve(self) -> Curve:
        """The trajectory for `analysis`: its seconds are durations of a typical trial."""
        ended = np.array([trial.ended for trial in self.trials])
        low, reached = -np.inf * self.sign, self.curve * self.sign
        return Curve(self.landscape, self.method, self.seed, reached, low, ended, sign=self.sign)


def simulate(
    optimiser: Optimiser, landscape: Landscape, *, trials: int, workers: int = 1, seed: int = 0
) -> tuple[Trial, ...]:
    """Run a search until `trials` trials ended or it is finished, and return them in the order they ended.

    Idle workers ask until all are busy or the search returns None. Trials that end at the same time are all told, in
    asking order, before the next ask. Raises ValueError for less than one trial or worker.
    """
    if trials < 1 or workers < 1:
        raise ValueError(f"trials {trials}, workers {workers}: at least 1 of each is required")
    clock, asked, running, ended = 0.0, 0, [], []
    while True:
        while len(running) < workers and asked < trials and (h := optimiser.ask()) is not None:
            measurement = landscape.measure(h, seed)
            heapq.heappush(running, (clock + measurement.duration, asked, clock, h, measurement))
            asked += 1
        if not running:
            return tuple(ended)
        clock = running[0][0]
        while running and running[0][0] == clock:
            _, index, started, h, measurement = heapq.heappop(running)
            origin = optimiser.annotation(h)
            optimiser.tell(h, measurement.value)
            place = (index, h, origin["direction"], origin["line_position"])
            result = (measurement.status, measurement.value, measurement.test)
            ended.append(Trial(*place, *result, _reached(optimiser, landscape), started, clock))


def replay(
    method: str,
    make: Method,
    landscape: Landscape,
    seed: int,
    *,
    trials: int = 50,
    workers: int = 1,
    start: str = "blind",
) -> Trajectory:
    """Run one search. seed: of the search, its start and the landscape's noise; start: see `start_of`. Methods of
    CONFIGURED are given the landscape's knowledge."""
    known = knowledge(landscape.space) if method in CONFIGURED else {}
    optimiser = make(landscape.space, seed=seed, start=start_of(start, landscape, seed), workers=workers, **known)
    ended = simulate(optimiser, landscape, trials=trials, workers=workers, seed=seed)
    return Trajectory(method, landscape.name, seed, ended, landscape.sign)


def replay_all(
    methods: Mapping[str, Method],
    landscapes: Sequence[Landscape],
    seeds: Sequence[int],
    *,
    trials: int = 50,
    workers: int = 1,
    start: str = "blind",
    processes: int | None = None,
) -> list[Trajectory]:
    """Every method on every landscape from every seed, by landscape, method and seed. processes: None: one per core."""
    tasks = product(landscapes, methods.items(), seeds)
    jobs = [(name, make, landscape, seed) for landscape, (name, make), seed in tasks]
    run, processes = partial(replay, trials=trials, workers=workers, start=start), processes or os.cpu_count() or 1
    if processes == 1 or len(jobs) == 1:
        return [run(*job) for job in jobs]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(run, *zip(*jobs), chunksize=max(1, min(20, len(jobs) // (4 * processes)))))


def start_of(text: str, landscape: Landscape, seed: int) -> dict | None:
    """Starting configuration for a value of `--start`; None for blind: each method draws it from its seed.

    conventional: CONVENTIONAL. near:K: K octaves from the optimum, in a direction drawn by the seed. NAME=VALUE,...:
    this configuration. Raises ValueError for anything else, or a start outside the space.
    """
    if text == "blind":
        return None
    if text == "conventional":
        return landscape.space.check(CONVENTIONAL)
    if re.fullmatch(r"near:\d+\.?\d*", text):
        return _near(landscape, float(text.removeprefix("near:")), seed)
    try:
        pairs = [pair.split("=") for pair in text.split(",")]
        texts = {axis.name for axis in landscape.space.categories}
        h = {name: value_in(x) if name in texts else int(x) if x.isdigit() else float(x) for name, x in pairs}
    except ValueError:
        said = f"start {text!r}: blind, conventional, near:OCTAVES or NAME=VALUE,... is required"
        raise ValueError(said) from None
    return landscape.space.check(h)


def _reached(optimiser: Optimiser, landscape: Landscape) -> float:
    score = landscape.score(optimiser.best[0]) if optimiser.best else landscape.low
    return score if isfinite(score) else landscape.low


def _near(landscape: Landscape, octaves: float, seed: int) -> dict:
    """A configuration so many octaves from the optimum along the real axes; redrawn until it lies in the box."""
    space, rng = landscape.space, np.random.default_rng((seed, 2))
    real = np.array([axis.values is None for axis in space.axes])
    for _ in range(1000):
        step = np.where(real, rng.standard_normal(len(real)), 0.0)
        x = space.to_coordinates(landscape.optimum) + octaves * step / np.linalg.norm(step)
        if np.all((x >= space.low) & (x <= space.high)):
            return space.from_coordinates(x)
    raise ValueError(f"start near:{octaves:g}: nothing in {space} is so far from the optimum {landscape.optimum}")
