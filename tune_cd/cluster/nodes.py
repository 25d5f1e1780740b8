"""A look at every node before a trial runs there: does it see the same results, run the same code, have data and GPUs?

The driver leaves a token among the results, and a task on each node reads it, and answers with one of its own that the
driver reads: a folder that only the head has is found out before any GPU time is spent.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from secrets import token_hex

from tune_cd.cluster.growth import alive_nodes, processes_on
from tune_cd.results.store import store_of

ANSWER = 120.0  # seconds that nodes have to answer
ATTEMPTS, PAUSE = 4, 1.0  # at asking the store, and seconds between two
GPU_SECONDS = 90  # torch may take to look at them
PACKAGES = ("tune_cd", "trainables")
DISKS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
SIMULATED = "TUNE_CD_SIMULATED_GPUS"
"""How many GPUs a node has for want of real ones: to try a cluster on machines without. Trainings there use the CPU."""
SOFTWARE = ("ray", "torch")

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
    """What a node is asked. results: the folder, or URI; token: the name of the driver's file there, and its content."""

    results: str
    token: str
    dataset: str
    task: str | None
    data_root: str | None
    download: bool
    weights: str


def look(question: dict, name: str, gpus: bool, store: Callable = store_of) -> dict:
    """On the node: what it finds, as plain values. name: of its own token; gpus: whether it is to have any.
    "results", "data", "gpu_error" are what is wrong, None where all is well."""
    asked = Question(**question)
    found = {"software": software_here(), "results": _shares(store(asked.results), asked, name), "data": _data(asked)}
    return found | (_gpus() if gpus else {"gpus": [], "gpu_error": None})


@cache
def software_here() -> dict[str, str]:
    """What must be the same on all nodes, name -> version; the packages' own source is a digest."""
    versions = {
        package: metadata.version(package).partition("+")[0] for package in SOFTWARE
    }  # a head may have torch for CPUs
    return {
        "python": platform.python_version(),
        **versions,
        **{f"source of {package}": _digest(package) for package in PACKAGES},
    }


def _digest(package: str) -> str:
    """16 digits of the SHA-256 of a package's Python files and their names."""
    root = Path(next(iter(util.find_spec(package).submodule_search_locations)))
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        whole.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def patiently(call: Callable[[], object]):
    """What the call returns, which asks a store: one that has too much to do for a moment is asked again. Raises OSError."""
    for _ in range(ATTEMPTS - 1):
        try:
            return call()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(PAUSE)
    return call()


def _shares(store, asked: Question, name: str) -> str | None:
    """Read the driver's token; only where it is there, leave one, and read it: else a folder would be made that nobody wants."""
    try:
        seen = patiently(lambda: store.read(asked.token))
    except FileNotFoundError:
        seen = b""
    except Exception as error:
        return f"cannot be read: {_line(error)}"
    if seen != asked.token.encode():
        return "is not the folder the driver sees; give a folder all nodes mount, or s3://…"
    try:
        patiently(lambda: store.write(name, name.encode()))
        if patiently(lambda: store.read(name)) != name.encode():
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
                survey(address)  # that they are there; the first trial fetches them, which may take minutes
        else:
            check_source(asked.dataset, asked.data_root, task=asked.task)
    except FileNotFoundError as error:  # what can be fetched is, by the first trial there
        return None if asked.download else _line(error)
    except Exception as error:
        return _line(error)
    return None


def _gpus() -> dict:
    """[name, free and total bytes] of each that torch sees, in a process of its own: Ray hides them from a task that asks
    for none, and a task that asks for one would wait for those in use."""
    if os.environ.get(SIMULATED):
        return {"gpus": [["simulated", 0, 0]] * int(os.environ[SIMULATED]), "gpu_error": None}
    visible = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    }
    try:
        said = subprocess.run(
            [sys.executable, "-c", GPUS], env=visible, capture_output=True, text=True, timeout=GPU_SECONDS
        )
        if said.returncode:
            return {"gpus": [], "gpu_error": said.stderr.strip().splitlines()[-1]}
        return {"gpus": json.loads(said.stdout), "gpu_error": None}
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        return {"gpus": [], "gpu_error": _line(error)}


def _line(error: Exception) -> str:
    return " ".join(f"{error}".split()) or type(error).__name__


def problems(found: Mapping, results: str, declared: float, own: Mapping[str, str]) -> list[str]:
    """What is wrong with a node, from what it found. declared: its GPUs according to Ray; own: the driver's software."""
    wrong = [f"results {results} {found['results']}"] if found["results"] else []
    differs = [
        f"{name} {found['software'].get(name)}, here {version}"
        for name, version in own.items()
        if found["software"].get(name) != version
    ]
    wrong += [f"other software than the driver's: {'; '.join(differs)}"] if differs else []
    wrong += [f"data: {found['data']}"] if found["data"] else []
    if declared and len(found["gpus"]) < declared:
        why = found["gpu_error"] or "its driver or CUDA is missing, or torch is built for the CPU"
        wrong.append(f"torch sees {len(found['gpus'])} of its {declared:g} GPUs: {why}")
    return wrong


def described(found: Mapping, resources: Mapping[str, float]) -> str:
    """`1 x NVIDIA L4 24 GB, 8 CPUs`, of the GPUs that Ray has of it."""
    kinds: dict[str, int] = {}
    for name, free, total in found["gpus"][: int(resources.get("GPU", 0))]:
        rest = f" ({free / 1e9:.0f} GB free)" if free < 0.9 * total else ""
        text = f"{name} {total / 1e9:.0f} GB{rest}"
        kinds[text] = kinds.get(text, 0) + 1
    cpus = resources.get("CPU", 0)
    return ", ".join([*(f"{count} x {text}" for text, count in kinds.items()), f"{cpus:g} CPU{'s' * (cpus != 1)}"])


def own_disk(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The kind of file system that a folder lies on, if it is one of this machine's own disks; None where it is not, or not known."""
    try:
        listed = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return None
    holding = [(len(Path(place).parts), kind) for _, place, kind, *_ in listed if folder.is_relative_to(place)]
    kind = max(holding)[1] if holding else None
    return kind if kind in DISKS else None


class Nodes:
    """The nodes of a cluster as they are looked at. results: a folder or URI; cpus, gpus: of a process, and nodes that none
    fits are not looked at. look, answer: for tests."""

    def __init__(
        self,
        results: Path | str,
        question: Mapping,
        cpus: int,
        gpus: float,
        *,
        look: Callable = look,
        answer: float = ANSWER,
    ):
        self._results, self._store = str(results), store_of(results)
        self._token = f".preflight-{token_hex(8)}"
        self._question = asdict(Question(results=self._results, token=self._token, **question))
        self._cpus, self._gpus, self._look, self._answer = cpus, gpus, look, answer
        self.apart: list[str] = []  # of what is wrong: nodes whose results nobody else would see
        self._known: set[str] = set()
        self._left: set[str] = set()  # names among the results that may be there still
        self._asked: dict[
            str, tuple[object, dict, float]
        ] = {}  # node id -> its answer to come, Ray's entry, when it was asked

    def check(self, nodes: list[dict]) -> tuple[list[str], list[str]]:
        """(a line for each that is ready, what is wrong). nodes: Ray's entries. Returns when all have answered or the time is up.
        Nothing is asked where the driver's node is the only one: its checks are the driver's own."""
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
        """What is wrong with nodes that joined since and have answered by now. Waits for nothing."""
        self._ask(nodes)
        return [error for _, errors in self._answers(0) for error in errors]

    def close(self) -> None:
        """Leave nothing among the results. Never raises: a store that is away keeps a file of some bytes."""
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
            if not processes_on([node["Resources"]], self._cpus, self._gpus):
                self._known.add(node["NodeID"])
                continue
            if not self._asked:
                patiently(lambda: self._store.write(self._token, self._token.encode()))
            self._known.add(node["NodeID"])
            self._left |= {self._token, self._own(node)}
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(self._look).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            answer = task.remote(self._question, self._own(node), node["Resources"].get("GPU", 0) > 0)
            self._asked[node["NodeID"]] = (answer, node, time.monotonic())

    def _answers(self, seconds: float) -> list[tuple[list[str], list[str]]]:
        """(lines, errors) of each node that has answered, or will no more; waits so long for one."""
        import ray

        if not self._asked:
            return []
        waiting = {answer: node for node, (answer, _, _) in self._asked.items()}
        oldest = min(asked for _, _, asked in self._asked.values())
        left = min(seconds, max(0.0, self._answer - (time.monotonic() - oldest)))
        done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=left)
        late = [
            answer
            for answer, _, asked in self._asked.values()
            if answer not in done and time.monotonic() - asked >= self._answer
        ]
        said = []
        for answer in [*done, *late]:
            _, node, _ = self._asked.pop(waiting[answer])
            said.append(self._judge(answer, node, answer in done))
        if not self._asked:
            self._remove(self._token)
        return said

    def _judge(self, answer, node: dict, answered: bool) -> tuple[list[str], list[str]]:
        import ray

        named = f"node {node['NodeManagerAddress']}{_kind(node)}"
        try:
            if not answered:
                ray.cancel(answer, force=True)
                return [], [f"{named}: no answer within {self._answer:g} s"]
            found = dict(ray.get(answer))
        except ray.exceptions.RayError as error:
            if node["NodeID"] not in {other["NodeID"] for other in alive_nodes()}:
                return [], []  # gone again
            return [], [f"{named}: could not be looked at: {_line(getattr(error, 'cause', None) or error)}"]
        if found["results"] is None:
            found["results"] = self._read_back(node)
        wrong = problems(found, f"{self._store.where()}", node["Resources"].get("GPU", 0), software_here())
        if found["results"]:
            self.apart.append(f"{named}: {wrong[0]}")
        ready = (
            [f"node {node['NodeManagerAddress']}: {described(found, node['Resources'])}, ready"] if not wrong else []
        )
        return ready, [f"{named}: {text}" for text in wrong]

    def _read_back(self, node: dict) -> str | None:
        name = self._own(node)
        try:
            same = patiently(lambda: self._store.read(name)) == name.encode()
            self._remove(name)
        except OSError as error:
            return f"written there is not read here: {_line(error)}"
        return None if same else "written there is another here"

    def _remove(self, name: str) -> None:
        patiently(lambda: self._store.remove(name))
        self._left.discard(name)

    def _own(self, node: dict) -> str:
        return f"{self._token}-{node['NodeID'][:12]}"


def _kind(node: dict) -> str:
    """Its type's name, where the autoscaler started it."""
    kind = node.get("Labels", {}).get("ray.io/node-group")
    return f" ({kind})" if kind else ""
