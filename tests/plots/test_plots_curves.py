"""Best-so-far curves: what the artists hold against values made by hand."""

import numpy as np
import pandas as pd
import pytest

from tune_cd.plots import curves_figure


def band(level, n=30, name="trials"):
    x = pd.Index(np.arange(1, n + 1) * 1.0, name=name)
    mean = level * (1 - np.exp(-x.to_numpy() / 5))
    return pd.DataFrame({"mean": mean, "low": mean - 0.1, "high": mean + 0.05}, index=x)


def test_a_panel_a_problem_a_curve_a_method():
    of_sop, of_landmarks = {"cd": band(0.7), "tpe": band(0.6)}, {"cd": band(0.5), "mine": band(0.4, n=12)}
    bands = {"sop": of_sop, "landmarks": of_landmarks, "none": {}}
    figure = curves_figure(bands, "test_score", target={"sop": 0.7, "elsewhere": 1.0})
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["sop", "landmarks"]
    for axes, methods in zip(shown, bands.values()):
        drawn = {line.get_label(): line for line in axes.get_lines()}
        assert set(drawn) - {"within 5 % of the best"} == set(methods)
        for name, curve in methods.items():
            assert np.allclose(drawn[name].get_xydata(), np.column_stack([curve.index, curve["mean"]]))
            area = next(c for c in axes.collections if c.get_label() == name).get_paths()[0].vertices
            for column in ("low", "high"):
                assert all(np.isclose(area, point).all(1).any() for point in zip(curve.index, curve[column]))
    targets = [line for axes in shown for line in axes.get_lines() if line.get_label() == "within 5 % of the best"]
    assert [(line.axes, line.get_ydata()[0]) for line in targets] == [(shown[0], 0.7)]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(legend) == sorted(["cd", "tpe", "mine", "within 5 % of the best"])


@pytest.mark.parametrize(("name", "words"), [("trials", "trials (whole training runs)"), ("seconds", "time (s)")])
def test_the_axis_says_what_the_curves_are_over(name, words):
    assert curves_figure({"a": {"cd": band(0.5, name=name)}}, "val_score").axes[0].get_xlabel() == words


def test_curves_are_steps_their_time_begins_with_the_search_and_long_titles_are_broken():
    """What was reached holds from then on; a set-up of many words stays above its own panel. One search without a band
    and one of a single trial are drawn as well."""
    long = "glyphs memory={} images_seen={} embedding={}: test r_map"
    titles = [long.format("none", 25600, 0), long.format("fixed", 640, 128), "sop"]
    single = band(0.5, name="seconds").assign(low=np.nan, high=np.nan)
    figure = curves_figure({title: {"cd": single, "tpe": band(0.4, 1, "seconds")} for title in titles}, "val_score")
    figure.draw_without_rendering()
    for axes, title in zip(figure.axes, titles):
        assert axes.get_title().replace("\n", " ") == title
        assert axes.get_xlim()[0] == 0 and axes.get_xlabel() == "time (s)"
        assert {line.get_drawstyle() for line in axes.get_lines()} == {"steps-post"}
        assert axes.title.get_window_extent().width < 1.1 * axes.get_window_extent().width
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert [axes.get_ylabel() for axes in figure.axes] == ["validation score of the best so far", "", ""]
