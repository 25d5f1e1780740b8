"""The space log h in three dimensions and the pipeline: laws of what is drawn."""

import re

import numpy as np
import pytest
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from tune_cd.balance import A_O, A_TH
from tune_cd.plots import constraints_figure, directions_figure, pipeline_figure
from tune_cd.plots.geometry import clip, plane_polygon

RATIOS = {"r_p": 3e-4, "r_e": 1e-3, "r_eq": 2e-2}


def named(axes):
    """label -> vertices [n, 3] of the lines that have one."""
    return {
        line.get_label(): np.array(line.get_data_3d()).T
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_the_rows_of_a_are_arrows_from_the_origin():
    matrix = np.array(list(A_O.values()))
    drawn = named(directions_figure().axes[0])
    assert [re.sub(r"[^a-z ]", "", name).strip() for name in drawn] == ["balance", "joint", "batch size"]
    for row, points in zip(matrix, drawn.values()):
        assert np.allclose(points, [np.zeros(3), row])


def test_a_th_stands_beside_a_with_every_arrow_within_its_cube():
    figure = directions_figure(theory=A_TH)
    assert len(figure.axes) == 2
    for axes, matrix in zip(figure.axes, (A_O, A_TH)):
        drawn = named(axes)
        assert np.allclose([points[1] for points in drawn.values()], list(matrix.values()))
        limits = np.array([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
        assert all(
            (limits[:, 0] <= point).all() and (point <= limits[:, 1]).all()
            for points in drawn.values()
            for point in points
        )
        assert np.allclose(np.ptp(limits, axis=1), np.ptp(limits[0])), "equal scales, so right angles look right"
        shafts = [line for line in axes.get_lines() if line.get_label() in drawn]
        assert len({str(line._dash_pattern) for line in shafts}) == 3, "three line styles"


@pytest.mark.parametrize("rows", [np.eye(2), np.eye(3)[:2], np.zeros((3, 3)), np.full((3, 3), np.nan)])
def test_matrices_that_are_none_are_refused(rows):
    matrix = {str(i): row for i, row in enumerate(rows)}
    for arguments in ({"matrix": matrix}, {"theory": matrix}):
        with pytest.raises(ValueError, match=r"\[3, 3\]"):
            directions_figure(**arguments)


@pytest.mark.parametrize("arguments", [{}, RATIOS, RATIOS | {"eta": 0.3}])
def test_every_vertex_of_a_plane_fulfils_its_constraint_and_all_meet_in_a_point(arguments):
    drawn = named(constraints_figure(**arguments).axes[0])
    point = 2.0 ** drawn.pop("all three hold")[0]
    ratios = {"r_p": 8e-3 / 64, "r_e": 2.0 / 64**2, "r_eq": 8e-3 / 2.0, "eta": 1.0} | arguments
    for edges, name in zip(drawn.values(), ("r_p", "r_e", "r_eq")):
        for p, e, b in 2.0 ** np.vstack([edges, np.log2(point)]):
            assert {"r_p": p / b, "r_e": e / (b**2 * ratios["eta"]), "r_eq": p / e}[name] == pytest.approx(ratios[name])
        assert len(edges) >= 4 and np.allclose(edges[0], edges[-1]), "a closed outline"
    assert arguments or np.allclose(point, [8e-3, 2.0, 64.0])


def test_the_pieces_of_the_planes_do_not_cross_and_make_up_the_planes():
    axes = constraints_figure().axes[0]
    pieces = next(c for c in axes.collections if isinstance(c, Poly3DCollection))
    assert len(pieces.get_facecolor()) >= 12  # each of three planes cut by both others
    normals = np.array(list(A_TH.values()))
    offsets = normals @ np.log2([8e-3, 2.0, 64.0])
    low, high = np.log2([8e-3, 2.0, 64.0]) - 5, np.log2([8e-3, 2.0, 64.0]) + 5
    for i in range(3):
        whole = plane_polygon(normals[i], offsets[i], low, high)
        j, k = [n for n in range(3) if n != i]
        parts = [
            clip(clip(whole, a * normals[j], a * offsets[j]), b * normals[k], b * offsets[k])
            for a in (1, -1)
            for b in (1, -1)
        ]
        assert sum(map(area, parts)) == pytest.approx(area(whole))


def area(polygon):
    if len(polygon) < 3:
        return 0.0
    return float(
        np.linalg.norm(
            sum(np.cross(polygon[i] - polygon[0], polygon[i + 1] - polygon[0]) for i in range(1, len(polygon) - 1))
        )
        / 2
    )


def test_polygons_of_planes_in_boxes():
    rng = np.random.default_rng(0)
    low, high = np.array([-1.0, -2.0, 0.0]), np.array([1.0, 1.0, 3.0])
    seen = set()
    for _ in range(200):
        normal = rng.normal(size=3)
        offset = normal @ rng.uniform(low, high)
        polygon = plane_polygon(normal, offset, low, high)
        seen.add(len(polygon))
        assert (
            np.allclose(polygon @ normal, offset) and (polygon >= low - 1e-9).all() and (polygon <= high + 1e-9).all()
        )
        around = [
            np.cross(b - a, c - b) @ normal
            for a, b, c in zip(polygon, np.roll(polygon, -1, 0), np.roll(polygon, -2, 0))
        ]
        assert (np.array(around) > -1e-9).all() or (np.array(around) < 1e-9).all(), "corners in order around, convex"
    assert seen == {3, 4, 5, 6}
    assert len(plane_polygon(np.array([1.0, 0, 0]), 5.0, low, high)) == 0


def test_ratios_are_positive_numbers():
    for name in ("r_p", "r_e", "r_eq", "eta"):
        for value in (0.0, -1.0, np.inf, np.nan):
            with pytest.raises(ValueError, match=f"{name} = "):
                constraints_figure(**{name: value})


def test_planes_are_told_apart_without_colours():
    axes = constraints_figure().axes[0]
    outlines = [line for line in axes.get_lines() if "mathcal" in line.get_label()]
    assert len({str(line._dash_pattern) for line in outlines}) == 3
    assert {text.get_text() for text in axes.texts} == {r"$\mathcal{C}_p$", r"$\mathcal{C}_e$", r"$\mathcal{C}_{eq}$"}


def test_the_pairs_of_the_pipeline_are_those_of_its_batch():
    axes = pipeline_figure().axes[0]
    cells = {patch.get_gid(): patch for patch in axes.patches if patch.get_gid()}
    images = [name for name in cells if name.startswith("image")]
    b = len(images)
    labels = [i // 2 for i in range(b)]
    kinds = {
        (int(i), int(j)): kind for kind, i, j in (name.split("-") for name in cells if not name.startswith("image"))
    }
    assert kinds == {
        (i, j): "self" if i == j else "positive" if labels[i] == labels[j] else "negative"
        for i in range(b)
        for j in range(b)
    }
    assert (
        sum(kind == "positive" for kind in kinds.values()) == b
        and sum(kind == "negative" for kind in kinds.values()) == b**2 - 2 * b
    )
    for (i, j), kind in kinds.items():  # row i down, column j to the right, images in the same order
        assert cells[f"{kind}-{i}-{j}"].get_y() == pytest.approx(cells[f"self-{i}-{i}"].get_y())
        assert cells[f"{kind}-{i}-{j}"].get_x() == pytest.approx(cells[f"self-{j}-{j}"].get_x())
    assert [cells[f"image-{i}"].get_y() for i in range(b)] == sorted(
        (cells[f"image-{i}"].get_y() for i in range(b)), reverse=True
    )


def test_the_words_of_the_pipeline_do_not_overlap_and_can_be_read_at_800_pixels():
    figure = pipeline_figure()
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    boxes = [text.get_window_extent() for text in texts]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:i]), texts[i].get_text()
    assert min(text.get_fontsize() for text in texts) / 72 * 800 / figure.get_figwidth() >= 9  # pixels
