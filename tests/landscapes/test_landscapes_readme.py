"""The README of the landscapes: its commands and its example are understood, and its table is that of the files."""

import re
import shlex

import pytest

from tune_cd import results
from tune_cd.landscapes.find import MEASURED, find, trainings
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED
from tune_cd.replay.__main__ import parser

README = (SHIPPED / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)[3:]
    for block in re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python -m tune_cd.replay ")
]


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_commands_are_understood_and_their_landscapes_exist(argv):
    options = parser().parse_args(argv)
    for name in options.landscapes or []:
        assert name in (*LANDSCAPES, *MEASURED) or name.startswith("results/")


def test_it_names_every_table_and_every_landscape():
    assert {argv[1] for argv in COMMANDS if argv[0] == "--table"} == {"hp_res", "ablation", "fits"}
    assert all(f"`{name}`" in README for name in (*LANDSCAPES, *MEASURED))


def test_the_best_of_each_measured_landscape_is_that_of_its_file():
    rows = re.findall(r"^\| `(\S+)` \| \S+ \| (\S+), (\S+) \| (\S+) \| (\S+) \|$", README, re.MULTILINE)
    assert [row[0] for row in sorted(rows)] == sorted(MEASURED)
    for name, positive, entropy, validation, test in rows:
        landscape = find(name)
        best = landscape.optimum
        assert (f"{best['Lambda_p']:.3g}", f"{best['Lambda_e']:.3g}") == (positive, entropy)
        assert (f"{landscape.high:.3f}", f"{landscape.score(best):.3f}") == (validation, test)


def test_its_pictures_exist():
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert pictures and all((SHIPPED / picture).resolve().is_file() for picture in pictures)


def test_its_example_runs_on_a_stored_grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = trainings("omniglot-242-margin").assign(study="my-grid")
    results.write_trials("results", grid.astype(object).where(grid.notna(), None).to_dict("records"))
    (example,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    exec(example, found := {})
    h = {"Lambda_p": 0.01, "Lambda_e": 2.0}
    assert found["landscape"].score(h) == pytest.approx(find("omniglot-242-margin").score(h))
