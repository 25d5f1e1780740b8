"""Files beside the tables, RESULTS/studies/<study>/: a study's options, its driver's lock, its pictures and report, and
each search's best trained network, by validation score:

    RESULTS/studies/<study>/networks/<search>~<validation score>~<trial>.pt

`trainables.trained.load` reads such a file. A network is stored before its training's row, and worse ones are removed
only afterwards, so the best one survives a crash in between. Several trainings may end at the same time.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

from tune_cd.results.redaction import json_of
from tune_cd.results.schema import check_name
from tune_cd.results.store import Store, address_of, store_of

OPTIONS = "study.json"
DRIVER = "driver.json"
REPORT = "report.html"
ALIVE = 60  # seconds since its last sign of life, every fifth second, for which a study's driver counts as at work
NETWORKS = "networks"
CHECKPOINTS = "checkpoints"
DIGITS = 9  # decimal places of the score in a name
NAME = re.compile(r".*/(?P<search>[^~/]+)~(?P<score>-?\d+\.\d+)~[^/]+\.pt")


def file_of(study: str, name: str) -> str:
    """Name in the store of a study's file."""
    return f"studies/{study}/{name}"


def text_of(store: Store, study: str, name: str) -> bytes | None:
    """The content of a study's file; None if it does not exist."""
    try:
        return store.read(file_of(study, name))
    except (FileNotFoundError, NotADirectoryError):
        return None


def options_of(store: Store, study: str) -> dict[str, Any]:
    """The options that `tune_cd.run` stored for a study; empty for a study of another program or a newer format."""
    try:
        return dict(json_of(text_of(store, study, OPTIONS) or b"{}").get("options", {}))
    except (ValueError, TypeError, AttributeError):
        return {}


def has_driver(store: Store, study: str) -> bool:
    """Whether a driver is at work on a study."""
    return store.age(file_of(study, DRIVER), missing=inf) < ALIVE


def require_study(results: str | Path, study: str) -> Store:
    """The store of a study. Raises ValueError for a study that is not there."""
    store = store_of(results)
    store.require()
    known = {*store.folders("studies"), *store.folders("trials")}
    if check_name(study) not in known:
        raise ValueError(f"there is no study {study!r} in {store.where()}; there are {sorted(known) or 'none'}")
    return store


def require_begun(results: str | Path, study: str | None) -> None:
    """Raise ValueError for a study, or results, that are not there; an empty folder takes any that is to begin."""
    store = store_of(results)
    inside = {*store.folders(""), *store.listing("")}
    if inside and study is not None:
        require_study(results, study)
    elif inside and inside.isdisjoint(("trials", "studies")):
        raise ValueError(f"there are no trials below {store.where()}: RESULTS is the folder that holds trials/")


def leftovers(results: str | Path, study: str, tune_dir: str | None = None) -> tuple[list[str], list[Path]]:
    """(states of paused trainings, files in the store, which a study that goes on needs; Ray Tune's folders on this
    machine). tune_dir: the `--tune-dir` of the run. Raises ValueError for a study that is not there, or that a driver
    is at work on, OSError if the store does not answer."""
    store = require_study(results, study)
    if has_driver(store, study):
        raise ValueError(f"study {study} has a driver at work, which may need its files; end it first")
    places = [Path(tune_dir)] if tune_dir else Path(tempfile.gettempdir()).glob("tune_cd-*")
    name = tune_prefix(results, study) + "?" * 8  # as `tempfile.mkdtemp` ends it
    found = [folder for place in places for folder in place.glob(name) if folder.lstat().st_uid == os.getuid()]
    return store.listing(file_of(study, CHECKPOINTS)), sorted(found)


def remove(results: str | Path, study: str, states: list[str], folders: list[Path]) -> None:
    """Remove them. Raises ValueError where a driver has come meanwhile, OSError if something cannot be removed."""
    store = store_of(results)
    if has_driver(store, study):
        raise ValueError(f"a driver has begun to work on study {study}; nothing is removed")
    for name in states:
        store.remove(name)
    for folder in folders:
        shutil.rmtree(folder)


def tune_prefix(results: str | Path, study: str) -> str:
    """How the name of a folder for Ray Tune's own files begins: with the study, and a hash of where its results are."""
    return f"{study}-{sha256(os.fsencode(address_of(results))).hexdigest()[:8]}-"


def keep_network(store: Store, study: str, search: str, trial: str, score: float, network: Callable[[], bytes]) -> None:
    """Store a network and remove worse ones, unless the search has a better one. Raises OSError if that fails."""
    name = file_of(study, f"{NETWORKS}/{search}~{score:.{DIGITS}f}~{trial}.pt")
    if _ranked(store, study, name)[search][0] != name:
        return
    store.write(name, network())
    for worse in _ranked(store, study).get(search, [])[1:]:  # a better one may have come, and removed this one
        store.remove(worse)


def best_networks(store: Store, study: str) -> dict[str, str]:
    """search -> name in the store of its best network."""
    return {search: names[0] for search, names in _ranked(store, study).items()}


def _ranked(store: Store, study: str, *more: str) -> dict[str, list[str]]:
    """search -> names of the stored networks, and of `more`, by falling score; equal scores by name."""
    listed = {*more, *store.listing(file_of(study, NETWORKS))}
    found = [match for name in sorted(listed) if (match := NAME.fullmatch(name))]
    ranked: dict[str, list[str]] = {}
    for match in sorted(found, key=lambda match: -float(match["score"])):
        ranked.setdefault(match["search"], []).append(match[0])
    return ranked
