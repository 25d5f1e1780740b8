"""How nodes are checked. No Ray runs."""

import re
from pathlib import Path

import pytest
from webserver import Page, serve

from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.cluster.nodes import SIMULATED, described, look, own_disk, software_here, source_digest
from tune_cd.results.store import Store
from tune_cd.run.cluster import look_at

OTHERS = software_here() | {"torch": "1.0"}
GROWS = Growth((NodeType("gpu-spot", {"CPU": 8, "GPU": 1}, 8.0),), 8.0)


@pytest.fixture
def question(tmp_path):
    """Of a glyphs study whose driver sees tmp_path/shared, its token there."""
    folder = Store(tmp_path / "shared")
    folder.write(".preflight-1", b".preflight-1")
    return {
        "results": str(folder.folder), "token": ".preflight-1", "software": software_here(), "dataset": "glyphs",
        "task": None, "image_size": 28, "data_root": None, "download": False, "weights": None,
    }  # fmt: skip


def test_a_node_in_order(question, tmp_path, monkeypatch):
    monkeypatch.setenv(SIMULATED, "2")
    found = look(question, ".preflight-1-node", 2.0)
    assert found == {"results": None, "wrong": []}
    assert (tmp_path / "shared" / ".preflight-1-node").read_text() == ".preflight-1-node", "what the driver reads"


@pytest.mark.parametrize("exists", [False, True])
def test_another_folder_of_the_same_name_is_left_alone(question, tmp_path, exists):
    elsewhere = tmp_path / "elsewhere"
    if exists:
        elsewhere.mkdir()
    found = look(question, "own", 0, store=lambda results: Store(elsewhere))
    assert "is not the folder the driver sees" in found["results"]
    assert elsewhere.exists() == exists and (not exists or not list(elsewhere.iterdir()))


@pytest.mark.parametrize(("asked", "gpus", "wrong"), [
    ({"software": OTHERS}, 0, ["other software than the driver's: torch .*, here 1.0$"]),
    ({}, 4, ["torch sees 2 of its 4 GPUs: its driver or CUDA is missing"]),
    ({"weights": "/absent/w.pt"}, 0, ["data: there are no weights /absent/w.pt"]),
    ({"image_size": 10**6}, 0, ["data: .* needs 14,712,000,000,000,000 bytes in .* are free; TUNE_CD_CACHE moves it"]),
    ({"dataset": "omniglot", "data_root": "/absent"}, 0, ["data: .*omniglot"]),
    ({"dataset": "omniglot", "data_root": "/absent", "download": True}, 0, []),
    ({"dataset": "omniglot", "data_root": "URL/there.zip"}, 0, []),
    ({"dataset": "omniglot", "data_root": "URL/absent.zip"}, 0, ["data: http.*/absent.zip.*404"]),
])  # fmt: skip
def test_software_gpus_and_data_of_a_node(question, own_cache, tmp_path, monkeypatch, asked, gpus, wrong):
    """Data are there or can be fetched, and are not yet."""
    monkeypatch.setenv(SIMULATED, "2")
    with serve() as web:
        web.pages["/there.zip"] = Page(b"zip")
        asked = {name: value.replace("URL", web.url) if name == "data_root" else value for name, value in asked.items()}
        found = look(question | asked, "own", gpus)["wrong"]
    assert len(found) == len(wrong) and all(map(re.search, wrong, found)), found
    assert not (tmp_path / "cache").exists()


def test_a_package_is_known_by_its_source(tmp_path, monkeypatch):
    def digest(name, **files):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / f"{file}.py").write_text(text)
        return source_digest(name)

    monkeypatch.syspath_prepend(tmp_path)
    one, two = (digest(name, __init__="", a="x = 1") for name in ("one", "two"))
    others = [digest("three", __init__="", a="x = 2"), digest("four", __init__="", b="x = 1")]
    others += [digest("five", __init__="x = 1", a="")]
    assert one == two and len({one, *others}) == 4


def test_a_node_is_described_by_what_ray_has_of_it():
    assert described({"CPU": 8.0, "GPU": 1.0}) == "1 GPU, 8 CPUs" and described({"CPU": 1.0}) == "1 CPU"


MOUNTS = """overlay / overlay rw 0 0
/dev/sda1 /home ext4 rw 0 0
nas:/x /home/me/shared nfs4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
s3fs /mnt/bucket fuse.s3fs rw 0 0
"""


@pytest.mark.parametrize(("folder", "kind"), [
    ("/results", "overlay"), ("/home/me/results", "ext4"), ("/home/me/shared/results", None),
    ("/home/me/shared2/r", "ext4"), ("/tmp/r", "tmpfs"), ("/mnt/bucket/r", None),
])  # fmt: skip
def test_a_disk_of_this_machine_s_own_is_known(tmp_path, folder, kind):
    """Nodes that come later would write their rows where nobody reads them."""
    (tmp_path / "mounts").write_text(MOUNTS)
    assert own_disk(Path(folder), tmp_path / "mounts") == kind
    assert own_disk(Path(folder), tmp_path / "absent") is None


class Looked:
    """Checks of nodes that are over: their result, and whether they were closed."""

    def __init__(self, ready=()):
        self.ready, self.closed = list(ready), False

    def check(self, alive):
        return self.ready, []

    def close(self):
        self.closed = True


def test_results_on_the_head_s_own_disk_are_refused_where_no_node_is_there_to_look_from(tmp_path):
    if own_disk(tmp_path) is None:
        pytest.skip("the temporary folder is on no disk of this machine's own")
    nobody = Looked()
    with pytest.raises(ValueError, match="own disk .*, which nodes that come will not see"):
        look_at(nobody, [], GROWS, tmp_path)
    assert nobody.closed, "nothing is left among the results"
    assert look_at(Looked(), [], GROWS, "s3://bucket/r") == []
    assert look_at(Looked(), [], Growth(), tmp_path) == [], "one machine, and no other will come"
    assert look_at(Looked(["node a: ready"]), [], GROWS, tmp_path) == ["node a: ready"]
