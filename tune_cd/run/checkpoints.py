"""Checkpoints of trainings under way, named by what is trained, so that any process and any search finds them.

    RESULTS/studies/<study>/checkpoints/<training>-<images seen>~sha256-<16 digits>.pt

The digits begin the file's SHA-256 and show whether it is damaged. The two latest checkpoints of a training are kept
until it has ended.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any

from tune_cd.balance import WEIGHT
from tune_cd.results.parquet import digest
from tune_cd.results.store import store_of

KEPT = 2
HELD = 2**30
"""Largest size, in bytes, of the states that a process holds because the store refused them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one study's trainings with one set-up. folder: its name in the store."""

    results: str
    folder: str
    setup: Mapping[str, Any]
    held: dict[str, tuple[str, bytes]] = field(default_factory=dict, compare=False)
    """`key` -> (name, state) of a training's latest checkpoint if the store has refused it. They are written with the
    next one that the store takes. Until then this process alone can resume from them."""

    def save(self, config: Mapping[str, Any], images_seen: int, state: bytes) -> None:
        """Keep a state, then remove all but the latest of the earlier ones. Raises OSError if the store refuses it; the
        state is then held."""
        start = self.key(config)
        name = f"{start}{images_seen:012d}~sha256-{digest(state)}.pt"
        self.held.pop(start, None)
        self.held[start] = name, state
        while sum(len(held) for _, held in self.held.values()) > HELD:
            del self.held[next(iter(self.held))]
        self._write(start, name, state)
        with suppress(OSError):
            for other, (name, held) in list(self.held.items()):
                if max(self._files(other), default="") < name:
                    self._write(other, name, held)
                else:  # another process has trained it further
                    del self.held[other]

    def saved(self, config: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        """(name, state) of the kept checkpoints that are undamaged, the latest first. Raises OSError if the store does
        not answer, and after the last for a damaged one."""
        store, start, problem, files = store_of(self.results), self.key(config), None, []
        held = dict([self.held[start]] if start in self.held else [])
        try:
            files = self._files(start)
        except OSError as error:
            problem = error
        for name in sorted({*held, *files}, reverse=True):
            try:
                state = held.get(name) or store.read(name)
                if not name.endswith(f"~sha256-{digest(state)}.pt"):
                    raise OSError(f"{store.where(name)} is damaged")
            except OSError as error:
                log.warning("%s; the one before it is tried", error)
                problem = error
            else:
                yield str(store.where(name)), state
        if problem is not None:
            raise problem

    def forget(self, config: Mapping[str, Any]) -> None:
        """Remove the checkpoints of an ended training."""
        start = self.key(config)
        self.held.pop(start, None)
        try:
            for name in self._files(start):
                store_of(self.results).remove(name)
        except OSError as error:
            log.warning("saved states are left behind: %s", error)

    def key(self, config: Mapping[str, Any]) -> str:
        """The beginning of the names of a training's checkpoints: a hash of set-up, weights, batch size and seed."""
        trained = [name for name in config if name.startswith(WEIGHT)]
        identity = {name: config[name] for name in (*trained, "batch_size", "seed")}
        key = sha256(dumps([self.setup, identity], sort_keys=True).encode()).hexdigest()[:20]
        return f"{self.folder}/{key}-"

    def _write(self, start: str, name: str, state: bytes) -> None:
        store, earlier = store_of(self.results), [other for other in self._files(start) if other < name]
        store.write(name, state)
        self.held.pop(start, None)
        for other in earlier[: -(KEPT - 1)]:
            store.remove(other)

    def _files(self, start: str) -> list[str]:
        return [name for name in store_of(self.results).listing(self.folder, depth=1) if name.startswith(start)]
