"""Attempts of a trial: which row counts, which may supersede, how they are numbered, which trials run again."""

import pytest
from rows import full, held, minimal

from tune_cd import results
from tune_cd.results import attempts

FINAL = r"demo/t0\.parquet holds attempt 0, {}, which never changes; .*differs in \['"


@pytest.mark.parametrize("stored, row, reason", [
    (full(), full(attempt=1), FINAL.format("completed") + r"attempt'\]"),
    (full(), full(val_score=0.72), FINAL.format("completed")),
    (full(), minimal(attempt=1), FINAL.format("completed")),
    (full(status="diverged"), full(attempt=1), FINAL.format("diverged")),
    (full(status="stopped"), full(status="stopped", val_score=0.9), "only a later attempt may supersede it"),
    (full(status="stopped"), full(attempt=1), None),
    (full(status="stopped"), minimal(attempt=1), None),
    (minimal(attempt=2), full(attempt=2), "only a later attempt may supersede it, not attempt 2"),
    (minimal(attempt=2), minimal(attempt=3), None),
    (minimal(attempt=2), full(attempt=5), None),
])  # fmt: skip
def test_only_a_later_attempt_supersedes_and_only_what_failed_or_stopped(tmp_path, stored, row, reason):
    path = results.write_trial(tmp_path, stored)
    before = path.read_bytes()
    if reason is None:
        path = results.write_trial(tmp_path, row)
    else:
        with pytest.raises(results.ConflictingRow, match=reason):
            results.write_trial(tmp_path, row)
        assert path.read_bytes() == before
    assert list((tmp_path / "trials" / "demo").iterdir()) == [path], "plain readers see one row too"
    assert held(tmp_path, "demo", "t0")["attempt"] == (stored if reason else row).get("attempt", 0)


def test_what_the_machine_lost_runs_again_and_what_failed_where_it_is_asked_for(tmp_path):
    kinds = {"t0": "lost", "t1": "error", "t2": "out_of_memory", "t3": "timeout"}
    for n, (trial, kind) in enumerate(kinds.items()):
        results.write_trial(tmp_path, minimal(trial_id=trial, trial_index=n, failure_kind=kind, error="lost: it says"))
    results.write_trial(tmp_path, full(trial_id="t4", trial_index=4, error="lost: it says"))
    table = results.read(tmp_path)
    assert set(kinds.values()) == set(results.FAILURE_KINDS)
    assert table["trial_id"][attempts.to_retry(table)].tolist() == ["t0"], "the column counts, not the text"
    assert table["trial_id"][attempts.to_retry(table, failed=True)].tolist() == list(kinds)
    nothing = results.read(tmp_path, "demo")[:0]
    assert attempts.to_retry(nothing).tolist() == [] and attempts.to_retry(table[4:]).tolist() == [False]
