"""The two tables of a results folder, declared once: trials (one row a trial) and curves (one row an evaluation).

Every field's metadata says its unit and meaning, so a Parquet file explains itself:

    pyarrow.parquet.read_schema(path).field("best_at").metadata

Null means not measured or not applicable; NaN means that a measurement gave NaN. `results` writes and reads the files.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from numbers import Integral
from typing import Any

import pyarrow as pa

from tune_cd.results.redaction import json_object
from tune_cd.search.number import number_of

Row = dict[str, Any]
"""A row of one of the tables in Python's types, maps as dicts."""

FORMAT_VERSION = 4
"""Format version, stored in every file. Raise it when a field is added, removed or changes its type or meaning."""

STATUSES = ("completed", "diverged", "failed", "stopped")
"""Ends of a trial. stopped: before its full length, by a scheduler or a search that trains short; it may go on."""

CUT = "cut: the experiment ended before the trial"
"""The error of a stopped trial that no scheduler stopped: Ctrl-C or a time budget did, and it is run again."""

LOST = "lost"
FAILURE_KINDS = ("error", "out_of_memory", "timeout", LOST)
"""Reasons for failed trials. error: the training raised one, or gave no score. out_of_memory: of the GPU. timeout: it
took too long. lost: with its process, node or store, which says nothing of its configuration: it is run again."""
BEGINNINGS = {"lost: ": LOST, "out of memory: ": "out_of_memory", "timeout: ": "timeout"}  # of an error -> its kind

DECAY = "-decay"
"""Suffix of `search` for trials that repeat another search's best setting with learning rate decay (`table:xbm`)."""

CONFIRM = "confirm"
"""The `search` of trials that repeat the other searches' best settings with fresh seeds; they do not search."""

NAME = re.compile(r"[A-Za-z0-9-][A-Za-z0-9._-]{0,99}")  # Parquet readers skip names with a dot or an underscore first
MODES = ("max", "min")
SHOWN = 200  # characters of a value in a message

TEXT, INTEGER, NUMBER = pa.string(), pa.int64(), pa.float64()
NUMBERS, TEXTS = pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.string())
TIME = pa.timestamp("us", tz="UTC")


def _field(name: str, kind: pa.DataType, meaning: str, unit: str = "none", required: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=not required, metadata={"unit": unit, "meaning": meaning})


def _schema(table: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={"table": f"tune_cd.{table}", "format_version": str(FORMAT_VERSION)})


_STUDY = _field("study", TEXT, "name of the study; also the folder of its files", required=True)
_TRIAL = _field("trial_id", TEXT, "name of the trial, unique in its study; also the file's name", required=True)
_RUNS = "0 for a trial's first run, one more each time it is run again"
_ATTEMPT = _field("attempt", INTEGER, _RUNS, "runs", required=True)
_SEED = _field("seed", INTEGER, "seed of the training")
_TERM = "the loss's {} term, unweighted"
_SECONDS = "wall-clock time spent training, evaluations excluded"
_WEIGHT = "weight of the {} term times the learning rate; null where there is none"
_SIZE = "images of one training step; null where not searched or fixed elsewhere"
_LINE = "octaves per unit of the direction"
_MEASURED = "all else measured: scores, mean similarities, pair counts"
_BETTER = "metric_name's; larger is better unless mode is min"
_CHOICES = (
    'searched parameters without an order, name -> value: adam, true, null, 2; text that reads as another is "2"; '
    "null where there are none"
)
_COMMIT = "commit of the user's code, with -dirty behind it where files differ; null outside a repository"
_OWN = "of a user's own trainable its length, by config's full_length where that is whole, else the number of reports"

TRIALS = _schema(
    "trials",
    _STUDY,
    _field("dataset", TEXT, "published name, only where the published class count was found; else name-<classes>"),
    _field("task", TEXT, "dml (metric learning), ssl (self-supervised learning) or a user's own"),
    _field("loss", TEXT, "of trainables.losses, or a user's own"),
    _field("search", TEXT, "search method that asked for the trial", required=True),
    _field("search_seed", INTEGER, "seed of the search method"),
    _SEED,
    _TRIAL,
    _field("trial_index", INTEGER, "place in the order of asking, from 0", "trials", required=True),
    _ATTEMPT,
    _field("direction", TEXT, "direction of the line search that asked; start or sampled where none did"),
    _field("line_position", NUMBER, "γ: where on that line the trial lies, 0 at its origin", _LINE),
    _field("params", NUMBERS, "every searched number, name -> value", "each parameter's own", required=True),
    _field("choices", TEXTS, _CHOICES),
    _field("Lambda_p", NUMBER, _WEIGHT.format("positive")),
    _field("Lambda_e", NUMBER, _WEIGHT.format("entropy")),
    _field("batch_size", INTEGER, _SIZE, "images"),
    _field("status", TEXT, f"how the trial ended: {', '.join(STATUSES)}", required=True),
    _field("metric_name", TEXT, "name of the score in val_score and test_score", required=True),
    _field("mode", TEXT, "min where a smaller score is better; max or null where a larger one is"),
    _field("val_score", NUMBER, "score on the validation data; what the search is told", _BETTER),
    _field("test_score", NUMBER, "score on the test data; only reported", _BETTER),
    _field("scores", NUMBERS, "every score measured, name -> value", "each score's own", required=True),
    _field("positive_term", NUMBER, f"{_TERM.format('positive')}, after training"),
    _field("entropy_term", NUMBER, f"{_TERM.format('entropy')}, after training"),
    _field("images_seen", INTEGER, "training steps times batch_size; both views of an image count", "images"),
    _field("best_at", INTEGER, "images_seen at the best validation score", "images"),
    _field("train_seconds", NUMBER, _SECONDS, "s"),
    _field("gpus", NUMBER, "GPUs reserved for the trial; a fraction where trials share one", "GPUs"),
    _field("started_at", TIME, "when the attempt started", "UTC"),
    _field("ended_at", TIME, "when the attempt ended", "UTC"),
    _field("hostname", TEXT, "machine that trained"),
    _field("device", TEXT, "processor that trained, such as the GPU's model"),
    _field("error", TEXT, "what went wrong; null where nothing did"),
    _field("failure_kind", TEXT, f"why it failed: {', '.join(FAILURE_KINDS)}; null where it did not"),
    _field("config", TEXT, "everything the trial was configured with", "JSON object", required=True),
    _field("software", TEXT, "versions of what it ran on, name -> version", "JSON object", required=True),
    _field("git_commit", TEXT, _COMMIT),
)

CURVES = _schema(
    "curves",
    _STUDY,
    _TRIAL,
    _ATTEMPT,
    _SEED,
    _field("images_seen", INTEGER, f"training images seen before this evaluation; {_OWN}", "images", required=True),
    _field("train_seconds", NUMBER, f"{_SECONDS}, before this evaluation", "s"),
    _field("val_score", NUMBER, "score on the validation data", "as in trials"),
    _field("positive_term", NUMBER, _TERM.format("positive")),
    _field("entropy_term", NUMBER, _TERM.format("entropy")),
    _field("scores", NUMBERS, _MEASURED, "each score's own", required=True),
)


def check_name(name: str) -> str:
    """Return `name` if it is allowed as the name of a study or a trial; else raise ValueError."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        allowed = "1 to 100 of A-Z a-z 0-9 . _ - are, but no dot or underscore first"
        raise ValueError(f"name {name!r} is not allowed; {allowed}")
    return name


def check_trial(row: Mapping[str, Any]) -> Row:
    """A checked copy of `row` with every field of TRIALS in order; fields left out are None.

    A failed row without a failure_kind gets the one that its error begins with (`BEGINNINGS`).

    Raises ValueError for an unknown, missing or mistyped field, a name that is not allowed, a negative trial_index or
    attempt, a status outside STATUSES, a failure_kind outside FAILURE_KINDS or of a trial that did not fail, a
    completed trial without a finite val_score, a parameter that is not finite, and invalid JSON.
    """
    checked = _check_fields(row, TRIALS)
    failed, kind, score = checked["status"] == "failed", checked["failure_kind"], checked["val_score"]
    if failed and kind is None:
        begins = (checked["error"] or "").startswith
        kind = checked["failure_kind"] = next((of for text, of in BEGINNINGS.items() if begins(text)), "error")
    _require(
        checked, "failure_kind", kind in (FAILURE_KINDS if failed else (None,)), f"of a failed one, {FAILURE_KINDS}"
    )
    _require(checked, "trial_index", checked["trial_index"] >= 0, "an int >= 0")
    _require(checked, "status", checked["status"] in STATUSES, f"one of {', '.join(STATUSES)}")
    _require(checked, "mode", checked["mode"] in (None, *MODES), " or ".join(MODES))
    _require(checked, "params", all(map(isfinite, checked["params"].values())), "finite values")
    scored = checked["status"] != "completed" or (score is not None and isfinite(score))
    _require(checked, "val_score", scored, "a finite score of a completed trial")
    return checked


def check_curve(row: Mapping[str, Any]) -> Row:
    """A checked copy of `row` with every field of CURVES. Raises ValueError likewise."""
    checked = _check_fields(row, CURVES)
    _require(checked, "images_seen", checked["images_seen"] >= 0, "an int >= 0")
    return checked


def _check_fields(row: Mapping[str, Any], schema: pa.Schema) -> Row:
    """`row` in the schema's order and plain Python types. Raises ValueError for fields that are not allowed."""
    columns = _COLUMNS[id(schema)]
    if unknown := [name for name in row if name not in columns]:
        raise ValueError(f"unknown fields {unknown}; allowed are {schema.names}")
    if missing := [name for name, (required, *_) in columns.items() if required and row.get(name) is None]:
        raise ValueError(f"missing fields {missing}")
    checked: Row = {}
    for name, (_, allowed, plain) in columns.items():
        value = row.get(name)
        try:
            checked[name] = None if value is None else plain(value)
        except (TypeError, ValueError, AttributeError):
            said = f"{name} = {repr(value)[:SHOWN]} ({type(value).__name__}) is not allowed; {allowed} is required"
            raise ValueError(said) from None
    check_name(checked["study"])
    check_name(checked["trial_id"])
    _require(checked, "attempt", checked["attempt"] >= 0, "an int >= 0")
    return checked


def _require(row: Row, name: str, holds: bool, allowed: str) -> None:
    if not holds:
        said = f"{name} = {repr(row[name])[:SHOWN]} is not allowed in trial {row['trial_id']!r}"
        raise ValueError(f"{said}; required: {allowed}")


def _text(value: Any) -> str:
    value.encode()  # lone surrogates have no UTF-8
    return str(value)


def _integer(value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not -(2**63) <= int(value) < 2**63:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    number = number_of(value)
    if number is None:
        raise ValueError
    return float(number)


def _time(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError
    return value.astimezone(UTC)


def _map_of(plain: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {_text(name): plain(one) for name, one in value.items()}


def _json(value: Any) -> str:
    json_object(value)
    return _text(value)


_TYPES: dict[pa.DataType, tuple[str, Callable[[Any], Any]]] = {  # column type -> (what is allowed, to plain Python)
    TEXT: ("a str", _text),
    INTEGER: ("an int of 64 bits", _integer),
    NUMBER: ("a real number", _number),
    NUMBERS: ("a mapping of str to real numbers", _map_of(_number)),
    TEXTS: ("a mapping of str to str", _map_of(_text)),
    TIME: ("a datetime with a time zone", _time),
}
_JSON = ("a JSON object as text, without NaN and Infinity", _json)

_COLUMNS = {
    id(schema): {
        field.name: (not field.nullable, *(_JSON if field.name in ("config", "software") else _TYPES[field.type]))
        for field in schema
    }
    for schema in (TRIALS, CURVES)
}
"""Of each table, name -> (whether it is required, what is allowed, to plain Python): Arrow's schema is slow to ask."""
