"""The benchmark of searches run for real: what its tables say, by hand."""

import numpy as np
import pytest
import searches
from lengths import Spent
from pausing import FULL
from studies import row, table


@pytest.fixture(scope="module")
def rows():
    """Two seeds of two searches, a training a minute; the second begins at 0.2 and improves by 0.1."""
    found = {}
    for search, seed, first in (("full-length", 0, 0.2), ("full-length", 1, 0.6), ("tpe", 0, 0.1)):
        study = searches.Study("omniglot-242-margin", search, seed)
        found[study] = table(
            row(n, study=study.name, search=search, val=first + 0.1 * min(n, 4), test_score=0.9 - 0.1 * seed,
                search_seed=seed, times=(60.0 * n, 60.0 * n + 60.0))
            for n in range(20)
        )  # fmt: skip
    return found


def test_each_seed_is_told_beside_the_range_of_the_replays(rows):
    told = np.linspace(0.3, 0.5, 201)
    spent = [
        Spent(FULL, "omniglot-242-margin", seed, *np.array([[1.0], [1.0], [0.7], [value]]))
        for seed, value in enumerate(told)
    ]
    found = searches.scores(rows, spent).set_index("search")
    assert found.loc["full-length", "5"] == ".800 (.600 1.000)"
    assert found.loc["full-length", "20, replayed"] == ".400 (.310 to .490; .300 .301)"
    assert found.loc["tpe", "10"] == ".500 (.500)" and found.loc["tpe", "10, replayed"] == ""


def test_seconds_are_counted_to_a_share_of_the_best_of_the_same_start(rows):
    found = searches.seconds(rows).set_index("search")
    assert found.loc["full-length", ["seconds", "to 90%", "to 98%"]].tolist() == ["1200", "300 240", "300 300"]
    assert found.loc["tpe", ["seeds", "to 95%"]].tolist() == [1, "-"]  # .5 of .6
    assert found.loc["full-length", "test_score"].startswith(".850 ±0.6") and found.loc["tpe", "test_score"] == ".900"


def test_before_anything_ended_nothing_is_held(rows):
    curve = searches.best_so_far(next(iter(rows.values())), over="seconds")
    assert np.isnan(searches.held(curve, [30.0])[0]) and searches.held(curve, [60.0, 119.0, 1e9]).tolist() == [
        pytest.approx(0.2), pytest.approx(0.2), pytest.approx(0.6),
    ]  # fmt: skip


def test_a_landscape_that_was_not_measured_has_no_replay():
    assert searches.replays("glyphs-vicreg", list(searches.SEARCHES), 20, 1) == []
    assert searches.replays("omniglot-242-margin", ["full-length"], 1, 1)[0].method == FULL
