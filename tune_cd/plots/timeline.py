"""A study's trials over time, by machine."""

import heapq
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tune_cd.analysis.runs import runs_of
from tune_cd.plots.style import BLACK, GREY, NORMAL, SMALL, STATUSES, empty_figure, new_figure, outside_legend

UNITS = ((180.0, 1.0, "s"), (3 * 3600.0, 60.0, "min"), (np.inf, 3600.0, "h"))
"""(longest time in seconds, seconds per unit, name of the unit)."""


def timeline_figure(trials: pd.DataFrame) -> Figure:
    """One bar per trial, or per run if trials paused, from start to end, in as few rows per machine as possible.

    Bars are coloured and hatched by status. A bar with enough room has the trial's number, and below it the search if
    there are several. trials: any rows of the table. Rows without a start or an end, or that end before they start, are
    left out and counted in the title.
    """
    runs = runs_of(trials)
    timed = runs.assign(**{name: pd.to_datetime(runs[name], utc=True) for name in ("started_at", "ended_at")})
    timed = timed[timed["ended_at"] >= timed["started_at"]]  # False if either is null
    left_out = len(runs) - len(timed)
    if timed.empty:
        return empty_figure("No trial says when it started and ended." if len(trials) else "There is no trial.")
    timed = timed.sort_values(["started_at", "trial_index"], kind="stable")
    starts = (timed["started_at"] - timed["started_at"].min()).dt.total_seconds().to_numpy()
    ends = (timed["ended_at"] - timed["started_at"].min()).dt.total_seconds().to_numpy()
    _, seconds, unit = next(entry for entry in UNITS if ends.max() <= entry[0])
    hosts = timed["hostname"].where(timed["hostname"].notna(), "machine not recorded")
    rows, groups = _rows(starts, ends, hosts)
    row_height = 0.27 if timed["search"].nunique() == 1 else 0.36  # inches
    figure = new_figure(9.2, float(np.clip(1.7 + row_height * (rows.max() + 1), 2.4, 11)))
    axes = figure.subplots()
    _draw_bars(axes, timed, starts / seconds, ends / seconds, rows)
    for _host, (_first, last) in groups.items():
        axes.axhline(last + 0.5, color=GREY, linewidth=0.6)
    axes.set_yticks([(first + last) / 2 for first, last in groups.values()], list(groups), fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(rows.max() + 0.5, -0.5), xlim=(0, max(ends.max() / seconds, 1e-9) * 1.005))
    axes.set_xlabel(f"time since the first start ({unit})", fontsize=NORMAL)
    axes.grid(axis="x", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    without = f"; {left_out} without times left out" if left_out else ""
    what = "runs" if timed["pauses"].any() else "trials"
    machines = f"{len(groups)} machine{'s' * (len(groups) > 1)}"
    axes.set_title(
        f"{len(timed)} {what} on {machines}, at most {lanes(starts, ends).max() + 1} at a time{without}",
        fontsize=NORMAL,
    )
    outside_legend(figure, _handles(timed), "lower")
    return figure


def lanes(starts: Sequence[float], ends: Sequence[float]) -> np.ndarray:
    """The lane of each interval [start, end): intervals in a lane do not overlap, and the number of lanes is minimal.

    Starts must ascend. An interval takes the lowest free lane; a lane is free at the time its last interval ends.
    """
    busy: list[tuple[float, int]] = []  # (end, lane)
    free: list[int] = []
    found = np.empty(len(starts), dtype=int)
    for i, (start, end) in enumerate(zip(starts, ends)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found[i] = lane
    return found


def _rows(starts: np.ndarray, ends: np.ndarray, hosts: pd.Series) -> tuple[np.ndarray, dict[str, tuple[int, int]]]:
    """The row of every trial, and host -> its (first, last) row; machines are in alphabetical order."""
    rows, groups, first = np.empty(len(starts), dtype=int), {}, 0
    for host in sorted(set(hosts)):
        here = (hosts == host).to_numpy()
        rows[here] = first + lanes(starts[here], ends[here])
        groups[host] = (first, int(rows[here].max()))
        first = groups[host][1] + 1
    return rows, groups


def _handles(timed: pd.DataFrame) -> list[Patch]:
    """Legend handles of the statuses, with the number of trials that ended in each."""
    counts = timed["status"].value_counts()
    shown = [(status, *look) for status, look in STATUSES.items() if status in counts]
    return [
        Patch(facecolor=colour, edgecolor=BLACK, linewidth=0.5, hatch=hatch, label=f"{name} ({counts[name]})")
        for name, colour, hatch in shown
    ]


def _draw_bars(axes: Axes, timed: pd.DataFrame, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> None:
    """Draw bars by status, with each trial's number if bars are wide enough."""
    for status, (colour, hatch) in STATUSES.items():
        here = (timed["status"] == status).to_numpy()
        if here.any():
            look = {"color": colour, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.5}
            axes.barh(rows[here], ends[here] - starts[here], left=starts[here], height=0.78, label=status, **look)
    widths = ends - starts
    wide = np.median(widths) / max(ends.max(), 1e-9) > 0.022 and rows.max() < 32
    several = timed["search"].nunique() > 1
    for number, search, x, width, row in zip(timed["trial_index"], timed["search"], starts, widths, rows):
        if wide and width / ends.max() > 0.018:
            named = several and width / ends.max() > 0.0066 * len(search)
            box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
            text = f"{number}\n{search}" if named else str(number)
            look = {"ha": "center", "va": "center", "fontsize": SMALL - 1, "linespacing": 0.95, "clip_on": True}
            axes.text(x + width / 2, row, text, bbox=box, **look)
