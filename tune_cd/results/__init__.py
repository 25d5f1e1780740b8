"""The results table: Parquet files that any Parquet reader understands and that survive a crash intact.

A file appears whole or not at all. A trial's row is never replaced in place: a new file gets its own name, and the
files that it supersedes are removed afterwards. So writers, readers and compactions need no lock, and `read` returns a
row that is in two files once. The README has the files' names.
"""

from tune_cd.results.compaction import compact
from tune_cd.results.location import check_location
from tune_cd.results.observations import trainings
from tune_cd.results.parquet import ConflictingRow
from tune_cd.results.reading import read, read_curves, read_file
from tune_cd.results.schema import CURVES, FAILURE_KINDS, STATUSES, TRIALS, check_name, check_trial
from tune_cd.results.store import publish
from tune_cd.results.writing import check_writable, write_curve, write_trial

__all__ = [
    "CURVES", "FAILURE_KINDS", "STATUSES", "TRIALS", "ConflictingRow", "check_location", "check_name", "check_trial",
    "check_writable", "compact", "publish", "read", "read_curves", "read_file", "trainings", "write_curve",
    "write_trial",
]  # fmt: skip
