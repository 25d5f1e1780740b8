"""What balancing gains, against loops over all cells."""

import math

import numpy as np
import pytest
from studies import full_grid, lattice, measured, row, table

from tune_cd.analysis import balance_gain, grid, reachable

pytestmark = pytest.mark.filterwarnings("error")
NAMES = ("Lambda_p", "Lambda_e", "batch_size")
SIZES = (16, 24, 32, 64, 128, 512)
GRID = full_grid(25, SIZES, seed=1)


def ratio(average, b, k):
    """Lambda_e / Lambda_p: of equal weights, or as the pairs b(b - k) and b(k - 1)."""
    return 1.0 if average == "separate" else (b - k) / (k - 1)


def near(average, k, within):
    return {
        (p, e, b)
        for p, tick_p in enumerate(LANDSCAPE.ticks[0])
        for e, tick_e in enumerate(LANDSCAPE.ticks[1])
        for b, tick_b in enumerate(SIZES)
        if abs(math.log2(tick_e / tick_p / ratio(average, tick_b, k))) <= within + 1e-6
    }


LANDSCAPE = grid(GRID, "test_score")


@pytest.mark.parametrize("k", [2, 4, 8])
@pytest.mark.parametrize("average", ["separate", "global"])
@pytest.mark.parametrize("within", [None, 0.1, 1.0, 2.5])
def test_reachable_cells_are_those_of_a_loop(average, k, within):
    found = reachable(LANDSCAPE, average, k, within)
    assert found.shape == LANDSCAPE.values.shape and found.dtype == bool
    assert set(map(tuple, np.argwhere(found).tolist())) == near(average, k, 0.5 if within is None else within)


def test_every_positive_weight_has_its_nearest_entropy_weight_and_two_where_the_diagonal_passes_between():
    separate = reachable(LANDSCAPE, "separate")
    coarse = grid(measured(lambda x: 0.0, lattice(range(6), np.arange(6) + 0.5, [6]), NAMES))
    assert all(np.array_equal(separate[..., b], np.eye(25)) for b in range(len(SIZES)))
    assert reachable(coarse, "separate")[..., 0].sum(1).tolist() == [1, 2, 2, 2, 2, 2]
    inside = [p for p in range(25) if 0 <= p + math.log2(62) <= 24]
    assert reachable(LANDSCAPE, "global")[inside, :, SIZES.index(64)].sum(1).tolist() == [1] * len(inside)


@pytest.mark.parametrize("k", [2, 4, 8])
def test_gains_are_those_of_a_loop(k):
    validation, gain = grid(GRID), balance_gain(LANDSCAPE, k, select=grid(GRID))
    assert gain.index.name == "batch_size" and gain.index.tolist() == list(SIZES)
    for b, size in enumerate(SIZES):
        for name in ("best", "separate", "global"):
            cells = near(name, k, 0.5) if name != "best" else {(*cell, b) for cell in np.ndindex(25, 25)}
            known = np.isfinite(validation.values + LANDSCAPE.values)
            chosen = max((cell for cell in cells if cell[2] == b and known[cell]), key=validation.values.__getitem__)
            got = gain.loc[size, [name, f"{name}_Lambda_p", f"{name}_Lambda_e"]].tolist()
            assert got == [LANDSCAPE.values[chosen], LANDSCAPE.ticks[0][chosen[0]], LANDSCAPE.ticks[1][chosen[1]]]
        for average in ("separate", "global"):
            assert gain.loc[size, f"gain_{average}"] == gain.loc[size, "best"] - gain.loc[size, average]


def test_the_best_is_chosen_by_one_score_and_reported_by_another():
    trials = measured(lambda x: x[1], lattice([0], [0, 1, 2], [6]), NAMES).assign(test_score=[0.9, 0.5, np.nan])
    validation, test = grid(trials), grid(trials, "test_score")
    chosen = balance_gain(test, select=validation)
    assert chosen["best"].tolist() == [0.5] and chosen["gain_separate"].tolist() == pytest.approx([-0.4])
    assert balance_gain(test)["best"].tolist() == [0.9] and balance_gain(validation)["best"].tolist() == [2.0]


def test_of_a_loss_the_smallest_is_the_best():
    losses = GRID.assign(mode="min", val_score=-GRID["val_score"], test_score=-GRID["test_score"])
    for select in (None, "val_score"):
        low, high = (
            balance_gain(grid(one, "test_score"), select=select and grid(one, select)) for one in (losses, GRID)
        )
        scores = ["best", "separate", "global"]
        assert low.assign(**-low[scores]).equals(high)
    own = losses.assign(scores=[{losses["metric_name"].iloc[0]: loss} for loss in losses["val_score"]])
    assert balance_gain(grid(own, own["metric_name"].iloc[0])).equals(balance_gain(grid(losses))), (
        "by the metric's name"
    )


def test_batch_sizes_without_a_reachable_cell_or_without_a_score_are_nan():
    rows = [row(0, val=0.5, params={"Lambda_p": 1.0, "Lambda_e": 4.0, "batch_size": 16}),
            row(1, val=0.7, params={"Lambda_p": 1.0, "Lambda_e": 1.0, "batch_size": 32}),
            row(2, "failed", params={"Lambda_p": 1.0, "Lambda_e": 1.0, "batch_size": 64})]  # fmt: skip
    gain = balance_gain(grid(table(rows)), averages=["separate"])
    expected = {"best": [0.5, 0.7, np.nan], "separate": [np.nan, 0.7, np.nan], "gain_separate": [np.nan, 0.0, np.nan]}
    for name, values in expected.items():
        assert gain[name].tolist() == pytest.approx(values, nan_ok=True)
    weights = [f"{name}_{weight}" for name in ("best", "separate") for weight in ("Lambda_p", "Lambda_e")]
    assert list(gain.columns) == ["best", *weights[:2], "separate", *weights[2:], "gain_separate"]


def test_an_unknown_batch_size_is_enough_for_equal_weights_and_not_for_equal_pairs():
    landscape = grid(measured(lambda x: x[1] - x[0], lattice(range(3), range(3)), NAMES[:2]))
    assert balance_gain(landscape, averages=["separate"])["gain_separate"].tolist() == [2.0]
    texts = grid(table([row(n, params={"lr": 1.0}, choices={"a": "x", "b": "y"}) for n in range(2)]))
    with pytest.raises(ValueError, match=r"axes \('lr', 'a', 'b'\): .* are required"):
        balance_gain(texts, select=texts)
    with pytest.raises(ValueError, match="depends on the batch size"):
        balance_gain(landscape)
