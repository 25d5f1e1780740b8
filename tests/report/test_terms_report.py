"""Studies of losses with terms of other names: words, page, figures and tables know the published weights."""

import json
import re
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from figure_checks import laid_out_alone
from studies import BOX, TWINS, VICREG, gridded_terms, searched_terms

from tune_cd import balance, plots
from tune_cd.analysis import best_trial, grid, on_diagonal, subloss_statistics, sublosses
from tune_cd.analysis.axes import axes_of
from tune_cd.analysis.confirmation import gains
from tune_cd.analysis.scores import parameter, parameter_names, published_of, weights_of
from tune_cd.analysis.sublosses import terms_in
from tune_cd.plots import grid_slices, search_figure, sublosses_figure
from tune_cd.report.figures import write_figures
from tune_cd.report.findings import averages_of, findings
from tune_cd.report.first_screen import worth
from tune_cd.report.page import render
from tune_cd.report.payload import payload
from tune_cd.report.printed import tables_of
from tune_cd.report.words import summarise

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

STUDIES = {
    "three searched": searched_terms(VICREG),
    "two searched": searched_terms(TWINS),
    "three on a grid": gridded_terms(VICREG),
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
    found = findings(trials, dict.fromkeys(published(trials), BOX))
    [recipe] = found.recipes
    assert recipe.average == "published" and found.missing == ()
    gain = best_trial(trials)["test_score"] - recipe.best["test_score"]
    assert recipe.gain == pytest.approx(gain) and gain > 0
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


@pytest.mark.parametrize("weights, count", [(TWINS, 1), (VICREG, 3), (FOUR, 3)])
def test_the_picture_has_a_plane_a_pair_of_weights_of_four_only_those_with_the_first(weights, count):
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


@pytest.mark.parametrize("kind", ["three on a grid", "two on a grid"])
def test_the_grid_is_drawn_with_the_published_weights(kind):
    trials = STUDIES[kind]
    weights = published(trials)
    figure = grid_slices(grid(trials, "test_score", list(weights)), published=weights)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]
    drawn = [line for axes in panels for line in axes.lines if line.get_label() == "published"]
    assert len(drawn) == len(panels) == (1 if len(weights) == 2 else 4)
    for axes, line in zip(panels, drawn):
        x, y = line.get_data()
        first, second, *third = weights.values()
        assert np.allclose(np.divide(y, x), second / first)
        if third:  # each slice holds the published weights at one rate
            tick = float(axes.get_title().split(" = ")[1])
            assert np.allclose(x, first * tick / third[0], rtol=1e-3)
    assert next(text.get_text() for text in figure.legends[0].get_texts()) == "reached by the published weights"
    figure.draw_without_rendering()


@each_study
def test_terms_are_related_to_the_score(trials):
    table = sublosses(trials, "test_score")
    terms = [f"term_{name.removeprefix('Lambda_')}" for name in published(trials)]
    assert terms_in(table) == terms and set(published(trials)) <= set(table.columns)
    settings = trials["params"].map(lambda h: tuple(dict(h).values()))
    assert len(table) == settings.nunique()
    points = table[terms].to_numpy()
    below = [((points <= point).all(1) & (points < point).any(1)).any() for point in points]
    assert table["front"].tolist() == [not one for one in below]
    found = subloss_statistics(table)
    assert list(found.index) == terms and np.allclose(found["correlation"], 1)  # they grow with the score there
    figure = sublosses_figure(table)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]
    assert [axes.get_xlabel().split()[1] for axes in panels] == [pair[0][5:] for pair in combinations(terms, 2)]
    figure.draw_without_rendering()


def test_the_table_of_gains_has_the_published_weights():
    [row] = gains(STUDIES["three searched"]).to_dict("records")
    assert row["gain_published"] > 0 and row["tuned"] == pytest.approx(row["published"] + row["gain_published"])


def test_its_gains_are_printed_with_their_intervals():
    trials = STUDIES["three searched"]
    again = trials.assign(
        seed=trials["seed"] + 1, trial_id=trials["trial_id"] + "-again", test_score=trials["test_score"] + 0.01
    )
    texts = tables_of(pd.concat([trials, again], ignore_index=True))["gains"]()
    assert "gain over published" in texts["md"] and re.search(
        r"\| \+?0\.\d{4} \([+-]0\.\d{4} to [+-]0\.\d{4}", texts["md"]
    )
    assert "published weights" in texts["md"] and "gain_published" not in texts["md"] + texts["tex"]


def test_scores_of_a_row_are_all_of_fresh_seeds_or_none():
    """The recipe was not trained anew: what the search chose is not said with fresh seeds either."""
    trials = STUDIES["three searched"]
    [usual] = gains(trials).to_dict("records")
    chosen = best_trial(trials[trials["search"] == "cd"])
    fresh = trials[trials["trial_id"] == chosen["trial_id"]].assign(search="confirm", seed=77, test_score=0.1234)
    [row] = gains(pd.concat([trials, fresh.assign(trial_id="confirm-00000")], ignore_index=True)).to_dict("records")
    assert not row["fresh"] and {**row, "fresh": None} == pytest.approx({**usual, "fresh": None}, nan_ok=True)
