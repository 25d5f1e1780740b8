"""The benchmark on BBOB's functions: what it measures, by hand, on a function whose best is known."""

import bbob
import numpy as np
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


def test_a_search_is_measured_over_a_function_beside_others(sphere, monkeypatch, capsys):
    """With the sphere in the place of the real ones; the best of 30 of `cd` lies in a thousandth of the box."""
    monkeypatch.setattr(bbob, "FUNCTIONS", (98, 99))
    bbob.main(["--methods", "random", "cd", "--searches", "1", "--processes", "1"])
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    plane = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[: len(lines) // 2]}
    assert float(plane["cd"][3]) > 10 > float(plane["random"][3]) and plane["random"][-1] == "0, 2"
    assert plane["random"][6].startswith("-") and set(plane["cd"][4:]) == {""}
