"""What is left to train of a study's searches, as the results table has it: nothing that is on record is repeated."""

from dataclasses import replace
from math import nan

import pandas as pd

from tune_cd import balance, results
from tune_cd.analysis import best_trial, means_over_seeds, on_diagonal
from tune_cd.analysis.scores import searching
from tune_cd.run.portfolio import Member, Portfolio, Training
from tune_cd.run.resources import Resources
from tune_cd.run.searches import Search, alike
from tune_cd.run.study import Study
from tune_cd.search.registry import given
from tune_cd.search.space import Configuration
from tune_cd.tune.course import Course


def seeds_of(study: Study, search: Search) -> list[int]:
    """Of every setting's trainings."""
    if search.seeds is not None:
        return list(search.seeds)
    return [study.config.seed + n for n in range(study.config.replicates)]


def portfolio_of(
    study: Study, searches: list[Search], table: pd.DataFrame, ended: pd.DataFrame, resources: Resources
) -> Portfolio:
    """Searches that share a set-up, where they stand. Says what there is nothing left of.

    table: the study's rows; ended: those of trials that are not run again."""
    members: dict[str, Member] = {}
    for search in searches:
        if search.make is given:
            search = replace(search, start=_chosen(study, search, ended)) if search.repeats else search
            if (reason := _needless(study, search, ended)) is not None:
                print(f"[{search.name}]  {reason}")
                continue
        done = 0 if search.make is given else _done(_whole(study, search, ended), search)
        course = _course(study, search, table, ended, resources)
        if done >= search.num_samples:
            print(f"[{search.name}]  all {done} trials are in the table already")
        elif course.finished:
            print(_stopped(search, done))
        else:
            members[search.name] = Member(course, search.num_samples - done)
    known = _known(study, searches[0], ended)
    return Portfolio(members, study.space, seeds_of(study, searches[0]), resources.workers, known)


def say_stopped(portfolio: Portfolio, searches: list[Search], table: pd.DataFrame) -> None:
    """After a run: which searches ended by themselves, before their number of settings."""
    for search in searches:
        member, done = portfolio.members.get(search.name), _done(table, search)
        if member is not None and member.course.finished and done < search.num_samples:
            print(_stopped(search, done))


def _course(study: Study, search: Search, table: pd.DataFrame, ended: pd.DataFrame, resources: Resources) -> Course:
    """The search as it goes on from its rows. ended: the table without trials that are run again."""
    optimiser = search.make(study.space, start=search.starts or None)
    optimiser.workers = resources.workers if search.workers is None else search.workers
    final = _whole(study, search, ended)
    for told in results.history(final[final["search"] == search.knows]):
        optimiser.tell(*told)
    begun, whole = table[table["search"] == search.name], _whole(study, search, table)
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
    """The best settings of the searches that this one repeats, by validation, means over seeds; None without any."""
    final = _with_seeds(ended, study.config.replicates)
    groups = [[name] for name in search.repeats] if search.each else [list(search.repeats)]
    bests = [best_trial(means_over_seeds(_asked_by(study, names, final))) for names in groups]
    chosen = [study.space.check(best["params"]) for best in bests if best is not None]
    return list({study.space.key(h): h for h in chosen}.values()) or None


def _asked_by(study: Study, names: list[str], final: pd.DataFrame) -> pd.DataFrame:
    """The rows of some searches. A recipe's are all on its diagonal: it is told what others trained there."""
    if len(names) == 1 and names[0] in balance.AVERAGES:
        return on_diagonal(searching(final), names[0], study.setup.k)
    return final[final["search"].isin(names)]


def _needless(study: Study, search: Search, ended: pd.DataFrame) -> str | None:
    """Why a search of given settings has nothing to train, if so."""
    if search.start is None:
        return f"nothing to train: no trial of {' or '.join(search.repeats)} has completed"
    rows, key = _rows_alike(study, _whole(study, search, ended), search), study.space.key
    trained = {key(params) for params in rows["params"]} >= {key(start) for start in search.starts}
    return "its setting is in the table already" if trained else None


def _known(study: Study, search: Search, ended: pd.DataFrame) -> dict[Training, float]:
    """What came of each training, NaN for no number: the others of its setting may be missing, it is not repeated."""
    rows, key = _rows_alike(study, ended, search), study.space.key
    return {
        (key(row.params), int(row.seed)): row.val_score if row.status == "completed" else nan
        for row in rows.itertuples()
    }


def _rows_alike(study: Study, table: pd.DataFrame, search: Search) -> pd.DataFrame:
    """The rows of trainings that stand for those of this search."""
    return table[table["search"].isin([other.name for other in study.searches if alike(other, search)])]


def _whole(study: Study, search: Search, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of settings all of whose trainings have ended."""
    return _with_seeds(table, len(seeds_of(study, search)))


def _with_seeds(table: pd.DataFrame, seeds: int) -> pd.DataFrame:
    if seeds == 1 or table.empty:
        return table
    return table[table.groupby(["search", "trial_index"])["seed"].transform("nunique") >= seeds]


def _done(table: pd.DataFrame, search: Search) -> int:
    return table.loc[table["search"] == search.name, "trial_index"].nunique()


def _stopped(search: Search, done: int) -> str:
    if search.make is given:
        return f"[{search.name}]  its setting was trained by another search"
    if search.line:
        bracketed = "the best of its line is bracketed within a third of an octave"
        return f"[{search.name}]  exhausted after {done} trials: {bracketed}"
    return f"[{search.name}]  ended by itself after {done} of {search.num_samples} trials: no line promises more"
