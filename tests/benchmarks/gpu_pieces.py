"""The pieces of `gpu.py`: each yields (row, measure), where measure returns the row's columns or raises."""

import argparse
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import training as benchmark
from trainings import trained

from trainables.data.resident import DeviceData
from trainables.metrics.linear_probe import linear_probes
from trainables.metrics.retrieval import retrieval_scores
from trainables.training.cuda_graphs import WARM_UP, open_queues
from trainables.training.errors import is_of_the_machine
from trainables.training.loop import Training
from trainables.training.parallel import Pack
from trainables.training.setup import Setup
from trainables.training.setups import SETUPS, XBM, find_setup
from trainables.training.side_by_side import validate

Rows = Iterator[tuple[str, Callable[[], dict]]]
ROOT = Path(__file__).resolve().parents[2]
GPU_TESTS = ROOT / "tests" / "test_on_a_gpu.py"


def work(name: str, file: Path, device: str, deadline: float) -> int:
    """Run a piece until the deadline (`time.monotonic`), adding its rows to the file. Returns the exit status: 1 once
    the GPU itself has failed, which ends the piece."""
    open_queues()
    logging.basicConfig(level=logging.INFO)
    if device == "cpu":
        torch.set_num_threads(1)
    if name == "tests":
        return run_tests(partial(add, file))
    for row, measure in PIECES[name](torch.device(device)):
        if time.monotonic() > deadline:
            add(file, row, {"error": "no time was left"})
            continue
        try:
            add(file, row, measure())
        except Exception as error:
            traceback.print_exc()
            add(file, row, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
            traceback.clear_frames(error.__traceback__)  # they hold trainings
            if is_of_the_machine(error):
                return 1
        if device == "cuda":
            torch.cuda.empty_cache()
    return 0


def add(file: Path, row: str, columns: dict) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"": row} | columns) + "\n")


def run_tests(told: Callable[[str, dict], None]) -> int:
    """A row a test."""
    try:
        import pytest
    except ImportError:
        told(GPU_TESTS.name, {"error": "left out: pytest is not installed"})
        return 0

    class Reporter:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call" or not report.passed:
                columns = {"outcome": report.outcome, "seconds": round(report.duration, 2)}
                if report.skipped:
                    columns["error"] = report.longrepr[2]  # file, line, reason
                elif report.failed:
                    columns["error"] = report.longreprtext.strip().splitlines()[-1]
                told(report.nodeid.partition("::")[2], columns)

    return int(pytest.main([str(GPU_TESTS), "-q", "-p", "no:cacheprovider"], plugins=[Reporter()]))


def machine(device: torch.device) -> Rows:
    named = [
        f"{name} {sys.modules[name].__version__}" for name in ("torch", "torchvision", "numpy") if name in sys.modules
    ]
    yield "versions", lambda: {"value": ", ".join(named)}
    yield "python", lambda: {"value": f"{platform.python_version()}, {os.cpu_count()} cores, {platform.platform()}"}
    yield "commit", lambda: {"value": said("git", "-C", str(ROOT), "describe", "--always", "--dirty")}
    if device.type == "cuda":
        yield "card", lambda: {"value": str(torch.cuda.get_device_properties(device))}
        asked = "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"
        yield "driver", lambda: {"value": said(*asked)}
        yield "CUDA, cuDNN", lambda: {"value": f"{torch.version.cuda}, {torch.backends.cudnn.version()}"}
    n = 8192 if device.type == "cuda" else 512

    def copy() -> dict:
        source = torch.ones(n, 16 * n, device=device)
        target = torch.empty_like(source)
        return {"value": f"{2 * source.nbytes / seconds_of(lambda: target.copy_(source), device) / 1e9:,.0f} GB/s"}

    def product(dtype: torch.dtype) -> dict:
        factor = torch.randn(n, n, device=device).to(dtype)
        return {"value": f"{2 * n**3 / seconds_of(lambda: factor @ factor, device) / 1e12:,.2f} TFLOP/s"}

    yield "copy, read and written", copy
    for dtype in (torch.bfloat16, torch.float32):
        yield f"{n} x {n} product, {dtype}", partial(product, dtype)


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def seconds_of(call: Callable[[], object], device: torch.device, times: int = 5) -> float:
    """The median, after one call that does not count."""
    return statistics.median([benchmark.seconds(call, device) for _ in range(times + 1)][1:])


def case_of(name: str, device: torch.device) -> benchmark.Case:
    """A case of `training.py`, with few and small images on a CPU."""
    case = benchmark.CASES[name]
    if device.type == "cuda":
        return case
    return replace(case, setup=replace(case.setup, image_size=32), classes=32, per_class=4)


def speed(name: str, device: torch.device) -> Rows:
    large = device.type == "cuda"
    variants = (*benchmark.USUAL, "eager", "graph", *(benchmark.PACKS if large else ["packed-2"]))
    options = argparse.Namespace(
        batch_size=64 if large else 16, workers=None if large else 0, seconds=1.0 if large else 0.1,
        iterations=None, repeats=5 if large else 1,
    )  # fmt: skip
    case = case_of(name, device)
    data, results = benchmark.made_up(case, device), {}
    roof = case.roof if large and "H200" in torch.cuda.get_device_name(device) else None

    def measure(variant: str) -> dict:
        results[variant] = benchmark.attempted(variant, case, data, options, device)
        return benchmark.figures(case, results, roof)[variant]

    for variant in variants:
        yield variant, partial(measure, variant)


def h_of(device: torch.device, member: int = 0) -> dict:
    return benchmark.balance(member, 64 if device.type == "cuda" else 16)


def step_training(setup: Setup, data: DeviceData, device: torch.device) -> Training:
    """One that has taken, and where it can be recorded, every kind of step; b = 64, or 16 on a CPU."""
    training = Training(setup, data, h_of(device), seed=0, device=device)
    training.rehearse()
    training.depart()
    for _ in range(WARM_UP):
        training.step()
    training.wait()
    return training


def where_the_time_goes(device: torch.device) -> Rows:
    large = device.type == "cuda"
    for name in ("small_conv", "resnet18", "resnet32") if large else ("small_conv",):
        case = case_of(name, device)
        for step in ("eager", "graph") if large else ("eager",):
            yield f"{name}, {step}", partial(step_costs, case, step, device)
        yield f"{name}, its batches alone", partial(batch_costs, case, device)
        if large:
            yield f"{name}, graph, cudnn.benchmark", partial(step_costs, case, "graph", device, search=True)
            yield f"{name}, eager, kernels", partial(kernels, case, device)
    for members in (1, 8, 32) if large else (1, 2):
        yield f"probe, {members} networks", partial(probe_costs, members, 90_000 if large else 300, device)
    images = 60_502 if large else 500
    yield f"retrieval, {images:,} x 512", partial(retrieval_costs, images, device)
    for members in (1, 8, 32) if large else (1, 2):
        yield f"evaluation, {members} networks", partial(evaluation_costs, members, device)


def step_costs(case: benchmark.Case, step: str, device: torch.device, search: bool = False) -> dict:
    """Host time is that of three steps on an idle device, so that no queue is full."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=search, allow_tf32=torch.backends.cudnn.allow_tf32):
        training = step_training(replace(case.setup, step=step), benchmark.made_up(case, device), device)
        host, whole = [], []
        for _ in range(10):
            begun = time.perf_counter()
            for _ in range(3):
                training.step()
            host.append((time.perf_counter() - begun) / 3)
            training.wait()
        for _ in range(3):
            begun = time.perf_counter()
            for _ in range(20):
                training.step()
            training.wait()
            whole.append((time.perf_counter() - begun) / 20)
    return {"host µs a step": 1e6 * statistics.median(host), "µs a step": 1e6 * statistics.median(whole)}


def kernels(case: benchmark.Case, device: torch.device) -> dict:
    """A step's, and those that take longest together."""
    training = step_training(replace(case.setup, step="eager"), benchmark.made_up(case, device), device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        training.step()
        training.wait()
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    longest: Counter[str] = Counter()
    for event in events:
        longest[event.name[:60]] += event.time_range.elapsed_us()
    return {
        "kernels a step": len(events),
        "longest": "; ".join(f"{name} {micros:.0f} µs" for name, micros in longest.most_common(3)),
    }


def batch_costs(case: benchmark.Case, device: torch.device) -> dict:
    training = Training(case.setup, benchmark.made_up(case, device), h_of(device), seed=0, device=device)
    return {"µs a step": 1e6 * seconds_of(training.batch, device, times=20)}


def probe_costs(members: int, n: int, device: torch.device) -> dict:
    """Two epochs at the size of Tiny-ImageNet under ResNet-32, and what a look's hundred would take."""
    x, y = torch.randn(members, n, 64, device=device), torch.arange(n, device=device) % 200
    took = seconds_of(lambda: linear_probes(x, y, x[:, :1000], y[:1000], epochs=2), device, times=2)
    return {"µs a step": 1e6 * took / (2 * -(-n // 128)), "seconds": 50 * took}


def retrieval_costs(images: int, device: torch.device) -> dict:
    z, labels = torch.randn(images, 512, device=device), torch.arange(images) % round(images / 5.35)
    recall_at = [k for k in (10, 100, 1000) if k < images]
    return {"seconds": seconds_of(lambda: retrieval_scores(z, labels, recall_at=recall_at), device, times=2)}


def evaluation_costs(members: int, device: torch.device) -> dict:
    """A look at all training images of the small network's case."""
    case = case_of("small_conv", device)
    data = benchmark.made_up(case, device)
    trainings = [Training(case.setup, data, h_of(device, i), seed=i, device=device) for i in range(members)]
    for training in trainings:
        training.depart()
        training.step()
    return {"seconds": seconds_of(lambda: validate(trainings), device, times=2)}


def setups(device: torch.device) -> Rows:
    """Every set-up in the paper's form, either loss; on a CPU in the small form."""
    form = "paper" if device.type == "cuda" else "small"
    for dataset, tasks in SETUPS.items():
        for task in tasks:
            for loss in ("margin", "infonce"):
                setup = find_setup(dataset, form, task, loss)
                yield f"{dataset}, {task}, {loss}", partial(setup_costs, setup, device)
    for precision in ("float32", "bfloat16"):
        xbm = replace(find_setup("sop", form), **XBM[form], precision=precision)
        yield f"sop, XBM, {precision}", partial(setup_costs, xbm, device)


def setup_costs(setup: Setup, device: torch.device) -> dict:
    """At b = 64, with the memory where there is one; from random weights."""
    setup = replace(setup, weights="none")
    case = benchmark.Case(setup, 64, 8, 1 if setup.dataset in ("glyphs", "omniglot") else 3)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    training = step_training(setup, benchmark.made_up(case, device), device)
    training.iteration = max(training.iteration, setup.memory_start if setup.memory != "none" else 0)

    def steps() -> None:
        for _ in range(5):
            training.step()
        training.wait()

    took = seconds_of(steps, device, times=3) / 5
    gigabytes = torch.cuda.max_memory_reserved(device) / 1e9 if device.type == "cuda" else None
    return {
        "network": setup.network, "px": setup.input_size, "recorded": training.recordable, "ms a step": 1e3 * took,
        "images/s": training.batch_size / took, "GB": gigabytes,
        "hours a trial, no looks": setup.images_seen * took / training.batch_size / 3600,
    }  # fmt: skip


def grid(device: torch.device) -> Rows:
    """36 configurations of the small set-ups, as many at once as the device's memory holds, and some one by one."""
    large = device.type == "cuda"
    b, sides = (64, 6) if large else (16, 2)
    values = [0.02 * 2**i for i in range(sides)]
    configurations = [{"Lambda_p": p, "Lambda_e": e, "batch_size": b, "seed": 0} for p in values for e in values]
    seen = 25_600 if large else 10 * b
    dml = benchmark.Case(replace(find_setup("omniglot", "small"), images_seen=seen, evaluations=4), 256, 20, 1)
    ssl = benchmark.Case(
        replace(find_setup("tinyimagenet", "small"), images_seen=seen, evaluations=2, probe_epochs=10), 20, 450, 3
    )
    for name, case in (("metric learning", dml), ("self-supervision", ssl)):
        if not large:
            case = replace(case, classes=16, per_class=4)
        data = benchmark.made_up(case, device)
        data = replace(data, validation=data.train, test=data.train)
        for at_once in (None, 1) if large else (2, 1):
            some = configurations if at_once != 1 else configurations[:4]
            yield f"{name}, at once: {at_once or 'measured'}", partial(packed, case, data, some, device, at_once)


def packed(case: benchmark.Case, data: DeviceData, configurations: list[dict], device, at_once: int | None) -> dict:
    pack, begun = Pack(case.setup, data, device, at_once=at_once), time.perf_counter()
    statuses = Counter(outcome.status for outcome in trained(pack, configurations).values())
    took = time.perf_counter() - begun
    return {
        "at once": pack.at_once, "seconds": took, "trials/hour": 3600 * len(configurations) / took,
        "GB": torch.cuda.max_memory_reserved(device) / 1e9 if device.type == "cuda" else None,
        "ended": ", ".join(f"{number} {status}" for status, number in statuses.items()),
    }  # fmt: skip


PIECES: dict[str, Callable[[torch.device], Rows]] = {
    "machine": machine, **{name: partial(speed, name) for name in benchmark.CASES}, "time": where_the_time_goes,
    "setups": setups, "grid": grid,
}  # fmt: skip
