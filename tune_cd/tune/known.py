"""What a search knows before its first suggestion: starts, values measured elsewhere, rows of the results table."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.results.attempts import to_retry
from tune_cd.results.merging import merge
from tune_cd.results.reading import check_whole
from tune_cd.results.redaction import as_json
from tune_cd.results.rows import finite, searched_in
from tune_cd.search.category import is_plain
from tune_cd.search.search import CoordinateDescent, Start
from tune_cd.search.training import Proposal, Training
from tune_cd.tune.reports import Reports


def starts_and_values(
    start: Start, points: Sequence[Mapping[str, Any]] | None, rewards: Sequence[float] | None
) -> tuple[list[dict], list[tuple[dict, Any]]]:
    """(configurations to try first, configurations with their known values), all flat, from the arguments of the
    searcher. Raises ValueError for what is no configuration, and for rewards that are not as many as the points."""
    starts = [start] if isinstance(start, Mapping) else list(start or [])
    if not all(isinstance(h, Mapping) for h in starts):
        raise ValueError(f"start {start!r}: a configuration, or a list of them")
    if points is not None and (isinstance(points, Mapping) or not all(isinstance(h, Mapping) for h in points)):
        raise ValueError(f"points_to_evaluate {points!r}: a list of dicts")
    if rewards is not None and len(rewards) != len(points or []):
        raise ValueError(f"evaluated_rewards has {len(rewards)} values for {len(points or [])} points_to_evaluate")
    flat, starts = ([flatten_dict(dict(h)) for h in given] for given in (points or [], starts))
    return (flat + starts, []) if rewards is None else (starts, list(zip(flat, rewards)))


@dataclass
class Earlier:
    """Trials of a results folder. rows: of the table. resumes: they are of this same search, which goes on from their
    end. scores: their metric and mode; None: no row has a value."""

    rows: pd.DataFrame
    resumes: bool
    scores: tuple[str, str] | None

    @classmethod
    def read(cls, path: str | Path, study: str | None, resume: bool, pauses: bool) -> "Earlier":
        """The rows at a place. Raises ValueError if they do not fit, see `CoordinateDescentSearch.from_results`.

        resume: a missing results folder gives an empty table and a warning. pauses: stopped trials have values too.
        """
        rows = _of_one_search(path, study) if resume else results.read(path, study)
        statuses = ("completed", "stopped") if pauses else ("completed",)
        of_use = rows[rows["status"].isin(statuses)]
        if (of_use.empty and not resume) or of_use["metric_name"].nunique() > 1:
            names = sorted(of_use["metric_name"].unique())
            raise ValueError(
                f"{path}, study {study}: {len(of_use)} of {len(rows)} trials {' or '.join(statuses)}, with metrics "
                f"{names}; one metric is needed"
            )
        scores = [(one.metric_name, "min" if one.mode == "min" else "max") for one in of_use.head(1).itertuples()]
        return cls(rows, resume, scores[0] if scores else None)

    @property
    def recalled(self) -> int:
        """Number of trials that are not run again."""
        return int((~to_retry(self.rows)).sum()) if self.resumes else 0

    def check(self, reports: Reports) -> None:
        """Compare the rows' scores with those that are searched for. Warns of another metric; raises ValueError for
        the same metric with the other mode."""
        metric, mode = reports.metric, "min" if reports.sign < 0 else "max"
        name, of_mode = self.scores or (metric, mode)
        if name == metric and of_mode != mode:
            raise ValueError(
                f"the table's scores are {name!r} with mode {of_mode!r}, and the search has mode {mode!r}: one of them "
                "is wrong"
            )
        if name != metric:
            said = f"the table's scores are {name!r}, and count as {metric!r}, which is searched for"
            warnings.warn(said, stacklevel=2)

    def check_fixed(self, config: Mapping[str, Any]) -> None:
        """Warn of a `param_space` with other fixed entries than the last row of the search that goes on."""
        last = self.rows["config"].tail(1) if self.resumes else ()
        was, now = (flatten_dict(json.loads(text)) for text in (next(iter(last), "{}"), as_json(config)))
        fixed = [name for name, value in flatten_dict(dict(config)).items() if is_plain(value) and name in was]
        differ = [f"{name} was {was[name]!r} and is {now[name]!r}" for name in fixed if was[name] != now[name]]
        if differ:
            said = "the scores of this search are of two set-ups"
            warnings.warn(f"{', '.join(differ)}: {said}", stacklevel=2)

    def tell(self, search: CoordinateDescent, full_length: tuple[str, float] | None) -> None:
        """Tell a search what the rows say. Those outside its space are left out with a warning, those that searched
        more parameters count with one; both are refused with ValueError if they are its own."""
        more = [names for row in self.rows.to_dict("records") if (names := {*searched_in(row)} - {*search.space.names})]
        if more:
            said = f"{len(more)} trials also searched {', '.join(sorted(set().union(*more)))}, which this space lacks"
            if self.resumes:
                raise ValueError(said)
            warnings.warn(said, stacklevel=2)
        if self.resumes:
            recall(search, self.rows, full_length)
            return
        known, outside = results.trainings(self.rows, full_length), []
        for training in known:
            try:
                h = search.space.check(training.h)
            except ValueError as error:
                outside.append(str(error))
                continue
            for share, value in training.curve.items():
                search.tell(h, value, share, external=True)
        if outside:
            said = f"{len(outside)} of {len(known)} known trials lie outside {search.space} and are left out"
            warnings.warn(f"{said}: {outside[0]}", stacklevel=2)


def recall(search: CoordinateDescent, rows: pd.DataFrame, full_length: tuple[str, float] | None) -> None:
    """Continue a search from the end of its own rows, in the order of asking. Those that are run again are under way:
    as far as a copy of the search asks, else to the length after their last pause. ValueError for a row outside the
    space."""
    check, key = search.space.check, search.space.key
    in_order = rows.sort_values("trial_index", ascending=False).to_dict("records")
    places = {key(check(searched_in(row))): row for row in in_order}  # of several seeds' rows, the first

    def placed(training: Training) -> Training:
        row = places[key(training.h)]
        direction = row["direction"] if isinstance(row["direction"], str) else "resumed"
        origin = Proposal(training.h, direction, finite(row["line_position"]) or 0.0)
        return replace(training, origin=origin, trial_index=int(row["trial_index"]))

    again, asked = rows[to_retry(rows)], CoordinateDescent.from_state(search.state())
    asked.recall(map(placed, results.trainings(rows, full_length, again=again.index)))
    lost = {key(h): h for h in map(check, map(searched_in, again.to_dict("records")))}
    while lost and (h := asked.ask()) is not None:
        if lost.pop(key(h), None) is None:
            asked.withdraw(h)
            break
    for h in lost.values():
        asked.begin(Proposal(h, "resumed", 0.0), asked.length_after(h))
    trainings = [placed(one) for one in asked.trainings if key(one.h) in places]
    search.recall(sorted(trainings, key=lambda one: one.trial_index))


def _of_one_search(path: str | Path, study: str | None) -> pd.DataFrame:
    if study is None:
        raise ValueError("to resume, name the study")
    merge(path)
    try:
        check_whole(path, study)
        trials = results.read(path, study, missing=True)
    except FileNotFoundError:
        warnings.warn(f"there is no results folder {path} yet: the search of study {study} begins", stacklevel=4)
        return results.TRIALS.empty_table().to_pandas()
    if trials["search"].nunique() > 1:
        names = sorted(trials["search"].unique())
        raise ValueError(f"{path}, study {study}: trials of several searches, {names}; one search is resumed")
    return trials
