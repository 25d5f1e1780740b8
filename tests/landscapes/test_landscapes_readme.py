"""The README of the landscapes: its commands and its example are understood, and its table is that of the files."""

import re
import shlex

import numpy as np
import pytest
from grids_of import TICKS, hill, made_tables

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import measured
from tune_cd.landscapes.__main__ import listed
from tune_cd.landscapes.find import MEASURED
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED
from tune_cd.landscapes.measured import load
from tune_cd.landscapes.replay import parser
from tune_cd.results.writing import write_many

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
    assert {argv[1] for argv in COMMANDS if argv[0] == "--table"} == {"hp_res", "ablation"}
    assert all(f"`{name}`" in README for name in (*LANDSCAPES, *MEASURED))


def block(name: str) -> str:
    """What stands between two marks."""
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", README, re.DOTALL)
    return found


def test_its_list_is_that_of_the_files():
    assert block("list") == markdown(listed([load(name) for name in measured.MEASURED]))


def test_its_example_runs_on_a_stored_grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peak = hill((-6.0, 1.0))
    grid = made_tables(peak)[0].assign(study="my-grid")
    write_many("results", grid.astype(object).where(grid.notna(), None).to_dict("records"))
    loaded, example = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    exec(loaded, found := {})
    assert found["curves"]["validation"].max() == pytest.approx(np.nanmax(found["measured"].validation))
    assert found["plane"].score(found["plane"].optimum) > found["plane"].score(found["h"]) > 0.5
    exec(example, found)
    h = {"Lambda_p": TICKS[6], "Lambda_e": TICKS[9]}
    assert found["landscape"].score(h) == pytest.approx(peak(np.log2([*h.values()])), abs=1e-5)
