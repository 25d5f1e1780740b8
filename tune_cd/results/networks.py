"""Keeps each search's best trained network, by validation score.

    RESULTS/studies/<study>/networks/<search>~<validation score>~<trial>.pt

`trainables.trained.load` reads such a file. A network is stored before its training's row, and worse ones are removed
only afterwards, so the best one survives a crash in between. Several trainings may end at the same time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tune_cd.results.store import store_of
from tune_cd.results.study_files import file_of

FOLDER = "networks"
DIGITS = 9  # decimal places of the score in a name
NAME = re.compile(r".*/(?P<search>[^~/]+)~(?P<score>-?\d+\.\d+)~[^/]+\.pt")


@dataclass(frozen=True)
class Networks:
    """The networks of one study. results: a folder or an object store's URI."""

    results: str | Path
    study: str

    def keep(self, search: str, trial: str, val_score: float, network: Callable[[], bytes]) -> None:
        """Store a network and remove worse ones, unless the search has a better one. Raises OSError if that fails."""
        name = file_of(self.study, f"{FOLDER}/{search}~{val_score:.{DIGITS}f}~{trial}.pt")
        store = store_of(self.results)
        if _ranked([name, *self._there(search)])[0] != name:
            return
        store.write(name, network())
        for worse in _ranked(self._there(search))[1:]:
            store.remove(worse)

    def best(self) -> dict[str, str]:
        """search -> name in the store of its best network."""
        return {found["search"]: name for name in reversed(_ranked(self._there())) if (found := NAME.fullmatch(name))}

    def _there(self, search: str | None = None) -> list[str]:
        """Names of the stored networks of one search, or of all."""
        listed = store_of(self.results).listing(file_of(self.study, FOLDER), depth=1)
        return [name for name in listed if (found := NAME.fullmatch(name)) and search in (None, found["search"])]


def _ranked(names: list[str]) -> list[str]:
    """Names by falling score; equal scores by name."""
    return sorted(names, key=lambda name: (-score_of(name), name))


def score_of(name: str) -> float:
    """The validation score in a network's name."""
    found = NAME.fullmatch(name)
    return float(found["score"]) if found else 0.0
