"""Laws of a space's directions: weights of terms move together and against each other, whatever their names."""

import numpy as np
import pytest

from tune_cd import CoordinateDescent, Linear, PausingDescent, Space
from tune_cd.search.directions import A_O, BALANCE_SPACES, directions_of, rows_over

WEIGHTS = ["Lambda_sim", "Lambda_std", "Lambda_cov", "Lambda_a", "Lambda_b"]
BOX = (1e-3, 10.0)


@pytest.mark.parametrize("names", BALANCE_SPACES)
def test_the_balance_keeps_the_rows_of_the_paper(names):
    named, rows = directions_of(Space(**dict.fromkeys(names, BOX)), None)
    assert named == tuple(A_O)[: len(names)]
    assert np.array_equal(rows, np.array(list(A_O.values()))[: len(names), : len(names)])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("others", [[], ["batch_size"], ["decay", "batch_size"]])
def test_contrasts_and_joint_are_an_orthogonal_basis(n, others):
    named, rows = directions_of(Space(**dict.fromkeys([*WEIGHTS[:n], *others], BOX)), None)
    products = rows @ rows.T
    assert np.array_equal(products, np.diag(np.diag(products))) and np.linalg.matrix_rank(rows) == n + len(others)
    assert np.array_equal(rows[named.index("joint")], [1.0] * n + [0.0] * len(others))
    assert not rows[: n - 1, :n].sum(1).any(), "a contrast keeps the product of the weights"
    assert list(named[n:]) == others


def test_they_are_named_by_the_terms():
    assert rows_over(["batch_size", *WEIGHTS[:3]]) == {
        "sim/std": (0, 1, -1, 0), "sim*std/cov": (0, 1, 1, -2), "joint": (0, 1, 1, 1), "batch_size": (1, 0, 0, 0),
    }  # fmt: skip


@pytest.mark.parametrize(
    "space",
    [
        Space(lr=BOX, decay=BOX),
        Space(Lambda_sim=BOX, decay=BOX),
        Space(Lambda_sim=Linear(0, 1), Lambda_std=Linear(0, 1)),
    ],
)
def test_all_others_are_searched_axis_by_axis(space):
    """A single weight has nothing beside it, and on linear axes an equal step is no common factor."""
    named, rows = directions_of(space, None)
    assert named == space.names and np.array_equal(rows, np.eye(2))


@pytest.mark.parametrize("search", [CoordinateDescent, PausingDescent])
def test_searches_move_along_them(search):
    space = Space(**dict.fromkeys(WEIGHTS[:3], (1e-4, 100.0)))
    optimiser = search(space, start=dict.fromkeys(space.names, 0.1))
    asked = set()
    for _ in range(12):
        h = optimiser.ask()
        asked.add(optimiser.origin(h).direction)
        away = space.to_coordinates(h) - np.log2([1.0, 4.0, 0.01])
        share = {"share": optimiser.until(h)} if search is PausingDescent else {}
        optimiser.tell(h, float(np.exp(-(away @ away) / 50)), **share)
    assert asked & {"sim/std", "sim*std/cov", "joint"}, asked


def test_given_rows_that_are_known_have_their_names():
    space = Space(**dict.fromkeys(WEIGHTS[:3], BOX))
    rows = [[1, 1, 1], [1, -1, 0], [0, 1, 0], [1, 2, 3]]
    assert directions_of(space, rows)[0] == ("joint", "sim/std", "Lambda_std", "direction_3")
