"""One driver a study: the second is refused, a dead one's lock is taken over, in folders and object stores."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from s3 import place, proxy, server  # noqa: F401

from tune_cd.results.store import store_of
from tune_cd.run.lock import StudyLock

NAME, BEAT = "studies/s/driver.json", 0.1


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path)


def made(store, beat=3600.0) -> StudyLock:
    """Its process is looked for, or nothing is written in the meantime: only some tests wait for a beat."""
    return StudyLock(store, "s", beat)


def held(store, **fields) -> None:
    """The lock's file as another driver left it."""
    lock = made(store)
    lock.acquire()
    own = json.loads(store.read(NAME))
    lock.release()
    store.write(NAME, json.dumps(own | {"who": "ada", "token": "other"} | fields).encode())


def until(condition) -> None:
    while not condition():
        time.sleep(0.01)


def test_a_living_driver_s_is_refused_to_a_second_one_until_it_is_left(store):
    first = made(store, BEAT)
    first.acquire()
    with pytest.raises(ValueError, match=rf"process {os.getpid()} of .+ since .+, holds the study"):
        made(store, BEAT).acquire()
    first.release()
    assert store.listing("studies", recursive=True) == store.folders("studies") == []
    second = made(store)
    second.acquire()
    second.release()


def test_a_dead_process_of_this_machine_holds_nothing(store, capsys):
    """Nobody watches whether it lives."""
    code = (
        f"from test_lock import made, store_of; made(store_of({str(store.folder)!r})).acquire(); import os; os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert json.loads(store.read(NAME))["pid"] != os.getpid()
    lock = made(store)
    lock.acquire()
    assert "is gone; this driver goes on" in " ".join(capsys.readouterr().out.split())
    lock.release()


ELSEWHERE = {"machine": "another", "pid": 2**30}


def written(store, seconds_ago: float) -> None:
    at = time.time() - seconds_ago
    os.utime(store.where(NAME), (at, at))


@pytest.mark.parametrize("fields", [{}, ELSEWHERE])
def test_a_driver_that_is_silent_for_a_minute_is_gone(store, capsys, fields):
    """One of this machine whose number another process has, and one of another, which is not looked for here."""
    held(store, **fields)
    written(store, seconds_ago=61)
    lock = made(store)
    lock.acquire()
    said = capsys.readouterr().out
    assert "ada, held the study and is gone" in said and "alive" not in said, "nothing is waited for"
    lock.release()


def test_the_rest_of_the_minute_is_waited_for_where_another_machine_s_driver_is_silent(store, capsys):
    """As after the loss of a cluster's head."""
    held(store, **ELSEWHERE)
    written(store, seconds_ago=59.5)
    lock = made(store, BEAT)
    lock.acquire()
    said = capsys.readouterr().out
    assert said.index("ada, holds the study; is it alive?") < said.index("ada, held the study and is gone")
    lock.release()


def test_another_machine_s_driver_is_refused_a_rival_when_it_gives_a_sign_of_life(store):
    held(store, **ELSEWHERE)
    written(store, seconds_ago=5)
    beating = threading.Timer(BEAT, written, (store, 0))
    beating.start()
    with pytest.raises(ValueError, match="ada, holds the study: .* end that one first"):
        made(store, BEAT).acquire()
    beating.join()


@pytest.mark.parametrize("content", ["taken", None, b"", b"[]"])
def test_whoever_lost_it_is_told_and_leaves_the_new_holder_s_alone(store, content):
    """As where it was taken over, or somebody has removed or replaced the results of a running study."""
    lock = made(store, BEAT)
    lock.acquire()
    if content == "taken":
        content = json.dumps(json.loads(store.read(NAME)) | {"token": "other", "who": "ada"}).encode()

    def replaced() -> str | None:
        """Again and again, as its own writing may have come between."""
        store.remove(NAME) if content is None else store.write(NAME, content)
        return lock.lost

    until(replaced)
    assert lock.check() == lock.lost, "it can be checked between two beats"
    was_taken = content and b"ada" in content
    assert ("ada, has taken this study over" if was_taken else "studies/s was removed or replaced") in lock.lost
    lock.release()
    assert store.listing("studies", recursive=True) == ([] if content is None else [NAME])


def test_what_is_no_lock_holds_nothing(store):
    for content in (b"", b"{", b"[]", b"{}", b"3"):
        store.write(NAME, content)
        lock = made(store)
        lock.acquire()
        lock.release()


def test_it_beats_through_a_store_that_is_away_for_a_while(place, proxy):
    store = store_of(place)
    lock = made(store, BEAT)
    lock.acquire()
    refused, written = [], []
    proxy.fault = lambda *_: refused.append(True) or 403
    until(lambda: len(refused) >= 3)
    proxy.fault = lambda method, *_: written.append(True) if method == "PUT" else None
    until(lambda: written)
    lock.release()
    assert lock.lost is None and NAME not in store.listing("studies", recursive=True)
