"""The search's picture, what all figures share, and every figure rendered once. Data, not pixels."""

import math
import subprocess
import sys
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from figure_checks import check_axes, check_saving

from tune_cd import plots
from tune_cd.analysis import Grid, balance_gain
from tune_cd.plots import search_figure, style

BOX = (1e-6, 17.0)


def trials(scores, search="cd", **columns):
    rng = np.random.default_rng(len(search))
    x = 10 ** rng.uniform(-6, 1, (len(scores), 2))
    status = ["completed" if math.isfinite(score) else "diverged" for score in scores]
    return pd.DataFrame({
        "study": "s", "search": search, "trial_index": range(len(scores)), "Lambda_p": x[:, 0], "Lambda_e": x[:, 1],
        "val_score": scores, "status": status, "metric_name": "r_map", "dataset": "glyphs",
        "loss": "margin", "batch_size": 64, "search_seed": 0, "seed": 0, "test_score": np.nan, "scores": [{}] * len(x),
    } | columns)  # fmt: skip


def picture(*tables, averages=("separate", "global"), box=BOX):
    return search_figure(pd.concat(tables, ignore_index=True), averages, 64, 2, box)


def test_points_diagonals_curves_and_the_best():
    cd = trials([0.2, math.nan, 0.6, 0.5])
    figure = picture(cd, trials([0.3, 0.4], "separate"), trials([0.1], "global"))
    plane, curves = figure.axes[:2]
    diagonals = {line.get_label(): line.get_ydata() / line.get_xdata() for line in plane.get_lines()}
    assert np.allclose(diagonals["separate average"], 1) and np.allclose(diagonals["global average"], 62)
    points = {c.get_label(): np.asarray(c.get_offsets()) for c in plane.collections if len(c.get_offsets())}
    for label, rows in {"cd (3 trials)": [0, 2, 3], "diverged or failed": [1], "best of all": [2]}.items():
        assert np.allclose(points[label], cd.loc[rows, ["Lambda_p", "Lambda_e"]])
    steps = {line.get_label(): line.get_ydata().tolist() for line in curves.get_lines()}
    assert steps == {"cd": [0.2, 0.2, 0.6, 0.6], "separate": [0.3, 0.4], "global": [0.1]}


@pytest.mark.parametrize("mode, best", [("max", 0.6), ("min", 0.2)])
def test_the_best_is_the_lightest_also_of_a_loss(mode, best):
    points = picture(trials([0.2, 0.6, 0.5], mode=mode)).axes[0].collections[0]
    assert points.get_cmap()(points.norm(best)) == style.COLOUR_MAP(1.0)


def test_a_searched_batch_size_is_no_fixed_one():
    """The title has every size there was, and the diagonals say for which they are."""
    figure = picture(trials([0.2, 0.6, 0.5], batch_size=[64, 512, 64]))
    assert figure.get_suptitle() == "glyphs, margin loss, b = 64, 512: study s"
    labels = {line.get_label() for line in figure.axes[0].get_lines()}
    assert labels == {"separate average at b = 64", "global average at b = 64"}
    assert picture(trials([0.2])).get_suptitle() == "glyphs, margin loss, b = 64: study s"


def test_the_best_of_each_set_up_is_marked():
    """With and without memory are two landscapes: a better score on one is no better place on the other."""
    without = trials([0.3, 0.2], "without", config='{"memory": "none"}', params=[{}, {}])
    with_memory = trials([0.1, 0.2], "S1", config='{"memory": "variable"}', params=[{}, {}])
    plane = picture(without, with_memory).axes[0]
    [rings] = [c for c in plane.collections if c.get_label() == "best of each set-up"]
    best = [without.loc[0, ["Lambda_p", "Lambda_e"]], with_memory.loc[1, ["Lambda_p", "Lambda_e"]]]
    assert {tuple(place) for place in np.asarray(rings.get_offsets())} == set(map(tuple, best))


def test_a_study_of_failures_is_drawn_as_such():
    figure = picture(trials([math.nan, math.nan]))
    figure.draw_without_rendering()
    assert any(c.get_label() == "diverged or failed" for c in figure.axes[0].collections)


def landscape(n=7, sizes=(16, 64, 256)):
    """A grid with a hole, two cells whose trials were lost, and values else."""
    values = np.random.default_rng(4).uniform(size=(n, n, len(sizes)))
    lost = np.zeros(values.shape, dtype=int)
    values[0, 0, 0] = values[1, 2, 0] = values[3, 3, -1] = np.nan
    lost[1, 2, 0] = lost[3, 3, -1] = 2
    ticks, names = np.geomspace(1e-6, 17.0, n), ("Lambda_p", "Lambda_e", "batch_size")
    counts = np.isfinite(values).astype(int)
    return Grid("val_score", names, (ticks, ticks, np.array(sizes)), values, counts, values * np.nan, lost)


def bands():
    x = pd.Index(range(1, 21), name="trials")
    curve = pd.DataFrame({"mean": 0.5, "low": 0.4, "high": 0.6}, index=x)
    return {name: dict.fromkeys(("cd", "tpe", "mine"), curve) for name in ("sop", "omniglot")}


def terms():
    values = np.random.default_rng(1).uniform(size=(20, 3))
    table = pd.DataFrame(values, columns=["positive_term", "entropy_term", "score"])
    return table.assign(batch_size=[16, 32] * 10)


NOTHING = landscape()
NOTHING.values[:] = np.nan
FIGURES = {
    "search": lambda: picture(trials([0.2, 0.4, math.nan])),
    "grid_slices": lambda: plots.grid_slices(landscape()),
    "plane": lambda: plots.plane(landscape(), 64),
    "gain": lambda: plots.gain_figure(balance_gain(landscape())),
    "sublosses": lambda: plots.sublosses_figure(terms()),
    "curves": lambda: plots.curves_figure(bands(), "test_score", target={"sop": 0.6}),
    "directions": plots.directions_figure,
    "constraints": plots.constraints_figure,
    "pipeline": plots.pipeline_figure,
}
EMPTY = {
    "grid_slices": lambda: plots.grid_slices(NOTHING),
    "plane": lambda: plots.plane(NOTHING, 64),
    "gain": lambda: plots.gain_figure(balance_gain(NOTHING)),
    "gain of nothing": lambda: plots.gain_figure(balance_gain(landscape()).iloc[:0]),
    "sublosses": lambda: plots.sublosses_figure(terms().iloc[:0]),
    "curves": lambda: plots.curves_figure({}, "test_score"),
    "curves without a score": lambda: plots.curves_figure({"sop": {"cd": bands()["sop"]["cd"] * np.nan}}, "test_score"),
}


LARGE = ("search", "grid_slices", "plane")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in FIGURES])
def test_every_figure_is_written_twice_and_says_what_its_axes_are(name, tmp_path):
    """Nothing sticks out, the paper is white, and nothing is left behind in matplotlib's settings."""
    check_axes(name, check_saving(FIGURES[name], tmp_path))


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_draw_is_said_in_a_sentence(name):
    figure = EMPTY[name]()
    [text] = figure.texts
    assert not figure.axes and text.get_text().endswith(".")
    figure.draw_without_rendering()


def test_figures_are_nobody_elses():
    code = "import sys\nfrom tune_cd import plots\nplots.pipeline_figure(), plots.constraints_figure()\n"
    code += "assert 'matplotlib.pyplot' not in sys.modules\nfrom tune_cd.plots import *\n"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stderr == ""


def luminance(colour):
    """The lightness that a grey print keeps of a colour, in [0, 1] (Rec. 709 weights of linear light)."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_methods_are_told_apart_in_grey_and_all_are_seen_on_white():
    for (one, a), (other, b) in combinations(style.METHODS.items(), 2):
        lighter = abs(luminance(a.colour) - luminance(b.colour)) > 0.1
        assert a.line != b.line or a.marker != b.marker or lighter, (one, other)
    for name, one in style.METHODS.items():
        assert 1.05 / (luminance(one.colour) + 0.05) > 2, name  # WCAG's contrast ratio
    names = ["cd", "cd-paper", "random", "tpe", "tpe-paper", "cmaes", "gp", "grid", "separate", "global"]
    assert len({style.METHODS[name].marker for name in names}) == len(names), "of one comparison, by marker alone"


def test_scores_grow_lighter():
    lightness = [luminance(style.COLOUR_MAP(x)) for x in np.linspace(0, 1, 50)]
    assert (np.diff(lightness) > 0).all()
    assert luminance("#808080") == pytest.approx(0.2159, abs=1e-4)  # sRGB's 128


def test_other_names_get_styles_of_their_own_in_any_order():
    names = ["cd", *(f"mine-{n}" for n in range(30))]
    given = style.styles_of(names)
    assert given == style.styles_of(reversed(names)) and given["cd"] == style.METHODS["cd"]
    pairs = [(one.line, one.marker) for one in (style.METHODS | given).values()]
    assert len(set(pairs)) == len(style.METHODS) + 30
