"""Studies of losses with terms of other names: words, page, figures and tables know the published weights."""

import json
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from studies import BOX, TWINS, VICREG, gridded_terms, searched_terms

from tune_cd import balance
from tune_cd.analysis import best_trial, grid, on_diagonal, sublosses
from tune_cd.analysis.axes import axes_of
from tune_cd.analysis.recipes import averages_of
from tune_cd.analysis.scores import parameter, parameter_names, published_of, weights_of
from tune_cd.plots import grid_slices, search_figure, sublosses_figure
from tune_cd.report.findings import Findings
from tune_cd.report.first_screen import worth
from tune_cd.report.payload import payload
from tune_cd.report.words import summarise
from tune_cd.report.writing import render

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

PAIR = {"Lambda_p": 1.0, "Lambda_e": 4.0}
PUBLISHED = {"three searched": VICREG, "two on a grid": TWINS, "a pair searched": PAIR, "a pair on a grid": PAIR}
STUDIES = {name: (gridded_terms if "grid" in name else searched_terms)(of) for name, of in PUBLISHED.items()}
OTHER_TERMS = [name for name, weights in PUBLISHED.items() if weights != PAIR]
"""Studies without a positive and an entropy term."""


@pytest.mark.parametrize("name", STUDIES)
def test_the_weights_are_known_in_the_terms_order_and_their_line_at_any_rate(name):
    trials, published = STUDIES[name], PUBLISHED[name]
    assert weights_of(trials) == list(published) == parameter_names(trials)[: len(published)]
    assert published_of(trials) == published and averages_of(trials) == ("published",)
    on = on_diagonal(trials, "published", 2)
    rates = np.array([parameter(on, weight) / share for weight, share in published.items()])
    assert len(on) >= 3 and np.allclose(rates, rates[0])
    assert set(on.index) >= set(trials.index[trials["search"] == "published"])


@pytest.mark.parametrize("name", OTHER_TERMS)
def test_the_gain_over_them_and_their_rate_are_found_and_said_with_the_terms_names(name):
    trials = STUDIES[name]
    found = Findings(trials)
    [recipe] = found.recipes
    assert recipe.average == "published" and found.missing == ()
    gain = best_trial(trials)["test_score"] - recipe.best["test_score"]
    assert recipe.gain.value == pytest.approx(gain) and gain > 0
    weight, share = next(iter(PUBLISHED[name].items()))
    assert recipe.learning_rate == pytest.approx(dict(recipe.best["params"])[weight] / share)
    compared = worth(found)["rows"][1]
    text = json.dumps([summarise(found, "python -m tune_cd.run --study s"), compared], ensure_ascii=False)
    assert compared["label"].startswith("published weights") and compared["gain"].startswith("+")
    for wrong in ("entropy", "positive term", "average", "Λp", "Λe", "Lambda_"):
        assert wrong not in text, text


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_draws_the_published_line_over_two_weights(name):
    trials, published = STUDIES[name], PUBLISHED[name]
    content = payload(trials, "terms")
    [study] = content["studies"]
    names, axes = list(published), {axis.name: axis for axis in axes_of(trials)}
    assert [param["name"] for param in study["params"]] == names
    assert {line["label"] for line in study["recipes"]} == {"published weights"}
    pairs = [(names[line["x"]], names[line["y"]]) for line in study["recipes"]]
    assert pairs == list(combinations(names, 2))
    for line, pair in zip(study["recipes"], pairs):
        x, y = (axes[weight].at([0.01 * published[weight]])[0] for weight in pair)
        (x0, y0), (x1, y1) = line["points"]
        assert y0 + (x - x0) / (x1 - x0) * (y1 - y0) == pytest.approx(y, abs=1e-3)
    terms = [score for score in study["scores"] if score["name"].startswith("term_")]
    assert {score["name"][5:] for score in terms} == {weight.removeprefix("Lambda_") for weight in names}
    assert all(score["down"] and score["label"].startswith("term ") for score in terms)
    text = json.dumps(study)
    assert "published weights" in render(content)
    assert name not in OTHER_TERMS or ("entropy" not in text and "positive term" not in text)


FOUR = {f"Lambda_t{n}": 1.0 for n in range(4)}


@pytest.mark.parametrize("weights, count", [(TWINS, 1), (VICREG, 3), pytest.param(FOUR, 6, marks=pytest.mark.slow)])
def test_the_picture_has_a_plane_for_each_pair_of_weights(weights, count):
    figure = search_figure(searched_terms(weights, 6), ("published",), 64, 2, BOX, weights=tuple(weights))
    planes = [axes for axes in figure.axes if axes.get_xlabel().startswith("$\\Lambda")]
    assert len(planes) == count
    for axes in planes:
        assert "weight of the term" in axes.get_xlabel() and axes.lines[0].get_label() == "published weights"
    assert matplotlib.colors.same_color(planes[0].lines[0].get_color(), "#E69F00")
    figure.draw_without_rendering()


def test_a_users_own_pair_of_equal_weight_has_the_separate_average_alone():
    trials = STUDIES["a pair searched"].assign(config="{}", loss="mine:pair")
    assert averages_of(trials) == ("separate",) and averages_of(trials.assign(loss="margin")) == balance.AVERAGES


def test_the_grid_is_drawn_with_the_published_weights():
    figure = grid_slices(grid(STUDIES["two on a grid"], "test_score", list(TWINS)), published=TWINS)
    [axes] = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    [line] = [line for line in axes.lines if line.get_label() == "published"]
    first, second = TWINS.values()
    assert np.allclose(np.divide(*reversed(line.get_data())), second / first)
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "reached by the published weights"
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", OTHER_TERMS)
def test_terms_are_related_to_the_score(name):
    trials, published = STUDIES[name], PUBLISHED[name]
    table = sublosses(trials, "test_score")
    terms = [f"term_{weight.removeprefix('Lambda_')}" for weight in published]
    assert list(table)[: list(table).index("score")] == terms and set(published) <= set(table.columns)
    settings = trials["params"].map(lambda h: tuple(dict(h).values()))
    assert len(table) == settings.nunique()
    figure = sublosses_figure(table)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]
    assert [axes.get_xlabel().split()[1] for axes in panels] == [pair[0][5:] for pair in combinations(terms, 2)]
    figure.draw_without_rendering()
