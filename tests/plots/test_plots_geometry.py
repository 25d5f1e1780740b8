"""The space log h in three dimensions and the pipeline: laws of what is drawn."""

import numpy as np
import pytest
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from tune_cd.balance import A_O, A_TH
from tune_cd.plots import constraints_figure, directions_figure, pipeline_figure


def named(axes):
    """label -> vertices [n, 3] of the lines that have one."""
    return {line.get_label(): np.array(line.get_data_3d()).T for line in labelled(axes)}


def labelled(axes):
    return [line for line in axes.get_lines() if not line.get_label().startswith("_")]


def dashes(axes, words=""):
    """The line styles of the lines with a label that has these words."""
    return {str(line._dash_pattern) for line in labelled(axes) if words in line.get_label()}


def test_the_rows_of_a_and_of_a_th_are_arrows_from_the_origin_within_their_cubes():
    figure = directions_figure()
    directions = [name.split("  ")[1] for name in named(figure.axes[0])]
    assert len(figure.axes) == 2 and directions == ["balance", "joint", "batch size"]
    for axes, matrix in zip(figure.axes, (A_O, A_TH)):
        limits = np.array([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
        for row, points in zip(matrix.values(), named(axes).values(), strict=True):
            assert np.allclose(points, [np.zeros(3), row])
            assert (limits[:, 0] <= points).all() and (points <= limits[:, 1]).all()
        assert np.allclose(np.ptp(limits, axis=1), np.ptp(limits[0])), "equal scales, so right angles look right"
        assert len(dashes(axes)) == 3, "three line styles"


def test_every_vertex_of_a_plane_fulfils_its_constraint_and_all_meet_at_the_papers_best():
    axes = constraints_figure().axes[0]
    drawn = named(axes)
    point = 2.0 ** drawn.pop("all three hold")[0]
    assert np.allclose(point, [8e-3, 2.0, 64.0])
    ratios = ((lambda p, e, b: p / b, 8e-3 / 64), (lambda p, e, b: e / b**2, 2 / 64**2), (lambda p, e, b: p / e, 4e-3))
    for edges, (ratio, expected) in zip(drawn.values(), ratios, strict=True):
        for vertex in 2.0**edges:
            assert ratio(*vertex) == pytest.approx(expected)
        assert len(edges) >= 4 and np.allclose(edges[0], edges[-1]), "a closed outline"
    assert len(dashes(axes, "mathcal")) == 3, "told apart without colours"
    [pieces] = [found for found in axes.collections if isinstance(found, Poly3DCollection)]
    assert len(pieces.get_facecolor()) >= 12, "each plane is cut by both others: those that cross have no drawing order"
    assert {text.get_text() for text in axes.texts} == {r"$\mathcal{C}_p$", r"$\mathcal{C}_e$", r"$\mathcal{C}_{eq}$"}


def test_the_pairs_of_the_pipeline_are_those_of_its_batch():
    axes = pipeline_figure().axes[0]
    cells = {patch.get_gid(): patch for patch in axes.patches if patch.get_gid()}
    b = sum(name.startswith("image") for name in cells)
    kind_of = lambda i, j: "self" if i == j else "positive" if i // 2 == j // 2 else "negative"  # noqa: E731
    pairs = {(i, j): kind_of(i, j) for i in range(b) for j in range(b)}
    assert set(cells) == {f"image-{i}" for i in range(b)} | {f"{kind}-{i}-{j}" for (i, j), kind in pairs.items()}
    assert list(pairs.values()).count("positive") == b and list(pairs.values()).count("negative") == b**2 - 2 * b
    for (i, j), kind in pairs.items():  # row i down, column j to the right, images in the same order
        assert cells[f"{kind}-{i}-{j}"].get_y() == pytest.approx(cells[f"self-{i}-{i}"].get_y())
        assert cells[f"{kind}-{i}-{j}"].get_x() == pytest.approx(cells[f"self-{j}-{j}"].get_x())
    heights = [cells[f"image-{i}"].get_y() for i in range(b)]
    assert heights == sorted(heights, reverse=True)


def test_the_words_of_the_pipeline_do_not_overlap_and_can_be_read_at_800_pixels():
    figure = pipeline_figure()
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    boxes = [text.get_window_extent() for text in texts]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:i]), texts[i].get_text()
    assert min(text.get_fontsize() for text in texts) / 72 * 800 / figure.get_figwidth() >= 9  # pixels
