"""The common part of the rules that follow another library's sampler."""

from abc import abstractmethod
from collections.abc import Container
from importlib import import_module
from typing import Any
from warnings import catch_warnings

from tune_cd.search.baselines.baseline import Rule
from tune_cd.search.baselines.listed import Listed, uniform_draws
from tune_cd.search.space import Configuration, Key, Space


class Sampled(Rule):
    """Keeps a sampler from proposing known configurations.

    repeats: number of proposals in a row that may be known. Then a uniform draw takes their place.
    """

    repeats = 20

    def __init__(self, space: Space, seed: int):
        self._space, self._uniform = space, Listed(space, uniform_draws(space, seed))
        self._values: dict[Key, float | None] = {}  # of all observed configurations

    def propose(self, known: Container[Key]) -> Configuration | None:
        if self.exhausted(known):
            return None
        for _ in range(self.repeats):
            h = self._drawn()
            if (key := self._space.key(h)) not in known:
                return h
            if key in self._values:
                self.observe(h, self._values[key])
        if (drawn := self._uniform.propose(known)) is not None:
            self.take(drawn)
        return drawn

    def exhausted(self, known: Container[Key]) -> bool:
        return self._uniform.exhausted(known)

    def observe(self, h: Configuration, value: float | None) -> None:
        self._values[self._space.key(h)] = value

    @abstractmethod
    def _drawn(self) -> Configuration:
        """The sampler's next proposal, known or not."""


def imported(method: str, *modules: str) -> list[Any]:
    """Import the modules that a method needs. Raises ImportError saying how to install them."""
    try:
        with catch_warnings(action="ignore"):  # of missing halves of a package
            return [import_module(module) for module in modules]
    except ImportError as error:
        raise ImportError(f"{method} needs {error.name}: pip install tune_cd[baselines]", name=error.name) from error
