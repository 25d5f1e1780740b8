"""Waiting for what other processes do."""

import time

from tune_cd.run.connection import TOO_LONG


def until(what, seconds: float = 300.0):
    """The first true value of what() within so many seconds; raises TimeoutError with the last one."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {value!r}")
        time.sleep(min(0.5, seconds / 3000))
    return value


def started(begin, tries: int = 3):
    """What begin() returns, of a Ray node; one that took too long to start (`TOO_LONG`) is begun again."""
    for left in reversed(range(tries)):
        try:
            return begin()
        except Exception as error:
            if not left or TOO_LONG not in str(error):
                raise
            print(f"no node stands yet: {error}")
