"""Exact retrieval scores at the size of a test split, beside pytorch-metric-learning's calculator: seconds and memory.

    python tests/benchmarks/retrieval.py [--images 10000] [--dimensions 128] [--without-rival]

Random embeddings in classes of five or six, as in Stanford Online Products; `--images 60502 --dimensions 512` is its
test split. Each side runs in a process of its own; memory is what the peak exceeds the embeddings by.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

CLASSES_PER_IMAGE = 11_316 / 60_502
SCORES = ("r_map", "map_at_r", "precision_at_1", "r_precision")


def measure(side: str, images: int, dimensions: int) -> None:
    """One side's scores, in this process: prints seconds, extra megabytes, and the scores both sides have."""
    import torch

    generator = torch.Generator().manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(images, dimensions, generator=generator), dim=1)
    labels = torch.arange(images) % round(images * CLASSES_PER_IMAGE)
    if side == "ours":
        from trainables.metrics.retrieval import retrieval_scores

        score = lambda: {name: value for name, value in retrieval_scores(embeddings, labels).items() if name != "r_map"}  # noqa: E731
    else:
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
        from pytorch_metric_learning.utils.inference import CustomKNN

        names = ("mean_average_precision_at_r", "precision_at_1", "r_precision")
        calculator = AccuracyCalculator(
            include=names,
            k="max_bin_count",
            device=torch.device("cpu"),
            knn_func=CustomKNN(CosineSimilarity(), batch_size=256),
        )

        def score():
            accuracies = calculator.get_accuracy(embeddings, labels)
            return {"map_at_r" if name.startswith("mean") else name: value for name, value in accuracies.items()}

    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, begun = _megabytes("VmRSS"), time.perf_counter()
    scores = score()
    seconds = time.perf_counter() - begun
    print(seconds, _megabytes("VmHWM") - before, *(f"{name}={scores[name]:.6f}" for name in SCORES if name in scores))


def _megabytes(field: str) -> float:
    return int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--without-rival", action="store_true")
    parser.add_argument("--side", choices=("ours", "rival"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return measure(options.side, options.images, options.dimensions)
    measured = {}
    for side in ("ours",) if options.without_rival else ("ours", "rival"):
        command = [
            sys.executable,
            __file__,
            "--side",
            side,
            "--images",
            str(options.images),
            "--dimensions",
            str(options.dimensions),
        ]
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
        ).stdout.split()
        measured[side] = float(said[0]), float(said[1])
        print(f"{side:<6} {float(said[0]):8.1f} s {float(said[1]):10,.0f} MB   {' '.join(said[2:])}", flush=True)
    if "rival" in measured:
        ratios = [rival / ours for ours, rival in zip(*measured.values())]
        print(f"pytorch-metric-learning / ours: {ratios[0]:.1f} times the time, {ratios[1]:.1f} times the memory")


if __name__ == "__main__":
    main()
