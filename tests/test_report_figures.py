"""`--figures`: every figure and table of the paper that a results table gives, as files."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from PIL import Image
from studies import full_grid, row, search_study, table

from tune_cd.report.figures import figures_of, tables_of, write_figures

pytestmark = pytest.mark.filterwarnings("error")


def names(files: list[Path], folder: Path) -> set[str]:
    return {str(file.relative_to(folder).with_suffix("")) for file in files}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(the files of a full grid and of two searches of five seeds, their folder)."""
    folder = tmp_path_factory.mktemp("figures")
    searches = [search_study([0.2, 0.3 + seed / 50, 0.5], search, seed, study="lines", dataset="sop-12") for search in ("cd", "random") for seed in range(5)]
    return write_figures(pd.concat([full_grid(6, (16, 64)), *searches], ignore_index=True), folder), folder


@pytest.mark.slow
def test_everything_that_the_tables_give_is_there(written):
    files, folder = written
    figures = {"curves-trials", "directions", "constraints", "pipeline", "s/landscape", "s/landscape-16", "s/landscape-64", "s/balance-gain"}
    assert names(files, folder) >= figures | {"methods", "best-values", "base-numbers"} and all(file.is_file() for file in files)
    assert {file.suffix for file in files} == {".svg", ".png", ".md", ".tex"}


def test_pictures_are_pictures_and_tables_are_tables(written):
    for file in written[0]:
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert min(image.size) > 300 and len(image.convert("RGB").getcolors(10**7)) > 10
        elif file.suffix == ".svg":
            assert ElementTree.parse(file).getroot().tag.endswith("svg")
        elif file.suffix == ".md":
            assert len({line.count(" | ") for line in file.read_text().splitlines()}) == 1 or "\n\n" in file.read_text()
        else:
            text = file.read_text()
            assert text.count(r"\begin{") == text.count(r"\end{") == 2 and re.search(r"\\label\{tab(le)?:\w+\}", text)


def test_a_study_without_scores_or_times_has_few_figures():
    assert list(figures_of(table([row(0, "failed"), row(1, "diverged")]))) != [] and list(tables_of(table([row(0, "failed")])))[0][0] == "methods"
    own = table([row(i, val=0.1 * i, search="cd", params={"lr": 10.0**-i}) for i in range(3)])
    assert [name for name, _ in figures_of(own)] == []
