"""Studies of losses with terms of other names: words, page, figures and tables know the published weights."""

import json
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from figure_checks import laid_out_alone
from studies import BOX, TWINS, VICREG, gridded_terms, searched_terms

from tune_cd import balance, plots
from tune_cd.analysis import best_trial, grid, on_diagonal, sublosses
from tune_cd.analysis.axes import axes_of
from tune_cd.analysis.recipes import averages_of
from tune_cd.analysis.scores import parameter, parameter_names, published_of, weights_of
from tune_cd.analysis.sublosses import terms_in
from tune_cd.plots import grid_slices, search_figure, sublosses_figure
from tune_cd.report.figures import write_figures
from tune_cd.report.findings import Findings
from tune_cd.report.first_screen import worth
from tune_cd.report.page import render
from tune_cd.report.payload import payload
from tune_cd.report.words import summarise

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

STUDIES = {
    "three searched": searched_terms(VICREG),
    "two on a grid": gridded_terms(TWINS),
}
PAIR = {"Lambda_p": 1.0, "Lambda_e": 4.0}
each_study = pytest.mark.parametrize("trials", STUDIES.values(), ids=STUDIES)


def published(trials):
    return TWINS if "Lambda_on" in dict(trials["params"].iloc[0]) else VICREG


@each_study
def test_the_weights_are_known_in_the_terms_order_and_their_line_at_any_rate(trials):
    names, shares = zip(*published(trials).items())
    assert weights_of(trials) == list(names) == parameter_names(trials)
    assert published_of(trials) == published(trials) and averages_of(trials) == ("published",)
    on = on_diagonal(trials, "published", 2)
    rates = np.array([parameter(on, name) / share for name, share in zip(names, shares)])
    assert len(on) >= 3 and np.allclose(rates, rates[0])
    assert set(on.index) >= set(trials.index[trials["search"] == "published"])
    assert on_diagonal(trials, "separate", 2).empty or len(names) == 2


@each_study
def test_the_gain_over_them_and_their_rate_are_found_and_said_with_the_terms_names(trials):
    found = Findings(trials)
    [recipe] = found.recipes
    assert recipe.average == "published" and found.missing == ()
    gain = best_trial(trials)["test_score"] - recipe.best["test_score"]
    assert recipe.gain.value == pytest.approx(gain) and gain > 0
    name, share = next(iter(published(trials).items()))
    assert recipe.learning_rate == pytest.approx(dict(recipe.best["params"])[name] / share)
    compared = worth(found)["rows"][1]
    text = json.dumps([summarise(found, "python -m tune_cd.run --study s"), compared], ensure_ascii=False)
    assert compared["label"].startswith("published weights") and compared["gain"].startswith("+")
    for wrong in ("entropy", "positive term", "average", "Λp", "Λe", "Lambda_"):
        assert wrong not in text, text


@each_study
def test_the_page_draws_the_published_line_over_two_weights(trials):
    content = payload(trials, "terms")
    [study] = content["studies"]
    names = list(published(trials))
    assert [param["name"] for param in study["params"]] == names
    pairs = [(names[line["x"]], names[line["y"]]) for line in study["recipes"]]
    assert pairs == list(combinations(names, 2)) and {line["label"] for line in study["recipes"]} == {
        "published weights"
    }
    own = published(trials)
    for line, (x, y) in zip(study["recipes"], pairs):
        axes = {axis.name: axis for axis in axes_of(trials)}
        reached = [axes[name].at([0.01 * own[name]])[0] for name in (x, y)]
        (x0, y0), (x1, y1) = line["points"]
        assert y0 + (reached[0] - x0) / (x1 - x0) * (y1 - y0) == pytest.approx(reached[1], abs=1e-3)
    terms = [score for score in study["scores"] if score["name"].startswith("term_")]
    assert len(terms) == len(names) and all(score["down"] for score in terms)
    assert terms[0]["label"].startswith("term ")
    html = render(content)
    text = json.dumps(study)
    assert "published weights" in html and "entropy" not in text and "positive term" not in text


FOUR = {f"Lambda_t{n}": 1.0 for n in range(4)}


@pytest.mark.parametrize("weights, count", [(TWINS, 1), (VICREG, 3), (FOUR, 6)])
def test_the_picture_has_a_plane_for_each_pair_of_weights(weights, count):
    figure = search_figure(searched_terms(weights, 6), ("published",), 64, 2, BOX, weights=tuple(weights))
    planes = [axes for axes in figure.axes if axes.get_xlabel().startswith("$\\Lambda")]
    assert len(planes) == count
    for axes in planes:
        assert "weight of the term" in axes.get_xlabel() and axes.lines[0].get_label() == "published weights"
    assert matplotlib.colors.same_color(planes[0].lines[0].get_color(), "#E69F00")
    figure.draw_without_rendering()


@pytest.mark.parametrize("trials", [searched_terms(PAIR), gridded_terms(PAIR)], ids=["searched", "on a grid"])
def test_published_weights_of_a_positive_and_an_entropy_term_are_their_line(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "save", laid_out_alone)
    assert weights_of(trials) == list(PAIR) and averages_of(trials) == ("published",)
    [line] = payload(trials, "pair")["studies"][0]["recipes"]
    assert line["label"] == "published weights"
    assert not write_figures(trials, tmp_path).failed


def test_a_users_own_pair_of_equal_weight_has_the_separate_average_alone():
    trials = searched_terms(PAIR).assign(config="{}", loss="mine:pair")
    assert averages_of(trials) == ("separate",) and averages_of(trials.assign(loss="margin")) == balance.AVERAGES


@each_study
def test_all_figures_and_tables_are_written(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "save", laid_out_alone)
    written = write_figures(trials, tmp_path)
    assert not written.failed, written.failed
    assert any(path.suffix == ".png" for path in tmp_path.rglob("*"))


def test_the_grid_is_drawn_with_the_published_weights():
    figure = grid_slices(grid(STUDIES["two on a grid"], "test_score", list(TWINS)), published=TWINS)
    [axes] = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    [line] = [line for line in axes.lines if line.get_label() == "published"]
    first, second = TWINS.values()
    assert np.allclose(np.divide(*reversed(line.get_data())), second / first)
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "reached by the published weights"
    figure.draw_without_rendering()


@each_study
def test_terms_are_related_to_the_score(trials):
    table = sublosses(trials, "test_score")
    terms = [f"term_{name.removeprefix('Lambda_')}" for name in published(trials)]
    assert terms_in(table) == terms and set(published(trials)) <= set(table.columns)
    settings = trials["params"].map(lambda h: tuple(dict(h).values()))
    assert len(table) == settings.nunique()
    figure = sublosses_figure(table)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]
    assert [axes.get_xlabel().split()[1] for axes in panels] == [pair[0][5:] for pair in combinations(terms, 2)]
    figure.draw_without_rendering()
