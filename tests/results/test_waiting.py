"""Rows that the store does not take: where they are kept, that they are read, and how they come into the store."""

import os
import shutil
import stat
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from rows import NOON, evaluation, full
from warned import no_warnings, silent

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.waiting import folders, keep


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    """A home and a temporary folder of the test's own."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def kept(place, row, curve=()):
    def write(folder):
        if curve:
            results.write_curve(folder, row["study"], row["trial_id"], curve)
        results.write_trial(folder, row)

    return keep(place, write)


def trial(number, lr=0.1, minutes=0, **fields):
    """The row of a training that began so many minutes after noon and took one."""
    times = {"started_at": NOON + timedelta(minutes=minutes), "ended_at": NOON + timedelta(minutes=minutes + 1)}
    named = {"trial_id": f"cd-{number:05d}", "trial_index": number, "params": {"lr": lr}}
    return full(**times, **named, **fields)


def numbers(place) -> dict[str, tuple[float, int]]:
    """trial_id -> (lr, attempt)"""
    rows = silent(results.read, place)
    return {row.trial_id: (row.params["lr"], row.attempt) for row in rows.itertuples()}


def test_all_names_of_one_store_lead_to_one_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results")
    names = ["results", "./results", "results/", "home/../results", tmp_path / "results", "link", Path("link")]
    found = {keep(name, lambda folder: None) for name in [*names, f"file://{tmp_path}/results"]}
    assert len(found) == 1 and found.pop().parent == tmp_path
    monkeypatch.chdir(tmp_path / "home")
    assert folders("../results") == folders(tmp_path / "results") != []
    assert keep(tmp_path / "others" / "results", lambda folder: None) not in folders(tmp_path / "results")


def test_so_do_the_uris_of_a_bucket(tmp_path, monkeypatch):
    def place(uri):
        return keep(uri, lambda folder: None)

    assert place("s3://bucket/p/") == place("s3://bucket/p") == place("s3://bucket/p?region=eu-west-1")
    assert place("s3://bucket/p").is_relative_to(tmp_path / "home/.cache/tune_cd")
    one = place("s3://bucket/p?endpoint_override=http://one:9000")
    assert len({one, *map(place, ("s3://bucket/p", "s3://bucket/q", "gs://bucket/p", "s3://other/p"))}) == 5
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one:9000/")
    assert place("s3://bucket/p") == one


def test_each_place_is_tried_by_writing_and_the_reasons_of_all_are_given(tmp_path):
    tried = []

    def write(folder):
        tried.append(folder)
        (folder / "trials").mkdir()
        if len(tried) < 3:
            raise OSError(28, "No space left on device")
        (folder / "row").touch()

    assert keep(tmp_path / "results", write) == tried[2] and len(tried) == 3
    assert [folder.parent for folder in tried] == [tmp_path, tmp_path / "home/.cache/tune_cd", tmp_path / "tmp"]
    assert not tried[0].exists() and not tried[1].exists(), "nothing is left where nothing is kept"
    assert [stat.S_IMODE(tried[2].stat().st_mode), folders(tmp_path / "results")] == [0o700, [tried[2]]]
    with pytest.raises(OSError, match=r"no other place .*waiting.* full; .*cache.* full; .*tmp.* full"):
        keep(tmp_path / "results", lambda folder: (_ for _ in ()).throw(OSError(28, "full")))


def test_another_users_folder_is_not_used_where_everybody_may_make_one(tmp_path, monkeypatch):
    [place] = {kept(tmp_path / "results", trial(0))}
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    assert folders(tmp_path / "results") == [place], "who may write beside the results is trusted as in them"
    tmp_path.chmod(0o1777)
    assert folders(tmp_path / "results") == []
    assert kept(tmp_path / "results", trial(0)).parent == tmp_path / "home/.cache/tune_cd"


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    place = keep(tmp_path / "results", lambda folder: None)
    place.rmdir()
    place.symlink_to(tmp_path / "home")
    assert folders(tmp_path / "results") == [] and kept(tmp_path / "results", trial(0)) != place


def test_rows_that_wait_are_read_and_a_warning_names_their_folder(tmp_path):
    place = kept(tmp_path / "results", trial(1), [evaluation(images_seen=n) for n in (1, 2)])
    with pytest.warns(UserWarning, match=f"1 rows of {tmp_path}/results wait in {place}"):
        assert results.read(tmp_path / "results")["trial_id"].tolist() == ["cd-00001"], "without a results folder"
    results.write_trial(tmp_path / "results", trial(0))
    with pytest.warns(UserWarning, match="1 rows"):
        assert results.read(tmp_path / "results", "demo")["trial_id"].tolist() == ["cd-00000", "cd-00001"]
    assert silent(results.read_curves, tmp_path / "results")["images_seen"].tolist() == [1, 2]
    assert len(silent(results.read, tmp_path / "results", "another")) == 0


def test_they_are_moved_with_their_curves_and_the_folder_vanishes(tmp_path, caplog):
    curve = [evaluation(images_seen=n, attempt=1) for n in (1, 2)]
    place = kept(tmp_path / "results", trial(0, attempt=1), curve)
    for row in (
        trial(1, 0.2),
        trial(2, 0.3, status="failed", failure_kind="lost", val_score=None),
        trial(0, study="other"),
    ):
        assert kept(tmp_path / "results", row) == place
    with no_warnings():
        merge(tmp_path / "results")
    assert not place.exists() and "4 rows that waited" in caplog.text
    rows, looks = silent(results.read, tmp_path / "results"), results.read_curves(tmp_path / "results")
    assert rows["trial_id"].tolist() == ["cd-00000", "cd-00001", "cd-00002", "cd-00000"]
    assert looks[["trial_id", "attempt", "images_seen"]].to_numpy().tolist() == [["cd-00000", 1, 1], ["cd-00000", 1, 2]]
    assert results.read_trial(tmp_path / "results", "demo", "cd-00001")["ended_at"] == trial(1)["ended_at"]
    caplog.clear()
    merge(tmp_path / "results")
    assert caplog.text == ""


def test_a_merge_that_breaks_off_loses_nothing_and_stores_nothing_twice(tmp_path, caplog):
    for number in range(4):
        place = kept(tmp_path / "results", trial(number, lr=number + 1.0, minutes=number))
    shutil.copytree(place, tmp_path / "before")
    results.write_trial(tmp_path / "results", trial(1, lr=9.0, minutes=-9))
    (tmp_path / "results/trials/demo/cd-00002.parquet").mkdir()
    merge(tmp_path / "results")
    assert "2 rows that wait in" in caplog.text and len(list(place.glob("trials/demo/*"))) == 2
    with pytest.warns(UserWarning, match="2 rows"):
        assert len(results.read(tmp_path / "results")) == 5, "both folders together"
    shutil.copytree(tmp_path / "before", place, dirs_exist_ok=True)  # killed before anything was removed
    (tmp_path / "results/trials/demo/cd-00002.parquet").rmdir()
    merge(tmp_path / "results")
    named = {f"cd-{n:05d}": (lr, 0) for n, lr in enumerate((1.0, 9.0, 3.0, 4.0, 2.0))}
    assert numbers(tmp_path / "results") == named and not place.exists()


@pytest.mark.parametrize(
    "stored, waits, told",
    [
        (trial(0), trial(0), {"cd-00000": (0.1, 0)}),
        (trial(0), trial(0, lr=0.2), {"cd-00000": (0.1, 0), "cd-00001": (0.2, 0)}),
        (trial(0), trial(0, minutes=5), {"cd-00000": (0.1, 0), "cd-00001": (0.1, 0)}),  # of a later run
        (trial(0, minutes=5), trial(0), {"cd-00000": (0.1, 0)}),  # trained again, since the row was not seen
        (trial(0, status="stopped"), trial(0, minutes=5), {"cd-00000": (0.1, 1)}),
        (trial(0, status="stopped"), trial(0, minutes=5, attempt=3), {"cd-00000": (0.1, 3)}),
        (trial(0, status="stopped", attempt=1), trial(0, minutes=5), {"cd-00000": (0.1, 2)}),
        (trial(0, status="failed"), trial(0, minutes=0.5), {"cd-00000": (0.1, 0)}),  # the same run, told twice
        (trial(4), trial(4, seed=5) | {"trial_id": "cd-00004-s"}, {"cd-00004": (0.1, 0), "cd-00004-s": (0.1, 0)}),
        (trial(4, lr=0.2) | {"trial_id": "x"}, trial(4) | {"trial_id": "x"}, {"x": (0.2, 0), "cd-00005x": (0.1, 0)}),
    ],
)  # fmt: skip
def test_a_row_keeps_its_name_unless_another_training_has_it(tmp_path, stored, waits, told):
    results.write_trial(tmp_path / "results", stored)
    place = kept(tmp_path / "results", waits, [evaluation(images_seen=7, attempt=waits["attempt"])])
    merge(tmp_path / "results")
    assert numbers(tmp_path / "results") == told and not place.exists()
    if len(told) == 2:
        assert set(results.read_curves(tmp_path / "results")["trial_id"]) == {sorted(told)[1 if "x" not in told else 0]}


def test_a_damaged_row_is_left_where_it_is(tmp_path, caplog):
    kept(tmp_path / "results", trial(0))
    place = kept(tmp_path / "results", trial(1))
    (place / "trials/demo/cd-00001.parquet").write_bytes(b"PAR1")
    merge(tmp_path / "results")
    assert results.read_trial(tmp_path / "results", "demo", "cd-00000") is not None
    assert "cannot be read" in caplog.text and [file.name for file in place.rglob("*.parquet")] == ["cd-00001.parquet"]


def test_all_three_places_are_emptied(tmp_path):
    for number in range(3):
        refusals = iter([OSError("full")] * number)

        def write(folder, number=number, refusals=refusals):
            for refusal in refusals:
                raise refusal
            results.write_trial(folder, trial(number, lr=number + 1.0))

        keep(tmp_path / "results", write)
    assert len(folders(tmp_path / "results")) == 3
    merge(tmp_path / "results")
    assert len(numbers(tmp_path / "results")) == 3 and folders(tmp_path / "results") == []
