"""Rows that the store does not take: where they are kept, and how they come into the store."""

import os
import shutil
import stat
import tempfile
from datetime import timedelta

import pytest
from rows import NOON, evaluation, full
from warned import no_warnings, silent

from tune_cd import results
from tune_cd.results.merging import keep, merge


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
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


def test_all_names_of_one_folder_lead_to_one_place_and_two_stores_have_two(tmp_path, monkeypatch):
    def place(name):
        return keep(name, lambda folder: None)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results")
    names = ["results", "./results", "results/", "home/../results", tmp_path / "results", "link"]
    [beside] = {place(name) for name in names}
    assert beside.parent == tmp_path and place("s3://bucket/p/") == place("s3://bucket/p")
    found = {beside, place("others/results"), *map(place, ("s3://bucket/p", "s3://bucket/q", "gs://bucket/p"))}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one:9000")
    assert len({*found, place("s3://bucket/p")}) == 6


def test_each_place_is_tried_by_writing_and_the_reasons_of_all_are_given(tmp_path):
    tried = []

    def write(folder):
        tried.append(folder)
        if len(tried) < 3:
            raise OSError(28, "No space left on device")

    assert keep(tmp_path / "results", write) == tried[2] and len(tried) == 3
    assert [folder.parent for folder in tried] == [tmp_path, tmp_path / "home/.cache/tune_cd", tmp_path / "tmp"]
    assert stat.S_IMODE(tried[2].stat().st_mode) == 0o700
    with pytest.raises(OSError, match=r"no other place .*waiting.* full; .*cache.* full; .*tmp.* full"):
        keep(tmp_path / "results", lambda folder: (_ for _ in ()).throw(OSError(28, "full")))


@pytest.mark.parametrize("whose", ["another user's", "a link"])
def test_a_folder_that_others_may_have_made_is_not_used(tmp_path, monkeypatch, whose):
    place = kept(tmp_path / "results", trial(0))
    if whose == "a link":
        place.rename(tmp_path / "aside")
        place.symlink_to(tmp_path / "aside")
    else:
        monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    merge(tmp_path / "results")
    assert not (tmp_path / "results").exists(), "nothing is read from it"
    with pytest.raises(OSError, match="it is another user's") if whose != "a link" else no_warnings():
        assert kept(tmp_path / "results", trial(0)).parent == tmp_path / "home/.cache/tune_cd"


def test_rows_are_moved_with_their_curves_and_the_folder_vanishes(tmp_path, caplog):
    curve = [evaluation(images_seen=n, attempt=1) for n in (1, 2)]
    place = kept(tmp_path / "results", trial(0, attempt=1), curve)
    lost = {"status": "failed", "failure_kind": "lost", "val_score": None}
    for row in (trial(1, 0.2), trial(2, 0.3, **lost), trial(0, study="other")):
        assert kept(tmp_path / "results", row) == place
    with no_warnings():
        merge(tmp_path / "results")
    assert not place.exists() and "4 rows that waited" in caplog.text
    rows, looks = silent(results.read, tmp_path / "results"), results.read_curves(tmp_path / "results")
    assert rows["trial_id"].tolist() == ["cd-00000", "cd-00001", "cd-00002", "cd-00000"]
    assert looks[["trial_id", "attempt", "images_seen"]].to_numpy().tolist() == [["cd-00000", 1, 1], ["cd-00000", 1, 2]]
    caplog.clear()
    merge(tmp_path / "results")
    assert caplog.text == ""


def test_a_merge_that_breaks_off_loses_nothing_and_stores_nothing_twice(tmp_path, caplog):
    for number in range(4):
        place = kept(tmp_path / "results", trial(number, lr=number + 1.0))
    shutil.copytree(place, tmp_path / "before")
    (tmp_path / "results/trials/demo/cd-00002.parquet").mkdir(parents=True)
    merge(tmp_path / "results")
    assert "not taken by the results and wait" in caplog.text and len(list(place.glob("trials/demo/*"))) == 2
    shutil.copytree(tmp_path / "before", place, dirs_exist_ok=True)  # killed before anything was removed
    (tmp_path / "results/trials/demo/cd-00002.parquet").rmdir()
    merge(tmp_path / "results")
    rows = silent(results.read, tmp_path / "results")
    assert [params["lr"] for params in rows["params"]] == [1.0, 2.0, 3.0, 4.0] and not place.exists()


def test_a_run_that_is_stored_under_another_name_is_not_stored_again(tmp_path):
    for number, minutes in ((0, 0), (1, 5)):
        results.write_trial(tmp_path / "results", trial(number, minutes=minutes))
    place = kept(tmp_path / "results", trial(0, minutes=5))  # its number was not known while the store was away
    merge(tmp_path / "results")
    assert len(silent(results.read, tmp_path / "results")) == 2 and not place.exists()


def test_a_damaged_row_stays_and_is_named_one_whose_name_is_taken_gets_another(tmp_path, caplog):
    results.write_trial(tmp_path / "results", trial(0, lr=0.5))
    for number in range(3):
        place = kept(tmp_path / "results", trial(number))
    (place / "trials/demo/cd-00001.parquet").write_bytes(b"PAR1")
    merge(tmp_path / "results")
    rows = silent(results.read, tmp_path / "results")
    assert rows["trial_id"].tolist() == ["cd-00000", "cd-00001", "cd-00002"], "the first comes behind"
    assert [params["lr"] for params in rows["params"]] == [0.5, 0.1, 0.1]
    assert [file.name for file in place.rglob("*.parquet")] == ["cd-00001.parquet"] and "cannot be read" in caplog.text
