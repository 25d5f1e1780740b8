"""Shared by all tests: no usage reports, one Ray a module, real data where TUNE_CD_TEST_DATA names it."""

import os
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # threads that wait for each other on a busy machine cost twenty times what they save
TESTS = Path(__file__).parent
FOLDERS = [str(folder) for folder in TESTS.iterdir() if folder.is_dir() and not folder.name.startswith(("_", "."))]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*FOLDERS, os.environ.get("PYTHONPATH"))))
"""Ray's workers import the test modules whose functions they are sent."""

import pytest


def pytest_configure(config):
    """xdist puts files of many tests first: the long ones have few, and would all come at the end, some of them alone."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """Files that start Ray, which are the long ones, come first: what is left at the end is short, and all workers end together."""
    long = {item.path for item in items if item.get_closest_marker("ray")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="module")
def ray_session(tmp_path_factory):
    """A Ray of two CPUs for one module's tests, shut down after them."""
    import ray

    context = ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False
    )
    yield context
    ray.shutdown()


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real datasets; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("TUNE_CD_TEST_DATA")
    if not folder:
        pytest.skip("TUNE_CD_TEST_DATA is not set: no real data here")
    return Path(folder)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Decoded images of this test alone, and no data but those it names."""
    monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TUNE_CD_DATA", raising=False)
