"""What a study leaves behind that only its continuation needs: states of paused trainings, and Ray Tune's own files."""

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tune_cd.results.compaction import has_driver
from tune_cd.results.schema import check_name
from tune_cd.results.store import address_of, store_of
from tune_cd.results.study_files import CHECKPOINTS, file_of


@dataclass(frozen=True)
class Leftovers:
    """What `clean` removes of one study. Sizes in bytes."""

    states: dict[str, int]  # file in the store -> its size; a study that goes on needs them
    folders: dict[Path, int]  # of Ray Tune, on this machine


def leftovers(results: str | Path, study: str, tune_dir: str | None = None) -> Leftovers:
    """Find them. tune_dir: the `--tune-dir` of the run. Raises ValueError for a study that is not there, or that a
    driver is at work on, OSError if the store does not answer."""
    store = store_of(results)
    store.require()
    if not (store.listing(file_of(check_name(study), ""), depth=1) or store.listing(f"trials/{study}", depth=1)):
        raise ValueError(f"there is no study {study!r} in {store.where()}; there are {store.folders('studies')}")
    if has_driver(store, study):
        raise ValueError(f"study {study} has a driver at work, which may need its files; end it first")
    usual = (place for place in Path(tempfile.gettempdir()).glob("tune_cd-*") if place.is_dir())
    places = [Path(tune_dir)] if tune_dir else [place for place in usual if place.lstat().st_uid == os.getuid()]
    name = re.compile(re.escape(tune_prefix(results, study)) + r"[a-z0-9_]{8}")  # as `tempfile.mkdtemp` ends it
    found = [folder for place in places for folder in place.iterdir() if name.fullmatch(folder.name)]
    sizes = {folder: sum(file.lstat().st_size for file in folder.rglob("*")) for folder in sorted(found)}
    return Leftovers(store.sizes(file_of(study, CHECKPOINTS), depth=1), sizes)


def remove(results: str | Path, study: str, found: Leftovers) -> None:
    """Remove them. Raises ValueError where a driver has come meanwhile, OSError if something cannot be removed."""
    store = store_of(results)
    if has_driver(store, study):
        raise ValueError(f"a driver has begun to work on study {study}; nothing is removed")
    for name in found.states:
        store.remove(name)
    for folder in found.folders:
        shutil.rmtree(folder)


def tune_prefix(results: str | Path, study: str) -> str:
    """How the name of a folder for Ray Tune's own files begins: with the study, and a hash of where its results are."""
    return f"{study}-{sha256(os.fsencode(address_of(results))).hexdigest()[:8]}-"
