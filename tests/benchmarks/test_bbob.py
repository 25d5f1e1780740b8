"""The benchmark on BBOB's functions: what it measures, by hand; on the real ones where their package is installed."""

import bbob
import numpy as np
import pandas as pd
import pytest


class Sphere:
    """The squared distance from (1, 1, ...)."""

    def __call__(self, x) -> float:
        return float(((np.asarray(x) - 1.0) ** 2).sum())

    def best_value(self) -> float:
        return 0.0


@pytest.fixture
def sphere(monkeypatch) -> bbob.Function:
    monkeypatch.setattr(bbob, "_problem", lambda function: Sphere())
    return bbob.Function(99, 2, 1)


def test_the_share_of_the_box_that_is_better_is_an_area(sphere):
    """Of a circle around the best point, which lies within the box."""
    landscape = sphere.landscape()
    radii = np.array([3.0, 2.0, 1.0, 0.5])
    scores = np.repeat([landscape.score({"x0": 1.0 + radius, "x1": 1.0}) for radius in radii], [5, 5, 10, 10])
    found = bbob.halvings(scores, sphere)
    assert landscape.high == 0.0 and found == pytest.approx(-np.log2(np.pi * radii**2 / 100), abs=0.05)
    ended = bbob.halvings(scores[:7], sphere)
    assert ended[-1] == ended[1], "a search that ends keeps what it has"
    assert bbob.halvings(np.zeros(30), sphere)[-1] == np.log2(bbob.SAMPLE)


def test_the_table_compares_function_by_function():
    rows = [
        {"dimension": 2, "method": method, "function": number} | dict.fromkeys(bbob.AT, value)
        for method, values in (("tpe", (3.0, 5.0, 1.0)), ("cd", (4.0, 4.0, 4.0)))
        for number, value in enumerate(values)
    ]
    means = pd.DataFrame(rows).set_index(["dimension", "method", "function"])
    found = bbob.table(means, 2)
    assert found.loc["tpe", "20"] == "3.00" and found.loc["tpe", "ahead, behind at 20"] == "1, 2"
    assert found.loc["tpe", "less cd, 20"].startswith("-1.00 ±4.97") and found.loc["cd", "less cd, 20"] == ""


def test_a_search_is_measured_over_a_function(sphere):
    """With the sphere in the place of the real ones; the best of 30 of `cd` lies in a thousandth of the box."""
    assert bbob.searched(("cd", 2, 99, 1, 1))[-1] > 10 > bbob.searched(("random", 2, 99, 1, 1))[-1]


def test_real_functions_are_searched(capsys):
    pytest.importorskip("cocoex", reason="coco-experiment is not installed")
    bbob.main(["--methods", "random", "cd", "--dimensions", "2", "--searches", "1", "--processes", "1"])
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    reached = {cells[1].strip(): float(cells[5]) for cells in lines[2:]}
    assert reached["cd"] > reached["random"] + 1, "halvings of the box after 30 trials"
