"""One driver a study: the second is refused, a dead one's lock is taken over, in folders and object stores."""

import json
import os
import subprocess
import sys
import time
from queue import Queue

import pytest
from s3 import place, proxy, server  # noqa: F401

from tune_cd.results.store import store_of
from tune_cd.run import lock as module
from tune_cd.run.lock import Held, StudyLock

NAME, BEAT = "studies/s/driver.json", 0.1


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(module, "SETTLE", 0.02)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path)


def made(store, beat=3600.0, **parameters) -> StudyLock:
    """Its process is looked for, or nothing is written in the meantime: only some tests wait for a beat."""
    return StudyLock(store, NAME, beat=beat, **parameters)


def elsewhere(store, **fields) -> dict:
    """The lock's file as a driver of another machine left it."""
    holder = {
        "hostname": "elsewhere", "pid": 1, "born": None, "user": "ada", "since": "2026-01-01 00:00:00 UTC",
        "token": "t", "beats": 3,
    } | fields  # fmt: skip
    store.write(NAME, json.dumps(holder).encode())
    return holder


def test_it_is_held_and_left(store):
    first = made(store)
    first.acquire()
    with pytest.raises(Held, match=rf"process {os.getpid()} of .+ since .+ holds the study"):
        made(store).acquire()
    first.release()
    assert store.listing("studies") == []
    second = made(store)
    second.acquire()
    second.release()


def test_a_dead_process_of_this_machine_holds_nothing(store):
    """Nobody watches whether it lives."""
    code = (
        f"from test_lock import made, store_of; made(store_of({str(store.root)!r})).acquire(); import os; os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert json.loads(store.read(NAME))["pid"] != os.getpid()
    lock, said = made(store), []
    lock.acquire(say=said.append)
    assert len(said) == 1 and "is gone; this driver goes on" in said[0]
    lock.release()


def left(store, **fields) -> None:
    """The lock's file as a driver of this process's number left it, but for `fields`."""
    lock = made(store)
    lock.acquire()
    held = json.loads(store.read(NAME))
    lock.release()
    born = [fields.pop(name, value) for name, value in zip(("machine", "numbers", "began"), held["born"])]
    store.write(NAME, json.dumps(held | {"born": born, "token": "other"} | fields).encode())


def test_a_new_process_of_a_dead_one_s_number_does_not_hold_it(store, capsys):
    left(store, began="1")
    lock = made(store)
    lock.acquire()
    assert "is gone" in capsys.readouterr().out
    lock.release()


@pytest.mark.parametrize("other", ["machine", "numbers"])
def test_a_process_of_another_container_or_machine_of_the_same_name_is_not_looked_for_here(store, other):
    left(store, **{other: "another"}, pid=2**30)
    with pytest.raises(Held):
        made(store, BEAT).acquire(say=lambda text: left_beating(store))


def left_beating(store) -> None:
    holder = json.loads(store.read(NAME))
    store.write(NAME, json.dumps(holder | {"beats": holder["beats"] + 1}).encode())


def test_a_zombie_holds_nothing(store):
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        began = module._process(process.pid)[2]
        left(store, began=began, pid=process.pid)
        with pytest.raises(Held):
            made(store).acquire()
        process.kill()
        while module._process(process.pid) is not None:  # killed, and not waited for
            time.sleep(0.01)
        lock = made(store)
        lock.acquire()
        lock.release()


def test_a_driver_elsewhere_that_is_silent_is_gone_and_one_that_beats_is_not(store, capsys):
    elsewhere(store)
    lock = made(store, BEAT)
    lock.acquire()
    assert "process 1 of ada on elsewhere" in capsys.readouterr().out
    lock.release()
    elsewhere(store)
    with pytest.raises(Held, match="ada on elsewhere"):
        made(store, BEAT).acquire(say=lambda text: elsewhere(store, beats=4))


def test_whoever_lost_it_is_told_and_leaves_the_new_holder_s_alone(store):
    told = Queue()
    lock = made(store, BEAT, tell=told.put)
    lock.acquire()
    other = elsewhere(store)
    assert told.get() == "process 1 of ada on elsewhere, since 2026-01-01 00:00:00 UTC, has taken this study over"
    lock.release()
    assert json.loads(store.read(NAME)) == other


@pytest.mark.parametrize("content", [None, b"", b"[]"])
def test_a_lock_that_is_removed_or_replaced_is_noticed_and_not_written_again(store, content):
    """As when somebody deletes or replaces the results folder of a running study."""
    told = Queue()
    lock = made(store, BEAT, tell=told.put)
    lock.acquire()
    store.remove(NAME) if content is None else store.write(NAME, content)
    assert "studies/s was removed or replaced while the study ran" in told.get()
    lock.release()
    assert store.listing("studies") == ([] if content is None else [NAME])


def test_it_can_be_checked_between_two_beats(store):
    lock = made(store)
    lock.acquire()
    assert lock.check() is None
    elsewhere(store)
    assert lock.check() == lock.lost and "has taken" in lock.lost


def test_of_two_at_the_same_moment_one_has_it(store, monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: elsewhere(store))
    with pytest.raises(Held, match="at the same moment"):
        made(store).acquire()


def test_what_is_no_lock_holds_nothing(store):
    for content in (b"", b"{", b"[]", b"{}", b"[" * 10**5, b"\x00", b"3", b'{"pid": 1, "pid": 2}'):
        store.write(NAME, content)
        lock = made(store)
        lock.acquire()
        lock.release()


def test_it_beats_through_a_store_that_is_away_for_a_while(place, proxy):
    store = store_of(place)
    lock = made(store, BEAT)
    lock.acquire()
    beats, refused = json.loads(store.read(NAME))["beats"], []
    proxy.fault = lambda *_: refused.append(True) or 403
    while len(refused) < 3:
        time.sleep(0.01)
    proxy.fault = lambda *_: None
    while json.loads(store.read(NAME))["beats"] <= beats:
        time.sleep(0.05)
    with pytest.raises(Held):
        made(store).acquire()
    lock.release()
    assert lock.lost is None and NAME not in store.listing("studies")
