"""The search's picture: its data, not its pixels."""

import math

import numpy as np
import pandas as pd

from tune_cd.plots import search_figure

BOX = (1e-6, 17.0)


def trials(scores, search="cd"):
    rng = np.random.default_rng(len(search))
    x = 10 ** rng.uniform(-6, 1, (len(scores), 2))
    status = ["completed" if math.isfinite(score) else "diverged" for score in scores]
    return pd.DataFrame({
        "study": "s", "search": search, "trial_index": range(len(scores)), "Lambda_p": x[:, 0], "Lambda_e": x[:, 1],
        "val_score": scores, "status": status, "metric_name": "r_map", "dataset": "glyphs", "loss": "margin",
    })  # fmt: skip


def test_points_diagonals_curves_and_the_best():
    table = pd.concat([trials([0.2, math.nan, 0.6, 0.5]), trials([0.3, 0.4], "separate"), trials([0.1], "global")], ignore_index=True)
    figure = search_figure(table, ("separate", "global"), 64, 2, BOX)
    plane, curves = figure.axes[:2]
    diagonals = {line.get_label(): line.get_ydata() / line.get_xdata() for line in plane.get_lines()}
    assert np.allclose(diagonals["separate average"], 1) and np.allclose(diagonals["global average"], 62)
    points = {c.get_label(): np.asarray(c.get_offsets()) for c in plane.collections if len(c.get_offsets())}
    cd = table[table["search"] == "cd"]
    assert np.allclose(points["cd (3 trials)"], cd[cd["val_score"].notna()][["Lambda_p", "Lambda_e"]])
    assert np.allclose(points["diverged or failed"], cd[cd["val_score"].isna()][["Lambda_p", "Lambda_e"]])
    assert np.allclose(points["best"], cd.loc[[2], ["Lambda_p", "Lambda_e"]])
    steps = {line.get_label(): line.get_ydata().tolist() for line in curves.get_lines()}
    assert steps == {"cd": [0.2, 0.2, 0.6, 0.6], "separate": [0.3, 0.4], "global": [0.1]}


def test_a_study_of_failures_is_drawn_as_such(tmp_path):
    figure = search_figure(trials([math.nan, math.nan]), ("separate",), 64, 2, BOX)
    figure.savefig(tmp_path / "f.png")
    assert any(c.get_label() == "diverged or failed" for c in figure.axes[0].collections)
