"""A lock that gives a study one driver. Two would ask for the same trials, and each would miss the other's results.

The lock is a file that names its holder, who writes it again and again (`study_files.has_driver`). So the hold of a
dead driver ends within a minute; on its own machine at once. (Nothing better works on all object stores and network
file systems: two drivers begun within the same second may both believe to hold it until the first beat, when one ends.)
"""

import getpass
import json
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from tune_cd.results.redaction import json_of
from tune_cd.results.store import Store
from tune_cd.results.study_files import DRIVER, file_of, has_driver
from tune_cd.run.screen import say

BEAT = 5.0  # seconds between two signs of life


class StudyLock:
    """Held from `acquire` to `release`, by one process.

    lost: the reason why it is held no longer, or None: another process has taken it over, as may happen after a long
    standstill of this one, or its file is gone, as with the whole results folder.
    """

    def __init__(self, store: Store, study: str, beat: float = BEAT):
        self._store, self._study, self._name, self._beat = store, study, file_of(study, DRIVER), beat
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        who = f"process {os.getpid()} of {user()} on {socket.gethostname()}, since {since}"
        self._own = {"who": who, "pid": os.getpid(), "machine": _machine(), "token": token_hex(8)}
        self._stop = threading.Event()
        self._beating = threading.Thread(target=self._go_on, name="study-lock", daemon=True)
        self.lost: str | None = None

    def acquire(self) -> None:
        """Take the lock; waits where only a sign of life shows whether another machine's holder lives. Raises
        ValueError naming a living holder, OSError if the store refuses."""
        if (other := self._read()) is not None:
            here = other["machine"] == self._own["machine"] is not None
            lives = Path(f"/proc/{other['pid']}").exists() if here else self._beats(other["who"])
            if lives and has_driver(self._store, self._study):
                said = "holds the study: two drivers would do the same work twice; end that one first"
                raise ValueError(f"{other['who']}, {said}")
            say(f"{other['who']}, held the study and is gone; this driver goes on")
        self._write()
        self._beating.start()

    def check(self) -> str | None:
        """Find out whether this process still holds the lock; returns `lost`. Raises OSError if the store is away,
        where nobody else can take it over either."""
        holder = self._read()
        if holder is None:
            where = self._store.where(self._name.rpartition("/")[0])
            self.lost = f"{where} was removed or replaced while the study ran; put the results back, then use --resume"
        elif holder["token"] != self._own["token"]:
            self.lost = f"{holder['who']}, has taken this study over"
        return self.lost

    def release(self) -> None:
        """Remove the lock if this process holds it; ignores errors of the store."""
        self._stop.set()
        if self._beating.ident is not None:
            self._beating.join(10 * self._beat)
        with suppress(OSError):  # else the next driver finds the holder gone
            if (holder := self._read()) is not None and holder["token"] == self._own["token"]:
                self._store.remove(self._name)
                if self._store.folder:
                    (self._store.folder / self._name).parent.rmdir()  # unless the study has begun: it is not empty then

    def _beats(self, who: str) -> bool:
        """Whether the holder gives a sign of life before it counts as gone."""
        if has_driver(self._store, self._study):
            say(f"{who}, holds the study; is it alive? waiting for at most a minute ...")
        age = self._store.age(self._name)
        while has_driver(self._store, self._study):
            time.sleep(self._beat / 5)
            before, age = age, self._store.age(self._name)
            if age < before:  # it has been written again
                return True
        return False

    def _go_on(self) -> None:
        while not self._stop.wait(self._beat):
            with suppress(OSError):
                if self.check() is not None:
                    return
                self._write()

    def _write(self) -> None:
        self._store.write(self._name, json.dumps(self._own).encode())

    def _read(self) -> dict[str, Any] | None:
        """The holder; None if there is none, and if the file is not a lock."""
        with suppress(FileNotFoundError, ValueError):
            holder = json_of(self._store.read(self._name))
            return holder if isinstance(holder, dict) and self._own.keys() <= holder.keys() else None
        return None


def _machine() -> str | None:
    """This machine's boot and its set of process numbers, since containers and machines may share a name; None without
    /proc."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    return None


def user() -> str:
    """The user's name, or number if there is none, as in a container."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return str(os.getuid())
