"""Which room may import which, one line a room; that Ray and torch stay where they belong; that tests stand alone."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ARROWS = {  # room: the rooms it may import, of its own package where none is named; a function's imports count
    "tune_cd": "",
    "tune_cd.__main__": "",
    "tune_cd.process": "",
    "tune_cd.search": "",
    "tune_cd.balance": "process search trainables.losses",
    "tune_cd.optuna": "search",
    "tune_cd.results": "process search",
    "tune_cd.analysis": "balance search results",
    "tune_cd.landscapes": "process balance search results analysis",
    "tune_cd.plots": "balance search analysis",
    "tune_cd.replay": "process",
    "tune_cd.report": "process balance search results analysis plots",
    "tune_cd.tune": "search results",
    "tune_cd.cluster": "process results trainables.datasets trainables.training.preemption_notice",
    "tune_cd.run": "process balance search results tune cluster analysis plots report "
    "trainables.datasets trainables.losses trainables.training trainables.training.setup trainables.training.setups "
    "trainables.trial",
    "tune_cd.submit": "process search results analysis run",
    "trainables": "",
    "trainables.own": "",
    "trainables.console": "",
    "trainables.training.setup": "losses",
    "trainables.training.setups": "losses training.setup",
    "trainables.training.preemption_notice": "",
    "trainables.losses": "own",
    "trainables.datasets": "",
    "trainables.models": "datasets own",
    "trainables.data": "datasets training.setup",
    "trainables.metrics": "datasets data",
    "trainables.training": "console losses datasets models data metrics own training.setup training.setups "
    "training.preemption_notice",
    "trainables.trained": "data datasets models training training.setup",
    "trainables.embed": "console datasets trained training",
    "trainables.train": "console datasets data losses trained training training.setup training.setups",
    "trainables.trial": "data trained training training.setup training.preemption_notice",
    "trainables.probe": "metrics",
    "trainables.retrieval": "metrics",
}

OUTSIDE = {  # library: the rooms that may import it, with all that is in them
    "ray": "tune_cd.tune tune_cd.run tune_cd.cluster tune_cd.submit trainables.trial",
    "torch": "trainables tune_cd.run",  # there its writer for TensorBoard alone
    "torchvision": "trainables.models",
    "pandas": "tune_cd.results tune_cd.landscapes tune_cd.analysis tune_cd.plots tune_cd.report "
    "tune_cd.tune tune_cd.run",
    "pyarrow": "tune_cd.results tune_cd.landscapes trainables.datasets trainables.embed",
    "matplotlib": "tune_cd.plots tune_cd.report trainables.datasets",
}


def rooms_of(line: str, package: str) -> set[str]:
    """The rooms that a line of a table names."""
    whole = ("tune_cd", "trainables")
    return {name if name.partition(".")[0] in whole else f"{package}.{name}" for name in line.split()}


ALLOWED = {room: rooms_of(line, room.partition(".")[0]) for room, line in ARROWS.items()}
USERS = {library: rooms_of(line, "") for library, line in OUTSIDE.items()}
WITHOUT_RAY_AND_TORCH = [
    room for room in ARROWS if room.startswith("tune_cd.") and room not in ("tune_cd.tune", "tune_cd.run")
]
BLOCKED = """
import sys
blocked = {blocked!r}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{{name}} is not installed")
sys.meta_path.insert(0, Absent())
"""
HELP = """
import runpy
def help_of(module):
    sys.argv = [module, "--help"]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print(f"help of {module} ends with {end.code}", flush=True)
"""


def name_of(file: Path, root: Path = ROOT) -> str:
    """The module that a file is."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room that a module lies in: the longest name of the table that begins its own."""
    fitting = (room for room in ARROWS if f"{module}.".startswith(f"{room}."))
    return max(fitting, key=len)


def files() -> list[Path]:
    return sorted(file for package in ("tune_cd", "trainables") for file in (ROOT / package).rglob("*.py"))


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """(line, module or name in a module) of every import of a file, wherever it stands."""
    package = name_of(file).split(".") if file.name == "__init__.py" else name_of(file).split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def complaints(file: Path) -> list[str]:
    """The imports of a file that the tables do not allow, as one reads them in an editor."""
    room, wrong = room_of(name_of(file)), []
    for line, name in imported(file):
        top = name.partition(".")[0]
        if top in ("tune_cd", "trainables"):
            other = room_of(name)
            allowed = other in {room, *ALLOWED[room]}
        else:
            allowed = top not in USERS or any(f"{room}.".startswith(f"{one}.") for one in USERS[top])
        if not allowed:
            wrong.append(f"{file.relative_to(ROOT)}:{line}: {room} may not import {name}")
    return wrong


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=1500)


def modules(rooms: list[str], *left_out: str) -> list[str]:
    """All modules of the rooms, but commands."""
    names = [name_of(file) for file in files() if file.stem != "__main__"]
    return [name for name in names if room_of(name) in rooms and name not in left_out]


def imports(names: list[str], blocked: list[str]) -> str:
    """Code that imports modules where importing a blocked one is an error."""
    return BLOCKED.format(blocked=blocked) + "".join(f"import {name}\n" for name in names)


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_what_its_line_allows(room):
    assert [wrong for file in files() if room_of(name_of(file)) == room for wrong in complaints(file)] == []


def test_the_table_has_every_room_and_nothing_else():
    names = [name_of(file) for file in files()]
    rooms = {".".join(name.split(".")[:2]) for name in names}
    assert rooms - set(ARROWS) == set() and set(ARROWS) - set(names) == set()
    assert {room for allowed in [*ALLOWED.values(), *USERS.values()] for room in allowed} - set(ARROWS) == set()


def test_no_arrow_points_back():
    """Rooms that import nothing are taken away, again and again, until none is left."""
    left = dict(ALLOWED)
    while lowest := {room for room, allowed in left.items() if not allowed}:
        left = {room: allowed - lowest for room, allowed in left.items() if room not in lowest}
    assert left == {}, "these import one another in a circle"


def test_an_import_that_is_not_allowed_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(name_of, "__defaults__", (tmp_path,))
    file = tmp_path / "tune_cd/search/space.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import numpy\nfrom .protocol import Step\ndef f():\n    from tune_cd import results\n    import ray.tune\n"
    )
    assert complaints(file) == [
        "tune_cd/search/space.py:4: tune_cd.search may not import tune_cd.results",
        "tune_cd/search/space.py:5: tune_cd.search may not import ray.tune",
    ]


def test_the_core_needs_neither_ray_nor_torch():
    """In a fresh interpreter that has neither: all rooms but `tune` and `run`, and every command's help."""
    names = [*modules(WITHOUT_RAY_AND_TORCH), "tune_cd.run.options"]
    commands = [name_of(file).removesuffix(".__main__") for file in files() if file.stem == "__main__"]
    code = imports(names, ["ray", "torch", "torchvision"]) + HELP
    finished = run(code + "".join(f"help_of({command!r})\n" for command in commands))
    assert finished.returncode == 0, finished.stderr
    assert len(names) > 80 and len(commands) >= 6
    assert [command for command in commands if f"help of {command} ends with 0" not in finished.stdout] == []


@pytest.fixture(scope="module")
def without_tune_cd():
    """What one interpreter without tune_cd, and for its first two thirds without ray, has printed."""
    rooms = [room for room in ARROWS if room.startswith("trainables") and room != "trainables.trial"]
    code = imports(modules(rooms), ["ray", "tune_cd"]) + HELP
    code += "print('trainables are imported', flush=True)\nhelp_of('trainables.train')\n"
    code += "assert not {'ray', 'tune_cd'} & set(sys.modules)\nblocked.remove('ray')\n"
    return run(code + "import trainables.trial\nprint('trainables.trial is imported')\n")


@pytest.mark.slow
def test_trainables_need_no_ray_and_know_nothing_of_tune_cd(without_tune_cd):
    assert "trainables are imported" in without_tune_cd.stdout, without_tune_cd.stderr


@pytest.mark.slow
def test_training_works_where_ray_is_not_installed(without_tune_cd):
    said = without_tune_cd.stdout
    assert "--Lambda_p" in said and "help of trainables.train ends with 0" in said, without_tune_cd.stderr


@pytest.mark.slow
def test_trainables_trial_knows_nothing_of_tune_cd(without_tune_cd):
    assert without_tune_cd.returncode == 0, without_tune_cd.stderr
    assert "trainables.trial is imported" in without_tune_cd.stdout


@pytest.mark.slow
def test_the_searcher_needs_no_torch():
    finished = run(imports(modules(["tune_cd.tune"]), ["torch", "trainables"]))
    assert finished.returncode == 0, finished.stderr


def test_what_is_light_stays_light():
    """`import tune_cd` loads no library, and the golden section only Python's own."""
    code = "import sys, tune_cd\nheavy = {'ray', 'torch', 'pandas', 'numpy'}\nassert not heavy & set(sys.modules)\n"
    finished = run(code + "import tune_cd.search.bracket\nassert not heavy & set(sys.modules), heavy\n")
    assert finished.returncode == 0, finished.stderr


def test_test_modules_do_not_import_one_another():
    """What several need lies in tests/helpers; a name in two folders would be one module to Python."""
    sources = [file for file in (ROOT / "tests").rglob("*.py") if "__pycache__" not in file.parts]
    tests = {file.stem for file in sources if file.stem.startswith("test_")} | {"conftest"}
    found = [
        f"{file.relative_to(ROOT)}:{line}: imports {name}"
        for file in sources
        for line, name in imported(file)
        if any(part in tests for part in name.split("."))
    ]
    assert found == []
    names = [file.stem for file in sources if file.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []
