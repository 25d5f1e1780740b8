"""Grids against loops over the rows: means, counts, what was lost and why, and that no order of rows matters."""

import math

import numpy as np
import pandas as pd
import pytest
from studies import BATCH_SIZES, empty, full_grid, lattice, lost, measured, plain, row, table

from tune_cd.analysis import cells as cells_of
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


def check(landscape, cells):
    assert [tick.tolist() for tick in landscape.ticks] == [sorted({cell[axis] for cell in cells}) for axis in range(3)]
    for place in np.ndindex(landscape.values.shape):
        scores, lost = cells.get(tuple(float(tick[at]) for tick, at in zip(landscape.ticks, place)), ([], 0))
        assert (landscape.counts[place], landscape.lost[place]) == (len(scores), lost)
        assert landscape.values[place] == pytest.approx(np.mean(scores) if scores else math.nan, nan_ok=True)
        assert landscape.spread[place] == pytest.approx(pd.Series(scores, dtype=float).std(), nan_ok=True, abs=1e-12)


def same(one, other):
    assert one.names == other.names and all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(one.ticks, other.ticks)
    )
    assert all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("values", "counts", "spread", "lost")
    )


@pytest.mark.parametrize("score", ["val_score", "test_score", "test_precision_at_1"])
def test_means_counts_spread_and_lost_are_those_of_a_loop(score):
    landscape = grid(GRID, score)
    assert landscape.score == score and landscape.names == NAMES and landscape.values.shape == (5, 5, 3)
    assert landscape.ticks[2].dtype == int and {0, 1, 2, 3} >= set(landscape.counts.ravel()) and landscape.lost.any()
    check(landscape, by_hand(GRID, score))


def test_a_score_of_nan_is_lost_and_not_averaged():
    trials = table(
        [
            row(0, test_score=math.nan),
            row(1, test_score=0.25, seed=1),
            row(2, "diverged", seed=2),
            row(3, test_score=math.inf, seed=3),
        ]
    )
    landscape = grid(trials, "test_score")
    assert (landscape.values.item(), landscape.counts.item(), landscape.lost.item()) == (0.25, 1, 3) and np.isnan(
        landscape.spread.item()
    )


def test_what_was_stopped_early_has_no_score():
    landscape = grid(table([row(0, "stopped", 0.99), row(1, val=0.5, seed=1)]))
    assert (landscape.values.item(), landscape.lost.item()) == (0.5, 1)


def test_holes_say_why():
    places = {(1.0, 1.0): "completed", (1.0, 2.0): "diverged", (2.0, 2.0): "failed"}
    trials = table(
        row(i, status, 0.5, params={"Lambda_p": p, "Lambda_e": e, "batch_size": 64})
        for i, ((p, e), status) in enumerate(places.items())
    )
    holes = grid(trials).holes
    assert holes.to_dict("records") == [
        {"Lambda_p": 1.0, "Lambda_e": 2.0, "batch_size": 64, "reason": "not completed"},
        {"Lambda_p": 2.0, "Lambda_e": 1.0, "batch_size": 64, "reason": "not run"},
        {"Lambda_p": 2.0, "Lambda_e": 2.0, "batch_size": 64, "reason": "not completed"},
    ]
    assert len(grid(GRID).holes) == (grid(GRID).counts == 0).sum() > 0


def test_a_training_that_two_searches_asked_for_counts_once_whichever_of_its_rows_has_a_score():
    h = {"Lambda_p": 0.1, "Lambda_e": 2.0, "batch_size": 64}
    rows = [
        row(0, "failed", search="a", params=h),
        row(0, val=0.4, search="b", params=h | {"Lambda_p": 0.1 * (1 + 1e-15)}),
        row(1, val=0.4, search="c", params=h),
        row(2, val=0.6, seed=1, params=h),
    ]
    landscape = grid(table(rows))
    assert (landscape.counts.item(), landscape.lost.item(), landscape.values.item()) == (2, 0, 0.5)


def test_trainings_whose_seed_is_unknown_are_never_the_same():
    unknown = [row(0, val=0.2, seed=None), row(1, val=0.4, seed=None)]
    found = grid(table(unknown))
    assert found.counts.item() == 2 and np.isnan(found.spread.item()), "nor several seeds"
    both = grid(table([*unknown, row(2, val=0.5, seed=1), row(3, val=0.7, seed=2)]))
    assert both.counts.item() == 4 and both.spread.item() == pytest.approx(0.1 * 2**0.5)


def test_settings_that_differ_off_the_axes_are_different_trainings():
    trials = full_grid(3, BATCH_SIZES)
    flat, weights = grid(trials, axes=["Lambda_p", "Lambda_e"]), grid(trials)
    assert flat.values.shape == (3, 3) and np.array_equal(flat.counts, weights.counts.sum(2))
    assert flat.values == pytest.approx(np.nanmean(weights.values, axis=2))
    own = table(row(i, val=0.1 * i, params={"lr": 0.1, "wd": 10.0**-i}) for i in range(3))
    assert grid(own, axes=["lr"]).counts.tolist() == [3]


@pytest.mark.parametrize("score, cell", [("val_score", None), ("test_score", None), ("val_score", 1.5)])
def test_rows_in_any_order_give_the_same_grid(score, cell):
    again = GRID.assign(study="t", val_score=GRID["val_score"] + 0.01)  # contradicts the first study's scores
    trials = pd.concat([GRID, again], ignore_index=True)
    for seed in range(3):
        same(grid(trials, score, cell=cell), grid(trials.sample(frac=1, random_state=seed), score, cell=cell))


def test_plain_readers_maps_are_understood():
    for score in ("val_score", "test_precision_at_1"):
        same(grid(GRID, score), grid(plain(GRID), score))
    own = table(row(i, val=0.1 * i, params={"lr": 2.0**i}) for i in range(3))
    assert grid(plain(own)).names == ("lr",) and grid(plain(own)).values.tolist() == pytest.approx([0.0, 0.1, 0.2])


def test_the_users_own_parameters_are_axes_in_alphabetical_order():
    trials = measured(lambda x: x[0] + 10 * x[1], lattice(range(3), range(2)), ["wd", "lr"])
    landscape = grid(trials)
    assert landscape.names == ("lr", "wd") and landscape.values.tolist() == [[0, 1, 2], [10, 11, 12]]
    with pytest.raises(ValueError, match=r"axes \('lr', 'wd'\): a slice is one of three"):
        landscape.at(2)
    assert grid(trials, axes=["wd"]).values.tolist() == [5, 6, 7] and landscape.steps == (1, 1)
    trials.loc[0, "params"].pop("wd")
    assert landscape.counts.sum() - grid(trials).counts.sum() == 1, "a row that does not say where it is has no place"


def test_a_batch_size_that_is_not_known_is_a_place_of_its_own():
    rows = [
        row(0, val=0.2, params={"Lambda_p": 1.0, "Lambda_e": 1.0}),
        row(1, val=0.4, params={"Lambda_p": 1.0, "Lambda_e": 1.0, "batch_size": 64}),
    ]
    both, unknown = grid(table(rows)), grid(table(rows[:1]))
    assert both.ticks[2].tolist() == pytest.approx([64, math.nan], nan_ok=True) and both.values.ravel().tolist() == [
        0.4,
        0.2,
    ]
    assert unknown.at().iloc[0, 0] == 0.2 and both.at(64).iloc[0, 0] == 0.4


@pytest.mark.parametrize("cell", [0.5, 1.0, 2.0, 3.0])
def test_cells_hold_the_settings_nearest_to_their_centres(cell):
    x = np.random.default_rng(0).uniform(-6, 6, (60, 2))
    landscape = grid(measured(lambda x: x.sum(), x, ["Lambda_p", "Lambda_e"]), cell=cell)
    centres = [np.log2(tick) for tick in landscape.ticks[:2]]
    expected = np.zeros((len(centres[0]), len(centres[1])))
    for point in x:
        expected[tuple(int(np.abs(axis - at).argmin()) for axis, at in zip(centres, point))] += 1
    assert np.array_equal(landscape.counts[..., 0], expected) and landscape.counts.sum() == 60
    assert all(np.allclose(axis / cell, np.round(axis / cell)) for axis in centres)
    assert all(np.abs(axis - at).min() <= cell / 2 + 1e-9 for point in x for axis, at in zip(centres, point))


def test_slices_and_the_best_are_labelled():
    landscape = grid(GRID)
    slice_ = landscape.at(32)
    assert slice_.index.name == "Lambda_p" and slice_.columns.name == "Lambda_e"
    assert np.array_equal(slice_.to_numpy(), landscape.values[:, :, 1], equal_nan=True)
    cells = by_hand(GRID)
    best = max((cell for cell in cells if cells[cell][0]), key=lambda cell: np.mean(cells[cell][0]))
    assert tuple(landscape.best[list(NAMES)]) == best and landscape.best["value"] == pytest.approx(
        np.mean(cells[best][0])
    )
    assert landscape.steps == (1, 1, 1)


@pytest.mark.parametrize("batch_size", [None, 16, 64])
@pytest.mark.parametrize("k", [1, 8, 1000])
def test_the_top_is_that_of_sorting_by_hand(batch_size, k):
    cells = {
        cell: np.mean(scores) for cell, (scores, _) in by_hand(GRID).items() if scores and batch_size in (None, cell[2])
    }
    expected = sorted(cells, key=lambda cell: (-cells[cell], cell))[:k]
    top = grid(GRID).top(k, batch_size)
    assert [tuple(cell) for cell in top[list(NAMES)].to_numpy()] == expected and top["value"].tolist() == pytest.approx(
        [cells[cell] for cell in expected]
    )
    assert top.index.tolist() == list(range(len(expected))) and list(top.columns) == [
        *NAMES,
        "value",
        "count",
        "spread",
        "lost",
    ]


def test_of_equal_cells_the_smaller_parameters_come_first():
    landscape = grid(measured(lambda x: -abs(x[0] - 1), lattice(range(3), range(4)), ["Lambda_p", "Lambda_e"]))
    assert landscape.top(6)[["Lambda_p", "Lambda_e"]].to_numpy().tolist() == [
        [2, 1],
        [2, 2],
        [2, 4],
        [2, 8],
        [1, 1],
        [1, 2],
    ]


def test_several_studies_are_averaged():
    trials = table([row(0, val=0.2), row(0, val=0.6, study="t", seed=1)])
    assert (grid(trials).values.item(), grid(trials).counts.item()) == (pytest.approx(0.4), 2)


@pytest.mark.parametrize(
    "field, other", [("dataset", "omniglot"), ("task", "ssl"), ("loss", "infonce"), ("metric_name", "map")]
)
def test_a_mixture_is_refused_by_name(field, other):
    with pytest.raises(ValueError, match=f"more than one {field}: .*{other}.*select one"):
        grid(table([row(0), row(1, **{field: other})]))


@pytest.mark.parametrize("how, message", [
    ({"score": "test_recall"}, r"score 'test_recall': one of \['val_score', 'test_score', 'test_precision_at_1'\]"),
    ({"score": "status"}, "score 'status': one of"),
    ({"axes": ["lr"]}, r"parameter 'lr': one of \['Lambda_p', 'Lambda_e', 'batch_size'\]"),
    ({"cell": 0}, "cell = 0"), ({"cell": math.nan}, "cell = nan"), ({"cell": -1.0}, "cell = -1.0"),
])  # fmt: skip
def test_what_there_is_not_is_refused_with_what_there_is(how, message):
    with pytest.raises(ValueError, match=message):
        grid(GRID, **how)


def test_other_refusals():
    own = table([row(0, params={"lr": 0.1, "wd": 1e-4})])
    with pytest.raises(ValueError, match=r"parameter 'Lambda_p': one of \['lr', 'wd'\]"):
        grid(own, axes=["Lambda_p", "Lambda_e"])
    with pytest.raises(ValueError, match="parameter 'wd' = 0: log-scaled"):
        grid(table([row(0, params={"lr": 0.1, "wd": 0.0})]), cell=1.0)
    for call in (
        lambda: grid(GRID).top(0),
        lambda: grid(GRID).top(3, 17),
        lambda: grid(GRID).at(17),
        lambda: grid(GRID).at(),
        lambda: grid(empty()).at(),
    ):
        with pytest.raises(ValueError, match=r"at least 1|one of \["):
            call()


def test_values_of_zero_or_less_are_settings_like_any_other():
    """0 and 1 among them: the octave of 1 is 0."""
    values = [-1.0, 0.0, 0.5, 1.0]
    landscape = grid(table([row(n, params={"lr": 0.1, "shift": x}, val=n / 10) for n, x in enumerate(values)]))
    assert landscape.ticks[1].tolist() == values and landscape.values.tolist() == [[0.0, 0.1, 0.2, 0.3]]
    assert np.isnan(landscape.steps).all()


@pytest.mark.parametrize("trials", [empty(), lost()], ids=["empty", "lost"])
@pytest.mark.parametrize("cell", [None, 1.0])
def test_without_a_score_a_grid_has_holes_alone(trials, cell):
    landscape = grid(trials, cell=cell)
    assert (
        landscape.best is None
        and landscape.top(3).empty
        and not landscape.counts.any()
        and np.isnan(landscape.values).all()
    )
    assert landscape.lost.sum() == len(trials) and len(landscape.holes) == landscape.values.size


def test_one_trial_is_a_grid_of_one_cell():
    landscape = grid(table([row(val=0.7)]))
    assert (
        landscape.values.tolist() == [[[0.7]]]
        and np.isnan(landscape.steps).all()
        and landscape.holes.empty
        and np.isnan(landscape.spread).all()
    )


# Cells --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "score, axes, cell",
    [("val_score", None, None), ("test_score", None, 1.5), ("test_precision_at_1", ["Lambda_p", "Lambda_e"], None)],
)
def test_cells_are_those_of_the_grid_that_were_tried(score, axes, cell):
    trials = pd.concat([GRID, GRID.iloc[::3].assign(study="t", seed=7)], ignore_index=True).sample(
        frac=1, random_state=0
    )
    dense, sparse = grid(trials, score, axes, cell), cells_of(trials, score, axes, cell)
    expected = dense.frame()
    expected = expected[expected["count"] + expected["lost"] > 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(sparse.drop(columns="trials"), expected, check_dtype=False, check_exact=True)
    assert list(sparse.columns) == [*dense.names, "value", "count", "spread", "lost", "trials"] and sparse.index.equals(
        expected.index
    )
    assert (
        len(sparse)
        == (dense.counts + dense.lost > 0).sum()
        < (dense.values.size if axes is None and cell is None else math.inf)
    )


def test_members_are_the_rows_of_a_cell():
    again = GRID.iloc[:30].assign(
        study="t"
    )  # the same trainings, asked for once more: they count once, and are members all the same
    trials = pd.concat([GRID, again], ignore_index=True).sample(frac=1, random_state=0)
    sparse = cells_of(trials)
    assert sorted(label for members in sparse["trials"] for label in members) == sorted(trials.index)
    for cell in sparse.to_dict("records"):
        members = trials.loc[list(cell["trials"])]
        assert all((members[name] == cell[name]).all() for name in NAMES)
        assert set(cell["trials"]) == set(
            trials.index[(trials[list(NAMES)] == [cell[name] for name in NAMES]).all(axis=1)]
        )
        assert cell["count"] + cell["lost"] == members["seed"].nunique()
    wide = cells_of(trials, cell=2.0)
    for cell in wide.to_dict("records"):
        members = np.log2(trials.loc[list(cell["trials"]), list(NAMES)].astype(float).to_numpy())
        assert np.abs(members - np.log2([cell[name] for name in NAMES])).max() <= 1 + 1e-9


def test_thousands_of_scattered_trials_have_cells_and_no_dense_grid():
    x = np.random.default_rng(0).uniform(-15, 15, (5000, 2))
    trials = measured(lambda place: -float(place @ place), x, ["Lambda_p", "Lambda_e"])
    assert len(trials) ** 2 > LARGEST
    with pytest.raises(
        ValueError,
        match=r"^5000 x 5000 x 1 cells of 5000 trials: more than 4,000,000; "
        r"take `cells`, or wider ones with cell=octaves$",
    ):
        grid(trials)
    found = cells_of(trials)
    assert (
        len(found) == 5000
        and (found["count"] == 1).all()
        and (found["lost"] == 0).all()
        and found["Lambda_p"].is_monotonic_increasing
    )
    order = np.argsort(x[:, 0])
    assert found["value"].to_numpy() == pytest.approx(trials["val_score"].to_numpy()[order]) and found[
        "trials"
    ].tolist() == [(label,) for label in order.tolist()]
    assert grid(trials, cell=1.0).counts.sum() == cells_of(trials, cell=1.0)["count"].sum() == 5000


@pytest.mark.parametrize("trials", [empty(), lost()], ids=["empty", "lost"])
def test_cells_without_a_score(trials):
    found = cells_of(trials)
    assert (
        len(found) == len(trials)
        and found["value"].isna().all()
        and (found["count"] == 0).all()
        and found["lost"].sum() == len(trials)
    )
    assert list(found.columns) == [*NAMES, "value", "count", "spread", "lost", "trials"]
    with pytest.raises(ValueError, match="cell = 0"):
        cells_of(trials, cell=0)
