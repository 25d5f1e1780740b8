"""Grids against loops over the rows: means, counts, what was lost, and that no order of rows matters."""

import math

import numpy as np
import pandas as pd
import pytest
from studies import BATCH_SIZES, empty, full_grid, lattice, lost, measured, row, table

from tune_cd.analysis import grid
from tune_cd.analysis.grids import LARGEST

pytestmark = pytest.mark.filterwarnings("error")
NAMES = ("Lambda_p", "Lambda_e", "batch_size")
GRID = full_grid(5, BATCH_SIZES[:3], seeds=(0, 1, 2), seed=3)


def by_hand(trials, score="val_score"):
    """Cell -> (scores, lost), by a loop over rows; each (setting, seed) once."""
    cells, seen = {}, {}
    for trial in trials.to_dict("records"):
        cell = tuple(float(trial[name]) for name in NAMES)
        value = trial[score] if score in trial else trial["scores"].get(score)
        good = trial["status"] == "completed" and value is not None and math.isfinite(value)
        seen.setdefault((cell, trial["seed"]), []).append(value if good else None)
    for (cell, _), values in seen.items():
        held = [value for value in values if value is not None]
        scores, lost = cells.setdefault(cell, ([], []))
        (scores if held else lost).append(held[0] if held else None)
    return {cell: (scores, len(lost)) for cell, (scores, lost) in cells.items()}


def arrays(landscape):
    return [*landscape.ticks, landscape.values, landscape.counts, landscape.spread, landscape.lost]


def same(one, other):
    assert one.names == other.names
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays(one), arrays(other), strict=True))


def numbers(landscape):
    """counts, lost, value and spread of a grid of one cell."""
    return tuple(array.item() for array in (landscape.counts, landscape.lost, landscape.values, landscape.spread))


@pytest.mark.parametrize("score", ["val_score", "test_score", "test_precision_at_1"])
def test_means_counts_spread_and_lost_are_those_of_a_loop(score):
    landscape, cells = grid(GRID, score), by_hand(GRID, score)
    assert landscape.score == score and landscape.names == NAMES and landscape.values.shape == (5, 5, 3)
    assert landscape.ticks[2].dtype == int and landscape.steps == (1, 1, 1) and landscape.lost.any()
    assert [tick.tolist() for tick in landscape.ticks] == [sorted({cell[axis] for cell in cells}) for axis in range(3)]
    for place in np.ndindex(landscape.values.shape):
        scores, lost = cells.get(tuple(float(tick[at]) for tick, at in zip(landscape.ticks, place)), ([], 0))
        assert (landscape.counts[place], landscape.lost[place]) == (len(scores), lost)
        assert landscape.values[place] == pytest.approx(np.mean(scores) if scores else math.nan, nan_ok=True)
        assert landscape.spread[place] == pytest.approx(pd.Series(scores, dtype=float).std(), nan_ok=True, abs=1e-12)


H = {"Lambda_p": 0.1, "Lambda_e": 2.0, "batch_size": 64}
CELL = {
    "a score of NaN is lost and not averaged": (
        [row(0, test_score=math.nan), row(1, test_score=0.25, seed=1), row(2, "diverged", seed=2),
         row(3, test_score=math.inf, seed=3)], (1, 3, 0.25, math.nan)),
    "what was stopped early has no score": (
        [row(0, "stopped", 0.99, test_score=0.99), row(1, test_score=0.5, seed=1)], (1, 1, 0.5, math.nan)),
    "a training that two searches asked for counts once, whichever of its rows has a score": (
        [row(0, "failed", search="a", params=H), row(1, test_score=0.4, search="c", params=H),
         row(0, test_score=0.4, search="b", params=H | {"Lambda_p": 0.1 * (1 + 1e-15)}),
         row(2, test_score=0.6, seed=1, params=H)], (2, 0, 0.5, 0.1 * 2**0.5)),
    "trainings whose seed is unknown are never the same, nor several seeds": (
        [row(0, test_score=0.2, seed=None), row(1, test_score=0.4, seed=None)], (2, 0, 0.3, math.nan)),
    "of others the deviation is": (
        [row(0, test_score=0.2, seed=None), row(1, test_score=0.5, seed=1), row(2, test_score=0.7, seed=2)],
        (3, 0, 1.4 / 3, 0.1 * 2**0.5)),
    "several studies are averaged": (
        [row(0, test_score=0.2), row(0, test_score=0.6, study="t", seed=1)], (2, 0, 0.4, 0.2 * 2**0.5)),
}  # fmt: skip
"""What is counted -> rows of one cell, and its count, lost, value and spread."""


@pytest.mark.parametrize("rows, expected", CELL.values(), ids=CELL)
def test_what_is_counted_in_a_cell(rows, expected):
    assert numbers(grid(table(rows), "test_score")) == pytest.approx(expected, nan_ok=True)


def test_settings_that_differ_off_the_axes_are_different_trainings():
    trials = full_grid(3, BATCH_SIZES)
    flat, weights = grid(trials, axes=["Lambda_p", "Lambda_e"]), grid(trials)
    assert flat.values.shape == (3, 3) and np.array_equal(flat.counts, weights.counts.sum(2))
    assert flat.values == pytest.approx(np.nanmean(weights.values, axis=2))
    own = table(row(i, val=0.1 * i, params={"lr": 0.1, "wd": 10.0**-i}) for i in range(3))
    assert grid(own, axes=["lr"]).counts.tolist() == [3]


@pytest.mark.parametrize("score", ["val_score", "test_score"])
def test_rows_in_any_order_give_the_same_grid(score):
    again = GRID.assign(study="t", val_score=GRID["val_score"] + 0.01)  # contradicts the first study's scores
    trials = pd.concat([GRID, again], ignore_index=True)
    for seed in range(3):
        same(grid(trials, score), grid(trials.sample(frac=1, random_state=seed), score))


def test_the_users_own_parameters_are_axes_in_alphabetical_order():
    trials = measured(lambda x: x[0] + 10 * x[1], lattice(range(3), range(2)), ["wd", "lr"])
    landscape = grid(trials)
    assert landscape.names == ("lr", "wd") and landscape.values.tolist() == [[0, 1, 2], [10, 11, 12]]
    assert grid(trials, axes=["wd"]).values.tolist() == [5, 6, 7] and landscape.steps == (1, 1)
    trials.loc[0, "params"].pop("wd")
    assert landscape.counts.sum() - grid(trials).counts.sum() == 1, "a row that does not say where it is has no place"


def test_a_batch_size_that_is_not_known_is_a_place_of_its_own():
    weights = {"Lambda_p": 1.0, "Lambda_e": 1.0}
    rows = [row(0, val=0.2, params=weights), row(1, val=0.4, params=weights | {"batch_size": 64})]
    both = grid(table(rows))
    assert both.ticks[2].tolist() == pytest.approx([64, math.nan], nan_ok=True)
    assert both.values.ravel().tolist() == [0.4, 0.2] and grid(table(rows[:1])).values.item() == 0.2


@pytest.mark.parametrize("batch_size", [None, 16, 64])
@pytest.mark.parametrize("k", [1, 8, 1000])
def test_the_top_is_that_of_sorting_by_hand(batch_size, k):
    cells = {cell: np.mean(scores) for cell, (scores, _) in by_hand(GRID).items() if scores}
    cells = {cell: mean for cell, mean in cells.items() if batch_size in (None, cell[2])}
    expected = sorted(cells, key=lambda cell: (-cells[cell], cell))[:k]
    top = grid(GRID).top(k, batch_size)
    assert [tuple(cell) for cell in top[list(NAMES)].to_numpy()] == expected
    assert top["value"].tolist() == pytest.approx([cells[cell] for cell in expected])
    assert top.index.tolist() == list(range(len(expected)))
    assert list(top.columns) == [*NAMES, "value", "count", "spread", "lost"]


def test_the_batch_size_is_found_among_other_axes():
    trials = table(row(n, val=float(n), params={"batch_size": b, "lr": 0.1}) for n, b in enumerate((16, 64)))
    assert grid(trials).names == ("batch_size", "lr") and grid(trials).top(3, 16)["value"].tolist() == [0.0]


@pytest.mark.parametrize("call, message", [
    (lambda: grid(GRID, "test_recall"),
     r"score 'test_recall': one of \['val_score', 'test_score', 'test_precision_at_1'\]"),
    (lambda: grid(GRID, "status"), "score 'status': one of"),
    (lambda: grid(GRID, axes=["lr"]), r"parameter 'lr': one of \['Lambda_p', 'Lambda_e', 'batch_size'\]"),
    (lambda: grid(table([row(params={"lr": 0.1, "wd": 1e-4})]), axes=["Lambda_p", "Lambda_e"]),
     r"parameter 'Lambda_p': one of \['lr', 'wd'\]"),
    (lambda: grid(GRID).top(0), "at least 1"),
    (lambda: grid(GRID).top(3, 17), r"batch_size 17: one of \["),
    (lambda: grid(table([row(params={"lr": 0.1})])).top(3, 64), r"batch_size 64: one of \[\]"),
    (lambda: grid(GRID.assign(params="{'lr': 0.1}")), "column 'params': maps are required, .*; a CSV has text"),
])  # fmt: skip
def test_what_there_is_not_is_refused_with_what_there_is(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_values_of_zero_or_less_are_settings_like_any_other():
    """0 and 1 among them: the octave of 1 is 0."""
    values = [-1.0, 0.0, 0.5, 1.0]
    landscape = grid(table([row(n, params={"lr": 0.1, "shift": x}, val=n / 10) for n, x in enumerate(values)]))
    assert landscape.ticks[1].tolist() == values and landscape.values.tolist() == [[0.0, 0.1, 0.2, 0.3]]
    assert np.isnan(landscape.steps).all()


@pytest.mark.parametrize("trials", [empty(), lost()], ids=["empty", "lost"])
def test_without_a_score_there_are_lost_trainings_alone(trials):
    landscape = grid(trials)
    assert landscape.top(3).empty and not landscape.counts.any() and np.isnan(landscape.values).all()
    assert landscape.lost.sum() == len(trials)


def test_thousands_of_scattered_trials_are_no_grid():
    x = np.random.default_rng(0).uniform(-15, 15, (3000, 2))
    trials = measured(lambda place: -float(place @ place), x, ["Lambda_p", "Lambda_e"])
    assert len(trials) ** 2 > LARGEST
    with pytest.raises(ValueError, match=r"^3000 x 3000 x 1 cells of 3000 trials: at most 4,000,000$"):
        grid(trials)
