"""Where A_O wins and where A_I does: how landscapes are placed in the family, and what the figure shows."""

from math import inf

import matplotlib.colors
import numpy as np
import orientation
import pandas as pd
import pytest
from figure_checks import check_axes, check_saving
from orientation import _compared, floor_share, member, place, shelf
from orientation_figure import COLOURS, orientation_figure
from rows import minimal

from tune_cd.landscapes.find import MEASURED, find, trainings
from tune_cd.landscapes.formulas import RANGE, Ridge, landscape_of
from tune_cd.landscapes.landscape import Landscape, from_table
from tune_cd.plots import save
from tune_cd.results.schema import check_trial

CENTRE = (-6.0, -4.0)  # near the middle of the box


def measured(surface, n=25) -> pd.DataFrame:
    """A full grid of trials on a surface."""
    ticks, rows = np.geomspace(*RANGE, n), []
    for i, p in enumerate(ticks):
        for j, e in enumerate(ticks):
            score = float(surface(np.log2([p, e])))
            params = {"Lambda_p": p, "Lambda_e": e}
            rows.append(
                check_trial(
                    minimal(
                        **params,
                        params=params,
                        status="completed",
                        val_score=score,
                        test_score=score,
                        trial_id=f"t{i}-{j}",
                    )
                )
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("angle", [-45.0, -20.0, 0.0, 10.0, 45.0])
@pytest.mark.parametrize("aspect", [1.5, 3.0])
def test_a_measured_ridge_is_placed_where_it_was_made(angle, aspect):
    ridge = Ridge(CENTRE, 0.9, 3.0, 3.0 * aspect, floor=0.2, angle=angle)
    trials = measured(ridge)
    found = place(from_table(trials, "made up"), trials)
    assert found.angle == pytest.approx(angle, abs=2) and found.aspect == pytest.approx(aspect, rel=0.1)
    assert found.angle_low <= found.angle <= found.angle_high and found.aspect_low <= found.aspect <= found.aspect_high
    assert (
        found.floor_share == pytest.approx(floor_share(landscape_of("formula", ridge)), abs=0.02) and found.shelf < 0.05
    )


def step(share: float, rise: float) -> Landscape:
    """1 in a strip at the upper end of Lambda_e, else 0, and `rise` for the upper half of Lambda_p."""
    low, high = np.log2(RANGE)

    def surface(x):
        positive, entropy = np.moveaxis(np.asarray(x), -1, 0)
        return np.where(
            entropy > high - (1 - share) * (high - low), 1.0, np.where(positive > (low + high) / 2, rise, 0.0)
        )

    made = landscape_of("step", Ridge(CENTRE, 1.0, 3.0, 3.0))
    return Landscape("step", made.space, surface, made.optimum, 0.0, 1.0)


@pytest.mark.parametrize("share", [0.6, 0.9])
@pytest.mark.parametrize("rise", [0.0, 0.3])
def test_floor_and_shelf_by_hand(share, rise):
    assert floor_share(step(share, rise)) == pytest.approx(share, abs=0.01) and shelf(step(share, rise)) == rise


@pytest.mark.parametrize(
    "aspect, angle, share, rise",
    [(1.0, 0.0, 0.8, 0.0), (3.0, 15.0, 0.95, 0.0), (8.0, -45.0, 0.9, 0.25), (2.0, 0.0, 0.975, 0.25)],
)
def test_members_have_the_floor_they_were_asked_for(aspect, angle, share, rise):
    made = member(aspect, angle, share, rise)
    ridge = made.validation
    assert floor_share(made) == pytest.approx(share, abs=2e-3) and shelf(made) == pytest.approx(
        rise, abs=0.2 if aspect == 8 else 0.02
    )
    assert (ridge.s_joint / ridge.s_balance, ridge.angle, ridge.peak, ridge.floor) == (
        pytest.approx(aspect),
        angle,
        1.0,
        0.0,
    )


def test_a_shelf_rises_where_lambda_p_is_the_optimums_and_nowhere_above_the_peak():
    plain, risen = (Ridge(CENTRE, 0.9, 2.0, 4.0, floor=0.1, shelf=height) for height in (0.0, 0.25))
    far = np.array([CENTRE[0], CENTRE[1] + 15])
    assert risen(far) == pytest.approx(0.1 + 0.25 * 0.8, abs=1e-3) and plain(far) == pytest.approx(0.1, abs=1e-3)
    assert risen(far + np.array([5.0, 0.0])) == pytest.approx(0.1 + 0.25 * 0.8 / np.e, abs=1e-3)
    assert risen(np.array(CENTRE)) == pytest.approx(0.9) == plain(np.array(CENTRE))


def test_a_floor_that_no_width_has_is_refused():
    with pytest.raises(ValueError, match=r"floor share 0.3: 0\.\d+ to [01]\.\d+ are possible with aspect 2.0"):
        member(2.0, 0.0, 0.3, 0.0)


@pytest.mark.parametrize("name", MEASURED)
def test_the_measured_grids_lie_near_a_os_axes_on_floors_that_are_not_flat(name):
    """So neither angle nor aspect is why A_I is not behind on them."""
    found = place(find(name), trainings(name))
    assert abs(found.angle) < 25 and found.aspect > 3 and found.floor_share > 0.9 and found.shelf > 0.1


@pytest.mark.slow
def test_a_turned_ridge_or_a_shelf_reverses_the_order():
    """Along A_O's axes on a flat floor A_O is ahead, turned by 45 degrees A_I; and on a floor with a shelf A_I without
    any turn."""
    flat, turned, risen = member(3.0, 0.0, 0.95, 0.0), member(3.0, 45.0, 0.95, 0.0), member(3.0, 0.0, 0.95, 0.25)
    rows = _compared([flat, turned, risen], range(40), processes=1)
    signs = [np.sign(row["difference"]) * (abs(row["difference"]) > row["half"]) for row in rows.values()]
    assert list(rows) == [flat.name, turned.name, risen.name] and signs == [-1, 1, 1]


# The figure ---------------------------------------------------------------------------------------------------


def family() -> pd.DataFrame:
    rows = []
    for shelf_, share in ((0.0, 0.8), (0.0, 0.95), (0.25, 0.8), (0.25, 0.95)):
        for aspect, angle in ((1.0, 0.0), (2.0, -45.0), (2.0, 0.0), (2.0, 45.0), (4.0, -45.0), (4.0, 0.0), (4.0, 45.0)):
            rows.append(
                {
                    "aspect": aspect,
                    "angle": angle,
                    "floor_share": share,
                    "shelf": shelf_,
                    "difference": angle / 450 - shelf_ / 10,
                    "half": 0.03,
                }
            )
    return pd.DataFrame(rows)


def of_measured(**fields) -> pd.DataFrame:
    row = {
        "landscape": "mine",
        "angle": 10.0,
        "angle_low": -5.0,
        "angle_high": 30.0,
        "aspect": 3.0,
        "aspect_low": 2.0,
        "aspect_high": inf,
    }
    return pd.DataFrame([row | {"floor_share": 0.94, "shelf": 0.2, "difference": 0.1, "half": 0.01} | fields])


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_each_ridge_is_a_cell_with_the_colour_of_its_difference():
    figure = orientation_figure(family(), of_measured())
    drawn = panels(figure)
    assert list(drawn) == [
        f"{floor}, {share} % of the box" for floor in ("flat floor", "shelf of 25 %") for share in (80, 95)
    ]
    cells = drawn["flat floor, 80 % of the box"].collections
    colours = [matplotlib.colors.to_hex(cell.get_facecolor()[0]) for cell in cells]
    largest = 0.125  # of the family: -45/450 - 0.25/10
    assert colours == [
        matplotlib.colors.to_hex(COLOURS((angle / 450 + largest) / (2 * largest)))
        for angle in (0, -45, 0, 45, -45, 0, 45)
    ]
    widths = [np.ptp(cell.get_paths()[0].vertices[:, 0]) for cell in cells]
    assert widths == pytest.approx([135, *[45] * 6]), "a round ridge has no angle"


def test_signs_stand_where_the_interval_does_not_hold_0():
    texts = [
        text.get_text()
        for text in panels(orientation_figure(family(), of_measured()))["flat floor, 95 % of the box"].texts
    ]
    assert texts == ["−", "+", "−", "+"]


def test_a_measured_landscape_is_drawn_in_the_nearest_panel_with_its_own_colour():
    figure = orientation_figure(family(), of_measured())
    marked = {
        title: [line for line in axes.get_lines() if line.get_marker() == "o"] for title, axes in panels(figure).items()
    }
    assert {title: len(lines) for title, lines in marked.items() if lines} == {"shelf of 25 %, 95 % of the box": 1}
    (point,) = marked["shelf of 25 %, 95 % of the box"]
    assert point.get_xydata().tolist() == [[10.0, 3.0]] and point.get_label() == "mine: +0.10 ±0.01"
    assert matplotlib.colors.to_hex(point.get_color()) == matplotlib.colors.to_hex(COLOURS((0.1 + 0.125) / 0.25))


def test_what_lies_beyond_the_panel_is_drawn_at_its_edge():
    figure = orientation_figure(
        family(), of_measured(angle=-88.0, angle_low=-90.0, angle_high=-60.0, aspect=inf, aspect_low=20.0)
    )
    axes = panels(figure)["shelf of 25 %, 95 % of the box"]
    ((x, y),) = next(line for line in axes.get_lines() if line.get_marker() == "o").get_xydata()
    assert x == axes.get_xlim()[0] and 4 < y < axes.get_ylim()[1]


def test_the_command_draws_it_and_prints_where_the_measured_grids_lie(tmp_path, capsys, monkeypatch):
    for name, values in {
        "ANGLES": (0.0, 45.0),
        "ASPECTS": (1.0, 3.0),
        "FLOOR_SHARES": (0.9,),
        "SHELVES": (0.0, 0.25),
        "MEASURED": MEASURED[:1],
    }.items():
        monkeypatch.setattr(orientation, name, values)
    orientation.main(str(tmp_path / "drawn"), 2)
    printed = capsys.readouterr().out
    assert "floor_share" in printed and MEASURED[0] in printed and str(tmp_path / "drawn.png") in printed
    assert all((tmp_path / f"drawn.{form}").stat().st_size > 10_000 for form in ("svg", "png"))


def test_it_keeps_to_what_all_figures_keep_to(tmp_path):
    check_saving(lambda: orientation_figure(family(), of_measured()), tmp_path)
    check_axes("orientation", orientation_figure(family(), of_measured()))


def test_it_is_saved_without_measured_landscapes_and_says_why_there_is_nothing(tmp_path):
    for number, figure in enumerate(
        (orientation_figure(family(), of_measured().iloc[:0]), orientation_figure(family().iloc[:0], of_measured()))
    ):
        assert all(path.stat().st_size > 1000 for path in save(figure, tmp_path / f"figure{number}"))
    assert "no ridge" in orientation_figure(family().iloc[:0], of_measured()).texts[0].get_text()
