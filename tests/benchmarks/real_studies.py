"""What the benchmarks share that run `tune_cd.run`: a study each, resumed where it had begun."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run(out: str, study: str, dataset: str, options: Sequence[str], data_root: str | None) -> None:
    """One training at a time on one core, the small set-up. data_root: not needed for glyphs."""
    begun = (Path(out) / "studies" / study / "study.json").exists()
    source = ["--data-root", data_root] if data_root and dataset != "glyphs" else []
    command = [
        sys.executable, "-m", "tune_cd.run", "--dataset", dataset, "--setup", "small", *options, *source,
        "--workers", "1", "--cpus-per-trial", "1", "--address", "local", "--results", out, "--study", study,
        *(["--resume"] if begun else []),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def said(score: float) -> str:
    """A score as the tables print it."""
    return f"{score:.3f}".replace("0.", ".", 1)
