"""The wheel that people install: it has all files, and runs the main job's first steps where there is no checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "tune_cd", "trainables")
ENDINGS = (".py", ".typed", ".parquet", ".csv", ".html", ".css", ".js")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, which the build may write to, with the setuptools that is installed: no network."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        make = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        make(ROOT / name, copy / name)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(copy / "out")]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert built.returncode == 0, built.stdout + built.stderr
    [file] = (copy / "out").glob("tune_cd-*-py3-none-any.whl")
    return file


def test_it_has_every_module_table_and_page(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    packages = [file for name in ("tune_cd", "trainables") for file in (ROOT / name).rglob("*")]
    expected = {str(file.relative_to(ROOT)) for file in packages if file.suffix in ENDINGS}
    assert packed == expected
    assert len([name for name in packed if name.endswith(".parquet")]) >= 3
    assert {"tune_cd/report/page.html", "tune_cd/report/page.css", "tune_cd/report/page.js"} <= packed
    assert "License-Expression: MIT" in metadata and "Requires-Dist: ray[tune]" in metadata


DRY_RUN = """
import runpy, sys, tune_cd, trainables
print(tune_cd.__file__, trainables.__file__)
sys.argv[1:] = "--address local --results r --study dry --dry-run".split()
runpy.run_module("tune_cd.run", run_name="__main__")
"""


@pytest.mark.ray
def test_the_main_job_begins_in_a_fresh_folder_with_the_wheels_files_alone(wheel, tmp_path):
    """The default job's dry run: a Ray of its own, the set-up, and the data on its node."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "fresh").mkdir()
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    environ.pop("RAY_AUTH_MODE", None)  # with tokens, as Ray has it
    ended = subprocess.run(
        [sys.executable, "-c", DRY_RUN],
        cwd=tmp_path / "fresh", env=environ, capture_output=True, text=True, timeout=1500,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    places, *said = ended.stdout.splitlines()
    assert [Path(place).parents[1] for place in places.split()] == [tmp_path / "site"] * 2
    searches = "cd (5 full trainings) + separate (up to 10 full trainings) + global (up to 10 full trainings)"
    assert searches in " ".join(" ".join(said).split())
    assert not (tmp_path / "fresh/r/studies/dry").exists()
