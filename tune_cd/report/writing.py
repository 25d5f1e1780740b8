"""From studies in a results folder or an object store to the report."""

import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.analysis.scores import weights_of
from tune_cd.report.findings import Ranges
from tune_cd.report.page import render
from tune_cd.report.payload import payload
from tune_cd.results.location import is_uri
from tune_cd.results.store import store_of
from tune_cd.results.study_files import OPTIONS, REPORT, Networks, file_of, options_of, text_of

STUDIES = 20  # largest number of studies whose learning curves are read


def read(place: Path | str, studies: Sequence[str] | None) -> pd.DataFrame:
    """The studies' trials from a results folder, an object store or one Parquet file; None: all studies.

    Raises ValueError, listing the known studies, for a study without a row, unless it has just begun; and
    FileNotFoundError if there are no results.
    """
    if is_file(place):
        trials = results.read_file(place)
        unknown = sorted(set(studies or ()).difference(trials["study"]))
        if unknown:
            raise ValueError(_unknown(unknown, place, trials))
        return trials if studies is None else trials[trials["study"].isin(studies)].reset_index(drop=True)
    if studies is not None and len(studies) == 1:
        trials = results.read(place, studies[0])
        if len(trials) or text_of(store_of(place), studies[0], OPTIONS) is not None:  # or a study that has just begun
            return trials
    trials = results.read(place)
    if studies is None:
        return trials
    store = store_of(place)
    unknown = [
        study for study in studies if study not in set(trials["study"]) and text_of(store, study, OPTIONS) is None
    ]
    if unknown:
        raise ValueError(_unknown(unknown, store.where(), trials))
    return trials[trials["study"].isin(studies)].reset_index(drop=True)


def _unknown(studies: Sequence[str], place: Path | str, trials: pd.DataFrame) -> str:
    there_are = ", ".join(sorted(trials["study"].unique())) or "none"
    return f"study {', '.join(studies)}: not in {place}; there are {there_are}"


def is_file(place: Path | str) -> bool:
    """Whether `place` is one local Parquet file."""
    return str(place).endswith(".parquet") and not is_uri(place)


def content(place: Path | str, studies: Sequence[str] | None = None) -> dict[str, Any]:
    """The page's content for these studies. Unusable files, and studies that cannot be shown, are named on the page and
    warned of. Errors: as `read`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trials = read(place, studies)
        curves = None if is_file(place) else _curves_of(place, sorted(set(trials["study"])))
    notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    names = sorted(set(trials["study"]))
    options = {name: {} if is_file(place) else options_of(store_of(place), name) for name in names}
    commands = {name: _command(place, name) for name in names if options[name]}
    title = studies[0] if studies and len(studies) == 1 else names[0] if len(names) == 1 else str(place)
    found = payload(
        trials,
        title,
        notes=notes,
        ranges={name: _ranges(options[name], trials[trials["study"] == name]) for name in names},
        commands=commands,
        networks=_networks(place, names),
        curves=curves,
    )
    for name, why in found["left_out"].items():
        warnings.warn(f"{name} could not be shown: {why}", stacklevel=2)
    return found


def _networks(place: Path | str, studies: Sequence[str]) -> dict[str, dict[str, str]]:
    """study -> search -> the location of its trained network."""
    if is_file(place):
        return {}
    store = store_of(place)
    best = {study: Networks(place, study).best() for study in studies}
    return {study: {search: str(store.where(name)) for search, name in found.items()} for study, found in best.items()}


def _curves_of(place: Path | str, studies: Sequence[str]) -> pd.DataFrame | None:
    """The learning curves of up to STUDIES studies; None for more, which are too many to read and to show."""
    if not 0 < len(studies) <= STUDIES:
        return None
    return pd.concat([results.read_curves(place, study) for study in studies], ignore_index=True)


def write_report(place: Path | str, study: str) -> Path | str:
    """Write a study's page to its folder; returns its location. Errors: as `read`, and OSError on writing."""
    store, file = store_of(place), file_of(study, REPORT)
    store.write(file, render(content(place, [study])).encode())
    return store.where(file)


def _ranges(options: dict, trials: pd.DataFrame) -> Ranges:
    """The allowed range of each searched parameter, from `tune_cd.run`'s options; {} if they are not known."""
    try:
        low, high = map(float, options["range"])
        sizes = [float(size) for size in options["batch_sizes"]] if options.get("tune_batch_size") else []
    except (KeyError, TypeError, ValueError):
        return {}
    weights = dict.fromkeys(weights_of(trials), (low, high))
    return weights | ({"batch_size": (min(sizes), max(sizes))} if sizes else {})


def _command(place: Path | str, study: str) -> str:
    return shlex.join(["python", "-m", "tune_cd.run", "--results", str(place), "--study", study])
