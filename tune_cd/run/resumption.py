"""Rebuilds the searches of a study from the results table, so that no recorded training is repeated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from trainables.trial import LOOKS
from tune_cd import results
from tune_cd.analysis import best_trial, means_over_seeds, on_diagonal
from tune_cd.analysis.confirmation import RECIPES
from tune_cd.analysis.scores import searching
from tune_cd.results.attempts import UNFINISHED, next_attempt
from tune_cd.run.looks import Looks, lengths_of, looks_of, over_seeds, whole_length
from tune_cd.run.members import Member, Pausing, Whole
from tune_cd.run.portfolio import Asked, Portfolio, TrainingKey
from tune_cd.run.resources import Resources
from tune_cd.run.searches import Search, alike
from tune_cd.run.study import Study
from tune_cd.search.pausing_line import PausingLine
from tune_cd.search.protocol import Proposal
from tune_cd.search.registry import given
from tune_cd.search.space import Configuration, Key
from tune_cd.tune.course import Course

LINE_WEIGHT = 0.5
"""Weight of a line search when a --budget is divided: one parameter needs about half the trainings of two."""

ORIGIN_FIELDS = ("direction", "line_position", "trial_index")


def seeds_of(study: Study, search: Search) -> list[int]:
    """The seeds of every configuration's trainings."""
    if search.seeds is not None:
        return list(search.seeds)
    return [study.config.seed + n for n in range(study.config.replicates)]


def portfolio_of(
    study: Study,
    searches: list[Search],
    table: pd.DataFrame,
    ended: pd.DataFrame,
    resources: Resources,
    curves: pd.DataFrame | None = None,
) -> Portfolio:
    """The portfolio of searches that share a set-up, rebuilt from their rows. Prints why a search has nothing left to
    train.

    table: the study's rows. ended: those of trials that are not run again. curves: learning curves, for searches that
    pause.
    """
    rows = _rows_alike(study, table, searches[0])
    known = _known(study, searches[0], rows, rows.index.isin(ended.index), curves)
    members: dict[str, Member] = {}
    for search in searches:
        if search.pauses or search.line:
            member = _pausing(study, search, table, known, set(table.index) - set(ended.index), resources)
        else:
            member = _whole(study, search, table, ended[ended["status"] != "stopped"], resources)
        if isinstance(member, str):
            print(f"[{search.name}]  {member}")
        else:
            members[search.name] = member
    origins = {
        study.space.key(row["params"]): {"search": row["search"], **{name: row[name] for name in ORIGIN_FIELDS}}
        for row in rows.sort_values(["ended_at"], ascending=False).to_dict("records")
    }
    return Portfolio(members, study.space, seeds_of(study, searches[0]), resources.workers, known, origins)


def attempts_of(table: pd.DataFrame) -> dict[tuple[str, int, int], int]:
    """(search, trial_index, seed) -> the number of the next run, for each recorded trial that may have one."""
    rows = table[table["status"].isin(UNFINISHED)].to_dict("records")
    return {(row["search"], row["trial_index"], row["seed"]): next_attempt(row) for row in rows}


def reported_by(study: Study, search: Search) -> Callable[[Asked, Mapping[str, Any]], Looks]:
    """The function (training, its last report) -> its looks, for trainings of this search's set-up."""
    lengths = lengths_of(search.setup)

    def looks(asked: Asked, told: Mapping[str, Any]) -> Looks:
        whole = whole_length(search.setup, int(asked.h.get("batch_size", study.config.batch_size)))
        seen = told.get("images_seen", asked.until * whole)
        status = told.get("status", "failed")
        return looks_of(status, told.get("val_score"), told.get(LOOKS, ()), seen, whole, lengths)

    return looks


def say_stopped(portfolio: Portfolio, searches: list[Search], table: pd.DataFrame) -> None:
    """After a run, print what each pausing search has spent, and which others ended early."""
    for search in searches:
        member, done = portfolio.members.get(search.name), _done(table, search)
        if isinstance(member, Pausing):
            print(f"[{search.name}]  {_paused(search, member)}")
        elif isinstance(member, Whole) and member.course.finished and done < search.num_samples:
            print(f"[{search.name}]  {_stopped(search, done)}")


def _whole(study: Study, search: Search, table: pd.DataFrame, ended: pd.DataFrame, resources: Resources) -> Whole | str:
    """A search of full-length trainings, rebuilt from its rows; or the reason why nothing of it is left."""
    if search.make is given:
        search = replace(search, start=_chosen(study, search, ended)) if search.retrains_best_of else search
        if (reason := _needless(study, search, ended)) is not None:
            return reason
    done = 0 if search.make is given else _done(_seeded(study, search, ended), search)
    course = _course(study, search, table, ended, resources)
    if done >= search.num_samples:
        return f"all {done} trials are in the table already"
    if course.finished:
        return _stopped(search, done)
    return Whole(course, search.num_samples - done, weight=0.0 if search.make is given else 1.0)


def _pausing(
    study: Study,
    search: Search,
    table: pd.DataFrame,
    known: Mapping[TrainingKey, Looks],
    again: set[int],
    resources: Resources,
) -> Pausing | str:
    """A search that pauses or walks a line, rebuilt from its rows; or what it has spent, if finished. again: the index
    of rows whose trials are run again."""
    optimiser = search.make(study.space, start=search.starts or None)
    optimiser.workers = resources.workers if search.workers is None else search.workers
    key, check, seeds = study.space.key, study.space.check, seeds_of(study, search)
    begun: dict[Key, tuple[Proposal, int]] = {}
    unfinished = set()
    for row in table[table["search"] == search.name].itertuples():
        h = check(row.params)
        begun[key(h)] = Proposal(h, row.direction, row.line_position), int(row.trial_index)
        if row.Index in again:
            unfinished.add(key(h))
    shared = {key(h): (Proposal(h, "start", 0.0), 0) for h in search.starts} if begun else {}
    shared = {
        at: start for at, start in shared.items() if at not in begun and all((at, seed) in known for seed in seeds)
    }
    begun = shared | begun
    looks = {
        at: over_seeds([known[at, seed] for seed in seeds])
        for at in begun if all(known.get((at, seed)) for seed in seeds)
    }  # fmt: skip
    member = Pausing(optimiser, weight=LINE_WEIGHT if search.line else 1.0)
    member.recall(begun, looks, unfinished | (begun.keys() - looks.keys()), set(shared))
    return _paused(search, member) if member.finished else member


def _course(study: Study, search: Search, table: pd.DataFrame, ended: pd.DataFrame, resources: Resources) -> Course:
    """A search of full-length trainings, rebuilt from its rows. ended: the table without trials that are run again."""
    optimiser = search.make(study.space, start=search.starts or None)
    optimiser.workers = resources.workers if search.workers is None else search.workers
    final = _seeded(study, search, ended)
    for told in results.history(final[final["search"] == search.starts_from]):
        optimiser.tell(*told)
    begun, whole = table[table["search"] == search.name], _seeded(study, search, table)
    others = _rows_alike(study, final, search)
    course = Course(optimiser)
    course.recall(
        begun,
        ended=whole[whole["search"] == search.name],
        again=begun[~begun.index.isin(ended.index)],
        others=others[others["search"] != search.name],
    )
    return course


def _chosen(study: Study, search: Search, ended: pd.DataFrame) -> list[Configuration] | None:
    """The best configurations of `retrains_best_of`, by the mean validation score over seeds; None without any."""
    final = _with_seeds(ended, study.config.replicates)
    groups = [[name] for name in search.retrains_best_of] if search.per_search else [list(search.retrains_best_of)]
    bests = [best_trial(means_over_seeds(_asked_by(study, names, final))) for names in groups]
    chosen = [study.space.check(best["params"]) for best in bests if best is not None]
    return list({study.space.key(h): h for h in chosen}.values()) or None


def _asked_by(study: Study, names: list[str], final: pd.DataFrame) -> pd.DataFrame:
    """The rows of the named searches; of a single recipe all on its diagonal: it is told what others trained there."""
    if len(names) == 1 and names[0] in RECIPES:
        return on_diagonal(searching(final), names[0], study.setup.k)
    return final[final["search"].isin(names)]


def _needless(study: Study, search: Search, ended: pd.DataFrame) -> str | None:
    """The reason why a search of given configurations has nothing to train, or None."""
    if search.start is None:
        return f"nothing to train: no trial of {' or '.join(search.retrains_best_of)} has completed"
    rows, key = _rows_alike(study, _seeded(study, search, ended), search), study.space.key
    trained = {key(params) for params in rows["params"]} >= {key(start) for start in search.starts}
    return "its setting is in the table already" if trained else None


def _known(
    study: Study, search: Search, rows: pd.DataFrame, ended: Sequence[bool], curves: pd.DataFrame | None
) -> dict[TrainingKey, Looks]:
    """The looks of each recorded training, which is not repeated even if other seeds of its configuration are missing.
    ended: of each row whether it stands; of a trial that is run again, the scores so far count."""
    key, lengths, of_trial = study.space.key, lengths_of(search.setup), {}
    if curves is not None and len(curves):
        numbers = ["images_seen", "val_score"]
        of_trial = {trial: looks[numbers].to_numpy().tolist() for trial, looks in curves.groupby("trial_id")}
    known = {}
    for row, stands in zip(rows.itertuples(), ended, strict=True):
        whole = whole_length(search.setup, int(row.batch_size))
        images = 0 if pd.isna(row.images_seen) else int(row.images_seen)
        status = row.status if stands else "stopped"
        looks = looks_of(status, row.val_score, of_trial.get(row.trial_id, ()), images, whole, lengths)
        if looks:
            known[key(row.params), int(row.seed)] = looks
    return known


def _rows_alike(study: Study, table: pd.DataFrame, search: Search) -> pd.DataFrame:
    """The rows of all searches that share trainings with this one (`alike`)."""
    return table[table["search"].isin([other.name for other in study.searches if alike(other, search)])]


def _seeded(study: Study, search: Search, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of configurations that have a row for each seed."""
    return _with_seeds(table, len(seeds_of(study, search)))


def _with_seeds(table: pd.DataFrame, seeds: int) -> pd.DataFrame:
    if seeds == 1 or table.empty:
        return table
    return table[table.groupby(["search", "trial_index"])["seed"].transform("nunique") >= seeds]


def _done(table: pd.DataFrame, search: Search) -> int:
    return table.loc[table["search"] == search.name, "trial_index"].nunique()


def _paused(search: Search, member: Pausing) -> str:
    """A message: the spending of a pausing or line search."""
    trained, line = member.search.trained, isinstance(member.search, PausingLine)
    whole = sum(share == 1 for share in trained)
    said = (
        f"{len(trained)} settings for {member.search.spent:.3g} full trainings' worth of images "
        f"({'at most' if line else 'of'} {search.num_samples}): {whole} trained to the end, "
        f"{len(trained) - whole} paused or given up"
    )
    if member.search.budget < search.num_samples:
        said += f"; {member.search.budget:.3g} were within its share of --budget"
    return f"{said}; the best of its line is bracketed" if line and member.search.bracketed else said


def _stopped(search: Search, done: int) -> str:
    if search.make is given:
        return "its setting was trained by another search"
    return f"ended by itself after {done} of {search.num_samples} trials: no line promises more"
