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


def started(begin, tries: int = 3):
    """What begin() returns, of a Ray node: it gives its agents 15 s to start, too few while the disk or all processors
    are busy, as after an installation. Then it is begun again."""
    for left in reversed(range(tries)):
        try:
            return begin()
        except Exception as error:
            if not left:
                raise
            print(f"no node stands yet: {error}")
