"""The light form, `pip install --no-deps tune_cd`: the search needs numpy and scipy, the sampler Optuna; whatever else
is missing is named with the command that brings it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "tests/examples"
INSTALLED = Path(np.__file__).parents[1]
HEAVY = ("ray", "torch", "torchvision", "pandas", "pyarrow", "matplotlib")


def all_but(*libraries: str) -> list[str]:
    """What is installed, without these."""
    return [name for name in os.listdir(INSTALLED) if name.split("-")[0] not in libraries]


def python(site: Path, names: list[str], *words: str | Path) -> subprocess.CompletedProcess:
    """Run Python where only these entries of site-packages are installed."""
    site.mkdir()
    for name in names:
        (site / name).symlink_to(INSTALLED / name)
    environ = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    command = [sys.executable, "-S", *map(str, words)]
    return subprocess.run(command, cwd=site, env=environ, capture_output=True, text=True, timeout=1500)


def light(site: Path, *words: str | Path) -> subprocess.CompletedProcess:
    """Run Python beside numpy and scipy alone."""
    names = [f"{library}{libraries}" for library in ("numpy", "scipy") for libraries in ("", ".libs")]
    return python(site, [name for name in names if (INSTALLED / name).exists()], *words)


def test_the_search_needs_numpy_and_scipy_alone(tmp_path):
    ended = light(tmp_path / "site", EXAMPLES / "plain_loop.py")
    assert ended.returncode == 0 and "loss 18." in ended.stdout, ended.stderr


def test_the_sampler_needs_optuna_besides(tmp_path):
    pytest.importorskip("optuna")
    code = f"import runpy, sys\nrunpy.run_path({str(EXAMPLES / 'optuna_sampler.py')!r})\nprint([*sys.modules])"
    ended = python(tmp_path / "site", all_but(*HEAVY), "-c", code)
    assert ended.returncode == 0 and "'lr': 0.0" in ended.stdout, ended.stderr
    assert not [name for name in HEAVY if f"'{name}'" in ended.stdout]


SENTENCES = {
    "from tune_cd import results": "tune_cd.results needs pandas, pyarrow: pip install pandas pyarrow",
    "import tune_cd.analysis": "tune_cd.analysis needs pandas, pyarrow: pip install pandas pyarrow",
    "from tune_cd.plots import save":
        "tune_cd.plots needs pandas, pyarrow, matplotlib: pip install pandas pyarrow matplotlib",
    "from tune_cd import CoordinateDescentSearch":
        "tune_cd.tune needs pandas, pyarrow, ray: pip install pandas pyarrow 'ray[tune]'",
    "from tune_cd.optuna import CoordinateDescentSampler": "tune_cd.optuna needs optuna: pip install optuna",
    "import tune_cd.cluster": "tune_cd.cluster needs yaml: pip install pyyaml",
    "from tune_cd.balance import of": "imported", "import tune_cd.search.methods": "imported",
}  # fmt: skip
TRY = """
for statement in {statements}:
    try:
        exec(statement)
        print("imported")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_what_is_missing_is_named_with_the_command_that_brings_it(tmp_path):
    ended = light(tmp_path / "site", "-c", TRY.format(statements=[*SENTENCES]))
    assert dict(zip(SENTENCES, ended.stdout.splitlines(), strict=True)) == SENTENCES, ended.stderr


@pytest.mark.parametrize("command", ["run", "report", "results", "submit", "landscapes", "replay"])
def test_a_command_names_it_in_one_line(tmp_path, command):
    ended = light(tmp_path / "site", "-m", "tune_cd", command)
    said = f"error: tune_cd.{command} needs pandas, pyarrow: pip install pandas pyarrow\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_so_does_a_command_that_misses_a_library_later(tmp_path):
    ended = python(tmp_path / "site", all_but("ray", "torch", "torchvision"), "-m", "tune_cd.run", "--dry-run")
    assert (ended.returncode, ended.stderr) == (1, "error: No module named 'torch': pip install torch\n")
