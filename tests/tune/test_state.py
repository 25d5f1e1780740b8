"""A searcher's snapshots in an experiment's folder: cut off by the driver's death, older or newer than Tune's own."""

import math
import pickle
import re
import shutil

import pytest
from ray.tune.search import Searcher
from snapshots import tunes

from tune_cd import LENGTHS, CoordinateDescentSearch, Space

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))


def bowl(config):
    return math.exp(-(((math.log2(config["lr"] / 1e-3)) / 6) ** 2 + (math.log2(config["wd"] / 1e-4) / 6) ** 2))


def make(workers=1):
    return CoordinateDescentSearch(PLANE, "val_score", "max", start={"lr": 0.1, "wd": 0.1}, workers=workers)


def pausing(workers=1):
    return CoordinateDescentSearch(
        PLANE, "val_score", "max", start={"lr": 0.1, "wd": 0.1}, workers=workers, lengths=LENGTHS, full_length=("n", 1)
    )


both = pytest.mark.parametrize("make", [make, pausing])


def told(searcher):
    """(configuration, value) of what was told, in order; None: it failed."""
    return searcher.search.history


def step(searcher, trial):
    """Suggests and tells; what it suggested."""
    config = searcher.suggest(trial)
    searcher.on_trial_complete(trial, {"val_score": bowl(config)})
    return {name: config[name] for name in PLANE.names}


class Copied:
    """A snapshot's folder, and Tune's copy of it: files are written over, and never removed."""

    def __init__(self, tmp_path):
        self.staging, self.copy = tmp_path / "staging", tmp_path / "copy"
        self.staging.mkdir()
        self.copy.mkdir()

    def save(self, searcher, session="2026-01-01", cut=None):
        """cut: the driver is killed while Tune copies the newest: so much is left of it."""
        searcher.save_to_dir(str(self.staging), session)
        newest = max(self.staging.glob("*.pkl"), key=lambda file: file.stat().st_mtime_ns)
        shutil.copytree(self.staging, self.copy, dirs_exist_ok=True)
        if cut is not None:
            (self.copy / newest.name).write_bytes(newest.read_bytes()[:cut])

    def restore(self, searcher):
        """As on another machine: all is fetched back."""
        shutil.rmtree(self.staging)
        shutil.copytree(self.copy, self.staging)
        searcher.restore_from_dir(str(self.staging))
        return searcher


@pytest.fixture
def copied(tmp_path):
    return Copied(tmp_path)


@pytest.mark.parametrize("build", [make, pausing])
@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_copy_that_was_cut_off_leaves_the_snapshot_before(copied, build, cut, caplog):
    whole, searcher = build(), build()
    course = [step(whole, f"t{n}") for n in range(6)]
    for n in range(3):
        step(searcher, f"t{n}")
        copied.save(searcher)
    step(searcher, "t3")
    copied.save(searcher, cut=cut)
    again = copied.restore(build())
    assert re.search(r"snapshot before: .*2026-01-01\.1\.pkl is not a saved", caplog.text)
    assert [step(again, f"t{n}") for n in range(3, 6)] == course[3:]


@pytest.mark.parametrize("build", [make, pausing])
def test_the_latest_is_taken_where_all_are_whole(copied, build):
    whole, searcher = build(), build()
    course = [step(whole, f"t{n}") for n in range(7)]
    for n in range(3):
        step(searcher, f"t{n}")
        copied.save(searcher)
    again = copied.restore(build())
    assert step(again, "t3") == course[3]
    for n in range(4, 6):
        copied.save(again, session="2026-01-02")
        step(again, f"t{n}")
    copied.save(again, session="2026-01-02")
    assert step(copied.restore(build()), "t6") == course[6] and len(list(copied.copy.iterdir())) == 4, (
        "two of a session"
    )


@both
@pytest.mark.parametrize("cut", [0, 100])
def test_a_restored_experiments_first_copy_may_be_cut_off_too(make, copied, cut, caplog):
    """Then what the session before left is the latest."""
    searcher = make()
    course = [step(searcher, f"t{n}") for n in range(2)]
    copied.save(searcher)
    again = copied.restore(make())
    step(again, "t2")
    copied.save(again, session="2026-01-02", cut=cut)
    last = copied.restore(make())
    assert re.search("snapshot before: .*2026-01-02", caplog.text)
    assert [h for h, _ in told(last)] == course


@pytest.mark.parametrize("build", [make, pausing])
def test_where_all_are_damaged_nothing_is_suggested_any_more(copied, build):
    """Tune only logs the error, and would begin anew."""
    searcher = build()
    for n in range(2):
        step(searcher, f"t{n}")
        copied.save(searcher)
    for file in copied.copy.iterdir():
        file.write_text('{"version": 1, "met')
    again = build()
    with pytest.raises(ValueError, match=r"no snapshot.*2026-01-01\.0\.pkl is not.*2026-01-01\.1\.pkl is not"):
        copied.restore(again)
    for damaged in (again, pickle.loads(pickle.dumps(again))):
        with pytest.raises(ValueError, match="cannot go on: no snapshot of the searcher is whole"):
            damaged.suggest("t2")


def test_a_folder_without_a_snapshot_and_one_of_an_earlier_release(tmp_path):
    with pytest.raises(FileNotFoundError, match="no saved CoordinateDescentSearch"):
        make().restore_from_dir(str(tmp_path))
    searcher = make()
    course = [step(searcher, "t0")]
    searcher.save(str(tmp_path / "searcher-state-2026-01-01_00-00-00.pkl"))
    again = restored(make, tmp_path)
    assert [h for h, _ in told(again)] == course


@both
def test_where_all_are_damaged_tunes_own_snapshot_is_enough(make, copied, caplog):
    whole = [step(searcher := make(), "t0"), *(step(searcher, f"t{n}") for n in range(1, 7))]
    searcher = make()
    for n in range(4):
        step(searcher, f"t{n}")
        copied.save(searcher)
    searcher.suggest("t4")
    for file in copied.copy.iterdir():
        file.write_text('{"version": 1, "met')
    tunes(copied.copy, [*(done(f"t{n}", whole[n]) for n in range(4)), ("t4", whole[4], "RUNNING", None)])
    again = copied.restore(make())
    assert re.search("no snapshot.*0.pkl is not.*1.pkl is not.*Tune's own snapshot", caplog.text)
    assert again.suggest("other") is None, "the fifth is Tune's to run again"
    again.on_trial_complete("t4", {"val_score": bowl(whole[4])})
    assert [step(again, f"t{n}") for n in (5, 6)] == whole[5:]


# ------------------------------------------------------------------------------------------- beside Tune's own snapshot


def course_of(searcher, n, first=0):
    return [step(searcher, f"t{first + k}") for k in range(n)]


def asked(make, folder, ended):
    """A searcher's file in Tune's folder: so many of its trials have ended, and one more was asked for."""
    searcher = make()
    course_of(searcher, ended)
    searcher.suggest(f"t{ended}")
    searcher.save_to_dir(str(folder))


def restored(make, folder):
    searcher = make()
    searcher.restore_from_dir(str(folder))
    return searcher


def done(trial_id, h):
    return trial_id, h, "TERMINATED", {"val_score": bowl(h), "done": True}


@both
@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_an_older_searcher_learns_what_tune_knows(make, tmp_path, behind):
    """Else it waits for ever for trials that have ended."""
    whole = course_of(make(), 7)
    asked(make, tmp_path, 4 - behind)
    tunes(tmp_path, [*(done(f"t{n}", whole[n]) for n in range(4)), ("t4", whole[4], "RUNNING", {"val_score": 0.1})])
    again = restored(make, tmp_path)
    assert again.suggest("other") is None, "the fifth is Tune's to run again"
    again.on_trial_complete("t4", {"val_score": bowl(whole[4])})
    assert course_of(again, 2, first=5) == whole[5:]


@both
def test_a_trial_that_tune_does_not_know_of_is_handed_out_again(make, tmp_path):
    """The searcher's file is the newer one: nobody runs what it asked for last."""
    whole = course_of(make(), 6)
    asked(make, tmp_path, 3)
    tunes(tmp_path, [done(f"t{n}", whole[n]) for n in range(3)])
    again = restored(make, tmp_path)
    assert course_of(again, 3, first=10) == whole[3:]


@both
def test_failures_and_results_without_the_metric_are_told_as_failures(make, tmp_path):
    whole = course_of(make(), 2)
    asked(make, tmp_path, 1)
    for status, result in (("ERROR", {"val_score": 0.9}), ("TERMINATED", {"loss": 1.0})):
        tunes(tmp_path, [done("t0", whole[0]), ("t1", whole[1], status, result)])
        again = restored(make, tmp_path)
        assert told(again) == [(whole[0], bowl(whole[0])), (whole[1], None)]


@both
@pytest.mark.parametrize("result", [None, {"trial_id": "t1"}])
def test_a_trial_that_a_time_budget_cut_off_is_handed_out_again(make, tmp_path, result):
    """Tune calls it TERMINATED and runs it no more; it has not failed."""
    whole = course_of(make(), 4)
    asked(make, tmp_path, 1)
    tunes(tmp_path, [done("t0", whole[0]), ("t1", whole[1], "TERMINATED", result)])
    again = restored(make, tmp_path)
    assert course_of(again, 3, first=10) == whole[1:]


@both
def test_tunes_snapshot_that_cannot_be_read_is_said(make, tmp_path, caplog):
    searcher = make()
    course = course_of(searcher, 2)
    searcher.save_to_dir(str(tmp_path))
    (tmp_path / "experiment_state-2026-01-01.json").write_text('{"trial_data": [')
    again = restored(make, tmp_path)
    assert "its own state alone" in caplog.text
    assert [h for h, _ in told(again)] == course


@both
def test_several_workers_and_a_trial_of_another_search(make, tmp_path):
    """Three ran; Tune has two of them as ended, and one that was never asked for."""
    searcher = make(workers=3)
    live = [searcher.suggest(f"t{n}") for n in range(3)]
    searcher.save_to_dir(str(tmp_path))
    strange = {"lr": 0.05, "wd": 0.05}
    tunes(
        tmp_path,
        [done("t0", live[0]), done("t1", live[1]), ("t2", live[2], "PENDING", None), ("x", strange, "RUNNING", None)],
    )
    again = make(workers=3)
    again.restore_from_dir(str(tmp_path))
    suggested = [again.suggest(f"n{n}") for n in range(2)]
    assert again.suggest("n2") is None and strange not in suggested and Searcher.FINISHED not in suggested
    again.on_trial_complete("x", {"val_score": bowl(strange)})
    assert (strange, bowl(strange)) in told(again)
