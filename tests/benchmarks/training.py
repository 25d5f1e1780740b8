"""How fast trainings are, beside the trainer that the usual libraries add up to (`reference_trainer`): one table a
case.

    python tests/benchmarks/training.py [--cases small_conv resnet18 resnet32 | resnet50]
        [--variants reference plain eager graph packed-4 packed-16 packed-32 packed-64]
        [--batch-size 64] [--seconds 2 | --iterations N] [--repeats 5] [--threads N] [--workers N]
        [--device cpu|cuda] [--data-root PATH]

Runs on a CPU and on a GPU, without Ray. Variants:

    reference  DataLoader workers, PIL, torchvision's transforms, pytorch-metric-learning's losses, call by call
    plain      the same with this project's sampler and losses, which needs no pytorch-metric-learning
    eager      `Training`, its step call by call
    graph      `Training`, its step recorded as a CUDA graph; needs a GPU
    packed-T   T trainings side by side in one process, each on a stream of its own (`trainables.training.parallel`),
               graphs on a GPU

Images are decoded and in memory for all of them: made up, in the shapes and numbers of Omniglot's and Tiny-ImageNet's,
or with --data-root the dataset of the case itself. Each variant is built, measured and taken down by itself; one that
fails says so in its row. Columns:

    start-up     seconds to build a variant (all T trainings, or the reference's workers) and run its first 5
                 iterations, recording included; imports, data, and the device's own first use are not
    images/s     afterwards, of all T trainings together, no evaluations: median, least and most of the repeats
    trials/hour  of the case's length at that rate: T trainings begin together, with a start-up of their own, and end
                 together (in a study they are used again, and start once)
    ratio        of the medians, to the reference, or else to `plain`
    of roof      images/s / what the memory of an H200 allows a network in bfloat16 whose layers run one by one: 539,000
                 for ResNet-18, 84,000 for ResNet-32; on an H200 only
"""

import argparse
import importlib.util
import statistics
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from gpu import table
from reference_trainer import ReferenceTrainer

from trainables.data.resident import DeviceData
from trainables.training.cuda_graphs import open_queues
from trainables.training.loop import DIVERGENCE_CHECK, Training
from trainables.training.setup import Setup
from trainables.training.setups import find_setup
from trainables.training.side_by_side import check

USUAL = ("reference", "plain")
PACKS = ("packed-4", "packed-16", "packed-32", "packed-64")
VARIANTS = (*USUAL, "eager", "graph", *PACKS)
FIRST_ITERATIONS = 5


@dataclass(frozen=True)
class Case:
    """What is trained; the shape of made-up data; the roof on an H200 in images/s, where it is known."""

    setup: Setup
    classes: int
    per_class: int
    channels: int
    roof: float | None = None


RESNET50 = {"network": "resnet50", "weights": "none", "augmentation": "none"}
CASES = {
    "small_conv": Case(find_setup("omniglot", "small"), 964, 20, 1),
    "resnet18": Case(replace(find_setup("omniglot", "paper"), weights="none"), 964, 20, 3, roof=539_000),
    "resnet32": Case(find_setup("tinyimagenet", "paper"), 200, 450, 3, roof=84_000),
    "resnet50": Case(replace(find_setup("sop", "paper"), **RESNET50), 500, 5, 3),
}


@dataclass
class Variant:
    """members trainings that `run` takes so many iterations further each; `queue`: batches prepared before a turn
    begins."""

    members: int
    run: Callable[[int], None]
    queue: int = 0


def balance(member: int, batch_size: int) -> dict:
    """h of one of the trainings: mild, and no two alike."""
    return {"Lambda_p": 0.02 / (1 + member / 16), "Lambda_e": 0.1 / (1 + member / 16), "batch_size": batch_size}


@dataclass(frozen=True)
class Measured:
    """members trainings, their start-up in seconds, images/s of all of them in every repeat."""

    members: int
    start_up: float
    rates: list[float]


def usual(case: Case, data: DeviceData, batch_size: int, device, workers: int | None, library: bool) -> Variant:
    """LookupError where pytorch-metric-learning is asked for and absent."""
    if library and importlib.util.find_spec("pytorch_metric_learning") is None:
        raise LookupError("needs pytorch-metric-learning")
    trainer = ReferenceTrainer(
        case.setup, *data.train, balance(0, batch_size), seed=0, device=device, workers=workers, library=library
    )

    def run(iterations: int) -> None:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True):
            for _ in range(iterations):
                trainer.step()

    return Variant(1, run, trainer.queue)


def ours(case: Case, data: DeviceData, batch_size: int, device: torch.device, members: int, step: str) -> Variant:
    """step: "graph", or "eager". In turn as `trainables.training.side_by_side.advance` runs them, looks at the loss
    included."""
    setup = replace(case.setup, step=step)
    hs = [balance(member, batch_size) for member in range(members)]
    trainings = [Training(setup, data, h, seed=member, device=device) for member, h in enumerate(hs)]
    for training in trainings:
        training.depart()

    def run(iterations: int) -> None:
        for _ in range(iterations):
            for training in trainings:
                training.step()
            if trainings[0].iteration % DIVERGENCE_CHECK == 0:
                check(trainings)

    return Variant(members, run)


def build(name: str, case: Case, data: DeviceData, options: argparse.Namespace, device: torch.device) -> Variant:
    """A variant by its name. Raises LookupError saying what it needs that is not here."""
    kind, _, members = name.partition("-")
    if kind == "graph" and device.type != "cuda":
        raise LookupError("needs a GPU")
    if kind in USUAL:
        return usual(case, data, options.batch_size, device, options.workers, library=kind == "reference")
    step = "eager" if kind == "eager" or device.type != "cuda" else "graph"
    return ours(case, data, options.batch_size, device, int(members or 1), step)


def made_up(case: Case, device: torch.device) -> DeviceData:
    """Images uint8 [n, c, h, w], each its class's pattern and noise."""
    generator, size = torch.Generator(device).manual_seed(0), case.setup.image_size
    shape = case.classes, case.per_class, case.channels, size, size
    images = torch.randint(0, 128, shape, dtype=torch.uint8, generator=generator, device=device)
    images += torch.randint(0, 128, (shape[0], 1, *shape[2:]), dtype=torch.uint8, generator=generator, device=device)
    train = images.flatten(0, 1), torch.arange(case.classes, device=device).repeat_interleave(case.per_class)
    return DeviceData("made-up", train, train)


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """How long it takes, until the device is done."""
    begun = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def measured(name: str, case: Case, data: DeviceData, options: argparse.Namespace, device: torch.device) -> Measured:
    """A variant, which is gone when this returns. Raises LookupError saying what it needs that is not here, and
    whatever its steps raise."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # trainings read the data on streams of their own
    begun = time.perf_counter()
    variant = build(name, case, data, options, device)
    seconds(partial(variant.run, FIRST_ITERATIONS), device)
    start_up, count, rates = time.perf_counter() - begun, options.iterations or FIRST_ITERATIONS, []
    for repeat in range(options.repeats + 1):
        seconds(partial(variant.run, variant.queue), device)  # what was prepared meanwhile does not count
        took = seconds(partial(variant.run, count), device)
        if repeat:
            rates.append(count * variant.members * options.batch_size / took)
        else:  # not counted: it tells how many iterations a repeat is, and everything is warm after it
            count = options.iterations or max(1, round(options.seconds * count / took))
    return Measured(variant.members, start_up, rates)


def attempted(name: str, case: Case, data: DeviceData, options, device: torch.device) -> Measured | str:
    """The variant, or in one line why there is nothing to measure."""
    try:
        return measured(name, case, data, options, device)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # they hold trainings
        said = " ".join(str(error).split())
        return said if isinstance(error, LookupError) else f"failed: {type(error).__name__}: {said}"
    finally:
        if device.type == "cuda":
            with suppress(RuntimeError):  # of a variant that failed, already told
                torch.cuda.empty_cache()


def figures(case: Case, results: dict[str, Measured | str], roof: float | None) -> dict[str, dict]:
    """By variant the columns of its row, or {"error"}."""
    base = next((one for name in USUAL if isinstance(one := results.get(name), Measured)), None)
    rows = {}
    for name, one in results.items():
        if isinstance(one, str):
            rows[name] = {"error": one}
            continue
        rate = statistics.median(one.rates)
        rows[name] = {
            "start-up s": one.start_up, "images/s": rate, "least": min(one.rates), "most": max(one.rates),
            "trials/hour": 3600 * one.members / (one.start_up + one.members * case.setup.images_seen / rate),
            "ratio": rate / statistics.median(base.rates) if base else None, "of roof": rate / roof if roof else None,
        }  # fmt: skip
    return rows


def compare(name: str, case: Case, options: argparse.Namespace, device: torch.device, machine: str) -> list[str]:
    """A case's table in Markdown."""
    data = DeviceData.load(case.setup, options.data_root, device) if options.data_root else made_up(case, device)
    print(
        f"\n{name}: {case.setup.loss}, {case.setup.image_size} px, b = {options.batch_size}, "
        f"{case.setup.images_seen:,} images a trial, {data.name} data; {machine}\n"
    )
    results = {variant: attempted(variant, case, data, options, device) for variant in options.variants}
    rows = figures(case, results, case.roof if "H200" in machine else None)
    return table([{"variant": variant} | row for variant, row in rows.items()])


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["small_conv", "resnet18", "resnet32"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), help="T may be any number")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn, about")
    parser.add_argument("--iterations", type=int, help="of a turn, instead of --seconds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch on the CPU, workers not counted; default: torch's choice")
    parser.add_argument("--workers", type=int, help="of the reference's DataLoader; default: one a core, 8 at most")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", help="of omniglot and tinyimagenet; default: images are made up")
    options = parser.parse_args(arguments)
    for name in options.variants:
        kind, _, members = name.partition("-")
        several = kind == "packed" and members.isdecimal() and int(members) > 0
        if name not in (*USUAL, "eager", "graph") and not several:
            parser.error(f"--variants {name}: reference, plain, eager, graph or packed-T")
    for name in ("batch_size", "seconds", "iterations", "repeats", "threads"):
        if getattr(options, name) is not None and getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: more than 0")
    return options


def main(arguments: list[str] | None = None) -> None:
    open_queues()
    options = parsed(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    cpu = f"CPU, {torch.get_num_threads()} thread(s)"
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu
    torch.zeros(1, device=device)  # its first use
    for name in options.cases:
        print("\n".join(compare(name, CASES[name], options, device, machine)), flush=True)


if __name__ == "__main__":
    main()
