"""Landscapes, what balancing gains, and both terms: what the artists hold against values made by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import to_rgba

from tune_cd.analysis import Grid, balance_gain
from tune_cd.landscapes.formulas import BATCH_SIZES, LANDSCAPES
from tune_cd.plots import gain_figure, grid_slices, plane, sublosses_figure
from tune_cd.plots.grids import cell_edges
from tune_cd.plots.style import COLOUR_MAP

NAMES = ("Lambda_p", "Lambda_e", "batch_size")


def made(p, e, b, values, lost=None):
    values = np.asarray(values, dtype=float)
    lost = np.zeros(values.shape, dtype=int) if lost is None else lost
    ticks, counts = tuple(map(np.asarray, (p, e, b))), np.isfinite(values).astype(int)
    return Grid("test_score", NAMES, ticks, values, counts, np.full(values.shape, np.nan), lost)


def random_grid(p, e, b):
    return made(p, e, b, np.random.default_rng(0).uniform(size=(len(p), len(e), len(b))))


@pytest.fixture(scope="module")
def ridge():
    """The formula with a batch size on 9 x 9 x 6 cells, diverged in one corner, not run in another."""
    ticks, shape = np.geomspace(1e-6, 16.0, 9), LANDSCAPES["batch"]
    places = [dict(zip(NAMES, (p, e, b))) for p in ticks for e in ticks for b in BATCH_SIZES]
    values = np.array([shape.score(h) for h in places]).reshape(9, 9, len(BATCH_SIZES))
    lost = np.zeros(values.shape, dtype=int)
    values[7:, 7:], lost[7:, 7:] = np.nan, 1
    values[:2, 0, 1] = np.nan
    return made(ticks, ticks, BATCH_SIZES, values, lost)


def panels(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]


def one(axes, kind, label=None):
    found = [child for child in axes.get_children() if isinstance(child, kind)]
    found = [child for child in found if label in (None, child.get_label())]
    assert len(found) <= 1
    return found[0] if found else None


def centres(collection):
    """Middles [n, 2] in log2 of the squares of a collection; none of no collection."""
    if collection is None:
        return set()
    corners = np.log2([path.vertices[:4] for path in collection.get_paths()])
    return {tuple(np.round(middle, 6)) for middle in corners.mean(1)}


def test_a_slice_a_batch_size_in_order_with_the_values_as_colours(ridge):
    figure = grid_slices(ridge)
    found = panels(figure)
    assert [axes.get_title() for axes in found] == [f"b = {b}" for b in BATCH_SIZES]
    low, high = np.nanmin(ridge.values), np.nanmax(ridge.values)
    figure.draw_without_rendering()
    for place, axes in enumerate(found):
        mesh, expected = one(axes, QuadMesh, "cells"), ridge.values[..., place].T
        assert np.array_equal(mesh.get_array().mask, np.isnan(expected))
        assert np.allclose(mesh.get_array().filled(np.nan), expected, equal_nan=True)
        colours = mesh.get_facecolor().reshape(9, 9, 4)
        for e, p in np.argwhere(np.isfinite(expected)):
            scaled = (expected[e, p] - low) / (high - low)
            assert np.allclose(colours[e, p], COLOUR_MAP(scaled)), "one scale for all slices"


@pytest.mark.parametrize("k", [2, 4])
def test_diagonals_are_where_the_averages_put_them(ridge, k):
    for b, axes in zip(BATCH_SIZES, panels(grid_slices(ridge, k=k)), strict=True):
        ratios = {line.get_label(): line.get_ydata() / line.get_xdata() for line in axes.get_lines()}
        assert set(ratios) == {"separate", "global"} and np.allclose(ratios["separate"], 1)
        assert np.allclose(ratios["global"], (b * b - k * b) / (b * (k - 1)))  # |E| / |P|
        (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
        for line in axes.get_lines():
            (left, right), (bottom, top) = line.get_xdata(), line.get_ydata()
            assert (left <= x0 or bottom <= y0) and (right >= x1 or top >= y1), "from edge to edge"
    alone = panels(grid_slices(ridge, averages=("separate",)))
    assert {line.get_label() for axes in alone for line in axes.get_lines()} == {"separate"}, "those asked for"


def test_the_best_cells_are_outlined_within_their_edges(ridge):
    edges = np.log2(cell_edges(ridge.ticks[0]))
    for place, axes in enumerate(panels(grid_slices(ridge))):
        values = ridge.values[..., place]
        ranked = sorted(np.argwhere(np.isfinite(values)).tolist(), key=lambda cell: -values[tuple(cell)])
        expected = {tuple(np.round(np.log2([ridge.ticks[0][p], ridge.ticks[1][e]]), 6)) for p, e in ranked[:8]}
        outlined = one(axes, PolyCollection, "top")
        assert centres(outlined) == expected and outlined.get_facecolor().size == 0
        for path in outlined.get_paths():
            x = np.log2(path.vertices[:4, 0])
            cell = np.searchsorted(edges, x.mean()) - 1
            assert edges[cell] < x.min() < x.max() < edges[cell + 1]


def test_holes_and_lost_trials_are_told_apart_and_from_low_values(ridge):
    middles = np.array(np.meshgrid(*map(np.log2, ridge.ticks[:2]), indexing="ij")).transpose(1, 2, 0).round(6)
    for place, axes in enumerate(panels(grid_slices(ridge))):
        missing, lost = np.isnan(ridge.values[..., place]), ridge.lost[..., place] > 0
        hole, failed = one(axes, PolyCollection, "not tried"), one(axes, PolyCollection, "without a score")
        near, tried = ridge.values[..., place].copy(), ~(missing & ~lost)
        for cell in np.argwhere(~tried):  # the nearest that was tried, in octaves
            away = np.linalg.norm(middles - middles[tuple(cell)], axis=-1).round(6)
            among = near[tried & (away == away[tried].min())]
            found = one(axes, QuadMesh, "nearest").get_array().T[tuple(cell)]
            assert found in among or (np.ma.is_masked(found) and np.isnan(among).any())
        bare = one(axes, QuadMesh, "nearest").get_array().mask.T if (~tried).any() else np.ones_like(tried)
        assert centres(hole) == set(map(tuple, middles[~tried & bare]))
        assert centres(failed) == set(map(tuple, middles[missing & lost]))
        assert failed.get_hatch() and (hole is None or (hole.get_hatch() and hole.get_hatch() != failed.get_hatch()))
        for shown in (hole, failed) if hole is not None else (failed,):
            light = sum(shown.get_facecolor()[0, :3])
            assert abs(light - sum(COLOUR_MAP(0.0)[:3])) > 0.8, "no low value"
            assert sum(to_rgba("#9A9A9A")[:3]) < light - 0.5, "its hatch is dark enough to see"
    again = made([0.1, 1.0], [0.1, 1.0], [16], [[[0.1], [0.2]], [[0.3], [0.4]]], lost=np.ones((2, 2, 1), dtype=int))
    axes = panels(grid_slices(again))[0]
    assert one(axes, PolyCollection, "without a score") is None, "lost and repeated: they have a value"
    assert not one(axes, QuadMesh, "cells").get_array().mask.any()


def test_edges_lie_half_way_in_log_space():
    assert np.allclose(cell_edges([1, 2, 8]), [2**-0.5, 2**0.5, 4, 16])
    assert np.allclose(cell_edges([4.0]), [4 / 2**0.5, 4 * 2**0.5])
    ticks = np.sort(np.exp(np.random.default_rng(0).uniform(-9, 3, 12)))
    edges = cell_edges(ticks)
    assert (edges[:-1] < ticks).all() and (ticks < edges[1:]).all()


@pytest.mark.parametrize(
    ("p", "e"), [([1e-4, 1e-3, 3.0], [0.5, 16.0]), ([1e-3], [1e-2, 1.0]), ([0.1, 1.0], [2.0]), ([0.5], [2.0])]
)
def test_unequal_and_single_ticks(p, e):
    grid = random_grid(p, e, [64])
    for figure in (grid_slices(grid), plane(grid, 64)):
        mesh = one(panels(figure)[0], QuadMesh, "cells")
        x, y = mesh.get_coordinates()[0, :, 0], mesh.get_coordinates()[:, 0, 1]
        assert len(x) == len(p) + 1 and (x[:-1] < p).all() and (p < x[1:]).all()
        assert len(y) == len(e) + 1 and (y[:-1] < e).all() and (e < y[1:]).all()
        figure.draw_without_rendering()


def test_the_plane_marks_the_best_and_the_best_that_each_average_reaches(ridge):
    gain = balance_gain(ridge)
    words = {"best": "best", "separate": "best with separate average", "global": "best with global average"}
    for b in BATCH_SIZES:
        axes = panels(plane(ridge, b))[0]
        found = {line.get_label().split(":")[0]: line for line in axes.get_lines() if line.get_linestyle() == "None"}
        assert axes.get_title() == f"b = {b}"
        for name, text in words.items():
            row = gain.loc[b]
            assert np.allclose(found[text].get_xydata(), [row[f"{name}_Lambda_p"], row[f"{name}_Lambda_e"]])
            assert f"{row[name]:.3f}" in found[text].get_label()


def test_of_a_loss_the_small_ones_are_the_best_and_the_light_ones(ridge):
    losses = replace(ridge, values=-ridge.values, sign=-1.0)
    pairs = [(grid_slices(one), plane(one, 16), plane(one, 16, select=ridge)) for one in (losses, ridge)]
    for low, high in zip(*pairs):
        for figure in (low, high):
            figure.set_layout_engine("none")
            figure.draw_without_rendering()
        for one_of, other in zip(panels(low), panels(high)):
            for label in ("cells", "nearest"):
                meshes = [one(axes, QuadMesh, label) for axes in (one_of, other)]
                assert meshes == [None, None] or np.allclose(*(mesh.get_facecolor() for mesh in meshes), atol=1 / 255)
            assert centres(one(one_of, PolyCollection, "top")) == centres(one(other, PolyCollection, "top"))
            for drawn, expected in zip(one_of.get_lines(), other.get_lines(), strict=True):
                assert np.allclose(drawn.get_xydata(), expected.get_xydata())
    gains = [gain_figure(balance_gain(one)).axes[0] for one in (losses, ridge)]
    assert gains[0].get_title() == gains[1].get_title() and "+" in gains[0].get_title()
    filled = [axes.collections[0].get_paths()[0].vertices for axes in gains]
    assert np.allclose(filled[0] * [1, -1], filled[1])
    small = plane(replace(ridge, values=1e-4 * ridge.values), 16).legends[0].texts[0].get_text()
    assert f"best: {1e-4 * np.nanmax(ridge.values[..., 0]):.7f} at" in small
    drawn = panels(sublosses_figure(table([64]), sign=-1.0))[0].collections[0]
    assert (np.diff(drawn.get_array()) <= 0).all() and drawn.get_cmap()(1.0) == COLOUR_MAP(0.0)


@pytest.mark.parametrize("call, words", [
    (lambda ridge: grid_slices(ridge, k=3), "multiple of k"),
    (lambda ridge: grid_slices(ridge, averages=("mean",)), "average 'mean'"),
    (lambda ridge: grid_slices(random_grid([0.1, 1], [0.1, 1], [np.nan])), "depends on the batch size"),
    (lambda ridge: grid_slices(Grid("s", ("a",), (np.ones(1),), *(np.ones(1) for _ in range(4)))), "2 or 3 axes"),
    (lambda ridge: plane(ridge, 63), r"batch_size 63: one of \[16, 32"),
    (lambda ridge: plane(replace(ridge, names=(*NAMES[:2], "opt")), 63), "^opt 63: one of"),
    (lambda ridge: grid_slices(random_grid([0.0, 1.0], [0.1, 1], [16])), "Lambda_p with the value 0.0: .* positive"),
    (lambda ridge: plane(random_grid([0.1, 1], np.array(["adam"], object), [16]), 16), "Lambda_e with the value adam"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(ridge, call, words):
    with pytest.raises(ValueError, match=words):
        call(ridge)


def test_slices_are_of_any_last_axis_and_of_none():
    texts = random_grid([0.1, 1], [0.1, 1], np.array(["adam", "sgd"], object))
    texts = replace(texts, names=(*NAMES[:2], "opt"))
    assert [axes.get_title() for axes in panels(grid_slices(texts))] == ["opt = adam", "opt = sgd"]
    assert panels(plane(texts, "sgd"))[0].get_title() == "opt = sgd"
    unknown = random_grid([0.1, 1], [0.1, 1], [np.nan])
    flat = replace(
        unknown, names=NAMES[:2], ticks=unknown.ticks[:2], values=unknown.values[..., 0], lost=np.zeros((2, 2))
    )
    for one, size in ((unknown, np.nan), (unknown, None), (flat, None)):
        assert panels(plane(one, size, averages=("separate",)))[0].get_title() == ""


def test_the_legends_of_a_plane_stand_apart_at_long_numbers():
    ticks = 1.0731e-5 * 2.0 ** np.arange(24)
    away = np.abs(np.subtract.outer(np.arange(24), np.arange(24)))[..., None]
    shown = made(ticks, ticks, [64], 1.0 - away / 24)
    figure = plane(shown, 64, select=replace(shown, score="val_score"))
    figure.draw_without_rendering()
    left, right = (legend.get_window_extent() for legend in figure.legends)
    assert any("e-05" in text.get_text() for text in figure.legends[0].texts) and not left.overlaps(right)


def test_gain_is_drawn_as_it_is(ridge):
    gain = balance_gain(ridge)
    axes = gain_figure(gain, "test_score").axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    columns = {"balanced": "best", "separate average": "separate", "global average": "global"}
    assert set(lines) == set(columns)
    for label, column in columns.items():
        assert np.allclose(lines[label].get_xydata(), np.column_stack([BATCH_SIZES, gain[column]]))
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines.values()}) == 3
    assert axes.get_xscale() == "log" and axes.get_xticks().tolist() == BATCH_SIZES
    expected = np.mean([gain["best"][b] - max(gain["separate"][b], gain["global"][b]) for b in BATCH_SIZES])
    assert f"{expected:+.3f}" in axes.get_title()
    labels = [gain_figure(gain, *score).axes[0].get_ylabel() for score in ((), ("test_score",))]
    assert labels == ["best score", "best test score"], "a split is named where it is given"


def table(sizes):
    values = np.random.default_rng(0).normal(size=(24, 3))
    columns = ["positive_term", "entropy_term", "score"]
    return pd.DataFrame(values, columns=columns).assign(batch_size=np.resize(sizes, 24))


@pytest.mark.parametrize(("sizes", "shapes"), [([64], 1), ([16, 32, 512], 3), (list(range(4, 14)), 1), ([np.nan], 1)])
def test_terms_are_coordinates_and_scores_are_colours(sizes, shapes):
    rows = table(sizes)
    figure = sublosses_figure(rows)
    drawn = panels(figure)[0].collections
    found = np.vstack([np.column_stack([np.asarray(c.get_offsets()), c.get_array()]) for c in drawn])
    expected = rows[["positive_term", "entropy_term", "score"]].to_numpy()
    assert np.allclose(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    assert len(drawn) == len({path.vertices.tobytes() for c in drawn for path in c.get_paths()}) == shapes
    for c in drawn:
        assert (np.diff(c.get_array()) >= 0).all(), "the best on top"
        assert (c.norm.vmin, c.norm.vmax) == (rows["score"].min(), rows["score"].max())
    figure.draw_without_rendering()
