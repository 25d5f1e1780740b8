"""Files of earlier format versions as today's. What each version added is said here and nowhere else."""

from collections.abc import Callable

import pyarrow as pa

from tune_cd.results.schema import FORMAT_VERSION, failure_kind_of

Step = Callable[[pa.Table], pa.Table]


def _with_git_commit(trials: pa.Table) -> pa.Table:
    """2: the commit of the user's code, which version 1 did not know."""
    return trials.append_column(pa.field("git_commit", pa.string()), pa.nulls(trials.num_rows, pa.string()))


def _with_failure_kind(trials: pa.Table) -> pa.Table:
    """3: why a trial failed, which was to be read off the beginning of its error."""
    ends = zip(trials["status"].to_pylist(), trials["error"].to_pylist(), strict=True)
    kinds = [failure_kind_of(error) if status == "failed" else None for status, error in ends]
    return trials.append_column(pa.field("failure_kind", pa.string()), pa.array(kinds, pa.string()))


def _as_it_was(table: pa.Table) -> pa.Table:
    return table


UPGRADES: dict[str, dict[int, Step]] = {
    "trials": {1: _with_git_commit, 2: _with_failure_kind},
    "curves": {1: _as_it_was, 2: _as_it_was},
}
"""Table -> version -> the step to the version after it. Steps never change, and never use today's schema."""


def upgrade(table: pa.Table, kind: str, version: int) -> pa.Table:
    """A `kind` table (trials or curves) of an earlier version with the columns of FORMAT_VERSION, in any order.

    Raises ValueError for a version that never was, or is newer than this release.
    """
    if not 1 <= version <= FORMAT_VERSION:
        raise ValueError(f"format version {version} is not known; 1 to {FORMAT_VERSION} are")
    for earlier in range(version, FORMAT_VERSION):
        table = UPGRADES[kind][earlier](table)
    return table
