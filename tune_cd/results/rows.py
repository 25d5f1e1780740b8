"""Builds a trial's row, for our trainables (`run.recorder`) and for users' (`tune.callback`); also its provenance: the
versions of software, and the commit of the user's own code."""

import json
import platform
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import metadata
from math import isfinite, nan
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd

from tune_cd.results.redaction import as_json
from tune_cd.results.schema import CUT, Row
from tune_cd.search.category import is_plain, text_of, value_in
from tune_cd.search.number import number_of
from tune_cd.search.space import Space

RUNS = "runs"
"""Key of a row's config for the list of earlier runs of a trial that paused, in order of time. Each run has
images_seen, val_score, scores, started_at, ended_at, hostname and device."""

IMAGES = "images_seen"
"""The column that has the length of our own trainings, and the key of a row's config for that of a whole one."""

ASKED = ("params", "choices", "seed")
"""What identifies a training in its study, besides the search that asked for it."""

OF_A_RUN = ("images_seen", "val_score", "started_at", "ended_at", "hostname", "device")

SPACE, FULL_LENGTH, LENGTHS, TOLD, DRAWN = "space", "full_length", "lengths", "told", "drawn"
"""Keys of a row's config: the searched space, `Space.to_json`; of a user's own trainable also the key and value of a
whole training's length, the shares of it at which trainings pause, what the search was told of this one: [[length,
value], ...], also of lengths passed without a pause; and the names of what a function of `param_space` gave to it."""

RENAMED = "{} (own)"
"""A user's own key of such a name."""

DIGEST = "digest"
"""Key of a row's config for the fields that had an effect on the training, and their values in effect. Rows that agree
in it are of one set-up; rows without it are compared by their whole config."""

SIMULATED_END = "ended"
"""Key of a replayed row's config for when the trial ended on its simulated clock: such rows have no times of day."""

PACKAGES = ("tune_cd", "ray", "torch", "torchvision", "numpy")
GIT_SECONDS = 5  # timeout of git; if the folder is too large or too far away, the commit is not recorded


def with_own(config: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A user's configuration, and what is known beside it; a key of the user's of such a name is RENAMED."""
    return {RENAMED.format(name) if name in known else name: value for name, value in config.items()} | dict(known)


@lru_cache(maxsize=1 << 12)
def config_of(text: str) -> Mapping[str, Any]:
    """A row's config, parsed once for all who ask; nobody changes it."""
    return dict(json.loads(text))


def runs_in(config: str) -> list[dict[str, Any]]:
    """The earlier runs that a row's config lists; [] without any, also where a user's own key has that name."""
    runs = config_of(config).get(RUNS, [])
    ours = isinstance(runs, list) and all(isinstance(run, dict) and {*OF_A_RUN} <= {*run} for run in runs)
    return list(runs) if ours else []


def told_in(config: str) -> list[tuple[float, float]]:
    """(length, value) of what a row's config lists as told; [] without any, also where a user's key has that name."""
    told = config_of(config).get(TOLD, [])
    ours = isinstance(told, list) and all(isinstance(one, list) and len(one) == 2 for one in told)
    pairs = [(finite(length), finite(value)) for length, value in told] if ours else []
    return [(length, value) for length, value in pairs if length and value is not None]


def length_in(config: str) -> tuple[str, float]:
    """(IMAGES or the name of a length in a run's scores; that of a full training, NaN if a config has none)."""
    said = config_of(config)
    own, images = said.get(FULL_LENGTH), said.get(IMAGES)
    if isinstance(own, list) and len(own) == 2 and (whole := finite(own[1])) and whole > 0:
        return str(own[0]), whole
    return IMAGES, float(images) if type(images) is int and images > 0 else nan


def reached_in(run: Mapping[Any, Any], name: str) -> float:
    """How far a run was trained, in the unit of the length `name`; NaN if it does not say."""
    reached = run[IMAGES] if name == IMAGES else None
    reached = dict(run["scores"]).get(name) if pd.isna(reached) else reached
    return nan if pd.isna(reached) else float(reached)


def simulated_end(config: str) -> float | None:
    """When a replayed trial ended, see SIMULATED_END; None of other rows."""
    return number_of(config_of(config).get(SIMULATED_END))


def earlier_runs(stored: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The runs to list in the config of a trial's next run: those of its stored row, and its last one if that paused.

    A run that was lost or interrupted is none, but those before it are kept.
    """
    if stored is None:
        return []
    runs = runs_in(stored["config"])
    if stored["status"] != "stopped" or stored["error"] == CUT:
        return runs
    last = {name: stored[name] for name in OF_A_RUN} | {"val_score": finite(stored["val_score"])}
    times = {name: last[name].isoformat() for name in ("started_at", "ended_at") if last[name] is not None}
    scores = {name: value for name, value in stored["scores"].items() if isfinite(value)}
    return [*runs, last | times | {"scores": scores}]


def next_run(row: Row, stored: Mapping[str, Any] | None) -> Row:
    """The row of a trial's next run, whose config lists the runs before. stored: the row that it supersedes.

    A failed row keeps what only the stored configuration says: of a lost training the suggestion alone is known.
    """
    runs = earlier_runs(stored)
    if stored is None or not runs or runs_in(row["config"]):
        return row
    held = config_of(stored["config"]) if row["status"] == "failed" else {}
    return row | {"config": as_json({**held, **config_of(row["config"]), RUNS: runs})}


def trial_row(
    identity: Mapping[str, Any],
    params: Mapping[str, float],
    config: Mapping[str, Any],
    outcome: Mapping[str, Any],
    machine: Mapping[str, Any],
    constants: Mapping[str, Any],
    choices: Mapping[str, str] | None = None,
) -> Row:
    """The row of a trial that ends now, in fields of `TRIALS`; not yet checked.

    identity: the trial and its run: search, trial_id, trial_index, attempt, seed, direction, line_position.
    params: the searched numbers. choices: the other searched parameters, as texts (`split`).
    config: the whole configuration; the row's Lambda_p, Lambda_e and batch_size are read from it.
    outcome: status, scores, terms, error and failure_kind, images_seen, train_seconds.
    machine: place and time: started_at, hostname (default: this machine), device, gpus.
    constants: fields that the study's rows share, over all others. git_commit: by default the working directory's.
    """
    size = config.get("batch_size")
    return {
        **identity,
        "params": dict(params),
        "choices": dict(choices) if choices else None,
        **{name: float(at) for name in ("Lambda_p", "Lambda_e") if (at := number_of(config.get(name))) is not None},
        "batch_size": size if isinstance(size, Integral) and not isinstance(size, bool) else None,
        **outcome,
        "ended_at": datetime.now(UTC),
        "hostname": socket.gethostname(),
        **machine,
        "config": as_json(config),
        "software": as_json(software()),
        **({} if "git_commit" in constants else {"git_commit": git_commit()}),
        **constants,
    }


def split(h: Mapping[str, Any], space: Space | None = None) -> tuple[dict[str, float], dict[str, str]]:
    """A searched configuration as a row has it: its numbers, and its categories as texts.

    space: the searched one; None: every number is one of the numbers. What is neither, such as a list, is left out.
    """
    of_space = {axis.name for axis in space.categories} if space is not None else set()
    numbers = {name: float(at) for name, value in h.items() if (at := number_of(value)) is not None}
    params = {name: value for name, value in numbers.items() if name not in of_space}
    return params, {name: text_of(value) for name, value in h.items() if name not in params and is_plain(value)}


def sign_of(mode: str | None) -> float:
    """-1 where a smaller score is better (the column `mode`), else 1: a search maximises the score times this."""
    return -1.0 if isinstance(mode, str) and mode == "min" else 1.0


def searched_in(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The searched configuration of a row: the inverse of `split`, but that all numbers in `params` are floats."""
    return {**dict(row["params"]), **{name: value_in(text) for name, text in choices_in(row).items()}}


def choices_in(row: Mapping[Any, Any]) -> dict[str, str]:
    """The categories of a row as texts; {} where it has none. Plain readers give pairs, and NaN, NA, None for null."""
    choices = row.get("choices")
    return dict(choices) if isinstance(choices, Iterable) else {}


def trial_name(search: str, trial_index: int) -> str:
    """The trial_id of a row: the same for the same trial of a study, whichever driver asks for the trial."""
    return f"{search}-{trial_index:05d}"


def finite(value: Any) -> float | None:
    """`value` as a float if it is a finite number (`number_of`); else None."""
    number = number_of(value)
    return float(number) if number is not None and isfinite(number) else None


@cache
def software() -> dict[str, str]:
    """Versions of Python and of the packages that affect results, name -> version; absent packages are left out."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


@cache
def git_commit(folder: str | Path = ".") -> str | None:
    """The commit checked out in the repository of `folder`, with the suffix "-dirty" if tracked files differ from it.

    None outside a repository, before its first commit, without git, and for a repository that git does not trust. Never
    raises. Looked up once per process, since imported code does not change with its file.
    """
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=GIT_SECONDS)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
