"""The README of the landscapes: its commands and its example are understood, and its table is that of the files."""

import re
import shlex

import numpy as np
import pytest
from readmes import ROOT

from tune_cd import results
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import measured
from tune_cd.landscapes.__main__ import claims, listed
from tune_cd.landscapes.claims import directions
from tune_cd.landscapes.find import MEASURED, find, trainings
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED
from tune_cd.landscapes.measured import load
from tune_cd.replay.__main__ import parser

README = (SHIPPED / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "tests/benchmarks/RESULTS.md").read_text(encoding="utf-8")
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


def block(name: str) -> str:
    """What stands between two marks, in the README or the results."""
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", README + RESULTS, re.DOTALL)
    return found


def test_its_list_is_that_of_the_files():
    assert block("list") == markdown(listed([load(name) for name in measured.MEASURED]))


def test_it_says_the_role_of_every_landscape():
    in_view, judges = re.findall(r"\*In view\*:\s(.*?)\.\s.*\*Judges\*:\s(.*?)\.\s", README, re.DOTALL)[0]
    assert tuple(re.findall(r"`(\S+?)`", in_view)) == measured.IN_VIEW
    assert tuple(re.findall(r"`(\S+?)`", judges)) == measured.JUDGES


def test_what_it_says_of_the_claims_is_computed_from_the_files():
    """The angles' intervals are of random draws, which differ with the linear algebra library."""
    printed, computed = (
        [section for section in text.split("\n\n**") if not section.startswith("Directions")]
        for text in (block("claims"), "\n\n".join(claims([load(name) for name in measured.MEASURED])))
    )
    assert printed == computed
    sections = {name: [line.split("|") for line in _section(name)] for name in ("Directions", "Both terms low")}
    table = directions([load(name) for name in measured.MEASURED])
    rows = {(cells[1].strip(), int(cells[2])): cells for cells in sections["Directions"][2:]}
    assert len(rows) == len(table) == len(sections["Both terms low"]) - 2
    for row in table.itertuples():
        cells = rows[row.landscape, row.b]
        angle = float(cells[4].replace("-  ", "nan"))
        assert angle == pytest.approx(row.angle, abs=1, nan_ok=True) and cells[-2].strip() == row.verdict


def _section(name: str) -> list[str]:
    """The lines of a claim's table."""
    (section,) = [text for text in block("claims").removeprefix("**").split("\n\n**") if text.startswith(f"{name}.**")]
    return section.split("\n\n")[1].splitlines()


def test_its_example_runs_on_a_stored_grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = trainings("omniglot-242-margin").assign(study="my-grid")
    results.write_trials("results", grid.astype(object).where(grid.notna(), None).to_dict("records"))
    loaded, example = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    exec(loaded, found := {})
    assert found["curves"]["validation"].max() == pytest.approx(np.nanmax(found["measured"].validation))
    exec(example, found)
    h = {"Lambda_p": 0.01, "Lambda_e": 2.0}
    assert found["landscape"].score(h) == pytest.approx(find("omniglot-242-margin").score(h))
