"""Rebuilds the searches of a study from the results table, so that no recorded training is repeated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from trainables.training.setup import Setup
from trainables.trial import LOOKS
from tune_cd.analysis import best_trial, means_over_seeds, on_diagonal
from tune_cd.analysis.recipes import RECIPES
from tune_cd.analysis.scores import searching
from tune_cd.results.attempts import UNFINISHED, next_attempt
from tune_cd.results.schema import CONFIRM
from tune_cd.run.curves import curve_so_far, failed, over_seeds, reaches
from tune_cd.run.portfolio import Asked, Portfolio, Setting
from tune_cd.run.resources import Resources
from tune_cd.run.screen import say
from tune_cd.run.searches import Search, alike
from tune_cd.run.study import Study
from tune_cd.search.methods import given
from tune_cd.search.protocol import Optimiser
from tune_cd.search.search import CoordinateDescent
from tune_cd.search.space import Configuration, Key
from tune_cd.search.training import Curve, Proposal, Training

LINE_WEIGHT = 0.5
"""Weight of a line search while searches share a --budget: one parameter needs about half the trainings of two."""


def portfolio_of(
    study: Study, searches: list[Search], table: pd.DataFrame, resources: Resources,
    curves: pd.DataFrame | None = None, running: Sequence[Mapping[str, Any]] = (),
) -> Portfolio:  # fmt: skip
    """The portfolio of searches that share a set-up, rebuilt from their rows. Prints why a search has nothing left to
    train.

    table: the study's rows, and in the column `again` whether a trial is run again. curves: learning curves, for
    searches that pause. running: what ran when the study was cut off (`Portfolio.unrecorded`), which is trained first.
    """
    settings = _settings(study, searches[0], table, curves)
    begun: dict[str, Optimiser] = {}
    for search in searches:
        if search.retrains_best_of:
            chosen = _chosen(study, search, table[~table["again"]])
            if chosen is None:
                none = f"no trial of {' or '.join(search.retrains_best_of)} has completed"
                say(f"{search.name}: nothing to train: {none}")
                continue
            search = replace(search, starts=chosen, num_samples=len(chosen))
        cut_off = [one for one in running if one["search"] == search.name]
        begun[search.name] = _rebuilt(study, search, table, settings, resources.workers, cut_off)
    left = {name: search for name, search in begun.items() if search.live or not search.finished}
    say_ended({name: search for name, search in begun.items() if name not in left})
    weights = {search.name: LINE_WEIGHT if search.line else float(search.make is not given) for search in searches}
    return Portfolio(left, study.space, searches[0].seeds, resources.workers, settings, weights)


def reported_by(study: Study, setup: Setup) -> Callable[[Asked, Mapping[str, Any]], Curve]:
    """`StudySearch`'s `reported`, for trainings of this set-up."""

    def curve(asked: Asked, told: Mapping[str, Any]) -> Curve:
        size, images = int(asked.h.get("batch_size", study.config.batch_size)), asked.until * setup.images_seen
        status, images = told.get("status", "failed"), told.get("images_seen", images)
        return curve_so_far(setup, size, status, told.get("val_score"), told.get(LOOKS, ()), images)

    return curve


def say_ended(searches: Mapping[str, Optimiser], budget: str | None = None) -> None:
    """Print how much each search has trained, and why it ended if it has. budget: what ended the others."""
    for name, search in searches.items():
        goes_on = f"--budget {budget} is spent; --resume goes on" if budget else "it goes on"
        why = search.ending if search.finished else goes_on
        say(f"{name}: {search.spent:.3g} of {search.budget:.3g} full trainings' worth; {why}")


def _rebuilt(
    study: Study, search: Search, table: pd.DataFrame, settings: Mapping[Key, Setting], workers: int,
    cut_off: Sequence[Mapping[str, Any]],
) -> Optimiser:  # fmt: skip
    """A search, continued from its rows; what was cut off, and the trials that are run again, are under way."""
    optimiser = search.make(study.space, start=search.starts)
    optimiser.workers, optimiser.budget = search.workers or workers, float(search.num_samples)
    key, unknown = study.space.key, Setting({})
    rows = table[table["search"] == search.name].sort_values("trial_index", kind="stable")
    begun: dict[Key, tuple[Proposal, int]] = {}
    for one in [*rows.to_dict("records"), *cut_off]:
        h = study.space.check(one["params"])
        begun.setdefault(key(h), (Proposal(h, one["direction"], one["line_position"]), int(one["trial_index"])))
    again = {key(row.params) for row in rows.itertuples() if row.again}
    asked = {key(one["params"]): one["until"] for one in cut_off if one["until"] is not None}
    own = {*map(key, rows["params"]), *asked}
    trainings = []
    for at, (origin, index) in sorted(begun.items(), key=lambda item: item[1][1]):
        curves = [settings.get(at, unknown).curves.get(seed) for seed in search.seeds]
        curve = over_seeds(curves) if all(curves) else {}
        if len(optimiser.lengths) == 1:  # told of ends alone
            curve = {1.0: curve[max(curve)]} if reaches(curve, 1.0) else {}
        reached, until = max(curve, default=0.0), None
        goes_on = at in again or reached < asked.get(at, 0.0)  # it was cut off after its row, and before the next note
        if not curve or (goes_on and reached < 1 and not failed(curve)):
            until = max(asked.get(at, 0.0), next((share for share in optimiser.lengths if share > reached), 1.0))
        trainings.append(Training(origin.h, curve, until, origin=origin, trial_index=index, external=at not in own))
    optimiser.recall(trainings)
    if trainings and not isinstance(optimiser, CoordinateDescent):
        optimiser.ask()  # it comes to its earlier trainings; what it asks for beyond them is trained first
    return optimiser


def _chosen(study: Study, search: Search, ended: pd.DataFrame) -> list[Configuration] | None:
    """The best configurations of `retrains_best_of`, by the mean validation score over seeds; None without any."""
    names, bests = list(search.retrains_best_of), []
    trained = ended.groupby(["search", "trial_index"])["seed"].transform("nunique")
    final = ended[trained >= study.config.replicates]  # with every seed
    for group in [[name] for name in names] if search.name == CONFIRM else [names]:
        rows = final[final["search"].isin(group)]
        if len(group) == 1 and group[0] in RECIPES:  # a recipe is told what others trained on its diagonal
            rows = on_diagonal(searching(final), group[0], study.setup.k)
        bests.append(best_trial(means_over_seeds(rows)))
    chosen = [study.space.check(best["params"]) for best in bests if best is not None]
    return list({study.space.key(h): h for h in chosen}.values()) or None


def _settings(study: Study, search: Search, table: pd.DataFrame, curves: pd.DataFrame | None) -> dict[Key, Setting]:
    """What is known of the configurations of all searches that share trainings with this one. Each has the origin of
    the row that ended first."""
    looks = {} if curves is None else dict(list(curves.groupby("trial_id")[["images_seen", "val_score"]]))
    settings: dict[Key, Setting] = {}
    rows = table[table["search"].isin([other.name for other in study.searches if alike(other, search)])]
    for row in rows.sort_values("ended_at", kind="stable").itertuples():
        seen = looks[row.trial_id].to_numpy().tolist() if row.trial_id in looks else ()
        images, status = 0 if pd.isna(row.images_seen) else int(row.images_seen), "stopped" if row.again else row.status
        curve = curve_so_far(search.setup, int(row.batch_size), status, row.val_score, seen, images)
        if row.again:
            curve = {share: value for share, value in curve.items() if share < 1}  # its test is missing
        origin = {name: getattr(row, name) for name in ("search", "direction", "line_position", "trial_index")}
        one = settings.setdefault(study.space.key(row.params), Setting(study.space.check(row.params), origin))
        one.curves |= {int(row.seed): curve} if curve else {}
        if row.status in UNFINISHED and row.search == one.origin["search"]:
            one.runs[int(row.seed)] = next_attempt(row._asdict())
    return settings
