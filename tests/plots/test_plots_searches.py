"""Curves, paths and timelines: what the artists hold against values made by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

from tune_cd import CoordinateDescent
from tune_cd.analysis import search_lines
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.simulation import simulate
from tune_cd.plots import curves_figure, path_figure, timeline_figure
from tune_cd.plots.path import place_labels
from tune_cd.plots.style import METHODS
from tune_cd.plots.timeline import lanes

ZERO = pd.Timestamp("2026-01-01", tz="UTC")


def band(level, n=30, name="trials"):
    mean = level * (1 - np.exp(-np.arange(1, n + 1) / 5))
    return pd.DataFrame(
        {"mean": mean, "low": mean - 0.1, "high": mean + 0.05}, index=pd.Index(np.arange(1, n + 1) * 1.0, name=name)
    )


def test_a_panel_a_problem_a_curve_a_method():
    bands = {
        "sop": {"cd": band(0.7), "tpe": band(0.6)},
        "landmarks": {"cd": band(0.5), "mine": band(0.4, n=12)},
        "none": {},
    }
    figure = curves_figure(bands, "test_score", best={"sop": 0.75, "elsewhere": 1.0})
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["sop", "landmarks"]
    for axes, methods in zip(shown, bands.values()):
        drawn = {line.get_label(): line for line in axes.get_lines()}
        assert set(drawn) - {"95 % of the best"} == set(methods)
        for name, curve in methods.items():
            assert np.allclose(drawn[name].get_xydata(), np.column_stack([curve.index, curve["mean"]]))
            area = next(c for c in axes.collections if c.get_label() == name).get_paths()[0].vertices
            for column in ("low", "high"):
                assert all(np.isclose(area, point).all(1).any() for point in zip(curve.index, curve[column]))
    assert [
        line.get_ydata()[0] for line in shown[0].get_lines() if line.get_label() == "95 % of the best"
    ] == pytest.approx([0.95 * 0.75])
    assert not [line for line in shown[1].get_lines() if line.get_label() == "95 % of the best"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(legend) == sorted(["cd", "tpe", "mine", "95 % of the best"])


def test_a_method_looks_the_same_in_every_panel():
    figure = curves_figure(
        {"a": {"mine": band(0.7), "cd": band(0.5)}, "b": {"yours": band(0.5), "mine": band(0.5)}}, "val_score"
    )
    looks = [
        {line.get_label(): (line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.get_lines()}
        for axes in figure.axes
    ]
    assert looks[0]["mine"] == looks[1]["mine"] != looks[1]["yours"]


def test_known_methods_have_their_own_look_and_all_differ():
    axes = curves_figure({"a": {name: band(0.5) for name in METHODS}}, "val_score").axes[0]
    for line in axes.get_lines():
        assert (line.get_color(), line.get_marker()) == (
            METHODS[line.get_label()].colour,
            METHODS[line.get_label()].marker,
        )
        assert len(np.arange(30)[slice(line.get_markevery()[0], None, line.get_markevery()[1])]) >= 5, "marks are seen"


@pytest.mark.parametrize(
    ("name", "words"),
    [("trials", "trials (whole training runs)"), ("seconds", "time (s)"), ("gpu_seconds", "GPU time (s)")],
)
def test_the_axis_says_what_the_curves_are_over(name, words):
    assert curves_figure({"a": {"cd": band(0.5, name=name)}}, "val_score").axes[0].get_xlabel() == words


def test_replays_have_a_unit_of_their_own():
    figure = curves_figure({"a": {"cd": band(0.5, name="seconds")}}, "val_score", unit="durations of a typical trial")
    assert figure.axes[0].get_xlabel() == "time (durations of a typical trial)"


def test_curves_over_different_things_are_refused():
    with pytest.raises(ValueError, match="seconds.*trials"):
        curves_figure({"a": {"cd": band(0.5), "tpe": band(0.5, name="seconds")}}, "val_score")


def test_a_single_search_has_no_band_and_a_single_trial_is_a_point():
    single = band(0.5).assign(low=np.nan, high=np.nan)
    curves_figure({"a": {"cd": single, "tpe": band(0.4, n=1)}}, "val_score").draw_without_rendering()


def test_curves_are_steps_their_time_begins_with_the_search_and_long_titles_are_broken():
    """What was reached holds from then on; a set-up of many words stays above its own panel."""
    titles = [
        "glyphs memory=none images_seen=25600 embedding=0: test r_map",
        "glyphs memory=fixed images_seen=640 embedding=128: test r_map",
        "sop",
    ]
    figure = curves_figure({title: {"cd": band(0.5, name="seconds")} for title in titles}, "val_score")
    figure.draw_without_rendering()
    for axes, title in zip(figure.axes, titles):
        assert (
            axes.get_title().replace("\n", " ") == title and axes.get_xlim()[0] == 0 and axes.get_xlabel() == "time (s)"
        )
        assert {line.get_drawstyle() for line in axes.get_lines()} == {"steps-post"}
        assert axes.title.get_window_extent().width < 1.1 * axes.get_window_extent().width
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert [axes.get_ylabel() for axes in figure.axes] == ["validation score of the best so far", "", ""]


def replayed(landscape="narrow", settings="paper", n=24, workers=1):
    shape = LANDSCAPES[landscape]
    search = CoordinateDescent(shape.space, settings=settings, seed=0, workers=workers)
    trials = sorted(simulate(search, shape, trials=n, workers=workers), key=lambda trial: trial.index)
    return pd.DataFrame([
        {
            "study": "s", "search": "cd", "search_seed": 0, "seed": 0, "trial_index": trial.index,
            "direction": trial.direction, "line_position": trial.line_position, "Lambda_p": trial.h["Lambda_p"],
            "Lambda_e": trial.h["Lambda_e"], "batch_size": trial.h.get("batch_size", 64), "status": trial.status,
            "metric_name": "r_map", "val_score": trial.value,
        }
        for trial in trials
    ])  # fmt: skip


def segments(axes):
    names = ("balance", "joint", "batch_size", "Lambda_p", "Lambda_e", "mine")
    return [(line.get_label(), line.get_xydata()) for line in axes.get_lines() if line.get_label() in names]


def hand_made():
    h = [(1, 1), (0.5, 2), (0.25, 4), (0.5, 4), (2, 16), (2, 4), (1, 8)]
    directions = ["start"] + ["balance"] * 2 + ["joint"] * 2 + ["balance"] * 2
    return pd.DataFrame({
        "study": "s", "search": "cd", "search_seed": 0, "trial_index": range(7), "direction": directions,
        "line_position": [0.0, 1.0, 2.0, 1.0, 3.0, -1.0, 0.0], "batch_size": 64,
        "Lambda_p": [p for p, _ in h], "Lambda_e": [e for _, e in h],
        "status": "completed", "metric_name": "r_map", "val_score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.55],
    })  # fmt: skip


def test_every_line_search_is_a_line_through_its_points():
    axes = path_figure(hand_made()).axes[0]
    expected = [
        ("balance", {(1, 1), (0.5, 2), (0.25, 4)}),
        ("joint", {(0.25, 2), (0.5, 4), (2, 16)}),  # from γ = 0: not one of the trials here
        ("balance", {(1, 8), (2, 4)}),
    ]
    found = segments(axes)
    assert [(name, {tuple(point) for point in np.unique(points, axis=0)}) for name, points in found] == expected
    for _, points in found:
        assert (np.diff(points[:, 0]) >= 0).all() or (np.diff(points[:, 0]) <= 0).all(), "from end to end"


def test_a_line_that_began_at_another_searchs_trial_is_seen_whole():
    """A search that knows another's trials sets out from them: where its first line began is none of its own points."""
    table = hand_made().assign(line_position=[0.0, 1.0, 2.0, 1.0, 3.0, -9.0, -8.0])
    axes = path_figure(table).axes[0]
    for _, points in segments(axes):
        for column, limits in enumerate((axes.get_xlim(), axes.get_ylim())):
            assert (limits[0] < points[:, column]).all() and (points[:, column] < limits[1]).all()
    assert any(points.max() > 1000 for _, points in segments(axes))


def test_a_path_over_ones_own_parameters():
    table = hand_made()
    own = table.assign(
        params=[{"lr": p, "wd": e} for p, e in zip(table["Lambda_p"], table["Lambda_e"])],
        Lambda_p=np.nan,
        Lambda_e=np.nan,
    )
    axes = path_figure(own, plane=("lr", "wd")).axes[0]
    points = next(c for c in axes.collections if c.get_label() == "completed")
    assert np.allclose(points.get_offsets(), table[["Lambda_p", "Lambda_e"]]) and (
        axes.get_xlabel(),
        axes.get_ylabel(),
    ) == ("lr", "wd")
    assert "There is no trial with Lambda_p and Lambda_e" in path_figure(own).texts[0].get_text()
    with pytest.raises(ValueError, match="parameter 'momentum': one of"):
        path_figure(own, plane=("lr", "momentum"))


def test_the_first_and_the_best_are_marked_and_all_are_numbered():
    table = hand_made()
    axes = path_figure(table).axes[0]
    marked = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert marked["first trial"] == [[1, 1]] and marked["best: 0.600, trial 5"] == [[2, 4]]
    assert {text.get_text(): text.xy for text in axes.texts} == {
        str(i): (row["Lambda_p"], row["Lambda_e"]) for i, row in table.iterrows()
    }
    points = next(c for c in axes.collections if c.get_label() == "completed")
    assert np.allclose(points.get_offsets(), table[["Lambda_p", "Lambda_e"]]) and np.allclose(
        points.get_array(), table["val_score"]
    )


@pytest.mark.parametrize("settings", ["paper", "default"])
def test_the_lines_of_real_searches_hold_all_their_trials_and_follow_their_directions(settings):
    table = replayed(settings=settings)
    along = {"balance": (-1, 1), "joint": (1, 1), "Lambda_p": (1, 0), "Lambda_e": (0, 1)}
    drawn = segments(path_figure(table).axes[0])
    asked = table[~table["direction"].isin(["start", "sampled"])]
    for name, points in drawn:
        steps = np.log2(points) - np.log2(points[0])
        assert (
            np.allclose(steps[:, 0] * along[name][1], steps[:, 1] * along[name][0], atol=1e-6)
            and np.abs(steps).max() > 1e-3
        )
    held = [tuple(np.round(np.log2(point), 6)) for _, points in drawn for point in points]
    assert set(map(tuple, np.log2(asked[["Lambda_p", "Lambda_e"]].to_numpy()).round(6))) <= set(held)
    changes = (asked["direction"] != asked["direction"].shift()).sum()
    assert changes <= len(drawn) <= len(asked) and (settings == "default" or len(drawn) == changes)


def test_the_same_direction_from_another_place_is_another_line():
    table = hand_made().iloc[:3].assign(direction=["start", "balance", "balance"], line_position=[0.0, 1.0, 1.0])
    table.loc[2, ["Lambda_p", "Lambda_e"]] = 4.0, 16.0
    assert [line.direction for line in search_lines(table)] == ["balance", "balance"]


def test_unknown_directions_are_lines_through_trials_alone():
    table = hand_made().assign(direction="mine", line_position=np.nan)
    table[["Lambda_p", "Lambda_e"]] = 2.0 ** np.outer(np.arange(7), [1, 3])
    (name, points), = segments(path_figure(table).axes[0])  # fmt: skip
    assert name == "mine" and len(points) == 7


def test_a_line_along_the_batch_size_is_a_ring_and_one_batch_size_can_be_chosen():
    table = replayed("batch", "default", n=20)
    axes = path_figure(table).axes[0]
    across = [points for name, points in segments(axes) if name == "batch_size"]
    asked = table[table["direction"] == "batch_size"]
    assert across and all(len(points) == 1 for points in across)
    assert {tuple(np.round(points[0], 9)) for points in across} == set(
        map(tuple, asked[["Lambda_p", "Lambda_e"]].to_numpy().round(9))
    )
    size = int(table["batch_size"].mode()[0])
    figure = path_figure(table, batch_size=size)
    numbers = {int(n) for text in figure.axes[0].texts for n in text.get_text().split(", ")}
    assert numbers == set(table[table["batch_size"] == size]["trial_index"])
    figure.draw_without_rendering()


def test_several_trials_at_one_place_are_numbered_together():
    table = hand_made()
    table.loc[6, ["Lambda_p", "Lambda_e"]] = table.loc[5, ["Lambda_p", "Lambda_e"]]
    assert "5, 6" in [text.get_text() for text in path_figure(table).axes[0].texts]


def test_failures_have_crosses_and_repeats_are_drawn_once():
    table = hand_made()
    table.loc[[2, 4], ["status", "val_score"]] = ["diverged", np.nan]
    again = pd.concat([table, table.iloc[[2]].assign(status="completed", val_score=0.35)], ignore_index=True)
    axes = path_figure(again).axes[0]
    crosses = next(line for line in axes.get_lines() if line.get_label() == "did not complete")
    assert crosses.get_xydata().tolist() == [[2, 16]] and len(axes.texts) == 7
    path_figure(table.assign(status="failed", val_score=np.nan)).draw_without_rendering()
    path_figure(table.iloc[:1]).draw_without_rendering()


def test_a_path_is_of_one_study():
    with pytest.raises(ValueError, match="more than one study"):
        path_figure(hand_made().assign(study=["a"] * 4 + ["b"] * 3))


def test_of_several_searches_that_with_lines_is_drawn_and_of_those_the_best():
    own, other = hand_made(), hand_made()
    other[["Lambda_p", "val_score"]] *= [0.01, 2.0]
    sampled = other.assign(search="separate", direction="sampled")
    axes = path_figure(pd.concat([sampled, own], ignore_index=True)).axes[0]
    assert [points.tolist() for _, points in segments(axes)] == [
        points.tolist() for _, points in segments(path_figure(own).axes[0])
    ]
    axes = path_figure(pd.concat([own, sampled, other.assign(search_seed=1)], ignore_index=True)).axes[0]
    assert [points.tolist() for _, points in segments(axes)] == [
        points.tolist() for _, points in segments(path_figure(other).axes[0])
    ]
    assert "the best of 2 searches" in axes.get_title()


def test_numbers_are_left_out_where_they_would_be_unreadable():
    table = replayed("omniglot", "default", n=64)
    figure = path_figure(table)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    shared = [
        max(0, min(a.x1, b.x1) - max(a.x0, b.x0)) * max(0, min(a.y1, b.y1) - max(a.y0, b.y0))
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    ]
    assert 20 < len(boxes) < 64 and max(shared) < 0.5 * min(box.width * box.height for box in boxes)


def test_numbers_keep_apart_where_there_is_room():
    points = np.array([(x, y) for x in range(0, 400, 40) for y in range(0, 400, 40)], dtype=float)
    offsets = place_labels(points, ["12"] * len(points), np.full(len(points), 4.5))
    middles = points + np.array(offsets, dtype=float)  # none left out
    for i, middle in enumerate(middles):
        near = np.abs(np.delete(middles, i, axis=0) - middle) < [10, 8]
        assert not near.all(1).any() and not (np.abs(points - middle) < [5, 4]).all(1).any()


def timed(starts, ends, hosts=None, status="completed"):
    started, ended = (ZERO + pd.to_timedelta(np.array(seconds, dtype=float), unit="s") for seconds in (starts, ends))
    return pd.DataFrame(
        {
            "search": "cd",
            "trial_index": range(len(starts)),
            "status": status,
            "hostname": hosts,
            "started_at": started,
            "ended_at": ended,
        }
    )


def bars(axes):
    """(status, row, start, end) of every bar."""
    return [
        (c.get_label(), bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_x() + bar.get_width())
        for c in axes.containers
        for bar in c
    ]


def test_lanes_never_overlap_and_are_as_few_as_can_be():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 40, 200):
        starts = np.sort(rng.integers(0, 60, n)).astype(float)
        ends = starts + rng.integers(1, 15, n)
        found = lanes(starts, ends)
        at_once = max(((starts <= start) & (ends > start)).sum() for start in starts)
        assert set(found) == set(range(at_once))
        for lane in range(at_once):
            mine = np.flatnonzero(found == lane)
            assert (starts[mine][1:] >= ends[mine][:-1]).all()


def test_bars_are_the_trials_in_rows_of_their_machine():
    rng = np.random.default_rng(1)
    starts = rng.uniform(0, 1000, 40)
    ends = starts + rng.uniform(10, 300, 40)
    table = timed(starts, ends, rng.choice(["b", "a"], 40))
    figure = timeline_figure(table)
    axes = figure.axes[0]
    found = sorted((start * 60, end * 60) for _, _, start, end in bars(axes))
    first = starts.min()
    assert axes.get_xlabel() == "time since the first start (min)"
    assert np.allclose(found, sorted(zip(starts - first, ends - first)), atol=1e-5)
    rows = {}
    for _, row, start, end in bars(axes):
        rows.setdefault(round(row), []).append((start, end))
    for spans in rows.values():
        spans.sort()
        assert all(one[1] <= other[0] + 1e-9 for one, other in itertools.pairwise(spans))
    counts = {}
    for host in "ab":
        began, ended = starts[table["hostname"] == host], ends[table["hostname"] == host]
        counts[host] = max(((began <= start) & (ended > start)).sum() for start in began)
    assert len(rows) == sum(counts.values())
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert np.allclose(axes.get_yticks(), [(counts["a"] - 1) / 2, counts["a"] + (counts["b"] - 1) / 2])
    assert "40 trials on 2 machines" in axes.get_title()


def test_bars_say_their_search_where_there_are_several():
    """Numbers are of each search's own order, so that the same number stands in several bars."""
    table = timed([0, 100, 200, 300], [100, 200, 300, 303])
    assert [text.get_text() for text in timeline_figure(table).axes[0].texts] == ["0", "1", "2"]
    table = table.assign(search=["cd", "cd", "separate", "separate"], trial_index=[0, 1, 0, 1])
    assert [text.get_text() for text in timeline_figure(table).axes[0].texts] == ["0\ncd", "1\ncd", "0\nseparate"], (
        "the last has no room"
    )


@pytest.mark.parametrize(("end", "unit", "seconds"), [(100, "s", 1), (1000, "min", 60), (40_000, "h", 3600)])
def test_the_unit_of_time_fits_the_study(end, unit, seconds):
    axes = timeline_figure(timed([0], [end])).axes[0]
    assert axes.get_xlabel().endswith(f"({unit})") and bars(axes)[0][3] == pytest.approx(end / seconds)


def test_states_differ_by_hatch_and_rows_without_times_are_counted():
    status = ["completed", "diverged", "failed", "stopped", "completed", "failed", "completed"]
    table = timed([0, 5, 10, 15, 20, np.nan, 30], [4, 9, 14, 19, np.nan, np.nan, 25], status=status)
    axes = timeline_figure(table).axes[0]
    assert sorted(name for name, *_ in bars(axes)) == ["completed", "diverged", "failed", "stopped"]
    assert len({bar.get_hatch() for container in axes.containers for bar in container}) == 4
    assert "4 trials on 1 machine" in axes.get_title() and axes.get_title().endswith("3 without times left out")
    assert axes.get_yticklabels()[0].get_text() == "machine not recorded"


def test_trials_without_a_duration_and_on_many_machines_are_drawn():
    timeline_figure(timed([0], [0])).draw_without_rendering()
    many = timed(range(90), np.arange(90) + 50.0, [f"node-{n % 30}" for n in range(90)])
    timeline_figure(many).draw_without_rendering()
