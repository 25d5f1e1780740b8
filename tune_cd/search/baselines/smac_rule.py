"""SMAC3's random forest as a rule of a `Baseline`: its facade for hyper-parameters, imported when a rule is made."""

from collections import defaultdict
from tempfile import TemporaryDirectory
from typing import Any

from tune_cd.search.baselines.sampled import Sampled, imported, quiet
from tune_cd.search.space import Configuration, Key, Space

INITIAL = 5
"""Trials before the forest is asked, the start among them: SMAC's default for 20 trials, a quarter of them."""

UNLIMITED = 1_000_000
"""SMAC's own limit of trials, out of reach: the caller keeps the budget."""


class SmacRule(Sampled):
    """A `baseline.Rule` over one `HyperparameterOptimizationFacade` with its defaults, except for an initial design of
    INITIAL points with the start. It fits its forest again after every eighth trial (`retrain_after`).

    It searches the unit cube of the space's coordinates; its proposals are snapped through the space. Live trials are
    running trials of its history. A failure is told as the worst value so far; failures before any value are told with
    the first. SMAC stores its settings in a folder when it is made; the folder is removed at once.
    """

    repeats = 1  # a fit of the forest takes seconds; where allowed values are few, most of its points are known

    def __init__(self, space: Space, seed: int):
        super().__init__(space, seed)
        smac, configurations = imported("smac", "smac", "ConfigSpace", extra="smac")
        self._history, self._make = smac.runhistory.dataclasses, configurations.Configuration
        self._cube = configurations.ConfigurationSpace(seed=seed)
        self._cube.add([configurations.Float(name, (0.0, 1.0)) for name in space.names])
        facade = smac.HyperparameterOptimizationFacade
        with TemporaryDirectory() as folder, quiet():
            scenario = smac.Scenario(
                self._cube, deterministic=True, n_trials=UNLIMITED, seed=seed, output_directory=folder
            )
            design = facade.get_initial_design(scenario, n_configs=INITIAL - 1)
            self._smac = facade(scenario, lambda config, seed=0: 0.0, initial_design=design, logging_level=False)
        self._smac.intensifier.__post_init__()  # else no trial can be told before one is asked for
        self._trials: dict[Key, list[Any]] = defaultdict(list)  # by key: SMAC's trials of a configuration
        self._values: dict[Key, float] = {}  # by key: the values told
        self._untold: set[Key] = set()  # failures before any value

    def take(self, h: Configuration) -> None:
        config = self._make(self._cube, dict(zip(self._space.names, self._to_cube(h).tolist())))
        seed = self._smac.intensifier.get_instance_seed_keys_of_interest()[0].seed
        trial = self._history.TrialInfo(config, seed=seed)
        self._smac.runhistory.add_running_trial(trial)
        self._trials[self._space.key(h)].append(trial)

    def observe(self, h: Configuration, value: float | None) -> None:
        """As in `Rule`."""
        key = self._space.key(h)
        self._untold.discard(key)
        if value is None:
            self._values.pop(key, None)
            self._untold.add(key)
        else:
            self._values[key] = value
            self._tell(key, value)
        if self._values:
            worst = min(self._values.values())
            for failed in sorted(self._untold):
                self._tell(failed, worst)
            self._untold.clear()

    def _tell(self, key: Key, value: float) -> None:
        for trial in self._trials[key]:
            self._smac.tell(trial, self._history.TrialValue(cost=-value), save=False)

    def _drawn(self) -> Configuration:
        with quiet():
            trial = self._smac.ask()
        h = self._from_cube([trial.config[name] for name in self._space.names])
        self._trials[self._space.key(h)].append(trial)
        return h
