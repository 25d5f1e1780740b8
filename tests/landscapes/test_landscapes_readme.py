"""The README of the landscapes: its example runs, and its table is that of the files."""

import re

import numpy as np
import pytest
from grids_of import TICKS, hill, made_tables

from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import measured
from tune_cd.landscapes.__main__ import listed
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED
from tune_cd.landscapes.measured import load
from tune_cd.results.writing import write_many

README = (SHIPPED / "README.md").read_text(encoding="utf-8")


def test_it_names_every_landscape():
    assert all(f"`{name}`" in README for name in (*LANDSCAPES, *measured.IN_VIEW))


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
