"""A lock that gives a study one driver. Two would ask for the same trials, and each would miss the other's results.

The lock is a file that names its holder and has a counter, which goes up while the holder lives. A driver that finds it
watches the counter, so clocks need not agree; of the same machine it looks for the process. So a dead holder is found
out in half a minute at most. (Nothing better works on all object stores and network file systems: of two drivers begun
within the same second, both may believe to hold it until the first beat, when one of them ends.)
"""

import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from tune_cd.results.json_text import json_of
from tune_cd.results.store import Bucket, Folder
from tune_cd.run.ending import ENDING

BEAT = 5.0  # seconds between two signs of life
PATIENCE = 5  # beats without one after which a holder on another machine counts as dead
SETTLE = 0.3  # seconds until the file is read again, in case another wrote it at the same time


class Held(ValueError):
    """The study has a driver already."""


class StudyLock:
    """Held from `acquire` to `release`, by one process.

    lost: the reason why it is held no longer, or None: another process has taken it over, as may happen after a long
    standstill of this one, or its file is gone, as with the whole results folder. tell: told of it, in a thread.
    """

    def __init__(
        self, store: Folder | Bucket, name: str, *, beat: float = BEAT, tell: Callable[[str], None] = ENDING.interrupt
    ):
        self._store, self._name, self._beat, self._tell = store, name, beat, tell
        self._own = {
            "hostname": socket.gethostname(), "pid": os.getpid(), "born": _process(os.getpid()), "user": user(),
            "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", "token": token_hex(8), "beats": 0,
        }  # fmt: skip
        self._stop = threading.Event()
        self._beating = threading.Thread(target=self._go_on, name="study-lock", daemon=True)
        self.lost: str | None = None

    def acquire(self, say: Callable[[str], None] = print) -> None:
        """Take the lock. say: prints a line if that takes a while. Raises Held naming a living holder, OSError if the
        store refuses."""
        if (other := self._read()) is not None:
            if (holder := self._living(other, say)) is not None:
                raise Held(
                    f"{_who(holder)} holds the study: two drivers would do the same work twice; end that one first"
                )
            say(f"{_who(other)} held the study and is gone; this driver goes on")
        self._write()
        time.sleep(SETTLE)
        if (other := self._read()) is not None and other["token"] != self._own["token"]:
            raise Held(f"{_who(other)} took the study at the same moment; it has it")
        self._beating.start()

    def check(self) -> str | None:
        """Find out whether this process still holds the lock; returns `lost`. Raises OSError if the store is away,
        where nobody else can take it over either."""
        holder = self._read()
        if holder is None:
            where = self._store.where(self._name.rpartition("/")[0])
            self.lost = (
                f"{where} was removed or replaced while the study ran. Its earlier rows may be gone too; put the "
                "results back, then use --resume"
            )
        elif holder["token"] != self._own["token"]:
            self.lost = f"{_who(holder)} has taken this study over"
        return self.lost

    def release(self) -> None:
        """Remove the lock if this process holds it; ignores errors of the store."""
        self._stop.set()
        if self._beating.ident is not None:
            self._beating.join(10 * self._beat)
        with suppress(OSError):  # else the next driver finds the holder gone
            if (holder := self._read()) is not None and holder["token"] == self._own["token"]:
                self._store.remove(self._name)

    def _living(self, other: dict, say: Callable[[str], None]) -> dict | None:
        """The living holder: of another machine one whose file changes while it is watched; None if it is gone."""
        here, born = _process(os.getpid()), other["born"] or []
        if here is not None and born[:2] == list(here[:2]):
            return other if list(_process(other["pid"]) or []) == born else None
        say(f"{_who(other)} holds the study; watching for {PATIENCE * self._beat:.0f} s whether it lives")
        now, deadline = other, time.monotonic() + PATIENCE * self._beat
        while now == other and time.monotonic() < deadline:
            time.sleep(self._beat / 5)
            now = self._read()
        return None if now == other else now

    def _go_on(self) -> None:
        while not self._stop.wait(self._beat):
            with suppress(OSError):
                if (lost := self.check()) is not None:
                    return self._tell(lost)
                self._own["beats"] += 1
                self._write()

    def _write(self) -> None:
        self._store.write(self._name, json.dumps(self._own).encode())

    def _read(self) -> dict | None:
        """The holder; None if there is none, and if the file is not a lock."""
        try:
            holder = json_of(self._store.read(self._name))
        except (FileNotFoundError, ValueError):
            return None
        is_lock = isinstance(holder, dict) and set(self._own) <= set(holder) and isinstance(holder["pid"], int)
        return holder if is_lock and isinstance(holder["born"], list | None) else None


def _who(holder: dict) -> str:
    return f"process {holder['pid']} of {holder['user']} on {holder['hostname']}, since {holder['since']},"


def _process(pid: int) -> tuple[str, str, str] | None:
    """(the machine's boot, its set of process numbers, the process's start): numbers are used again, and containers and
    machines may share a name. None for a dead process, and without /proc."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        machine, numbers = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return None if state in "ZX" else (machine, numbers, fields[18])


def user() -> str:
    """The user's name, or number if there is none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid())
