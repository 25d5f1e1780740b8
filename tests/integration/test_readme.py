"""What the README tells people to type exists, and its first command does what it says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from reported import check_figures, reported

from tune_cd import results

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.strip()]


def arguments(module: str) -> list[list[str]]:
    """The arguments of every README command that runs `python -m module`, or hands that in quotes to another."""
    lines = [line for line in COMMANDS if f"-m {module}" in line]
    quoted = [
        next((word for word in shlex.split(line, comments=True) if f"-m {module}" in word), line) for line in lines
    ]
    found = [re.search(rf"-m {re.escape(module)}(?: (.*))?$", line) for line in quoted]
    return [shlex.split(match[1] or "", comments=True) for match in found if match]


def test_two_commands_do_everything():
    install, test = (line for line in COMMANDS if ".venv/bin/pip install" in line)
    assert install.startswith("python3 -m venv .venv && .venv/bin/pip install") and install.endswith("-m tune_cd.run")
    assert test.endswith("-m pytest -n auto --maxprocesses 4 --dist loadfile")


@pytest.mark.parametrize("argv", arguments("tune_cd.run"))
def test_run_commands_are_understood(argv):
    from tune_cd.run.options import parse

    parse(argv)


@pytest.mark.parametrize("argv", arguments("trainables.train"))
def test_train_commands_are_understood(argv):
    from trainables.train import _parser

    _parser().parse_args(argv)


@pytest.mark.parametrize("argv", arguments("tune_cd.report"))
def test_report_commands_are_understood(argv):
    from tune_cd.report.__main__ import parser

    parser().parse_args(argv)


def test_every_picture_is_there():
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert len(pictures) >= 3 and all((Path(__file__).parents[2] / picture).is_file() for picture in pictures)


def test_what_makes_the_papers_figures_exists():
    """The names in the table of figures and in the example."""
    from tune_cd import analysis, plots
    from tune_cd.analysis import tables

    named = set(re.findall(r"\b(analysis|plots|tables)\.(\w+)\(?", README))
    modules = {"analysis": analysis, "plots": plots, "tables": tables}
    assert len(named) > 20 and [name for module, name in named if not hasattr(modules[module], name)] == []


def test_every_python_example_compiles():
    for block in re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        compile(block, "README.md", "exec")


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    "shorter", [["--set", "images_seen=6400"], pytest.param([], marks=pytest.mark.faults)], ids=["a quarter", "whole"]
)
def test_the_first_command_finds_a_better_balance_than_the_separate_average(tmp_path, shorter):
    """The main job with its defaults, 20 + 5 + 5 trials; in its short form of fewer images each. What the README shows
    of the report's figures works on it as it stands there."""
    command = [
        sys.executable,
        "-m",
        "tune_cd.run",
        "--address",
        "local",
        "--results",
        "results",
        "--study",
        "mine",
        *shorter,
    ]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    table = results.read(tmp_path / "results")
    counts = table.groupby("search").size().to_dict()
    assert counts.pop("cd") == 20 and set(counts) == {"separate", "global"}
    assert all(7 <= count <= 12 for count in counts.values()), "each line is searched until it is exhausted"
    said = {
        label: float(score) for label, score in re.findall(r"^(best .*?)  .*?([\d.]+)$", finished.stdout, re.MULTILINE)
    }
    assert said["best balance found"] > said["best with separate average"] + 0.03
    [figures] = [line for line in COMMANDS if "tune_cd.report" in line and "--figures" in line]
    said = reported(figures, tmp_path)
    assert f"{len(table)} trials of 1 study: report.html" in said and (tmp_path / "report.html").is_file()
    check_figures(tmp_path / "out", ["mine"], said)
