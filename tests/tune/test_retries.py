"""Rows that wait: a store that is away, a disk that is full, a program that ends."""

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tune_cd.tune.callback.retries import RetryingWriter

QUICK = (0.01, 0.05)


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


class Store:
    """Away while `away`; refuses what is not a number."""

    def __init__(self, away=False):
        self.away, self.written, self.tries = away, [], 0

    def __call__(self, item):
        self.tries += 1
        if self.away:
            raise OSError(28, "No space left on device")
        if not isinstance(item, int):
            raise ValueError(f"{item!r} is not allowed")
        self.written.append(item)


def writer(store, patience=5.0):
    return RetryingWriter(store, json.dumps, patience, QUICK)


def until(holds):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_items_are_written_in_order_by_another_thread():
    store = Store()
    by = []
    rows = RetryingWriter(lambda item: (by.append(threading.current_thread()), store(item)), json.dumps, 5.0)
    for item in range(50):
        rows.put(item)
    assert rows.close() == ([], None) and store.written == list(range(50)) and threading.current_thread() not in by


def test_a_store_that_is_away_is_tried_again_until_it_is_back_and_the_user_is_told_twice(caplog, own_temporary_folder):
    store = Store(away=True)
    rows = writer(store)
    with caplog.at_level(logging.WARNING, "tune_cd.tune.callback.retries"):
        began = time.monotonic()
        for item in range(3):
            rows.put(item)
        assert time.monotonic() - began < 1, "whoever puts never waits"
        until(lambda: store.tries >= 4)
        kept = list(own_temporary_folder.iterdir())
        assert store.written == [] and [json.loads(line) for line in kept[0].read_text().splitlines()] == [0, 1, 2], (
            "should this process be killed"
        )
        store.away = False
        until(lambda: len(store.written) == 3)
        rows.put(3)
        assert rows.close() == ([], None)
    assert store.written == [0, 1, 2, 3] and list(own_temporary_folder.iterdir()) == []
    began, over = [record.getMessage() for record in caplog.records]
    assert "No space left" in began and str(kept[0]) in began and "written again" in over


def test_pauses_grow():
    times, store = [], Store(away=True)
    rows = RetryingWriter(lambda item: (times.append(time.monotonic()), store(item)), json.dumps, 0.0, (0.02, 0.32))
    rows.put(0)
    until(lambda: len(times) >= 7)
    rows.close()
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] < 0.3 and all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.16, 0.32, 0.32)))


def test_what_will_never_be_allowed_is_refused_at_once_and_holds_nobody_up():
    store = Store()
    rows = writer(store)
    for item in (1, "x", 2):
        rows.put(item)
    left, kept = rows.close()
    assert store.written == [1, 2] and store.tries == 3
    assert (
        [item for item, _ in left] == ["x"] and isinstance(left[0][1], ValueError) and Path(kept).read_text() == '"x"\n'
    )


def test_at_the_end_it_waits_as_long_as_it_may_then_keeps_the_rest_in_order():
    store = Store()
    rows = writer(store, patience=0.5)
    rows.put("never")
    rows.put(1)
    until(lambda: store.written == [1])
    store.away = True
    for item in (2, 3):
        rows.put(item)
    began = time.monotonic()
    left, kept = rows.close()
    assert 0.4 < time.monotonic() - began < 5 and store.tries > 4
    assert [item for item, _ in left] == ["never", 2, 3] and isinstance(left[1][1], OSError)
    assert sorted(map(json.loads, Path(kept).read_text().splitlines()), key=str) == [2, 3, "never"]


def test_a_store_that_comes_back_at_the_end_gets_all():
    store = Store(away=True)
    rows = writer(store, patience=20)
    rows.put(1)
    until(lambda: store.tries > 1)
    threading.Timer(0.3, lambda: setattr(store, "away", False)).start()
    assert rows.close() == ([], None) and store.written == [1]


def test_a_write_that_hangs_does_not_hold_the_end_up_for_ever():
    answered, written = threading.Event(), []
    rows = RetryingWriter(lambda item: (answered.wait(20), written.append(item)), json.dumps, 0.1)
    rows.put(1)
    rows.put(2)
    left, kept = rows.close()
    assert [item for item, _ in left] == [1, 2] and Path(kept).read_text() == "1\n2\n"
    answered.set()
    until(lambda: written == [1])
    time.sleep(0.1)
    assert written == [1] and Path(kept).exists(), "what is kept is left alone, should the write succeed after all"


def test_a_full_local_disk_is_said_and_costs_nothing_else(caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    store = Store(away=True)
    rows = writer(store)
    rows.put(1)
    until(lambda: store.tries > 1)
    rows.put(2)
    store.away = False
    assert rows.close() == ([], None) and store.written == [1, 2]
    assert any("cannot be kept in a local file" in record.getMessage() for record in caplog.records)


ENDS = """
import json, signal, sys, time
from tune_cd.tune.callback.retries import RetryingWriter
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background has it ignored
def write(item):
    time.sleep(0.2)
    if {away}: raise OSError("away")
    with open({path!r}, "a") as file: file.write(f"{{item}}\\n")
rows = RetryingWriter(write, json.dumps, 2.0, (0.05, 0.05))
for item in range(4): rows.put(item)
print("put", flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end", ["raise RuntimeError('the driver breaks')", "sys.exit(3)", "time.sleep(60)"], ids=["error", "exit", "Ctrl-C"]
)
def test_a_program_that_ends_without_closing_has_written_all(tmp_path, end):
    code = ENDS.format(path=str(tmp_path / "out"), end=end, away=False)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    if "sleep" in end:
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert (tmp_path / "out").read_text() == "0\n1\n2\n3\n"


@pytest.mark.parametrize("end, how", [("sys.exit(3)", None), ("time.sleep(60)", signal.SIGKILL)])
def test_what_waits_when_a_program_ends_or_is_killed_is_in_the_file(tmp_path, own_temporary_folder, end, how):
    environment = os.environ | {"TMPDIR": str(own_temporary_folder)}
    code = ENDS.format(path=str(tmp_path / "out"), end=end, away=True)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    process.stdout.readline()
    until(lambda: any(file.read_text().count("\n") == 4 for file in own_temporary_folder.glob("tune_cd-rows-*.jsonl")))
    if how is not None:
        process.send_signal(how)
    process.wait(timeout=60)
    [kept] = own_temporary_folder.iterdir()
    assert kept.read_text() == "0\n1\n2\n3\n" and not (tmp_path / "out").exists()
