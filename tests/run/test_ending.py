"""How a driver is ended: by signals that are heeded or ignored, once or twice."""

import signal
import subprocess
import sys

import pytest

from tune_cd.run.ending import Ending

CODE = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # nohup ignores one
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
for number in {ignored}:
    signal.signal(number, signal.SIG_IGN)
from tune_cd.run.ending import Ending
ending, said = Ending(), []
with ending.heeded():
    for number in {sent}:
        try:
            os.kill(os.getpid(), number)
            said.append("goes on")
        except KeyboardInterrupt:
            said.append("interrupted")
print(*said, ending.status)
"""
INT, TERM, HUP = (int(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))


@pytest.mark.parametrize(
    "ignored, sent, said",
    [
        ([], [INT], "interrupted 130"), ([], [TERM], "interrupted 143"), ([], [HUP], "interrupted 129"),
        ([], [TERM, TERM, HUP], "interrupted goes on goes on 143"), ([], [TERM, INT], "interrupted interrupted 143"),
        ([], [INT, INT, INT, TERM], "interrupted interrupted interrupted goes on 130"),
        ([INT], [INT, TERM], "goes on interrupted 143"), ([HUP, INT], [HUP, TERM], "goes on interrupted 143"),
    ],
)  # fmt: skip
def test_the_first_signal_interrupts_and_what_is_ignored_stays_so(ignored, sent, said):
    code = CODE.format(ignored=ignored, sent=sent)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (finished.stdout.strip(), finished.stderr) == (said, "")


def test_handlers_of_before_are_back_afterwards():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with Ending().heeded():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in numbers] == before
