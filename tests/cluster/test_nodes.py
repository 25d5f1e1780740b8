"""How nodes are checked. No Ray runs."""

from pathlib import Path

import pytest

from tune_cd.cluster import nodes
from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.results.store import Folder
from tune_cd.run import cluster

SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)


@pytest.fixture
def question(tmp_path):
    """Of a glyphs study whose driver sees tmp_path/shared, its token there."""
    folder = Folder(tmp_path / "shared")
    folder.write(".preflight-1", b".preflight-1")
    return {
        "results": str(folder.root), "token": ".preflight-1", "dataset": "glyphs", "task": None, "data_root": None,
        "download": False, "weights": "none",
    }  # fmt: skip


def test_a_node_in_order(question, tmp_path):
    found = nodes.look(question, ".preflight-1-node", False)
    assert (found["results"], found["data"], found["gpus"]) == (None, None, [])
    assert (tmp_path / "shared" / ".preflight-1-node").read_text() == ".preflight-1-node", "what the driver reads"
    assert nodes.problems(found, "r", 0, nodes.software_here()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_another_folder_of_the_same_name_is_left_alone(question, tmp_path, exists):
    elsewhere = tmp_path / "elsewhere"
    if exists:
        elsewhere.mkdir()
    found = nodes.look(question, "own", False, store=lambda results: Folder(elsewhere))
    assert "is not the folder the driver sees" in found["results"]
    assert elsewhere.exists() == exists and (not exists or not list(elsewhere.iterdir()))


def test_a_folder_that_can_be_read_and_not_written(question):
    class Full(Folder):
        def write(self, name, data):
            raise OSError(28, "No space left on device")

    found = nodes.look(question, "own", False, store=lambda results: Full(Path(results)))
    assert found["results"] == "cannot be written: [Errno 28] No space left on device"


def absent(address):
    raise ConnectionError(f"no way to {address.uri}")


ZIP = "s3://bucket/omniglot.zip"


@pytest.mark.parametrize(
    "asked, survey, words",
    [
        ({"dataset": "omniglot", "data_root": "/absent"}, None, "omniglot"),
        ({"dataset": "omniglot", "data_root": "/absent", "download": True}, None, None),
        ({"dataset": "omniglot", "data_root": ZIP}, lambda address: None, None),
        ({"dataset": "omniglot", "data_root": ZIP}, absent, f"no way to {ZIP}"),
        ({"weights": "/absent/w.pt"}, None, "there are no weights /absent/w.pt"),
    ],
)
def test_data_are_there_or_can_be_fetched_and_are_not_yet(
    question, own_cache, tmp_path, monkeypatch, asked, survey, words
):
    if survey:
        monkeypatch.setattr("trainables.datasets.servers.survey", survey)
    found = nodes.look(question | asked, "own", False)["data"]
    assert found is None if words is None else words in found
    assert not (tmp_path / "cache").exists()


OWN = {"ray": "2.60.0", "torch": "2.15.0", "source of tune_cd": "a" * 16}


@pytest.mark.parametrize(
    "found, line",
    [
        ({"software": OWN | {"torch": "2.14.0"}}, "other software than the driver's: torch 2.14.0, here 2.15.0"),
        ({"data": "no data"}, "data: no data"),
        ({"gpus": [], "gpu_error": "no driver"}, "torch sees 0 of its 2 GPUs: no driver"),
        ({"results": "is full"}, "results r is full"),
    ],
)
def test_a_fault_is_told_with_both_sides(found, line):
    good = {"software": OWN, "results": None, "data": None, "gpus": [["L4", 1, 1]] * 2, "gpu_error": None}
    assert nodes.problems(good, "r", 2.0, OWN) == [] and nodes.problems(good | found, "r", 2.0, OWN) == [line]


def test_a_package_is_known_by_its_source(tmp_path, monkeypatch):
    def digest(name, **files):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / f"{file}.py").write_text(text)
        return nodes._digest(name)

    monkeypatch.syspath_prepend(tmp_path)
    one, two = (digest(name, __init__="", a="x = 1") for name in ("one", "two"))
    others = [digest("three", __init__="", a="x = 2"), digest("four", __init__="", b="x = 1")]
    others += [digest("five", __init__="x = 1", a="")]
    assert one == two and len({one, *others}) == 4


def test_gpus_are_described_as_they_are_sold():
    l4 = ["NVIDIA L4", 23_600_000_000, 23_700_000_000]
    busy = ["NVIDIA L4", 3_000_000_000, 23_700_000_000]
    assert nodes.described({"gpus": [l4]}, {"CPU": 8.0, "GPU": 1.0}) == "1 x NVIDIA L4 24 GB, 8 CPUs"
    both = "1 x NVIDIA L4 24 GB, 1 x NVIDIA L4 24 GB (3 GB free), 1 CPU"
    assert nodes.described({"gpus": [l4, busy, l4]}, {"CPU": 1.0, "GPU": 2.0}) == both
    assert nodes.described({"gpus": []}, {"CPU": 2.0}) == "2 CPUs"


MOUNTS = """overlay / overlay rw 0 0
/dev/sda1 /home ext4 rw 0 0
nas:/x /home/me/shared nfs4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
s3fs /mnt/bucket fuse.s3fs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/results", "overlay"), ("/home/me/results", "ext4"), ("/home/me/shared/results", None),
        ("/home/me/shared2/r", "ext4"), ("/tmp/r", "tmpfs"), ("/mnt/bucket/r", None),
    ],
)  # fmt: skip
def test_a_disk_of_this_machine_s_own_is_known(tmp_path, folder, kind):
    """Nodes that come later would write their rows where nobody reads them."""
    (tmp_path / "mounts").write_text(MOUNTS)
    assert nodes.own_disk(Path(folder), tmp_path / "mounts") == kind
    assert nodes.own_disk(Path(folder), tmp_path / "absent") is None


class Looked:
    """What is found of nodes, as it is said."""

    def __init__(self, ready=(), wrong=()):
        self.found, self.closed = (list(ready), list(wrong)), 0

    def check(self, alive):
        return self.found

    def close(self):
        self.closed += 1


def test_results_on_the_head_s_own_disk_are_refused_where_no_node_is_there_to_look_from(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "own_disk", lambda folder: "ext4")
    nobody = Looked()
    with pytest.raises(ValueError, match="own disk .ext4., which nodes that come will not see"):
        cluster.look_at(nobody, [], GPU_YAML, tmp_path)
    assert nobody.closed == 1, "nothing is left among the results"
    assert cluster.look_at(Looked(), [], GPU_YAML, "s3://bucket/r") == []
    assert cluster.look_at(Looked(), [], Growth(), tmp_path) == [], "one machine, and no other will come"
    assert cluster.look_at(Looked(ready=["node a: ready"]), [], GPU_YAML, tmp_path) == ["node a: ready"]
    with pytest.raises(ValueError, match="node b: no data\nerror: node c: no GPU"):
        cluster.look_at(Looked(["node a: ready"], ["node b: no data", "node c: no GPU"]), [], Growth(), tmp_path)


@pytest.mark.parametrize(
    "answers, end",
    [
        ([OSError("slow down"), OSError("slow down"), "there"], "there"),
        ([FileNotFoundError("none"), "never asked"], FileNotFoundError),
        ([OSError("away")] * nodes.ATTEMPTS, OSError),
    ],
)
def test_a_store_that_fails_for_a_moment_is_asked_again(monkeypatch, answers, end):
    monkeypatch.setattr(nodes, "PAUSE", 0.0)
    left = iter(answers)

    def call():
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    if isinstance(end, str):
        assert nodes.with_retries(call) == end
    else:
        with pytest.raises(end):
            nodes.with_retries(call)
