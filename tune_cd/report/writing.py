"""From studies in a results folder or an object store to the report's page: one HTML file with its styles, scripts and
data, which works without a network."""

import html
import json
import re
import shlex
import warnings
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.report.payload import payload, unshown
from tune_cd.results.location import is_uri
from tune_cd.results.schema import NAME
from tune_cd.results.store import store_of
from tune_cd.results.study_files import REPORT, best_networks, file_of, options_of

STUDIES = 20  # largest number of studies whose learning curves are read


def read(place: Path | str, studies: Sequence[str] | None) -> pd.DataFrame:
    """The studies' trials from a results folder, an object store or one Parquet file; None: all studies.

    Raises ValueError naming the known ones for a study without a row that has not just begun, and FileNotFoundError.
    """
    one_file = is_file(place)
    if studies is not None and len(studies) == 1 and not one_file:
        return results.read(place, studies[0])
    trials = results.read_file(place) if one_file else results.read(place)
    if unknown := {*(studies or ())}.difference(trials["study"]):
        known = ", ".join(sorted(set(trials["study"]))) or "none"
        raise ValueError(f"study {', '.join(sorted(unknown))}: not in {place}; there are {known}")
    return trials if studies is None else trials[trials["study"].isin(studies)].reset_index(drop=True)


def is_file(place: Path | str) -> bool:
    """Whether `place` is one local Parquet file."""
    return str(place).endswith(".parquet") and not is_uri(place)


def content(place: Path | str, studies: Sequence[str] | None = None) -> dict[str, Any]:
    """The page's content for these studies. Unusable files are named in its notes. Errors: as `read`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trials = read(place, studies)
        # of a study of another program, whose name may be one that is not allowed, there are rows alone
        names = [] if is_file(place) else sorted(filter(NAME.fullmatch, set(trials["study"])))
        curves = [results.read_curves(place, study) for study in names if len(names) <= STUDIES]
    notes = list(dict.fromkeys(str(warning.message) for warning in caught))
    title = studies[0] if studies and len(studies) == 1 else names[0] if len(names) == 1 else str(place)
    known = {name: _known(place, name) for name in names}
    return payload(trials, title, notes=notes, known=known, curves=pd.concat(curves) if curves else None)


def _known(place: Path | str, study: str) -> dict[str, Any]:
    """What a study's folder says: its networks, and the command if `tune_cd.run` made it."""
    store = store_of(place)
    command = shlex.join(["python", "-m", "tune_cd.run", "--results", str(place), "--study", study])
    return {
        "command": command if options_of(store, study) else None,
        "networks": {search: str(store.where(name)) for search, name in best_networks(store, study).items()},
    }


def write_report(place: Path | str, study: str) -> Path | str:
    """Write a study's page to its folder; returns its location.

    Raises ValueError if its rows cannot be shown, OSError on writing; other errors as `read`.
    """
    store, file, found = store_of(place), file_of(study, REPORT), content(place, [study])
    for reason in unshown(found["studies"]).values():
        raise ValueError(reason)
    store.write(file, render(found).encode())
    return store.where(file)


def render(payload: dict) -> str:
    """The whole page: 50 kB, and about a kilobyte a trial.

    payload: the result of `tune_cd.report.payload`. Raises ValueError if it holds a number that is not finite.
    """
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    parts = {
        "title": html.escape(payload["title"]),
        "css": _template("page.css"),
        # `<` and Unicode's two line separators are escaped, so that the data cannot end their script element
        "payload": text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        "scripts": _template("charts.js") + _template("page.js"),
    }
    # one pass, so that data that look like a placeholder are kept
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template("page.html"))
    return re.sub("[\ud800-\udfff]", "\ufffd", page)  # halves of characters, which have no UTF-8


def _template(name: str) -> str:
    return (resources.files("tune_cd.report") / name).read_text(encoding="utf-8")
