"""What is frozen in tests/goldens (see `helpers/goldens.py`) holds: proposals, pauses, and the table of a study."""

import numpy as np
import pytest
from goldens import FORMULAS, METHODS, PAUSING_SEEDS, TRIALS, frozen, pauses, proposals, rows_of, run_study, searches

QUICK = {0, 7, 9}  # seeds of one, three and eight workers


@pytest.mark.parametrize("method, quick", [
    *((name, True) for name in METHODS),
    *(pytest.param(name, False, marks=pytest.mark.slow) for name in METHODS if name != "grid"),  # which has one seed
])  # fmt: skip
def test_proposals(method, quick):
    expected = frozen("proposals")
    for name, _, seed in [found for found in searches() if found[1] == method and (found[2] in QUICK) == quick]:
        _same(proposals(name, method, seed), expected[f"{name}, {method}, {seed}"])


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in PAUSING_SEEDS])
def test_pauses(seed):
    expected = frozen("pauses")
    for name in FORMULAS:
        _same(pauses(name, seed), expected[f"{name}, {seed}"])


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("totals", [[TRIALS], [6, TRIALS]], ids=["at once", "resumed"])
@pytest.mark.filterwarnings("ignore:there is no results folder")
def test_table(tmp_path, ray_session, totals):
    for total in totals:
        run_study(tmp_path, total)
    rows, expected = rows_of(tmp_path), list(frozen("table").values())
    assert len(rows) == len(expected) == TRIALS
    for row, other in zip(rows, expected):
        assert _texts(row) == _texts(other)
        assert _numbers(row) == pytest.approx(_numbers(other), abs=1e-6)


def _same(found, expected):
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def _texts(row):
    return {name: value for name, value in row.items() if isinstance(value, str) or value is None}


def _numbers(row):
    nested = {f"{name}/{key}": value for name in ("params", "scores") for key, value in row[name].items()}
    return nested | {name: value for name, value in row.items() if isinstance(value, int | float)}
