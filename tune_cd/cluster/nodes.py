"""Checks every node before a trial runs there: its view of the results, its software, its data and its GPUs.

The driver writes a token among the results. A task on each node reads it, and writes one of its own. So a folder that
only the head has is found before any GPU time is spent.
"""

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata, util
from pathlib import Path
from secrets import token_hex

from tune_cd.cluster.capacity import alive_nodes, processes_on
from tune_cd.results.store import store_of

ANSWER = 120.0  # seconds that nodes have to answer
LOST = 1  # processes of a node that may be lost while it looks
GPU_SECONDS = 90  # that torch may take to list GPUs
DISKS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
SIMULATED = "TUNE_CD_SIMULATED_GPUS"
"""The environment variable with the number of simulated GPUs of a node, to try a cluster on machines without. Trainings
use CPUs."""
HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # Ray hides GPUs by them from tasks that ask for none
NO_GPU = "its driver or CUDA is missing, or torch is built for the CPU"

GPUS = "import torch; print(torch.cuda.device_count())"


def look(question: Mapping, name: str, gpus: float, store: Callable = store_of) -> dict:
    """Check a node, in a task on it.

    question: results, token (name and content of the driver's file there), software (the driver's), dataset, task,
    image_size, data_root, download, weights (a file, or None). name: of the node's own token.
    gpus: those it has according to Ray.
    Returns {"results": what is wrong with them, or None, "wrong": the other errors}.
    """
    there, own = software_here(), question["software"]
    differs = [f"{name} {there.get(name)}, here {own[name]}" for name in own if there.get(name) != own[name]]
    found, error = gpus_here() if gpus else (0, "")
    wrong = {
        "other software than the driver's": "; ".join(differs),
        "data": data_error(question),
        f"torch sees {found} of its {gpus:g} GPUs": found < gpus and (error or NO_GPU),
    }
    shared = _shares(store(question["results"]), question["token"], name)
    return {"results": shared, "wrong": [f"{what}: {why}" for what, why in wrong.items() if why]}


@cache
def software_here() -> dict[str, str]:
    """The software that must be the same on all nodes, name -> version; our own packages by a digest of their source. A
    version counts only up to its +, since a head may have torch for CPUs."""
    versions = {package: metadata.version(package).partition("+")[0] for package in ("ray", "torch")}
    sources = {f"source of {package}": source_digest(package) for package in ("tune_cd", "trainables")}
    return {"python": platform.python_version(), **versions, **sources}


def source_digest(package: str) -> str:
    """16 digits of the SHA-256 of a package's Python files and their names."""
    root = Path(next(iter(util.find_spec(package).submodule_search_locations)))
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        whole.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def _shares(store, token: str, name: str) -> str | None:
    """Read the driver's token, then write and read the node's own; returns an error or None. Without the driver's it
    writes nothing, so that no unwanted folder is made."""
    try:
        seen = store.read(token)
    except FileNotFoundError:
        seen = b""
    except Exception as error:
        return f"cannot be read: {_line(error)}"
    if seen != token.encode():
        return "is not the folder the driver sees; give a folder all nodes mount, or s3://…"
    try:
        store.write(name, name.encode())
        return None if store.read(name) == name.encode() else "does not keep what is written"
    except Exception as error:
        return f"cannot be written: {_line(error)}"


def data_error(asked: Mapping) -> str | None:
    """The error of a training's weights and data on this machine; None where they are there or may be downloaded."""
    from trainables.datasets import DRAWN, check_source
    from trainables.datasets.cache import check_room
    from trainables.datasets.remote import held, survey
    from trainables.datasets.uri import is_uri, parse

    dataset, root = asked["dataset"], asked["data_root"]
    if asked["weights"] and not os.path.exists(asked["weights"]):
        return f"there are no weights {asked['weights']}"
    try:
        if root and is_uri(root) and dataset not in DRAWN:
            if not held(parse(root)):
                survey(parse(root))  # only whether they exist: the first trial fetches them, in minutes
        else:
            check_room(check_source(dataset, root, task=asked["task"]), asked["image_size"])
    except FileNotFoundError as error:
        return None if asked["download"] else _line(error)
    except Exception as error:
        return _line(error)
    return None


def gpus_here() -> tuple[int, str]:
    """(the number of GPUs that torch sees, the error if it cannot be asked). In a process of its own, since a task that
    asks Ray for a GPU would wait for those in use."""
    if os.environ.get(SIMULATED):
        return int(os.environ[SIMULATED]), ""
    visible = {name: value for name, value in os.environ.items() if name not in HIDING}
    try:
        command = [sys.executable, "-c", GPUS]
        said = subprocess.run(command, env=visible, capture_output=True, text=True, timeout=GPU_SECONDS)
        return (int(said.stdout), "") if said.returncode == 0 else (0, said.stderr.strip().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        return 0, _line(error)


def _line(error: Exception) -> str:
    return " ".join(f"{error}".split()) or type(error).__name__


def described(resources: Mapping[str, float]) -> str:
    """A node in words, `1 GPU, 8 CPUs`."""
    counts = {unit: resources.get(unit, 0) for unit in ("GPU", "CPU")}
    return ", ".join(f"{n:g} {unit}{'s' * (n != 1)}" for unit, n in counts.items() if n or unit == "CPU")


def own_disk(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The type of file system of a folder on this machine's own disks; None elsewhere, and if it is unknown."""
    try:
        listed = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return None
    holding = [(len(Path(place).parts), kind) for _, place, kind, *_ in listed if folder.is_relative_to(place)]
    kind = max(holding)[1] if holding else None
    return kind if kind in DISKS else None


class Nodes:
    """Checks the nodes of a cluster. question: fields of `look`'s but results, token and software. cpus, gpus: of a
    process; nodes too small for one are not checked. look, answer: for tests. apart: errors of nodes that do not share
    the results."""

    def __init__(
        self, results: Path | str, question: Mapping, cpus: int, gpus: float, *,
        look: Callable = look, answer: float = ANSWER,
    ):  # fmt: skip
        self._store, self._token = store_of(results), f".preflight-{token_hex(8)}"
        self._question = {**question, "results": str(results), "token": self._token, "software": software_here()}
        self._cpus, self._gpus, self._look, self._answer = cpus, gpus, look, answer
        self.apart: list[str] = []
        self._known: set[str] = set()
        self._left: set[str] = set()  # files that may still be among the results
        self._asked: dict[object, tuple[dict, float]] = {}  # Ray's reference -> Ray's entry of the node, its time limit

    def check(self, nodes: list[dict]) -> tuple[list[str], list[str]]:
        """(a line for each ready node, errors), once all have answered or the time is up. nodes: Ray's entries. The
        driver's node alone is not asked, as the driver has checked it."""
        import ray

        if [node["NodeID"] for node in nodes] == [ray.get_runtime_context().get_node_id()]:
            self._known.update(node["NodeID"] for node in nodes)
        self._ask(nodes)
        return self._answers(self._answer)

    def joined(self, nodes: list[dict]) -> list[str]:
        """Ask nodes that have joined; returns the errors of those that have answered by now, without waiting."""
        self._ask(nodes)
        return self._answers(0)[1]

    def close(self) -> None:
        """Remove the tokens. Never raises: a store that does not answer keeps files of some bytes."""
        with suppress(OSError):
            while self._left:
                self._store.remove(self._left.pop())

    def _ask(self, nodes: list[dict]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for node in [node for node in nodes if node["NodeID"] not in self._known]:
            if processes_on([node["Resources"]], self._cpus, self._gpus):
                if not self._asked:
                    self._store.write(self._token, self._token.encode())
                self._left |= {self._token, self._own(node)}
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = ray.remote(self._look).options(num_cpus=0, max_retries=LOST, scheduling_strategy=there)
                answer = task.remote(self._question, self._own(node), node["Resources"].get("GPU", 0))
                self._asked[answer] = node, time.monotonic() + self._answer
            self._known.add(node["NodeID"])

    def _answers(self, seconds: float) -> tuple[list[str], list[str]]:
        """As `check`, of the nodes that have answered within so many seconds, or whose time is up."""
        import ray

        if not self._asked:
            return [], []
        done, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=seconds)
        late = [answer for answer, (_, limit) in self._asked.items() if time.monotonic() >= limit]
        ready, wrong = [], []
        for answer in dict.fromkeys([*done, *late]):
            node, _ = self._asked.pop(answer)
            group = node.get("Labels", {}).get("ray.io/node-group")  # where the autoscaler started it
            named = f"node {node['NodeManagerAddress']}{f' ({group})' if group else ''}"
            found, errors = self._judged(answer, node, answer in done)
            wrong += [f"{named}: {error}" for error in errors]
            if found.get("results"):
                self.apart.append(f"{named}: {errors[0]}")
            if found and not errors:
                ready.append(f"{named}: {described(node['Resources'])}, ready")
        if not self._asked:
            self.close()
        return ready, wrong

    def _judged(self, answer, node: dict, answered: bool) -> tuple[dict, list[str]]:
        """(a node's answer, {} without one, its errors); neither of one that is gone again."""
        import ray

        if not answered:
            ray.cancel(answer, force=True)
            return {}, [f"no answer within {self._answer:g} s"]
        try:
            found = dict(ray.get(answer))
        except ray.exceptions.RayError as error:
            gone = node["NodeID"] not in {other["NodeID"] for other in alive_nodes()}
            return {}, [] if gone else [f"could not be checked: {_line(getattr(error, 'cause', None) or error)}"]
        apart = [f"results {self._store.where()} {found['results']}"] if found["results"] else []
        return found, [*apart, *found["wrong"]]

    def _own(self, node: dict) -> str:
        return f"{self._token}-{node['NodeID'][:12]}"
