"""Rows that wait: a store that is away, a disk that is full, a program that ends."""

import itertools
import logging
import signal
import subprocess
import sys
import threading
import time

import pytest

from tune_cd.tune.callback.retries import RetryingWriter

QUICK = (0.01, 0.05)


class Store:
    """Away while `away`; refuses what is not a number. Keeps items in the file `other`, if that can be written."""

    def __init__(self, other, away=False):
        self.other, self.away, self.written, self.tries = other, away, [], 0

    def __call__(self, item):
        self.tries += 1
        if self.away:
            raise OSError(28, "No space left on device")
        if not isinstance(item, int):
            raise ValueError(f"{item!r} is not allowed")
        self.written.append(item)

    def keep(self, item):
        with open(self.other, "a", encoding="utf-8") as file:
            file.write(f"{item}\n")
        return self.other

    def settle(self):
        self.other.unlink()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "kept")


def writer(store, patience=5.0):
    return RetryingWriter(store, patience, QUICK)


def until(holds):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_items_are_written_in_order_by_another_thread(store):
    by, write = [], store.__class__.__call__

    class Noted(Store):
        def __call__(self, item):
            by.append(threading.current_thread())
            write(self, item)

    noted = Noted(store.other)
    rows = RetryingWriter(noted, 5.0)
    for item in range(50):
        rows.put(item)
    assert rows.close() == ([], "") and noted.written == list(range(50)) and threading.current_thread() not in by


def test_a_store_that_is_away_is_tried_again_until_it_is_back_and_the_user_is_told_twice(store, caplog):
    store.away = True
    rows = writer(store)
    with caplog.at_level(logging.WARNING, "tune_cd.tune.callback.retries"):
        for item in range(3):
            rows.put(item)
        until(lambda: store.tries >= 4)
        rows.put(3)
        assert store.written == [] and store.other.read_text() == "0\n1\n2\n3\n", "should this process be killed"
        store.away = False
        until(lambda: len(store.written) == 4)
        rows.put(4)
        assert rows.close() == ([], "")
    assert store.written == [0, 1, 2, 3, 4] and not store.other.exists()
    began, over = [record.getMessage() for record in caplog.records]
    assert "No space left" in began and str(store.other) in began and "written again" in over


def test_pauses_grow(store):
    times = []

    class Timed(Store):
        def __call__(self, item):
            times.append(time.monotonic())
            super().__call__(item)

    rows = RetryingWriter(Timed(store.other, away=True), 0.0, (0.02, 0.32))
    rows.put(0)
    until(lambda: len(times) >= 7)
    rows.close()
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.16, 0.32, 0.32)))


def test_what_will_never_be_allowed_is_refused_at_once_and_holds_nobody_up(store):
    rows = writer(store)
    for item in (1, "x", 2):
        rows.put(item)
    left, where = rows.close()
    assert store.written == [1, 2] and store.tries == 3 and where == ""
    assert [item for item, _ in left] == ["x"] and isinstance(left[0][1], ValueError)


def test_at_the_end_it_waits_as_long_as_it_may_then_says_where_the_rest_is(store):
    rows = writer(store, patience=0.5)
    rows.put("never")
    rows.put(1)
    until(lambda: store.written == [1])
    store.away = True
    for item in (2, 3):
        rows.put(item)
    began = time.monotonic()
    left, where = rows.close()
    assert time.monotonic() - began > 0.4 and store.tries > 3
    assert [item for item, _ in left] == ["never", 2, 3] and isinstance(left[1][1], OSError)
    assert store.other.read_text() == "2\n3\n" and where.startswith(f"2 wait in {store.other}, ")


def test_a_store_that_comes_back_at_the_end_gets_all(store):
    store.away = True
    rows = writer(store, patience=20)
    rows.put(1)
    until(lambda: store.tries > 1)
    threading.Timer(0.3, lambda: setattr(store, "away", False)).start()
    assert rows.close() == ([], "") and store.written == [1] and not store.other.exists()


def test_a_write_that_hangs_does_not_hold_the_end_up_for_ever(store):
    answered = threading.Event()

    class Hanging(Store):
        def __call__(self, item):
            answered.wait(20)
            super().__call__(item)

    hanging = Hanging(store.other)
    rows = RetryingWriter(hanging, 0.1)
    rows.put(1)
    rows.put(2)
    left, where = rows.close()
    assert [item for item, _ in left] == [1, 2] and store.other.read_text() == "1\n2\n" and "2 wait in" in where
    answered.set()
    until(lambda: hanging.written == [1])
    time.sleep(0.1)
    assert hanging.written == [1] and store.other.exists(), (
        "what is kept is left alone, should the write succeed after all"
    )


def test_rows_that_nothing_takes_stay_in_memory_and_are_said_to_be_lost_at_the_end(store, caplog):
    store.other, store.away = store.other / "none", True
    rows = writer(store, patience=0)
    rows.put(1)
    until(lambda: store.tries > 1)
    rows.put(2)
    assert "memory alone" in caplog.text and "none" in caplog.text
    store.away = False
    until(lambda: store.written == [1, 2])
    store.away = True
    rows.put(3)
    assert rows.close()[1].startswith("1 are lost: ")


def test_what_could_not_be_kept_is_kept_once_there_is_room(store):
    store.other, store.away = store.other / "none", True
    rows = writer(store, patience=0)
    for item in (1, 2):
        rows.put(item)
    until(lambda: store.tries > 1)
    store.other.parent.mkdir()
    until(store.other.exists)
    assert len(rows.close()[0]) == 2 and store.other.read_text() == "1\n2\n"


ENDS = """
import signal, sys, time
from pathlib import Path
from tune_cd.tune.callback.retries import RetryingWriter
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background has it ignored
class Store:
    def __call__(self, item):
        time.sleep(0.2)
        if {away}: raise OSError("away")
        self.keep(item, {path!r})
    def keep(self, item, path={path!r} + ".kept"):
        with open(path, "a") as file: file.write(f"{{item}}\\n")
        return Path(path)
rows = RetryingWriter(Store(), 2.0, (0.05, 0.05))
for item in range(4): rows.put(item)
print("put", flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["sys.exit(3)", "time.sleep(60)"], ids=["exit", "Ctrl-C"])
def test_a_program_that_ends_without_closing_has_written_all(tmp_path, end):
    code = ENDS.format(path=str(tmp_path / "out"), end=end, away=False)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    if "sleep" in end:
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert (tmp_path / "out").read_text() == "0\n1\n2\n3\n"


@pytest.mark.parametrize("end, how", [("sys.exit(3)", None), ("time.sleep(60)", signal.SIGKILL)])
def test_what_waits_when_a_program_ends_or_is_killed_is_kept(tmp_path, end, how):
    code, kept = ENDS.format(path=str(tmp_path / "out"), end=end, away=True), tmp_path / "out.kept"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    until(lambda: kept.exists() and kept.read_text().count("\n") == 4)
    if how is not None:
        process.send_signal(how)
    process.wait(timeout=60)
    assert kept.read_text() == "0\n1\n2\n3\n" and not (tmp_path / "out").exists()
