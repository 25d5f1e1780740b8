"""Nothing is lost, whatever dies: real studies on a Ray of two nodes, in which processes, nodes, disks and stores
are taken away.

Afterwards the table is that of the study nobody disturbed, and by the trainings' own diary none was trained again whose
row was there. `pytest -m faults` runs all of it; without `-m`, a short form.
"""

import contextlib
import itertools
import json
import math
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from drivers import Driver, whole
from s3 import place, proxy, server  # noqa: F401
from waiting import started

from tune_cd import results

pytestmark = [pytest.mark.ray, pytest.mark.slow]

SIX = ["--num-samples", "6", "--workers", "1", "--full-length"]
SHORT = ["--num-samples", "3", "--workers", "1"]  # trainings that pause, three whole ones' worth
TOLD = ["trial_id", "trial_index", "direction", "Lambda_p", "Lambda_e", "batch_size", "seed"]
TOLD += ["val_score", "test_score", "images_seen", "status"]


def diary(folder: Path, study="s") -> list[tuple[str, str, int, int]]:
    """(begin | end, trial_id, images seen, pid) in order."""
    lines = (folder / f"{study}.diary").read_text().splitlines()
    return [(word, trial, int(seen), int(pid)) for word, trial, seen, pid in map(str.split, lines)]


def written(folder: Path, word: str) -> list[str]:
    """The trials that began, or ended, so far."""
    return [trial for said, trial, *_ in diary(folder) if said == word]


def table(where, study="s"):
    return results.read(where, study)[TOLD]


def assert_none_twice(folder: Path, study="s") -> None:
    """By the diary no training began again that had ended, and none ended twice."""
    ended = set()
    for word, trial, *_ in diary(folder, study):
        assert trial not in ended, f"{trial} was trained twice"
        if word == "end":
            ended.add(trial)


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory):
    """The table of a study of six trials, one at a time, that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    whole(folder, cluster.address, *SIX)
    return table(folder)


# Processes


def resume(folder: Path) -> list[str]:
    """A driver killed before it had written the study's options is begun again, any other continued."""
    return ["--resume"] if (folder / "studies/s/study.json").exists() else []


@pytest.mark.faults
@pytest.mark.parametrize("kills", [2, 20])
def test_the_driver_is_killed_at_random_moments(cluster, undisturbed, tmp_path, kills):
    """Rows of trials that had ended stay, others go on from their states, of which one is damaged now and then. Every
    other kill comes as soon as there is a state."""
    pick, samples, kept, killed = random.Random(kills), 6, 0, False

    def saved() -> bool:
        return any(tmp_path.glob("studies/s/checkpoints/*.pt"))

    for kill in range(kills):
        more = [*SIX, "--num-samples", str(samples)]
        driver = Driver(tmp_path, cluster.address, *more, *resume(tmp_path))
        driver.until((saved, driver.begun, saved, driver.holds)[kill % 4], or_ended=True)
        try:
            driver.process.wait(pick.uniform(0, 8) if kill % 2 else 0.0)
            assert driver.wait() == 0, driver.said
            samples, killed = samples + 4, False  # it had ended: there is more to do
        except subprocess.TimeoutExpired:
            driver.kill()
            killed = True
        states = sorted(tmp_path.glob("studies/s/checkpoints/*.pt"))
        if states and kill % 3 == 1:
            states[-1].write_bytes(states[-1].read_bytes()[:1000])
        if kill % 2 and (tmp_path / "trials").exists():
            results.compact(tmp_path, driver=True)  # its lock may still look alive
        if (tmp_path / "trials").exists():
            assert kept <= len(results.read(tmp_path)), "rows were lost"
            kept = len(results.read(tmp_path))
    before = len(driver.said)  # one log has what all of them said
    driver = whole(tmp_path, cluster.address, *SIX, "--num-samples", str(samples), *resume(tmp_path))
    assert table(tmp_path)[:6].to_dict() == undisturbed.to_dict() and len(table(tmp_path)) == samples
    assert_none_twice(tmp_path)
    assert killed or "is gone; this driver goes on" not in driver.said[before:]  # a killed one may have left its lock
    assert [seen for word, _, seen, _ in diary(tmp_path) if word == "begin" and seen], "some went on from a state"


@pytest.mark.faults
@pytest.mark.parametrize("kills", [1, 6])
def test_processes_of_trials_are_killed(cluster, undisturbed, tmp_path, kills):
    """Each is begun again elsewhere, from its last state, and no row says that anything happened."""
    pick = random.Random(kills)
    driver = Driver(tmp_path, cluster.address, *SIX, "--max-failures", "20")
    begun = 0
    for kill in range(kills):
        driver.until(lambda begun=begun: driver.begun() and len(written(tmp_path, "begin")) > begun)
        time.sleep(pick.uniform(0, 0.4))  # less than a training takes: the last kill must find one
        begun = len(written(tmp_path, "begin"))
        os.kill(diary(tmp_path)[-1][-1], signal.SIGKILL if kill % 2 else signal.SIGTERM)
    assert driver.wait() == 0, driver.said
    assert table(tmp_path).to_dict() == undisturbed.to_dict() and set(results.read(tmp_path)["attempt"]) == {0}
    assert_none_twice(tmp_path)
    assert driver.said.count("its process was lost and is begun again") == kills


def test_a_process_that_is_gone_when_its_next_trial_comes_is_one_loss(cluster, undisturbed, tmp_path):
    """As idle ones of a lost node are. Tune takes it for two, and would end the trial however many are allowed."""
    driver = whole(tmp_path, cluster.address, *SIX, "--max-failures", "1", faults='{"2": "reset"}')
    assert table(tmp_path).to_dict() == undisturbed.to_dict(), driver.said
    assert driver.said.count("its process was lost and is begun again") == 1


# Trainings that pause


def pausing_table(where):
    rows = results.read(where, "s")[[*TOLD, "attempt"]].astype({"test_score": object})
    rows["test_score"] = rows["test_score"].where(rows["test_score"].notna(), None)  # which equals itself
    return rows, results.read_curves(where, "s")[["images_seen", "val_score"]]


def assert_no_image_twice(folder: Path) -> None:
    """By the diary every run of a training began where the one before it had ended, or later: from a state of a run
    that was broken off."""
    ended: dict[str, int] = {}
    for word, trial, seen, _ in diary(folder):
        assert seen >= ended.get(trial, 0), f"{trial} was trained from {seen} on, and had ended a run at {ended[trial]}"
        if word == "end":
            ended[trial] = seen


@pytest.fixture(scope="module")
def paused(cluster, tmp_path_factory):
    """What a study that pauses leaves which nobody disturbed."""
    folder = tmp_path_factory.mktemp("paused")
    whole(folder, cluster.address, *SHORT)
    rows, curves = pausing_table(folder)
    assert set(rows["status"]) == {"completed", "stopped"} and rows["attempt"].max() > 0
    return rows, curves


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.faults)])
def test_what_was_decided_before_the_driver_was_killed_is_decided_so_after_it(cluster, paused, tmp_path, kills):
    """The same trainings, paused at the same lengths; no image is trained twice but those since the last state."""
    pick, rows, curves = random.Random(kills), *paused
    for kill in range(kills):
        driver = Driver(tmp_path, cluster.address, *SHORT, *resume(tmp_path))
        before = len(diary(tmp_path)) if driver.diary.exists() else 0
        driver.until(lambda driver=driver: driver.begun(), or_ended=True)
        with contextlib.suppress(AssertionError):
            driver.until(lambda before=before: len(diary(tmp_path)) >= before + 1 + pick.randrange(6), or_ended=True)
        driver.kill()
        if kill % 2 and (tmp_path / "trials").exists():
            results.compact(tmp_path, driver=True)  # its lock may still look alive
    whole(tmp_path, cluster.address, *SHORT, *resume(tmp_path))
    now, looks = pausing_table(tmp_path)
    assert now.drop(columns="attempt").to_dict() == rows.drop(columns="attempt").to_dict()
    assert looks.to_dict() == curves.to_dict()
    assert_no_image_twice(tmp_path)


@pytest.mark.faults
def test_a_process_is_lost_whose_training_had_paused(cluster, paused, tmp_path):
    """Nothing is: the state is in the store, and the next process goes on from there."""
    driver = Driver(tmp_path, cluster.address, *SHORT, "--max-failures", "20")
    for ends in (2, 5, 8):
        driver.until(driver.begun)
        driver.until(lambda ends=ends: len(written(tmp_path, "end")) >= ends and diary(tmp_path)[-1][0] == "begin")
        os.kill(diary(tmp_path)[-1][-1], signal.SIGKILL)
    assert driver.wait() == 0, driver.said
    now, looks = pausing_table(tmp_path)
    assert now.to_dict() == paused[0].to_dict() and looks.to_dict() == paused[1].to_dict()
    assert_no_image_twice(tmp_path)


@pytest.mark.faults
def test_saved_states_that_are_gone_cost_images_and_nothing_else(cluster, tmp_path):
    """More images for a study that has ended: with its states removed the paused trainings begin again, to the same
    scores."""
    whole(tmp_path, cluster.address, *SHORT)
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", str(tmp_path / "studies"), str(tmp_path / "trials"), str(tmp_path / "curves"),
                    f"{other.mkdir() or other}/"], check=True)  # fmt: skip
    for state in other.glob("studies/s/checkpoints/*.pt"):
        state.unlink()
    for folder in (tmp_path, other):
        whole(folder, cluster.address, "--num-samples", "5", "--resume")
    assert pausing_table(tmp_path)[0].to_dict() == pausing_table(other)[0].to_dict()
    assert_no_image_twice(tmp_path)


@pytest.mark.faults
def test_two_trials_at_a_time_go_on_after_the_driver_died(cluster, tmp_path):
    """What was running is begun again first; no place in the order of asking is left out."""
    argv = ["--num-samples", "8", "--workers", "2", "--search", "cd", "--full-length"]
    driver = Driver(tmp_path, cluster.address, *argv, faults='{"4": "hang"}')
    driver.until(lambda: driver.rows() >= 3 and "cd-00004" in written(tmp_path, "begin"))
    driver.kill()
    unfinished = {trial for word, trial, *_ in diary(tmp_path) if word == "begin"} - {
        path.stem for path in tmp_path.glob("trials/s/*.parquet")
    }
    before = len(diary(tmp_path))
    whole(tmp_path, cluster.address, "--resume")
    rows = results.read(tmp_path)
    assert rows["trial_index"].tolist() == list(range(8)) and set(rows["status"]) == {"completed"}
    begun = [trial for word, trial, *_ in diary(tmp_path)[before:] if word == "begin"]
    assert unfinished and set(begun[: len(unfinished)]) == unfinished
    assert_none_twice(tmp_path)


@pytest.mark.faults
def test_a_node_is_lost_and_another_comes(cluster, workers, undisturbed, tmp_path):
    node = started(lambda: cluster.add_node(num_cpus=1, resources={"doomed": 1}, **workers))
    driver = Driver(tmp_path, cluster.address, "--num-samples", "6", "--workers", "3", "--search", "random")
    driver.until(lambda: driver.rows() >= 2)
    cluster.remove_node(node, allow_graceful=False)  # its raylet gets SIGKILL, and takes its trial along
    other = started(lambda: cluster.add_node(num_cpus=1, **workers))
    try:
        assert driver.wait() == 0, driver.said
    finally:
        cluster.remove_node(other)
    rows = results.read(tmp_path)
    assert len(rows) == 6 and set(rows["status"]) == {"completed"} and rows["trial_index"].is_unique
    assert_none_twice(tmp_path)


@pytest.mark.faults
def test_the_head_dies_with_the_driver(undisturbed, tmp_path):
    """A Ray of the driver's own: everything is gone at once."""
    driver = Driver(tmp_path, "local", *SIX)
    driver.until(lambda: driver.rows() >= 2)
    os.killpg(driver.process.pid, signal.SIGKILL)
    driver.wait()
    whole(tmp_path, "local", "--resume")
    assert table(tmp_path).to_dict() == undisturbed.to_dict()
    assert_none_twice(tmp_path)


@pytest.mark.parametrize(
    "how, status", [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.faults)]
)
def test_a_driver_that_is_asked_to_end_says_how_to_go_on(cluster, undisturbed, tmp_path, how, status):
    """Before that a second one is refused, and told who holds the study."""
    driver = Driver(tmp_path, cluster.address, *SIX)
    driver.until(lambda: (tmp_path / "studies/s/study.json").exists())
    second = Driver(tmp_path, cluster.address, "--resume")
    assert second.wait() == 2 and "holds the study" in second.said
    assert f"process {driver.process.pid} of " in second.said
    driver.until(lambda: driver.rows() >= 2)
    assert driver.kill(how) == status, driver.said
    assert "interrupted: every finished trial is in the table" in driver.said and "--study s --resume" in driver.said
    assert "best balance found" in driver.said and not (tmp_path / "studies/s/driver.json").exists()
    whole(tmp_path, cluster.address, "--resume", "--workers", "1")
    assert table(tmp_path).to_dict() == undisturbed.to_dict()
    assert_none_twice(tmp_path)


def test_results_that_are_moved_away_end_the_study_with_an_error(cluster, tmp_path):
    driver = Driver(tmp_path, cluster.address, *SIX, where=tmp_path / "results")
    driver.until(lambda: driver.rows() >= 1)
    (tmp_path / "results").rename(tmp_path / "moved")
    assert driver.wait() == 1, driver.said
    assert "studies/s was removed or replaced while the study ran" in driver.said and "continue" not in driver.said


# Trainings

KINDS = dict.fromkeys(("exception", "exit", "_exit", "hang", "memory", "disk"), "failed")
KINDS |= dict.fromkeys(("NaN", "inf"), "diverged")
SAID = {
    "exception": "RuntimeError: too hot", "exit": "SystemExit: 1", "_exit": "lost: ",
    "hang": "timeout: not done after 120 s",
    "memory": "out of memory: batch_size=64 on cpu", "disk": "lost: ",
}  # fmt: skip


@pytest.mark.parametrize("kinds", [("exception", "_exit", "NaN"), pytest.param(tuple(KINDS), marks=pytest.mark.faults)])
def test_whatever_goes_wrong_in_a_training_the_search_goes_on(cluster, tmp_path, kinds):
    """Every fault is a row that says what it was; what is the machine's fault is tried again, also by the next
    driver."""
    faults, wrong = json.dumps(dict(enumerate(kinds, 1))), {kind: KINDS[kind] for kind in kinds}
    argv = ["--search", "random", "--num-samples", str(len(kinds) + 2), "--workers", "2", "--max-failures", "1"]
    argv += ["--trial-timeout", "120"] if "hang" in kinds else []
    driver = whole(tmp_path, cluster.address, *argv, faults=faults)
    rows = results.read(tmp_path).set_index("trial_index")
    rows = rows.astype({"error": object}).replace({"error": {math.nan: None}})
    assert rows["status"].to_dict() == {
        0: "completed", **dict(enumerate(wrong.values(), 1)), len(kinds) + 1: "completed",
    }, driver.said  # fmt: skip
    for index, kind in enumerate(kinds, 1):
        assert str(rows["error"][index]).startswith(SAID.get(kind, "None")), (kind, rows["error"][index])
    begun = Counter(trial for word, trial, *_ in diary(tmp_path) if word == "begin")
    lost = [index for index, kind in enumerate(kinds, 1) if SAID.get(kind) == "lost: "]
    assert {index: begun[f"random-{index:05d}"] for index in range(1, len(kinds) + 1)} == {
        index: 1 + (index in lost) for index in range(1, len(kinds) + 1)
    }
    whole(tmp_path, cluster.address, "--resume", "--workers", "1")
    again = results.read(tmp_path).set_index("trial_index")
    assert (again["status"][lost] == "completed").all() and (again["attempt"][lost] == 1).all()
    assert again.drop(lost)["ended_at"].equals(rows.drop(lost)["ended_at"])
    whole(tmp_path, cluster.address, "--resume", "--retry-failed", "--workers", "1")
    diverged = list(wrong.values()).count("diverged")
    told = results.read(tmp_path)["status"].value_counts().to_dict()
    assert told == {"completed": len(kinds) + 2 - diverged, "diverged": diverged}


# Drivers beside each other


def test_a_study_whose_every_trial_is_lost_stops_and_says_why(cluster, tmp_path):
    """A cluster that cannot start trials: not all six are gone through. That the next driver runs lost ones again is
    proved above."""
    driver = Driver(tmp_path, cluster.address, *SIX, "--max-failures", "0", faults='{"all": "setup"}')
    assert driver.wait() == 1, driver.said
    lost = results.read(tmp_path, "s")
    assert len(lost) == 3 and lost["error"].str.startswith("lost: ").all(), driver.said
    assert "3 trials in a row were lost, and no trial gave a result between them" in driver.said
    assert "this node has no data" in driver.said and "--study s --resume" in driver.said


def test_a_study_whose_every_training_raises_the_same_stops_and_trains_them_again_once_it_is_mended(cluster, tmp_path):
    driver = Driver(tmp_path, cluster.address, *SIX, faults=json.dumps(dict.fromkeys(range(6), "exception")))
    assert driver.wait() == 1, driver.said
    failed = results.read(tmp_path, "s")
    assert len(failed) == 3 and set(failed["failure_kind"]) == {"error"}, driver.said
    said = "error: the first 3 settings raised errors; the last: RuntimeError: too hot\n"
    assert driver.said.count(said) == 1 and "--study s --resume" in driver.said
    whole(tmp_path, cluster.address, *SIX, "--resume")
    mended = results.read(tmp_path, "s").set_index("trial_index")
    assert len(mended) == 6 and (mended["status"] == "completed").all()
    assert mended["attempt"][:3].tolist() == [1, 1, 1] and not mended["attempt"][3:].any()


@pytest.mark.faults
def test_two_studies_at_once_in_one_folder(cluster, undisturbed, tmp_path):
    drivers = [Driver(tmp_path, cluster.address, *SIX, study=study) for study in ("a", "b")]
    for driver in drivers:
        assert driver.wait() == 0, driver.said
        assert table(tmp_path, driver.study).to_dict() == undisturbed.to_dict()


# Stores


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m,nr_inodes=1k", "none", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.faults
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_rows_wait_for_a_disk(cluster, undisturbed, tmp_path, small_disk, how):
    driver = Driver(tmp_path, cluster.address, *SIX, where=small_disk)
    driver.until(lambda: driver.rows() >= 2)
    ballast = small_disk / "ballast"
    if how == "full":
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(4_000_000))
    else:
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = len(diary(tmp_path))
    driver.until(lambda: len(written(tmp_path, "end")) >= 5)
    assert driver.rows() < 5 and len(diary(tmp_path)) > ended
    driver.until(lambda: "wait" in driver.said)
    ballast.unlink() if how == "full" else subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert driver.wait() == 0, driver.said
    assert table(small_disk).to_dict() == undisturbed.to_dict()
    assert_none_twice(tmp_path)


def fill(disk: Path, how: str) -> list[Path]:
    """Files that leave nothing."""
    filled = [disk / "ballast"] if how == "full" else [disk / f"ballast-{n}" for n in range(3000)]
    with contextlib.suppress(OSError):
        for file in filled:
            file.write_bytes(bytes(50_000_000 if how == "full" else 0))
    return filled


def empty(filled: list[Path]) -> None:
    for file in filled:
        file.unlink(missing_ok=True)


@pytest.mark.parametrize("how", ["full", pytest.param("no inodes", marks=pytest.mark.faults)])
def test_rows_that_wait_when_the_driver_is_killed_are_not_trained_again(
    cluster, undisturbed, tmp_path, small_disk, how
):
    """They are in a folder beside the results, which `--resume` empties."""
    driver = Driver(tmp_path, cluster.address, *SIX, where=small_disk)
    driver.until(lambda: driver.rows() >= 2)
    filled = fill(small_disk, how)
    driver.until(lambda: len(list(tmp_path.glob(".disk-waiting-*/trials/s/*.parquet"))) >= 2)
    driver.kill()
    assert "cannot be written and wait" in driver.said and str(tmp_path / ".disk-waiting-") in driver.said
    empty(filled)
    again = whole(tmp_path, cluster.address, *SIX, "--resume", where=small_disk)
    assert "rows that waited outside the results were moved" in again.said
    assert table(small_disk).to_dict() == undisturbed.to_dict() and not list(tmp_path.glob(".disk-waiting-*"))
    assert_none_twice(tmp_path)


@pytest.mark.faults
def test_states_that_a_disk_refuses(cluster, paused, tmp_path, small_disk):
    """Trainings that pause meanwhile go on from an earlier state, or anew, as the driver says, to the same scores."""
    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)  # the states of all trainings
    driver = Driver(tmp_path, cluster.address, *SHORT, where=small_disk)
    driver.until(lambda: driver.begun() and len(written(tmp_path, "end")) >= 2)
    filled = fill(small_disk, "full")
    driver.until(lambda: len(written(tmp_path, "end")) >= 6)
    empty(filled)
    assert driver.wait() == 0, driver.said
    assert driver.said.count("warning: a state cannot be saved") == 1 and "No space left" in driver.said
    now, looks = pausing_table(small_disk)
    assert now.drop(columns="attempt").to_dict() == paused[0].drop(columns="attempt").to_dict()
    assert looks.to_dict() == paused[1].to_dict()


@pytest.mark.faults
def test_an_object_store_with_errors_and_a_killed_driver(cluster, undisturbed, tmp_path, proxy, place):
    """Every seventh request fails, for a while all do, and the driver is killed and begun again."""
    environ = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    calls = itertools.count()
    proxy.fault = lambda *_: 500 if next(calls) % 7 == 6 else None
    driver = Driver(tmp_path, cluster.address, *SIX, where=place, **environ)
    driver.until(lambda: driver.begun() and len(written(tmp_path, "end")) >= 2)
    driver.kill()
    proxy.fault = lambda *_: None
    again = Driver(tmp_path, cluster.address, "--resume", where=place, **environ)
    again.until(lambda: len(written(tmp_path, "end")) >= 4)
    proxy.fault = lambda *_: 503
    again.until(lambda: "wait" in again.said)
    proxy.fault = lambda *_: None
    assert again.wait() == 0, again.said
    assert table(place).to_dict() == undisturbed.to_dict()
    assert_none_twice(tmp_path)
    assert "SECRET" not in again.said and "SECRET" not in "".join(map(str, results.read(place)["config"]))
