"""`PYTHONPATH=tests/helpers COSTS=FILE python -m pytest -p costs ...`: core-seconds of every test, a line of JSON each.

A pytest process and all that it starts, Ray's processes too, are put in a cpuacct group (cgroup v1, as root): wall time
on a shared machine says little, and Ray's workers, which nobody waits for, are missing from `getrusage`. What a fixture
costs is counted with the first test that asks for it.
"""

import json
import os
from pathlib import Path

import pytest

GROUP = Path(f"/sys/fs/cgroup/cpuacct/costs-{os.getpid()}")


def spent() -> float:
    """Core-seconds of this process's group so far."""
    return int((GROUP / "cpuacct.usage").read_text()) / 1e9


def pytest_configure() -> None:
    if "COSTS" in os.environ:
        GROUP.mkdir()
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if not GROUP.exists():
        return (yield)
    before = spent()
    result = yield
    with open(os.environ["COSTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, "seconds": round(spent() - before, 2)}) + "\n")
    return result
