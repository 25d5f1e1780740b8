"""The READMEs: commands and examples are run, or read by their own parsers, and what they point at exists."""

import argparse
import ast
import functools
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from readmes import READMES, ROOMS, ROOT, anchors, blocks, commands, links, name_of, prose, text_of

import tune_cd
from tune_cd import results
from tune_cd.analysis.runs import runs_of

COMPILED_ONLY = {"tune_cd/landscapes/README.md": "it reads a grid of one's own, hours of trainings"}
"""README -> why its Python is compiled and its imports are looked up, but not run: a cloud, a GPU or hours."""

FOREIGN = {"apt-get", "aws", "cd", "export", "gcloud", "gsutil", "helm", "kubectl", "ray", "ruff", "tensorboard"}
"""Programs of others: only the files that they are given are looked for."""

TOOLS = {"venv", "pip", "build", "pytest", "ruff", "mypy", "pyright"}
"""Modules of others."""

ALIASES = {
    "analysis": "tune_cd.analysis", "plots": "tune_cd.plots", "tables": "tune_cd.analysis.tables",
    "results": "tune_cd.results", "balance": "tune_cd.balance", "tune_cd": "tune_cd", "trainables": "trainables",
    **{name: f"tune_cd.{name}" for name in tune_cd.__all__},
}  # fmt: skip
"""How names in the text begin -> the same in full."""

A_USERS_OWN = {"mine.py"}


class Parsed(BaseException):
    """A command line was understood: what the parser returned."""


ALL = [command for readme in READMES for command in commands(readme)]
each_readme = pytest.mark.parametrize("readme", READMES, ids=name_of)


def test_two_commands_do_everything():
    text = text_of(ROOT / "README.md")
    install, test = (line for line in text.splitlines() if ".venv/bin/pip install" in line)
    assert install.startswith("python3 -m venv .venv && .venv/bin/pip install") and install.endswith("-m tune_cd.run")
    assert test.endswith("-m pytest -n auto --maxprocesses 4 --dist loadfile")
    assert re.findall(r"^<!-- tests -->\n```bash\n(.*\n)```$", text, re.MULTILINE) == [test + "\n"], "see .ci/run"


def test_they_are_short_and_linked():
    sizes = {name_of(readme): readme.stat().st_size for readme in READMES if readme.name == "README.md"}
    assert sum(sizes.values()) <= 70_000 and sizes["tests/README.md"] <= 4_000, sizes
    linked = {file for readme in READMES for file, _ in links(readme)}
    assert [name_of(readme) for readme in READMES[1:] if readme not in linked] == []


def test_the_verdict_is_a_table_whose_gains_are_differences():
    [verdict] = re.findall(r"^<!-- verdict -->$(.*?)^<!-- /verdict -->$", text_of(ROOT / "README.md"), re.M | re.S)
    tables = [table for block in verdict.split("\n\n") if (table := _table(block))]
    for lines in tables:
        head, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines)
        assert head[:5] == ["dataset", "loss", "b", "tuned", "separate"] and len(rows) == 4
        for cells in (dict(zip(head, row, strict=True)) for row in rows):
            for average in [name for name in ("separate", "global") if name in head]:
                gain = _number(cells["tuned"]) - _number(cells[average])
                assert _number(cells[f"gain over {average}"]) == pytest.approx(gain, abs=0.0016), cells
    assert len(tables) == 1


def test_the_schema_is_listed_field_by_field():
    rows = [row.split("|")[1] for row in _table(text_of(ROOT / "tune_cd/results/README.md"))[2:]]
    assert sorted(field for row in rows for field in re.findall(r"`(\w+)`", row)) == sorted(results.TRIALS.names)


def _table(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def _number(cell: str) -> float:
    return float(re.match(r"\**([+-]?\d+\.\d+)", cell)[1])


def test_the_first_readmes_python_is_that_of_the_examples_which_are_run():
    examples = [text_of(file) for file in (ROOT / "tests/examples").glob("*.py")]
    python = blocks(ROOT / "README.md", "python")
    assert python and all(any(block in example for example in examples) for block in python)


@each_readme
def test_every_link_leads_somewhere(readme):
    wrong = [
        f"{file.relative_to(ROOT)}#{anchor}" for file, anchor in links(readme)
        if not file.exists() or (anchor and anchor not in anchors(file))
    ]  # fmt: skip
    assert wrong == []


@each_readme
def test_every_name_and_file_in_the_text_exists(readme):
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(readme))
    names = {match[0] for span in spans for match in _matches(rf"(?:{'|'.join(ALIASES)})(?:\.[A-Za-z_]\w*)+", span)}
    files = {match[0] for span in spans for match in _matches(rf"(?:{'|'.join(ROOMS)}|\.readme)/[\w./*-]*", span)}
    bare = {span for span in spans if re.fullmatch(r"[\w-]+\.(py|js|yaml|toml)", span)} - A_USERS_OWN
    assert [name for name in sorted(names) if not exists(name)] == []
    if readme.name == "RESULTS.md":  # its commands are those of the commits beside them
        files, bare = {file for file in files if not file.startswith("tests/benchmarks/")}, set()
    assert [file for file in sorted(files) if not list(ROOT.glob(file.rstrip("/.")))] == []
    assert [file for file in sorted(bare) if not any(found.endswith(f"/{file}") for found in _all_files())] == []


def _matches(pattern: str, text: str) -> list[re.Match]:
    return list(re.finditer(rf"(?<![\w./-]){pattern}", text))


@functools.cache
def _all_files() -> list[str]:
    below = [path.as_posix() for room in ROOMS for path in (ROOT / room).rglob("*")]
    return below + [path.as_posix() for path in ROOT.iterdir()]


def exists(dotted: str) -> bool:
    """Whether a name such as results.read can be imported."""
    first, *rest = dotted.split(".")
    parts = [*ALIASES[first].split("."), *rest]
    found = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:at]))
            except ModuleNotFoundError:
                return False
        found = getattr(found, part)
    return True


@each_readme
def test_every_python_example_compiles_and_imports_what_exists(readme):
    for block in blocks(readme, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("tune_cd", "trainables"):
                missing = [alias.name for alias in node.names if not exists(f"{node.module}.{alias.name}")]
                assert missing == [], f"{node.module} has no {missing}"


@pytest.mark.parametrize("command", ALL, ids=str)
def test_every_command_is_understood(command, monkeypatch, capsys):
    """By its own parser; of another's program the files are looked for."""
    for word in command.words:
        if word.split("/")[0] in ROOMS and "/" in word:
            assert (ROOT / word).exists(), word
    if command.ours or command.script:
        try:
            understand(command.module or str(ROOT / command.script), command.arguments, monkeypatch)
        except SystemExit:
            pytest.fail(capsys.readouterr().err)
    elif command.module == "pytest":
        _check_pytest(command.words[3:])
    else:
        program = command.words[0]
        known = command.module in TOOLS or Path(program).name in FOREIGN | TOOLS or (ROOT / program).is_file()
        assert known, f"{program}: add it to FOREIGN if it is another's"


def understand(program: str, argv: list[str], monkeypatch) -> None:
    """Run a module or a script until its parser has read the arguments. SystemExit where it refuses them."""
    if program == "tune_cd.balance":  # it has no parser, and is run below
        return
    source = Path(program).read_text(encoding="utf-8") if program.endswith(".py") else ""
    if source and "ArgumentParser" not in source and "from harness import" not in source:
        assert argv == [], f"{program} takes no arguments"
        return
    with monkeypatch.context() as patch:
        depth: list[str] = []  # of parsers that ask others
        for name in ("parse_args", "parse_known_args"):
            patch.setattr(argparse.ArgumentParser, name, _watched(getattr(argparse.ArgumentParser, name), depth))
        patch.setattr(sys, "argv", [program, *argv])
        patch.syspath_prepend(str(Path(program).parent))
        run = runpy.run_path if program.endswith(".py") else functools.partial(runpy.run_module, alter_sys=True)
        with pytest.raises(Parsed) as parsed:
            run(program, run_name="__main__")
    [found] = parsed.value.args
    if isinstance(found, tuple) and found[1]:
        assert program == "tune_cd.submit", f"{program} does not know {found[1]}"
        understand("tune_cd.run", found[1], monkeypatch)


def _watched(original, depth: list[str]):
    def parse(self, *arguments, **keywords):
        depth.append(self.prog)
        try:
            found = original(self, *arguments, **keywords)
        finally:
            depth.pop()
        if depth:
            return found
        raise Parsed(found)

    return parse


def _check_pytest(words: tuple[str, ...]) -> None:
    """Its marks are declared."""
    marks = [re.findall(r"\w+", words[at + 1]) for at, word in enumerate(words) if word == "-m"]
    declared = re.findall(r'^ +"(\w+): ', text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    assert {mark for named in marks for mark in named} <= {*declared, "not", "and", "or"}


@pytest.mark.parametrize(
    "program, argv",
    [
        ("tune_cd.report", ["results", "--figure-size", "3"]), ("tune_cd.results", ["lists", "results"]),
        ("tune_cd.submit", ["start", "--study", "mine", "--lr", "1"]), ("trainables.train", ["--Lambda_q", "1"]),
    ],
)  # fmt: skip
def test_a_command_that_is_wrong_is_not_understood(program, argv, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        understand(program, argv, monkeypatch)


# On a finished main job ------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """A finished study named mine below `folder`/results, beside the checkout's folders. said: what it printed."""

    folder: Path
    said: str


def main_job(folder: Path, *shorter: str) -> Job:
    """The first command of the README, the search and both averages."""
    where = ["--address", "local", "--results", "results", "--study", "mine"]
    return Job(folder, _ran(["-m", "tune_cd.run", *where, *shorter], folder))


def _ran(words: list[str], folder: Path, quiet: bool = False, address: str = "local") -> str:
    """What a Python program printed. It ends well, and where that is asked for complains of nothing."""
    environment = os.environ | {"RAY_ADDRESS": address, "MPLBACKEND": "Agg", "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0 and not (quiet and done.stderr), f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Job:
    """The main job with a sixteenth of the images, five whole trainings' worth of them for the search, and what it
    chose trained with two fresh seeds."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ROOMS:
        (folder / name).symlink_to(ROOT / name)
    trials = ["--num-samples", "5", "--baseline-trials", "3", "--confirm", "2", "--workers", "1"]
    return main_job(folder, *trials, "--set", "images_seen=1600", "evaluations=2")


def check_main_job(job: Job, worth: float, gain: float) -> None:
    """worth: whole trainings that the search may spend. gain: over the separate average by validation, at least."""
    table = results.read(job.folder / "results")
    counts = table.groupby("search").size().to_dict()
    counts.pop("confirm", None)
    assert counts.pop("cd") > worth and set(counts) == {"separate", "global"}
    searched = runs_of(table[table["search"] == "cd"])
    assert worth - 1 < searched["share"].sum() < worth + 2 and searched["paused"].any()
    assert all(3 <= count <= 25 for count in counts.values()), "each line is searched until its best is bracketed"
    found = re.findall(r"^(best .*?)  .*?([\d.]+)$", job.said, re.MULTILINE)
    said = {label: float(score) for label, score in found}
    assert said["best balance found"] > said["best with separate average"] + gain


@pytest.mark.ray
@pytest.mark.slow
def test_the_first_command_finds_a_better_balance_than_the_separate_average(finished):
    check_main_job(finished, worth=5, gain=0.01)
    confirmed = results.read(finished.folder / "results").query("search == 'confirm'")
    assert len(confirmed) == 6 and set(confirmed["seed"]) == {1, 2} and (confirmed["status"] == "completed").all()
    said = " ".join(finished.said.split())
    gain = re.search(r"with fresh seeds, separate average: [^;]*; gain \+([\d.]+) \(95 % interval", said)
    assert float(gain[1]) > 0.01


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_so_does_the_whole_of_it(tmp_path):
    check_main_job(main_job(tmp_path), worth=5, gain=0.03)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in ALL if command.is_run], ids=str)
def test_commands_do_what_they_say_on_the_main_job(command, finished):
    said = _ran(list(command.words[1:]), finished.folder, quiet=True)
    assert said
    if "--figures" in command.words:
        folder = finished.folder / command.words[command.words.index("--figures") + 1]
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert f"{len(files)} files of figures and tables: " in said and min(file.stat().st_size for file in files) > 99
        assert {file.suffix for file in files} == {".svg", ".png", ".md", ".tex"}


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    "readme",
    [file for file in READMES[1:] if blocks(file, "python") and name_of(file) not in COMPILED_ONLY],
    ids=name_of,
)
def test_examples_run(readme, finished, cluster):
    """The Python of one README, block after block, in the folder of the main job's results, its searches with three
    trials, or one whole training's worth of short ones."""
    script, code = finished.folder / "example.py", "\n".join(blocks(readme, "python"))
    for name, number in (("num_samples", 3), ("budget", 1)):
        code = re.sub(rf"\b{name}=\d+", f"{name}={number}", code)
    script.write_text(code, encoding="utf-8")
    _ran([script.name], finished.folder, address=cluster.address)
