"""Trained networks of a study: of each search the one that is best on validation.

    RESULTS/studies/<study>/networks/<search>~<validation score>~<trial>.pt

`trainables.trained.load` reads such a file. A network is kept before its training is on record, and those that are
worse are removed after it: whoever dies in between, the best one is there. Several trainings may end at a time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tune_cd.results.store import store_of


@dataclass(frozen=True)
class Networks:
    """Those of one study. results, folder: the store, and the name of a folder in it."""

    results: str
    folder: str

    def keep(self, search: str, trial: str, val_score: float, network: Callable[[], bytes]) -> None:
        """Keep a network unless the search has a better one. Raises OSError where that is not possible."""
        name = f"{self.folder}/{search}~{val_score:.9f}~{trial}.pt"
        store = store_of(self.results)
        if self._ranked(search, name)[0] != name:
            return
        store.write(name, network())
        for worse in self._ranked(search, name)[1:]:
            store.remove(worse)

    def best(self, search: str) -> str | None:
        """The store's name of the search's network, None where it has none."""
        return next(iter(self._ranked(search)), None)

    def _ranked(self, search: str, *more: str) -> list[str]:
        """Names of the search's networks, and more of them, the best first; of equal scores the first by name."""
        of_search = re.compile(re.escape(f"{self.folder}/{search}") + r"~(-?\d+\.\d+)~[^/]+\.pt")
        names = {*store_of(self.results).listing(self.folder, depth=1), *more}
        scores = {name: float(found[1]) for name in names if (found := of_search.fullmatch(name))}
        return sorted(scores, key=lambda name: (-scores[name], name))
