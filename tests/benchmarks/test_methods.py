"""The benchmark of search methods: its parts can be run, and its landscapes in corners are what they say."""

from dataclasses import replace
from functools import cache

import harness
import numpy as np
import pytest
from corners import CORNERS
from methods import PARTS, benchmark

from tune_cd.analysis.tables import CELLS
from tune_cd.landscapes.simulation import start_of

found = cache(harness.found)  # the parts share landscapes: reading one takes a tenth of a second


@pytest.mark.parametrize("name", PARTS)
def test_every_part_of_the_benchmark_can_be_run(name):
    """Its landscapes, methods, columns and reference exist, and those compared in pairs are run alike."""
    part = PARTS[name]
    assert set(part.columns) <= set(CELLS) and part.reference in {entry.label for entry in part.entries}
    assert len({entry.label for entry in part.entries}) == len(part.entries)
    for landscape in map(found, part.landscapes):
        assert all(start_of(entry.start, landscape, 0) is None or entry.start != "blind" for entry in part.entries)


def test_a_part_prints_a_table_a_column_with_landscapes_down_and_methods_across(monkeypatch):
    monkeypatch.setitem(PARTS, "warm", replace(PARTS["warm"], landscapes=PARTS["warm"].landscapes[-2:]))
    printed = "\n\n".join(benchmark(["ablation-3d", "warm"], 2, processes=1))
    tables = [block.splitlines() for block in printed.split("\n\n") if block.startswith("|")]
    assert [table[0].split("|")[1].strip() for table in tables] == [
        "AUC@10",
        "AUC@20",
        "n-95",
        "AUC@10",
        "ΔAUC@10",
        "ΔAUC@20",
    ]
    assert [cell.strip() for cell in tables[3][0].split("|")[2:-1]] == ["cd", "cd, near:2", "cd, near:4", "cd, near:8"]
    assert len(tables[0]) == 2 + 1 and len(tables[3]) == 2 + 2
    assert tables[4][2].split("|")[2].strip() == "-", "nothing is subtracted from itself"


@pytest.mark.parametrize("name", CORNERS)
def test_in_a_corner_the_best_is_an_octave_from_its_ends(name):
    landscape, [base, ends] = found(name), name.split("-corner-")
    whole, x = found(base), landscape.space.to_coordinates(landscape.optimum)
    near = [
        high if end == "high" else low
        for end, low, high in zip(ends.split("-"), landscape.space.low, landscape.space.high)
    ]
    assert np.abs(x - near) == pytest.approx([1, 1]) and landscape.space.high - landscape.space.low == pytest.approx(
        [16, 16]
    )
    assert landscape.score(landscape.optimum) == whole.score(whole.optimum)
    assert landscape.low < landscape.high == pytest.approx(whole.high, rel=1e-3)


def test_a_corner_beyond_what_was_measured_and_of_a_batch_size_is_refused():
    with pytest.raises(ValueError, match="beyond them nothing is known"):
        found("omniglot-242-margin-corner-low-low")
    with pytest.raises(ValueError, match="batch needs 2 real, log-scaled axes"):
        found("batch-corner-low-low")
