"""The examples run as they stand, each in an empty folder, and reach what they are for."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from drivers import run  # noqa: F401

from tune_cd import results

FOLDER = Path(__file__).parent
SHORT = ("--num-samples", "2", "--no-baseline")
EXAMPLES = {  # name: how its output ends, and the least of the last number there
    "tuner": (r"\{'lr': .*\} (0\.\d+)", 0.6),
    "optuna_sampler": (r"\{'lr': 0\.0.*, 'net': 'b'\} (\d\.\d+e-\d\d)", 0.0),
    "plain_loop": (r"loss 18\.45, today (\d+\.\d+)", 28.0),
    "lightning_pauses": (r"\{'lr': .*, 'ratio_uniform': .*\}, (0\.\d+)\)", 0.7),
    "hugging_face": (r"\{'learning_rate': .*, 'weight': .*\}, (0\.\d+)\)", 0.65),
    "own_loss": (r"^best balance found +.* (0\.\d+) +0\.\d+$", 0.2),
}
FOREIGN = {"lightning_pauses": ["lightning"], "hugging_face": ["transformers", "torch.accelerator"]}  # torch 2.6


def test_all_are_short():
    lengths = {file.stem: len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")}
    assert set(lengths) == {*EXAMPLES, Path(__file__).stem} and max(lengths[name] for name in EXAMPLES) < 60


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(cluster, run, tmp_path, name):
    """The command of the loss with short trainings, in a process that scores few images."""
    file = FOLDER / f"{name}.py"
    for module in FOREIGN.get(name, ()):
        pytest.importorskip(module)
    if name == "own_loss":
        [command] = re.findall(r"^    python -m tune_cd\.run (.+)$", file.read_text(), re.MULTILINE)
        said = run(tmp_path, *shlex.split(command), *SHORT)
    else:
        environ = os.environ | {"RAY_ADDRESS": cluster.address, "HOME": str(tmp_path)}
        ended = subprocess.run(
            [sys.executable, file], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=600
        )
        said = ended.stdout
        assert ended.returncode == 0, said + ended.stderr
    expected, least = EXAMPLES[name]
    found = re.search(expected, said, re.MULTILINE)
    assert found and float(found[1]) >= least, said
    if name == "tuner":
        rows = results.read(tmp_path / "results", "own").sort_values("trial_index")
        assert len(rows) == 20 and rows["val_score"].max() > rows["val_score"].iloc[0] + 0.03
