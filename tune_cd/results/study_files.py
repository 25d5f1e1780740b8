"""Files beside the tables, RESULTS/studies/<study>/: a study's options, its driver's lock, its pictures and report, and
each search's best trained network, by validation score:

    RESULTS/studies/<study>/networks/<search>~<validation score>~<trial>.pt

`trainables.trained.load` reads such a file. A network is stored before its training's row, and worse ones are removed
only afterwards, so the best one survives a crash in between. Several trainings may end at the same time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_cd.results.json_text import json_of
from tune_cd.results.store import Bucket, Folder, store_of

OPTIONS = "study.json"
DRIVER = "driver.json"
REPORT = "report.html"
COMPACTION = "compaction.json"  # states that a compaction is at work, or was
NETWORKS = "networks"
CHECKPOINTS = "checkpoints"
DIGITS = 9  # decimal places of the score in a name
NAME = re.compile(r".*/(?P<search>[^~/]+)~(?P<score>-?\d+\.\d+)~[^/]+\.pt")


def file_of(study: str, name: str) -> str:
    """Name in the store of a study's file."""
    return f"studies/{study}/{name}"


def text_of(store: Folder | Bucket, study: str, name: str) -> bytes | None:
    """The content of a study's file; None if it does not exist."""
    try:
        return store.read(file_of(study, name))
    except (FileNotFoundError, NotADirectoryError):
        return None


def options_of(store: Folder | Bucket, study: str) -> dict[str, Any]:
    """The options that `tune_cd.run` stored for a study; empty for a study of another program or a newer format."""
    try:
        return dict(json_of(text_of(store, study, OPTIONS) or b"{}").get("options", {}))
    except (ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True)
class Networks:
    """The networks of one study. results: a folder or an object store's URI."""

    results: str | Path
    study: str

    def keep(self, search: str, trial: str, val_score: float, network: Callable[[], bytes]) -> None:
        """Store a network and remove worse ones, unless the search has a better one. Raises OSError if that fails."""
        name = file_of(self.study, f"{NETWORKS}/{search}~{val_score:.{DIGITS}f}~{trial}.pt")
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
        listed = store_of(self.results).listing(file_of(self.study, NETWORKS), depth=1)
        return [name for name in listed if (found := NAME.fullmatch(name)) and search in (None, found["search"])]


def _ranked(names: list[str]) -> list[str]:
    """Names by falling score; equal scores by name."""
    return sorted(names, key=lambda name: (-score_of(name), name))


def score_of(name: str) -> float:
    """The validation score in a network's name."""
    found = NAME.fullmatch(name)
    return float(found["score"]) if found else 0.0
