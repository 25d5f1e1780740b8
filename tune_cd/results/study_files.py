"""Files beside the tables, RESULTS/studies/<study>/: a study's options, its driver's lock, its pictures and report."""

import json
from typing import Any

from tune_cd.results.store import Bucket, Folder

OPTIONS = "study.json"
DRIVER = "driver.json"
REPORT = "report.html"
COMPACTION = "compaction.json"  # states that a compaction is at work, or was


def file_of(study: str, name: str) -> str:
    """Name in the store of a study's file."""
    return f"studies/{study}/{name}"


def text_of(store: Folder | Bucket, study: str, name: str) -> bytes | None:
    """The content of a study's file; None if it does not exist."""
    try:
        return store.read(file_of(study, name))
    except (FileNotFoundError, NotADirectoryError):
        return None


def json_of(text: bytes) -> Any:
    """Parse JSON. Raises ValueError for anything else: also for a name given twice, NaN and infinite numbers, and lists
    nested so deep that Python gives up."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(named := dict(pairs)) < len(pairs):
            raise ValueError("a name is given twice")
        return named

    def refuse(number: str) -> None:
        raise ValueError(f"{number} is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("lists or objects nested too deep") from None


def options_of(store: Folder | Bucket, study: str) -> dict[str, Any]:
    """The options that `tune_cd.run` stored for a study; empty for a study of another program or a newer format."""
    try:
        return dict(json_of(text_of(store, study, OPTIONS) or b"{}").get("options", {}))
    except (ValueError, TypeError, AttributeError):
        return {}
