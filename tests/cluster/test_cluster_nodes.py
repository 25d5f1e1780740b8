"""Several Ray nodes on one machine, with GPUs in name only: which get trials, what is lost, what is found before."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sleepers import begun, diary, look_from_here, sleep
from waiting import started, until

from tune_cd import results
from tune_cd.cluster import preemption
from tune_cd.cluster.capacity import Growth, NodeType, alive_nodes
from tune_cd.cluster.nodes import Nodes
from tune_cd.cluster.ondemand import NAME, NAMESPACE, request_actor
from tune_cd.cluster.watch import ClusterWatch

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(workers):
    """A head without trials; this process is a driver on it."""
    import ray
    from ray.cluster_utils import Cluster

    made = started(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **workers}))
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def node(cluster, workers):
    """Adds a node, which is there for one test."""
    added = []

    def add(**arguments):
        added.append(started(lambda: cluster.add_node(**workers, **arguments)))
        return added[-1]

    yield add
    for one in added:
        if one in cluster.worker_nodes:
            cluster.remove_node(one)


def at_once(spans):
    """The most that were under way at a time, of [(began, ended)]."""
    events = sorted([(ended, -1) for _, ended in spans] + [(began, 1) for began, _ in spans])
    under_way = [0]
    for _, change in events:
        under_way.append(under_way[-1] + change)
    return max(under_way)


def test_as_many_trials_run_as_a_gpu_allows(node, tmp_path):
    """Trials are held until as many have begun, and a little longer."""
    node(num_cpus=8, num_gpus=1)
    hold = tmp_path / "hold"
    hold.touch()

    def release():
        try:
            until(lambda: len(begun(tmp_path, "s")) == 2)
            time.sleep(2)
        finally:
            hold.unlink()

    threading.Thread(target=release, daemon=True).start()
    sleep(tmp_path, "s", workers=4, trials=6, seconds=0.5, cpu=1, gpu=0.5)
    slept = diary(tmp_path, "s")
    assert at_once([(entry["began"], entry["ended"]) for entry in slept]) == 2, "no fewer, no more"
    assert {entry["gpus"] for entry in slept} == {"0"}
    assert list(results.read(tmp_path / "results", "s")["status"]) == ["completed"] * 6


def test_a_node_that_joins_gets_trials_and_one_that_leaves_takes_none_along(cluster, node, tmp_path):
    """Trials are held until both nodes have some; then one of the nodes goes, with the trials it has."""
    first = node(num_cpus=1)
    hold, ended = tmp_path / "hold", []
    hold.touch()

    def drive():
        try:
            ended.append(sleep(tmp_path, "s", workers=2, trials=5, seconds=0.5, cpu=1))
        except BaseException as error:
            ended.append(error)

    def nodes_with_trials():
        return [entry["node"] for entry in begun(tmp_path, "s")]

    driver = threading.Thread(target=drive, daemon=True)
    driver.start()
    until(lambda: nodes_with_trials() == [first.node_id] or ended)
    second = node(num_cpus=1)
    until(lambda: nodes_with_trials()[1:] == [second.node_id] or ended)
    cluster.remove_node(first)
    until(lambda: not Path(f"/proc/{begun(tmp_path, 's')[0]['pid']}").exists())
    hold.unlink()
    driver.join(400)
    assert not driver.is_alive() and ended == [None]
    rows = results.read(tmp_path / "results", "s")
    assert set(rows["status"]) == {"completed"} and sorted(rows["trial_index"]) == list(range(5))
    assert {entry["node"] for entry in diary(tmp_path, "s")} == {second.node_id}, "the first had not finished any"


QUESTION = {
    "dataset": "glyphs",
    "task": None,
    "data_root": None,
    "download": False,
    "weights": None,
    "image_size": 28,
}


def nodes_of(folder, answer=300.0):
    return Nodes(folder / "results", QUESTION, 1, 0, look=look_from_here, answer=answer)


def test_nodes_are_checked_before_trials_and_later_ones_when_they_join(node, tmp_path):
    """A process of a node may be lost once: it may be killed for memory that others take."""
    torch = pytest.importorskip("torch")
    far = {"env_vars": {"RESULTS_HERE": str(tmp_path / "elsewhere")}}
    loses = {times: {"env_vars": {"LOSES": f"{times}", "LOST_IN": str(tmp_path / f"lost-{times}")}} for times in (1, 2)}
    gpus = "torch sees 0 of its 2 GPUs: its driver or CUDA is missing"
    expected = {
        "cpu": ({"num_cpus": 2}, "2 CPUs, ready"),
        "far": ({"num_cpus": 1, **far}, f"results {tmp_path}/results is not the folder the driver sees"),
        "gpu": ({"num_cpus": 1, "num_gpus": 0 if torch.cuda.is_available() else 2}, gpus),
        "lost-1": ({"num_cpus": 1, **loses[1]}, "1 CPU, ready"),
        "lost-2": ({"num_cpus": 1, **loses[2]}, "could not be checked: "),
        "small": ({"num_cpus": 0}, None),
    }
    for name, (arguments, _) in expected.items():
        (tmp_path / name).mkdir()
        try:
            node(labels={"ray.io/node-group": name}, **arguments)
        except ValueError as error:
            if "cannot start with the prefix" not in str(error):
                raise
            pytest.skip(f"an older Ray names no nodes: {error}")
    checks = nodes_of(tmp_path)
    ready, wrong = checks.check(alive_nodes())
    assert not list((tmp_path / "results").iterdir()) and not (tmp_path / "elsewhere").exists(), "nothing is left"
    if torch.cuda.is_available():
        expected.pop("gpu")
    told = {line.partition("(")[2].partition(")")[0]: line.partition("): ")[2] for line in ready + wrong}
    assert set(told) - {"gpu"} == set(expected) - {"gpu", "small"}
    assert all(told[name].startswith(words) for name, (_, words) in expected.items() if words)
    assert ["(far)" in line for line in checks.apart] == [True] and len(ready) == 2
    assert checks.joined(alive_nodes()) == [], "each is asked once"
    node(num_cpus=1, env_vars={"DEAF": "1"}, labels={"ray.io/node-group": "deaf"})
    node(num_cpus=1, labels={"ray.io/node-group": "late"}, **far)
    said = []
    until(lambda: said.extend(checks.joined(alive_nodes())) or said)  # none of these looks waits for the deaf one
    assert len(said) == 1 and "(late): results" in said[0]
    (deaf,) = [entry for entry in alive_nodes() if entry["Labels"].get("ray.io/node-group") == "deaf"]
    assert "no answer within 5 s" in nodes_of(tmp_path, answer=5.0).check([deaf])[1][0]


def test_a_driver_alone_is_not_asked(cluster, tmp_path):
    head = [entry for entry in alive_nodes() if "node:__internal_head__" in entry["Resources"]]
    assert nodes_of(tmp_path).check(head) == ([], []) and not (tmp_path / "results").exists()


class Busy:
    """An actor, there from its first answer on."""

    def node(self):
        import ray

        return ray.get_runtime_context().get_node_id()


def test_a_node_that_is_drained_counts_no_more(cluster, node):
    """It stays until what runs there has ended, and takes nothing new."""
    import ray

    going = node(num_cpus=1)
    busy = ray.remote(num_cpus=1)(Busy).remote()
    assert ray.get(busy.node.remote()) == going.node_id
    assert going.node_id in {one["NodeID"] for one in alive_nodes()}
    preemption.drain(cluster.address, preemption.Notice("taken away", 600), going.node_id)
    assert going.node_id not in {one["NodeID"] for one in alive_nodes()}
    assert going.node_id in {one["NodeID"] for one in ray.nodes() if one["Alive"]}
    ray.kill(busy)


REQUESTS = b"autoscaler_resource_request"  # Ray's AUTOSCALER_RESOURCE_REQUEST_CHANNEL


def requested() -> list[dict]:
    """What the autoscaler is asked for on the whole cluster."""
    from ray.experimental import internal_kv

    return json.loads(internal_kv.internal_kv_get_gcs_client().internal_kv_get(REQUESTS, None) or b"[]")


BUNDLE = {"GPU": 1, "ondemand": 1}
SPOT, ONDEMAND = NodeType("gpu-spot", {"CPU": 1, "GPU": 1}, 2.0), NodeType("gpu-ondemand", {"CPU": 1, **BUNDLE}, 2.0)
TYPES = Growth((SPOT, ONDEMAND), 2.0)


def is_gone():
    import ray

    try:
        ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        return True
    return False


QUICK = (10.0, 10.0, 0.5)  # s; a study that could not renew for so long on a busy machine would be forgotten


@pytest.fixture
def two_gpus(node):
    """A node of them. A test names it before the actor, which would end, unused, while the node starts."""
    node(num_cpus=2, num_gpus=2)


@pytest.fixture
def quick_actor(cluster):
    """The actor, with a short memory; gone before the next test. One that a study makes itself stays for a minute."""
    import ray

    until(is_gone)
    yield request_actor(*QUICK)
    if not is_gone():
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE), no_restart=True)
    until(is_gone)


def test_spot_stays_short_and_on_demand_nodes_come_and_are_given_back(node, quick_actor):
    said = []
    with ClusterWatch(TYPES, 1, 1.0, 2, 1.0, say=said.append, interval=0.2) as watch:
        until(lambda: requested() == [BUNDLE] * 2)
        assert said[0].startswith("waiting for nodes: none can take a trial; `ray status`")
        assert said[1:] == ["on-demand nodes requested: 2; spot has been short for 1 s"]
        node(num_cpus=1, num_gpus=1, resources={"ondemand": 1})
        node(num_cpus=1, num_gpus=1, resources={"ondemand": 1})
        watch.load.running = watch.load.live = 2
        time.sleep(1)
        assert requested() == [BUNDLE] * 2, "they are kept while they are needed"
    assert requested() == [] and len(said) == 2


@pytest.mark.parametrize("how", ["raise", "KeyboardInterrupt", "kill"])
def test_nothing_stays_asked_for_after_a_driver_however_it_ends(cluster, quick_actor, how):
    """Of a killed driver it is the actor that forgets, and ends itself when nobody is left."""
    if how == "kill":
        code = "import ray, time; from tune_cd.cluster.ondemand import request_actor\n"
        code += f"ray.init({cluster.address!r})\n"
        code += f"actor = request_actor(*{QUICK})\n"
        code += "while True:\n"
        code += f"    ray.get(actor.renew.remote('s', {{}}, [{BUNDLE}]))\n"
        code += "    time.sleep(0.2)"
        driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: requested() == [BUNDLE])
        finally:
            driver.kill()
            driver.wait()
        until(lambda: requested() == [])
        until(is_gone)
        return
    error = {"raise": OSError("disk"), "KeyboardInterrupt": KeyboardInterrupt()}[how]
    with pytest.raises(type(error)), ClusterWatch(TYPES, 1, 1.0, 1, 0.0, say=lambda line: None, interval=0.2):
        until(lambda: requested() == [BUNDLE])
        raise error
    assert requested() == []


def test_two_studies_ask_together_and_share_what_is_there(two_gpus, quick_actor):
    lines = {"a": [], "b": []}
    with ClusterWatch(TYPES, 1, 1.0, 2, 1.0, say=lines["a"].append, interval=0.2) as first:
        first.load.running = first.load.live = 2
        with ClusterWatch(TYPES, 1, 1.0, 1, 1.0, say=lines["b"].append, interval=0.2):
            until(lambda: requested() == [BUNDLE])  # the first study has both GPUs
        until(lambda: requested() == [])
    assert lines["a"] == [], "that one has what it wants"


def test_what_goes_wrong_is_said_once_and_the_watch_goes_on(cluster):
    said, looks = [], []

    def joined(nodes):
        looks.append(len(nodes))
        raise RuntimeError("broken\nand how")

    with ClusterWatch(Growth(), 1, 0, 1, None, joined=joined, say=said.append, interval=0.05):
        until(lambda: len(looks) >= 3)
    assert [line for line in said if "goes on" in line] == [
        "nodes that join cannot be checked: RuntimeError: broken; the study goes on"
    ]
