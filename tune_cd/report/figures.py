"""The paper's figures and tables of a results table, as files: SVG and PNG, Markdown and LaTeX."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tune_cd import plots
from tune_cd.analysis import Curve, balance_gain, curves_of, grid, mean_curve, parts_of, sublosses
from tune_cd.analysis.comparison import grouped
from tune_cd.analysis.curves import OVER
from tune_cd.analysis.grids import grid_rows, is_grid
from tune_cd.analysis.recipes import averages_of
from tune_cd.analysis.scores import BALANCE, judged_by, per_class, published_of, score_words, signs, weights_of
from tune_cd.report.printed import TABLES, printed, searched
from tune_cd.results import publish

Named = Iterator[tuple[str, Callable[[], Figure | None]]]
"""(name, function that draws the figure when called), which returns None if the trials lack the needed data."""

LONGEST = 100  # letters of a folder's name


@dataclass
class Written:
    """files: the written files. failed: figure or table -> the reason of its failure."""

    files: list[Path] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """An error within is recorded and costs no other figure; OSError is raised."""
        try:
            with np.errstate(all="ignore"):
                yield
        except OSError:
            raise
        except Exception as error:  # any error, in drawing or in the computation before it
            self.failed[name] = f"{type(error).__name__}: {error}"


def write_figures(trials: pd.DataFrame, folder: Path) -> Written:
    """Write all figures and tables of these trials to DIR/ and DIR/<study>/. Raises OSError if that fails."""
    written = Written()
    with plots.standard():
        for place, made in _places(trials):
            with written.attempt(f"{place}figures"):
                for name, make in made:
                    with written.attempt(f"{place}{name}"):
                        if (figure := make()) is not None:
                            written.files += plots.save(figure, folder / place / name)
    for name in TABLES:
        with written.attempt(name):
            for ending, text in printed(name, trials).items():
                publish(folder / f"{name}.{ending}", text.encode())
                written.files.append(folder / f"{name}.{ending}")
    return written


def _places(trials: pd.DataFrame) -> Iterator[tuple[str, Named]]:
    """(folder ending in a slash, its figures) for all trials, each study, and each of its problems and set-ups."""
    yield "", figures_of_all(trials)
    for study, rows in trials.groupby("study"):
        for n, (words, part) in enumerate(parts_of(rows), 1):
            place = f"{_folder(str(study))}/" + f"{n}-{_folder(words)}/" * bool(words)
            yield place, figures_of(part.reset_index(drop=True))


def _folder(words: str) -> str:
    """A folder's name from those of a study or of set-ups."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", words).lstrip(".")[:LONGEST]


# Figures ------------------------------------------------------------------------------------------------------


def figures_of(trials: pd.DataFrame) -> Named:
    """The figures of one study's trials of one problem and set-up."""
    score, cells = judged_by(trials), grid_rows(trials)
    axes, published = weights_of(cells), published_of(cells)
    if is_grid(cells, axes[:2]):
        axes = axes[:3] if len(axes) > 2 or cells["batch_size"].nunique() < 2 else [*axes, "batch_size"]
        if tuple(axes[:2]) == BALANCE[:2] and not published:
            yield from _landscapes(cells, score)
        else:
            yield "landscape", lambda: plots.grid_slices(grid(cells, score, axes), published=published)

    def terms_after() -> Figure | None:
        table = sublosses(trials, score)
        return plots.sublosses_figure(table, score_words(trials, score), signs(trials)[0]) if len(table) else None

    yield "sub-losses", terms_after  # fig:sublosses


def _landscapes(cells: pd.DataFrame, score: str) -> Named:
    """The paper's figures of a full grid over the balance."""
    averages, k, chosen, shown = averages_of(cells), per_class(cells), grid(cells), grid(cells, score)

    def gain() -> Figure:
        by = "" if score == "val_score" else "validation"
        return plots.gain_figure(balance_gain(shown, k, averages, select=chosen), score_words(cells, score), by)

    yield "landscape", lambda: plots.grid_slices(shown, averages, k)  # fig:hp_omniglot
    sizes = sorted(cells["batch_size"].dropna().unique())
    for size in sizes:  # fig:hp_tinyimagenet_infonce, fig:ssl_ctr
        yield f"landscape-{size}", partial(plots.plane, shown, size, averages, k, select=chosen)
    if len(sizes) > 1:
        yield "balance-gain", gain  # fig:balance_gain


def figures_of_all(trials: pd.DataFrame) -> Named:
    """The figures that compare searches across studies, and those that need no trial."""
    curves = cache(partial(curves_of, trials))
    for over in OVER:  # fig:hpo_curves, fig:omniglot3D
        yield f"curves-{over}", partial(_curves, trials, curves, over)
    if trials["Lambda_p"].isna().all():
        return  # no trial has the two terms' weights
    yield "directions", lambda: plots.directions_figure()  # fig:viz_matrix_a
    yield "constraints", plots.constraints_figure  # fig:constraints
    yield "pipeline", plots.pipeline_figure  # fig:pipeline


def _curves(trials: pd.DataFrame, curves_of_all: Callable[[], Sequence[Curve]], over: str) -> Figure | None:
    """One panel per landscape whose searches all have the times that `over` needs; None if there is none."""
    bands, target = {}, {}
    for landscape, curves in grouped(curves_of_all(), "landscape").items():
        shown = searched(curves)
        if shown and all(np.isfinite(curve.clock(over)).all() for curve in shown):
            own = trials["study"].isin([curve.study for curve in shown])
            name = f"{landscape}: {score_words(trials[own], shown[0].score)}"
            bands[name] = {method: mean_curve(own, over) for method, own in grouped(shown, "method").items()}
            best = max(np.nanmax(curve.sign * curve.reached, initial=-np.inf) for curve in curves)
            target[name] = shown[0].sign * (best - 0.05 * abs(best))
    return plots.curves_figure(bands, "score of the best so far", target) if bands else None
