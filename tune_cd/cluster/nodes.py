"""Checks every node before a trial runs there: its view of the results, its software, its data and its GPUs.

The driver writes a token among the results. A task on each node reads it and writes a token of its own, which the
driver reads. So a folder that only the head has is found before any GPU time is spent.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from secrets import token_hex

from tune_cd.cluster.capacity import alive_nodes, processes_on
from tune_cd.results.store import store_of

ANSWER = 120.0  # seconds that nodes have to answer
LOST = 1  # processes of a node that may be lost while it looks
ATTEMPTS, PAUSE = 4, 1.0  # calls to the store until its error counts, and seconds between two
GPU_SECONDS = 90  # that torch may take to list GPUs
PACKAGES = ("tune_cd", "trainables")
DISKS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
SIMULATED = "TUNE_CD_SIMULATED_GPUS"
"""The environment variable with the number of simulated GPUs of a node, to try a cluster on machines without. Trainings
use CPUs."""
HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")  # Ray hides GPUs by them from tasks that ask for none

GPUS = """
import json, torch
def memory(i):
    try:
        return torch.cuda.mem_get_info(i)
    except RuntimeError:  # full of others' work
        return 0, torch.cuda.get_device_properties(i).total_memory
print(json.dumps([[torch.cuda.get_device_name(i), *memory(i)] for i in range(torch.cuda.device_count())]))
"""


@dataclass(frozen=True)
class Question:
    """The question to a node. results: the folder or URI. token: name and content of the driver's file there."""

    results: str
    token: str
    dataset: str
    task: str | None
    data_root: str | None
    download: bool
    weights: str


def look(question: dict, name: str, gpus: bool, store: Callable = store_of) -> dict:
    """Check a node, in a task on it; returns plain values. name: of the node's own token. gpus: whether it should have
    any. "results", "data" and "gpu_error" are error messages, or None."""
    asked = Question(**question)
    found = {"software": software_here(), "results": _shares(store(asked.results), asked, name), "data": _data(asked)}
    return found | (_gpus() if gpus else {"gpus": [], "gpu_error": None})


@cache
def software_here() -> dict[str, str]:
    """The software that must be the same on all nodes, name -> version; our own packages by a digest of their source. A
    version counts only up to its +, since a head may have torch for CPUs."""
    versions = {package: metadata.version(package).partition("+")[0] for package in ("ray", "torch")}
    sources = {f"source of {package}": _digest(package) for package in PACKAGES}
    return {"python": platform.python_version(), **versions, **sources}


def _digest(package: str) -> str:
    """16 digits of the SHA-256 of a package's Python files and their names."""
    root = Path(next(iter(util.find_spec(package).submodule_search_locations)))
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        whole.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def with_retries(call: Callable[[], object]):
    """Call a store; an overloaded one is called again. Raises the last OSError, FileNotFoundError at once."""
    for _ in range(ATTEMPTS - 1):
        try:
            return call()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(PAUSE)
    return call()


def _shares(store, asked: Question, name: str) -> str | None:
    """Read the driver's token, then write and read the node's own; returns an error or None. Without the driver's it
    writes nothing, so that no unwanted folder is made."""
    try:
        seen = with_retries(lambda: store.read(asked.token))
    except FileNotFoundError:
        seen = b""
    except Exception as error:
        return f"cannot be read: {_line(error)}"
    if seen != asked.token.encode():
        return "is not the folder the driver sees; give a folder all nodes mount, or s3://…"
    try:
        with_retries(lambda: store.write(name, name.encode()))
        if with_retries(lambda: store.read(name)) != name.encode():
            return "does not keep what is written"
    except Exception as error:
        return f"cannot be written: {_line(error)}"
    return None


def _data(asked: Question) -> str | None:
    from trainables.datasets import DRAWN, check_source
    from trainables.datasets.remote import held
    from trainables.datasets.servers import survey
    from trainables.datasets.uri import is_uri, parse

    if asked.weights not in ("none", "imagenet") and not os.path.exists(asked.weights):
        return f"there are no weights {asked.weights}"
    try:
        if asked.data_root and is_uri(asked.data_root) and asked.dataset not in DRAWN:
            address = parse(asked.data_root)
            if not held(address):
                survey(address)  # only whether they exist: the first trial fetches them, in minutes
        else:
            check_source(asked.dataset, asked.data_root, task=asked.task)
    except FileNotFoundError as error:  # the first trial there downloads them, where it may
        return None if asked.download else _line(error)
    except Exception as error:
        return _line(error)
    return None


def _gpus() -> dict:
    """{"gpus": [name, free bytes, total bytes] of each that torch sees, "gpu_error"}, from a process of its own: a task
    that asks Ray for a GPU would wait for those in use."""
    if os.environ.get(SIMULATED):
        return {"gpus": [["simulated", 0, 0]] * int(os.environ[SIMULATED]), "gpu_error": None}
    visible = {name: value for name, value in os.environ.items() if name not in HIDING}
    command = [sys.executable, "-c", GPUS]
    try:
        said = subprocess.run(command, env=visible, capture_output=True, text=True, timeout=GPU_SECONDS)
        if said.returncode:
            return {"gpus": [], "gpu_error": said.stderr.strip().splitlines()[-1]}
        return {"gpus": json.loads(said.stdout), "gpu_error": None}
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        return {"gpus": [], "gpu_error": _line(error)}


def _line(error: Exception) -> str:
    return " ".join(f"{error}".split()) or type(error).__name__


def problems(found: Mapping, results: str, declared: float, own: Mapping[str, str]) -> list[str]:
    """Error messages about a node. found: by `look`. declared: its GPUs according to Ray. own: the driver's
    software."""
    wrong = [f"results {results} {found['results']}"] if found["results"] else []
    there = found["software"]
    differs = [f"{name} {there.get(name)}, here {own[name]}" for name in own if there.get(name) != own[name]]
    wrong += [f"other software than the driver's: {'; '.join(differs)}"] if differs else []
    wrong += [f"data: {found['data']}"] if found["data"] else []
    if declared and len(found["gpus"]) < declared:
        why = found["gpu_error"] or "its driver or CUDA is missing, or torch is built for the CPU"
        wrong.append(f"torch sees {len(found['gpus'])} of its {declared:g} GPUs: {why}")
    return wrong


def described(found: Mapping, resources: Mapping[str, float]) -> str:
    """A node in words, `1 x NVIDIA L4 24 GB, 8 CPUs`, with as many GPUs as Ray has of it."""
    kinds = Counter(
        f"{name} {total / 1e9:.0f} GB{f' ({free / 1e9:.0f} GB free)' if free < 0.9 * total else ''}"
        for name, free, total in found["gpus"][: int(resources.get("GPU", 0))]
    )
    cpus = resources.get("CPU", 0)
    return ", ".join([*(f"{count} x {text}" for text, count in kinds.items()), f"{cpus:g} CPU{'s' * (cpus != 1)}"])


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
    """Checks the nodes of a cluster. question: fields of `Question` but results and token. cpus, gpus: of a process;
    nodes too small for one are not checked. look, answer: for tests."""

    def __init__(
        self, results: Path | str, question: Mapping, cpus: int, gpus: float, *,
        look: Callable = look, answer: float = ANSWER,
    ):  # fmt: skip
        self._store, self._token = store_of(results), f".preflight-{token_hex(8)}"
        self._question = asdict(Question(results=str(results), token=self._token, **question))
        self._cpus, self._gpus, self._look, self._answer = cpus, gpus, look, answer
        self.apart: list[str] = []  # errors of nodes that do not share the results
        self._known: set[str] = set()
        self._left: set[str] = set()  # files that may still be among the results
        self._asked: dict[
            object, tuple[dict, float]
        ] = {}  # Ray's reference -> Ray's entry of the node, when it was asked

    def check(self, nodes: list[dict]) -> tuple[list[str], list[str]]:
        """(a line for each ready node, errors), once all have answered or the time is up. nodes: Ray's entries. The
        driver's node alone is not asked, as the driver has checked it."""
        import ray

        if [node["NodeID"] for node in nodes] == [ray.get_runtime_context().get_node_id()]:
            self._known.update(node["NodeID"] for node in nodes)
            return [], []
        self._ask(nodes)
        ready, wrong = [], []
        while self._asked:
            for lines, errors in self._answers(self._answer):
                ready += lines
                wrong += errors
        return ready, wrong

    def joined(self, nodes: list[dict]) -> list[str]:
        """Ask nodes that have joined; returns the errors of those that have answered by now, without waiting."""
        self._ask(nodes)
        return [error for _, errors in self._answers(0) for error in errors]

    def close(self) -> None:
        """Remove the tokens. Never raises: a store that does not answer keeps files of some bytes."""
        for name in sorted(self._left):
            try:
                self._store.remove(name)
            except OSError:
                return

    def _ask(self, nodes: list[dict]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for node in nodes:
            if node["NodeID"] in self._known:
                continue
            if processes_on([node["Resources"]], self._cpus, self._gpus):
                if not self._asked:
                    with_retries(lambda: self._store.write(self._token, self._token.encode()))
                self._left |= {self._token, self._own(node)}
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = ray.remote(self._look).options(num_cpus=0, max_retries=LOST, scheduling_strategy=there)
                answer = task.remote(self._question, self._own(node), node["Resources"].get("GPU", 0) > 0)
                self._asked[answer] = (node, time.monotonic())
            self._known.add(node["NodeID"])

    def _answers(self, seconds: float) -> list[tuple[list[str], list[str]]]:
        """(lines, errors) of each node that has answered or is out of time, after so many seconds at most."""
        import ray

        if not self._asked:
            return []
        oldest = min(asked for _, asked in self._asked.values())
        left = min(seconds, max(0.0, self._answer - (time.monotonic() - oldest)))
        done, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=left)
        overdue = time.monotonic() - self._answer
        late = [answer for answer, (_, asked) in self._asked.items() if answer not in done and asked <= overdue]
        said = [self._judge(answer, self._asked.pop(answer)[0], answer in done) for answer in [*done, *late]]
        if not self._asked:
            self._remove(self._token)
        return said

    def _judge(self, answer, node: dict, answered: bool) -> tuple[list[str], list[str]]:
        import ray

        kind = node.get("Labels", {}).get("ray.io/node-group")  # where the autoscaler started it
        named = f"node {node['NodeManagerAddress']}{f' ({kind})' if kind else ''}"
        try:
            if not answered:
                ray.cancel(answer, force=True)
                return [], [f"{named}: no answer within {self._answer:g} s"]
            found = dict(ray.get(answer))
        except ray.exceptions.RayError as error:
            if node["NodeID"] not in {other["NodeID"] for other in alive_nodes()}:
                return [], []  # gone again
            return [], [f"{named}: could not be checked: {_line(getattr(error, 'cause', None) or error)}"]
        found["results"] = found["results"] or self._read_back(node)
        wrong = problems(found, f"{self._store.where()}", node["Resources"].get("GPU", 0), software_here())
        if found["results"]:
            self.apart.append(f"{named}: {wrong[0]}")
        ready = [f"node {node['NodeManagerAddress']}: {described(found, node['Resources'])}, ready"]
        return ([], [f"{named}: {text}" for text in wrong]) if wrong else (ready, [])

    def _read_back(self, node: dict) -> str | None:
        name = self._own(node)
        try:
            same = with_retries(lambda: self._store.read(name)) == name.encode()
            self._remove(name)
        except OSError as error:
            return f"written there is not read here: {_line(error)}"
        return None if same else "written there is another here"

    def _remove(self, name: str) -> None:
        with_retries(lambda: self._store.remove(name))
        self._left.discard(name)

    def _own(self, node: dict) -> str:
        return f"{self._token}-{node['NodeID'][:12]}"
