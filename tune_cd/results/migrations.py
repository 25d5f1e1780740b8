"""Converts tables of earlier format versions to today's. The only record of what each version added."""

from collections.abc import Callable

import pyarrow as pa

from tune_cd.results.schema import FORMAT_VERSION, failure_kind_of

Step = Callable[[pa.Table], pa.Table]


def _with_git_commit(trials: pa.Table) -> pa.Table:
    """Version 2 added git_commit, the commit of the user's code; null in older files."""
    return trials.append_column(pa.field("git_commit", pa.string()), pa.nulls(trials.num_rows, pa.string()))


def _with_failure_kind(trials: pa.Table) -> pa.Table:
    """Version 3 added failure_kind; older files state it only as a prefix of the error."""
    ends = zip(trials["status"].to_pylist(), trials["error"].to_pylist(), strict=True)
    kinds = [failure_kind_of(error) if status == "failed" else None for status, error in ends]
    return trials.append_column(pa.field("failure_kind", pa.string()), pa.array(kinds, pa.string()))


def _as_it_was(table: pa.Table) -> pa.Table:
    return table


UPGRADES: dict[str, dict[int, Step]] = {
    "trials": {1: _with_git_commit, 2: _with_failure_kind},
    "curves": {1: _as_it_was, 2: _as_it_was},
}
"""Table -> version -> the step to the next version. Steps never change and must not use today's schema."""


def upgrade(table: pa.Table, kind: str, version: int) -> pa.Table:
    """Convert a table of an earlier version to the columns of FORMAT_VERSION, in any order.

    kind: trials or curves. Raises ValueError for a version that never existed or is newer than this release.
    """
    if not 1 <= version <= FORMAT_VERSION:
        raise ValueError(f"format version {version} is not known; 1 to {FORMAT_VERSION} are")
    for earlier in range(version, FORMAT_VERSION):
        table = UPGRADES[kind][earlier](table)
    return table
