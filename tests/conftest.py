"""Shared by all tests: no usage reports, one Ray a worker, real data where TUNE_CD_TEST_DATA names it."""

import gc
import os
import sys
from pathlib import Path

import pytest

ENVIRON = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",  # threads that wait for each other on a busy machine cost more than they save
    "RAY_AUTH_MODE": "disabled",  # a Ray on tokens, begun after one without, would lock out its drivers
    "RAY_worker_niceness": "0",  # at Ray's low priority trials would wait for whatever else runs, and tests for trials
}
os.environ.update({name: value for name, value in ENVIRON.items() if name not in os.environ})
try:
    memory = os.statvfs("/dev/shm")
    if memory.f_bavail * memory.f_frsize > 2**30 and not memory.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")  # a disk would take longer to sync every row
except OSError:
    pass
TESTS = Path(__file__).parent
FOLDERS = [str(folder) for folder in TESTS.iterdir() if folder.is_dir() and not folder.name.startswith(("_", "."))]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*FOLDERS, os.environ.get("PYTHONPATH"))))
"""Ray's workers import the test modules whose functions they are sent."""


def pytest_configure(config):
    """xdist puts files of many tests first: the long ones have few, and would all come at the end."""
    config.option.loadscopereorder = False
    gc.disable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """`-n auto` is one more than there are cores: tests of Ray wait for processes for much of their time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_finish():
    """What imports and collection made stays: to look through it for garbage took a tenth of the fast tests' time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config, items):
    """Long forms only where -m names them. Files that start Ray, which are the long ones, come first, and those that
    share one together."""
    asked = config.getoption("markexpr")
    kinds = [kind for kind in LONG if kind not in asked]
    left_out = {item for item in items if any(map(item.get_closest_marker, kinds))}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    used: dict[Path, set[str]] = {}
    for item in items:
        used.setdefault(item.path, set()).update(getattr(item, "fixturenames", ()))
    long = {item.path for item in items if item.get_closest_marker("ray")}
    items.sort(key=lambda item: (item.path not in long, *(name not in used[item.path] for name in SHARED)))


LONG = ("faults", "lab")
SHARED = ("cluster", "ray_session")


@pytest.fixture(scope="module", autouse=True)
def _own_ray(request):
    """A module that does not use the shared Ray finds none connected."""
    if "ray_session" not in _fixtures_of(request):
        _disconnect()


def _disconnect() -> None:
    ray = sys.modules.get("ray")
    if ray and ray.is_initialized():
        ray.shutdown()


def _fixtures_of(request) -> set[str]:
    """Of all tests of a module."""
    items = [item for item in request.session.items if item.path == request.path]
    return {name for item in items for name in getattr(item, "fixturenames", ())}


@pytest.fixture(scope="session")
def workers():
    """What a Ray node of `Cluster` is given: workers that start without their imports, no dashboard, and no monitor,
    which reads the logs of all workers that ever ran again and again."""
    from forked_workers import SETUP, serving

    with serving():
        yield {"setup_worker_path": SETUP, "include_dashboard": False, "include_log_monitor": False}


@pytest.fixture(scope="session")
def cluster(workers):
    """The Ray of a pytest worker: a head without trials and a node of two CPUs, which may use the tests' S3. Every
    driver starts a process on every node to look at it."""
    from ray.cluster_utils import Cluster
    from waiting import started

    made = started(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **workers}))
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_EC2_METADATA_DISABLED": "true"}
    started(lambda: made.add_node(num_cpus=2, env_vars=keys, **workers))
    made.wait_for_nodes()
    yield made
    _disconnect()
    made.shutdown()


@pytest.fixture
def ray_session(cluster):
    """This process is a driver of the cluster, and stays it for the tests that follow: its processes are used again."""
    import ray

    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)


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
