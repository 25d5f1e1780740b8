"""Checkpoints of trainings under way, named by what is trained, so that any process and any search finds them.

    RESULTS/studies/<study>/checkpoints/<training>-<images seen>~sha256-<16 digits>.pt

The digits begin the file's SHA-256 and show whether it is damaged. The two latest checkpoints of a training are kept
until it has ended.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from typing import Any

from tune_cd.results.parquet import digest
from tune_cd.results.store import store_of
from tune_cd.search.directions import WEIGHT

KEPT = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one study's trainings with one set-up. results: the store. folder: the name of a folder in
    it."""

    results: str
    folder: str
    setup: Mapping[str, Any]

    def key(self, config: Mapping[str, Any]) -> str:
        """Hash of set-up, weights, batch size and seed, 20 digits: the same for the same training."""
        trained = [name for name in config if name.startswith(WEIGHT)]
        identity = {name: config[name] for name in (*trained, "batch_size", "seed")}
        return sha256(dumps([self.setup, identity], sort_keys=True).encode()).hexdigest()[:20]

    def save(self, config: Mapping[str, Any], images_seen: int, state: bytes) -> None:
        """Keep a state, then remove all but the latest of the earlier ones. Raises OSError if the store refuses."""
        name = f"{self.folder}/{self.key(config)}-{images_seen:012d}~sha256-{digest(state)}.pt"
        earlier = [other for other in self._files(config) if other < name]
        store_of(self.results).write(name, state)
        self._remove(earlier[: -(KEPT - 1)])

    def saved(self, config: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        """(name, state) of the kept checkpoints that are undamaged, the latest first."""
        store = store_of(self.results)
        try:
            for name in reversed(self._files(config)):
                state, where = store.read(name), str(store.where(name))
                if name.endswith(f"~sha256-{digest(state)}.pt"):
                    yield where, state
                else:
                    log.warning("%s is damaged; the one before it is tried", where)
        except OSError as error:
            log.warning("saved states cannot be read: %s", error)

    def forget(self, config: Mapping[str, Any]) -> None:
        """Remove the checkpoints of an ended training."""
        try:
            self._remove(self._files(config))
        except OSError as error:
            log.warning("saved states are left behind: %s", error)

    def _files(self, config: Mapping[str, Any]) -> list[str]:
        start = f"{self.folder}/{self.key(config)}-"
        return [name for name in store_of(self.results).listing(self.folder, depth=1) if name.startswith(start)]

    def _remove(self, names: list[str]) -> None:
        for name in names:
            store_of(self.results).remove(name)
