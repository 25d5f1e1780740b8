"""Waiting for what other processes do."""

import time


def until(what, seconds: float = 300.0):
    """The first true value of what() within so many seconds; raises TimeoutError with the last one."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {value!r}")
        time.sleep(min(0.5, seconds / 3000))
    return value
