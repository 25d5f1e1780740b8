"""clusters/onprem.yaml for real: `ray up` through SSH to two machines, a search on both, power cuts of the worker and
of the head.

The machines are namespaces of this one (machines.py); of the file only addresses and names are adapted.
"""

from pathlib import Path

import pandas as pd
import pytest
from laptop import ROOT, Laptop, lab  # noqa: F401
from machines import Machine, Network, missing, until

from tune_cd import results

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

HEAD, WORKER = "10.77.0.2", "10.77.0.3"
PAIR, ONE = 10, 8  # trials of a study with two at a time, and of one with one at a time
SEARCH = "--full-length --no-baseline --images-seen 6000 --cpus-per-trial 2 --checkpoint-seconds 1 --seed 3"


@pytest.fixture
def laptop(lab):
    return Laptop(lab / "laptop")


@pytest.fixture
def machines(lab, laptop):
    network = Network("br-onprem", ("10.77.0.1/24",))
    network.create()
    made = {
        name: Machine(name, network, lab / name, (f"{address}/24",), laptop.public_key)
        for name, address in (("onprem-head", HEAD), ("onprem-worker", WORKER))
    }
    try:
        for machine in made.values():
            machine.boot()
        yield made
    finally:
        for machine in made.values():
            machine.power_off()
        network.remove()


def adapted(laptop: Laptop) -> Path:
    """The file as its user has it."""
    text = (ROOT / "clusters/onprem.yaml").read_text()
    edits = {
        "head_ip: EDIT-ME": f"head_ip: {HEAD}",
        "[EDIT-ME]": f"[{WORKER}]",
        "ssh_user: EDIT-ME": "ssh_user: root",
        "~/.ssh/id_ed25519": str(laptop.key),
    }
    for written, meant in edits.items():
        assert text.count(written) == 1
        text = text.replace(written, meant)
    file = laptop.folder / "onprem.yaml"
    file.write_text(text)
    return file


def ended(folder: Path, study: str) -> pd.DataFrame:
    return results.read(folder, study) if (folder / "trials" / study).exists() else pd.DataFrame()


def alive(laptop: Laptop, file: Path) -> int:
    """Nodes of the cluster."""
    ask = 'python -c "import ray; ray.init(address=\\"auto\\", log_to_driver=False); '
    ask += 'print(\\"alive\\", sum(n[\\"Alive\\"] for n in ray.nodes()))"'
    return int(laptop.ray("exec", file, ask).rpartition("alive ")[2].split()[0])


def trajectory(table: pd.DataFrame) -> list[tuple]:
    rows = table.sort_values("trial_index")
    return list(
        zip(
            rows["trial_index"],
            rows["direction"],
            rows["Lambda_p"],
            rows["Lambda_e"],
            rows["val_score"],
            rows["test_score"],
            strict=True,
        )
    )


def test_searches_outlive_their_worker_and_their_head(lab, laptop, machines):
    file, shared = adapted(laptop), lab / "results"
    head, worker = machines["onprem-head"], machines["onprem-worker"]
    laptop.ray("up", file, "-y")
    until(lambda: alive(laptop, file) == 2, 300)
    run = f"python -m tune_cd.run --address auto --results {shared} {SEARCH}"

    laptop.ray("exec", file, "--tmux", f"{run} --study pair --num-samples {PAIR} --workers 2 > {lab}/pair.log 2>&1")
    until(lambda: len(ended(shared, "pair")) >= 3, 600)
    assert set(ended(shared, "pair")["hostname"]) == {"onprem-head", "onprem-worker"}, "both machines train"
    worker.power_off()
    until(lambda: len(ended(shared, "pair")) == PAIR, 900)
    assert (ended(shared, "pair")["status"] == "completed").all(), "what the worker had is trained again"
    worker.boot()
    until(lambda: "report:" in (lab / "pair.log").read_text(), 120)
    until(lambda: alive(laptop, file) == 2, 600)

    laptop.ray("exec", file, "--tmux", f"{run} --study one --num-samples {ONE} --workers 1 > {lab}/one.log 2>&1")
    until(lambda: len(ended(shared, "one")) >= 3, 600)
    head.power_off()
    before = set(ended(shared, "one")["trial_id"])
    assert len(before) < ONE, "the head is lost in the middle"
    head.boot()
    laptop.ray("up", file, "-y")
    until(lambda: alive(laptop, file) == 2, 300)
    assert "report:" in laptop.ray("exec", file, f"{run} --study one --num-samples {ONE} --workers 1 --resume")
    table = ended(shared, "one")
    assert len(table) == ONE and (table["status"] == "completed").all()

    alone = f"-m tune_cd.run --address local --results {lab}/alone {SEARCH} --study one --num-samples {ONE} --workers 1"
    laptop.python(*alone.split())
    assert trajectory(table) == trajectory(ended(lab / "alone", "one")), "as one that nothing happened to"

    laptop.ray("down", file, "-y")
