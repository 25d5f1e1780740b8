"""Laws of a space's directions: weights of terms move together and against each other, whatever their names."""

import numpy as np
import pytest
from contract import advance
from searches import walk

from tune_cd import LENGTHS, CoordinateDescent, Linear, Space, balance
from tune_cd.balance import A_O, SPACES, directions_over
from tune_cd.search.directions import directions_of

WEIGHTS = ["Lambda_sim", "Lambda_std", "Lambda_cov", "Lambda_a", "Lambda_b"]
BOX = (1e-3, 10.0)


def of(space):
    return directions_of(space, balance.of(space)["directions"])


@pytest.mark.parametrize("names", SPACES)
def test_the_balance_keeps_the_rows_of_the_paper(names):
    named, rows = of(Space(**dict.fromkeys(names, BOX)))
    assert named == tuple(A_O)[: len(names)]
    assert np.array_equal(rows, np.array(list(A_O.values()))[: len(names), : len(names)])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("others", [[], ["batch_size"], ["decay", "batch_size"]])
def test_contrasts_and_joint_are_an_orthogonal_basis(n, others):
    named, rows = of(Space(**dict.fromkeys([*WEIGHTS[:n], *others], BOX)))
    products = rows @ rows.T
    assert np.array_equal(products, np.diag(np.diag(products))) and np.linalg.matrix_rank(rows) == n + len(others)
    assert np.array_equal(rows[named.index("joint")], [1.0] * n + [0.0] * len(others))
    assert not rows[: n - 1, :n].sum(1).any(), "a contrast keeps the product of the weights"
    assert list(named[n:]) == others


def test_they_are_named_by_the_terms():
    assert directions_over(["batch_size", *WEIGHTS[:3]]) == {
        "sim/std": (0, 1, -1, 0), "sim*std/cov": (0, 1, 1, -2), "joint": (0, 1, 1, 1), "batch_size": (1, 0, 0, 0),
    }  # fmt: skip


def test_weights_on_linear_axes_are_searched_one_by_one():
    """There an equal step is no common factor."""
    space = Space(Lambda_sim=Linear(0, 1), Lambda_std=Linear(0, 1))
    named, rows = of(space)
    assert named == space.names and np.array_equal(rows, np.eye(2)) and balance.of(space)["prior"] == "general"


@pytest.mark.parametrize("space", [Space(lr=BOX, decay=BOX), Space(Lambda_sim=BOX, decay=BOX)])
def test_less_than_two_weights_are_no_balance(space):
    with pytest.raises(ValueError, match="two weights Lambda_<term> at least"):
        balance.of(space)


def test_ranges_that_are_no_space_are_refused_by_what_is_required():
    """As a Tuner's param_space."""
    with pytest.raises(ValueError, match="a tune_cd.Space is required"):
        balance.of({"Lambda_p": BOX, "Lambda_e": BOX})


WIDE = (1e-6, 17.0)


@pytest.mark.parametrize(
    "space, prior",
    [
        (Space(Lambda_p=BOX, Lambda_e=BOX), "balance"),
        (Space(Lambda_p=WIDE, Lambda_e=WIDE, batch_size=[16, 64]), "balance"),
        (Space(Lambda_a=WIDE, Lambda_b=WIDE), "balance"),
        (Space(Lambda_a=WIDE, Lambda_b=WIDE, batch_size=[16, 64]), "balance"),
        (Space(Lambda_a=WIDE, Lambda_b=WIDE, Lambda_c=WIDE, batch_size=[16, 64]), "balance"),
        (Space(Lambda_a=WIDE, Lambda_b=BOX), "general"),
        (Space(Lambda_a=WIDE, Lambda_b=WIDE, decay=BOX), "general"),
    ],
)
def test_the_prior_fits_the_weights(space, prior):
    assert balance.of(space)["prior"] == prior


@pytest.mark.parametrize("lengths", [(1.0,), LENGTHS])
def test_searches_move_along_them(lengths):
    space = Space(**dict.fromkeys(WEIGHTS[:3], (1e-4, 100.0)))
    search = CoordinateDescent(space, **balance.of(space), start=dict.fromkeys(space.names, 0.1), lengths=lengths)

    def hill(h):
        away = space.to_coordinates(h) - np.log2([1.0, 4.0, 0.01])
        return float(np.exp(-(away @ away) / 50))

    moved = {search.origin(h).direction for h in advance(search, 12, hill)}
    assert moved & {"sim/std", "sim*std/cov", "joint"}, moved


@pytest.mark.parametrize("lengths", [(1.0,), LENGTHS])
def test_names_of_axes_switch_nothing(lengths):
    """With the same prior and directions, a search proposes the same whatever its axes are called."""
    boxes, proposals = [(1e-6, 17.0), (1e-6, 17.0), [16, 64, 256]], []
    for names in (("Lambda_p", "Lambda_e", "batch_size"), ("one", "other", "third")):
        search = CoordinateDescent(
            Space(**dict(zip(names, boxes))), prior="balance", directions=list(A_O.values()), lengths=lengths, seed=3
        )

        def value(h, share):
            first, second, _ = np.log2([*h.values()])
            return -((first + 5) ** 2) - abs(second) + share

        proposals.append([[*h.values()] for h, _ in walk(search, value, 15)])
    assert proposals[0] == proposals[1]


def test_given_rows_are_named_by_the_caller_by_their_axis_or_by_number():
    space = Space(**dict.fromkeys(WEIGHTS[:3], BOX))
    assert directions_of(space, [[1, 1, 1], [0, 1, 0]])[0] == ("direction_0", "Lambda_std")
    assert directions_of(space, {"joint": [1, 1, 1], "one": [0, 1, 0]})[0] == ("joint", "one")
    assert directions_of(space, {1: [1, 1, 1]})[0] == ("1",), "as in a state"
    assert directions_of(space, None)[0] == space.names
    twice = [[0, 1, 0], [0, -2, 0]]  # a search's state has each by its name
    assert directions_of(space, twice)[0] == ("Lambda_std", "direction_1")
    assert np.array_equal([*CoordinateDescent(space, directions=twice).state()["directions"].values()], twice)
