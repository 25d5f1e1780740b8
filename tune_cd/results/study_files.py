"""Files beside the tables, RESULTS/studies/<study>/: what a study was asked to do, who drives it, its pictures and report."""

import json

from tune_cd.results.store import Bucket, Folder

OPTIONS = "study.json"
DRIVER = "driver.json"
REPORT = "report.html"


def file_of(study: str, name: str) -> str:
    """The store's name of such a file."""
    return f"studies/{study}/{name}"


def text_of(store: Folder | Bucket, study: str, name: str) -> bytes | None:
    """What such a file holds, None where there is none."""
    try:
        return store.read(file_of(study, name))
    except FileNotFoundError:
        return None


def options_of(store: Folder | Bucket, study: str) -> dict:
    """The options that `tune_cd.run` stored for a study; none for a study that is not its own, or of a later version's form."""
    try:
        return dict(json.loads(text_of(store, study, OPTIONS) or b"{}").get("options", {}))
    except (ValueError, TypeError, AttributeError):
        return {}
