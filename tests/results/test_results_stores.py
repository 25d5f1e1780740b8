"""Any location: refused before it is touched, or used; an object store is used like a folder, faults included."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from rows import evaluation, full, minimal
from s3 import free_port, place, proxy, server  # noqa: F401
from warned import silent

from tune_cd import results
from tune_cd.results import parquet
from tune_cd.results.__main__ import main
from tune_cd.results.merging import merge
from tune_cd.results.store import store_of


def test_a_folder_is_a_path_and_a_uri_stays_what_it_was(tmp_path):
    for where in ("results", "/tmp/r", Path("r"), "C:/results"):
        assert results.check_location(where) == Path(where)
    assert results.check_location("~/r") == Path.home() / "r"
    at = ["127.0.0.1:9000", "http://127.0.0.1:1", "https://s3.eu-1.example.com", "http://[::1]:9000", "http://minio_1/"]
    uris = [f"s3://bucket/x?endpoint_override={endpoint}&region=eu-central-1" for endpoint in at]
    uris += ["s3://bucket", "s3://bucket/a/b=1", "gs://buck_et/x"]
    assert list(map(results.check_location, uris)) == uris
    assert results.check_location("s3://bucket/x/") == results.check_location("s3://bucket/x?") == "s3://bucket/x"
    assert results.check_writable(tmp_path / "new") == tmp_path / "new"


REFUSED = [
    "", "ftp://host/x", "https://bucket.s3.amazonaws.com/x", "file:///tmp/r", Path("s3://bucket/x"), "s3://", "s3:///x",
    "s3://Bucket/x", "s3://bucket/../other", "s3://bucket/a//b", "s3://bucket/a%2fb", "s3://bucket/a b",
    "s3://bucket/a\n", "s3://bucket/x?regoin=eu", "s3://bucket/x?region=", "s3://bucket/x?eu", "s3://bucket/x#y",
    "gs://bucket/x?region=eu",
]  # fmt: skip


@pytest.mark.parametrize("location", REFUSED)
def test_a_location_that_is_not_allowed_is_refused_before_it_is_touched(location):
    uses = (results.check_location, results.check_writable, results.read, results.compact,
            lambda place: results.write_trial(place, minimal()))  # fmt: skip
    for use in uses:
        with pytest.raises(ValueError, match=r"not allowed; .*//BUCKET/PREFIX"):
            use(location)


SECRETS = [
    "s3://AKIASECRET:SEC/RET@bucket/x", "s3://AKIASECRET@bucket/x", "S3://a:SECRET@bucket", "gs://anonymous:SECRET@b/x",
    "s3://bucket/x?endpoint_override=http://a:SECRET@host", "s3://bucket/x?secret_key=SECRET", "s3://bucket/x#SECRET",
    "s3://AKIASECRET:SEC?RET@bucket", "file://a:SECRET@/x", "https://a:SECRET@host/x", "s3:/a:SECRET@bucket/x",
    "s3://bucket/x?endpoint_override=http://key:SECRET%40host", "s3://bucket/x?region=eu%26scheme%3DSECRET",
    "s3://bucket/x?endpoint_override=http://host/?sig=SECRET", "s3://bucket/x?region=%0aSECRET",
]  # fmt: skip


@pytest.mark.parametrize("uri", SECRETS)
def test_credentials_are_refused_and_not_repeated(uri, capsys):
    with pytest.raises(ValueError) as refused:
        results.check_location(uri)
    assert "SEC" not in str(refused.value) and "RET" not in str(refused.value)
    assert main(["list", uri]) == 2 and "SEC" not in "".join(capsys.readouterr())


def test_an_object_store_is_used_like_a_folder(place, tmp_path, capsys):
    """Also once it is compacted."""
    bucket, places = place[: place.index("?")], (place, tmp_path)

    def alike():
        for study in (None, "demo", "none"):
            for read in (partial(read, missing=True) for read in (results.read, results.read_curves)):
                pd.testing.assert_frame_equal(silent(read, place, study), read(tmp_path, study))

    assert results.check_writable(place) == place
    assert len(silent(results.read, place)) == 0
    for where in places:
        for n in range(2):
            results.write_curve(where, "demo", f"t{n}", [evaluation(images_seen=images) for images in (0, 64)])
            path = results.write_trial(where, full(trial_id=f"t{n}", trial_index=n))
            results.write_trial(where, minimal(study="other", trial_id=f"t{n}", trial_index=n))
    assert path == tmp_path / "trials/demo/t1.parquet"
    assert results.write_trial(place, full()) == f"{bucket}/trials/demo/t0.parquet", "not written again"
    with pytest.raises(results.ConflictingRow, match=f"^{bucket}/trials/demo/t0.parquet holds attempt 0, completed"):
        results.write_trial(place, full(val_score=0.9))
    for where in places:
        results.write_trial(where, full(study="other", attempt=1))
    alike()
    for where in places:
        assert main(["compact", str(where)]) == 0
        results.write_trial(where, full(study="other", trial_id="t1", trial_index=1, attempt=1))
    alike()
    held = store_of(place).listing("trials", recursive=True)
    assert [parquet.is_compacted(name) for name in held] == [True, True, False]
    with pytest.raises(results.ConflictingRow, match="compact~"):
        results.write_trial(place, full(trial_id="t1", trial_index=1, val_score=0.5))
    assert main(["list", place]) == 0 and main(["show", place, "demo"]) == 0
    assert "SECRET" not in "".join(capsys.readouterr())


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 21, reason="pyarrow 20 has no delayed opening")
def test_a_row_takes_two_requests_and_no_listing(place, proxy):
    """And its curve one. A process asks once whether the study was compacted."""
    asked = []
    proxy.fault = lambda method, path: asked.append((method, path.partition("?")[0].rpartition("/")[2]))
    for n in range(2):
        asked.clear()
        results.write_trial(place, full(trial_id=f"t{n}", trial_index=n), [evaluation()])
    assert asked == [("HEAD", "t1.parquet"), ("PUT", "t1.parquet"), ("PUT", "t1.parquet")]


def test_a_bucket_is_listed_once_to_be_read(place, proxy):
    """Up to the thousand objects that one listing shows."""
    for n in range(3):
        results.write_trial(place, full(trial_id=f"t{n}", trial_index=n))
    asked = []
    proxy.fault = lambda method, path: asked.append("list-type" in path)
    assert len(results.read(place)) == 3 and asked.count(True) == 1 and len(asked) == 1 + 2 * 3


def test_opening_results_for_writing_looks_at_one_known_file_a_study(place, proxy, caplog):
    """However many checkpoints and networks lie beside it; a store that is away does not keep a program from it."""
    for study in ("demo", "other", "third"):
        results.write_trial(place, full(study=study))
        store_of(place).write(f"studies/{study}/checkpoints/cd/a.pt", b"weights")
    results.compact(place, "other")
    asked = []
    proxy.fault = lambda method, path: asked.append("list-type" if "list-type" in path else path.rpartition("/")[2])
    merge(place)
    assert asked.count("list-type") == 1 and set(asked) == {"list-type", "compaction.json"}
    proxy.fault = lambda *_: 403
    merge(place)
    assert "broke off is not completed: " in caplog.text


def test_the_environment_names_the_endpoint_where_the_uri_does_not(place, proxy, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    plain = place[: place.index("?")]
    assert results.write_trial(plain, full()) == f"{plain}/trials/demo/t0.parquet"
    assert len(results.read(place)) == 1


def refusals(*uses) -> list[str]:
    """What the errors say that each use ends in. The uses run at once: a client tries for seconds."""

    def said(use):
        with pytest.raises(OSError) as refused:
            use()
        return str(refused.value)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(said, uses))


def test_a_missing_bucket_is_named(place):
    for use in (results.read, results.check_writable, lambda place: results.write_trial(place, minimal())):
        with pytest.raises(OSError, match=r"no-bucket|NO_SUCH_BUCKET"):
            use(place.replace("s3://bucket", "s3://no-bucket"))


def test_errors_that_pass_are_not_noticed(place, proxy):
    asked: dict[tuple, int] = {}

    def once(method, path):
        asked[method, path] = asked.get((method, path), 0) + 1
        return None if asked[method, path] > 1 else [500, 503, "drop"][len(asked) % 3]

    proxy.fault = once
    for n in range(2):
        results.write_trial(place, full(trial_id=f"t{n}", trial_index=n))
    results.compact(place)
    assert list(silent(results.read, place).trial_id) == ["t0", "t1"] and len(asked) > 8


@pytest.mark.parametrize(
    "fault", [403, pytest.param(500, marks=pytest.mark.slow), pytest.param("drop", marks=pytest.mark.slow)]
)
def test_a_store_that_refuses_is_an_error_and_leaves_what_was_there(place, proxy, fault):
    results.write_trial(place, minimal())
    before = results.read(place)
    proxy.fault = lambda method, path: fault if method in ("PUT", "POST") else None
    said = refusals(lambda: results.write_trial(place, full(attempt=1)), lambda: results.check_writable(place))
    assert "SECRET" not in "".join(said)
    proxy.fault = lambda *_: None
    pd.testing.assert_frame_equal(silent(results.read, place), before)
    assert store_of(place).listing("trials", recursive=True) == ["trials/demo/t0.parquet"]


def test_an_object_that_is_not_given_is_named_and_neither_replaced_nor_taken_for_damaged(place, proxy):
    for n in range(2):
        results.write_trial(place, full(trial_id=f"t{n}", trial_index=n))
    proxy.fault = lambda method, path: 403 if "t1.parquet" in path else None
    with pytest.warns(UserWarning, match="t1.parquet.*left out"):
        assert list(results.read(place).trial_id) == ["t0"]
    with pytest.raises(OSError):
        results.write_trial(place, full(trial_id="t1", trial_index=1, val_score=0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results.compact(place)
    proxy.fault = lambda *_: None
    assert list(silent(results.read, place).trial_id) == ["t0", "t1"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_compaction_that_breaks_off_on_an_object_store_loses_nothing(place, proxy, method):
    for n in range(4):
        results.write_trial(place, full(trial_id=f"t{n}", trial_index=n))
    before, seen = results.read(place), []
    proxy.fault = lambda asked, path: (
        403 if asked == method and (seen.append(path) or len(seen) > (2 if method == "DELETE" else 0)) else None
    )
    with pytest.raises(OSError):
        results.compact(place)
    pd.testing.assert_frame_equal(silent(results.read, place), before)
    proxy.fault = lambda *_: None
    results.compact(place)
    pd.testing.assert_frame_equal(silent(results.read, place), before)
    assert len(store_of(place).listing("trials", recursive=True)) == 1


def test_a_bucket_of_google_s_that_does_not_answer_is_an_error_in_the_time_it_is_given():
    at = f"endpoint_override=127.0.0.1:{free_port()}&retry_limit_seconds=1&scheme=http"
    place = f"gs://bucket/some/where?{at}"
    assert results.check_location(place) == place
    assert store_of(place).where("trials/demo/t0.parquet") == "gs://bucket/some/where/trials/demo/t0.parquet"
    refusals(
        lambda: results.read(place), lambda: results.check_writable(place), lambda: results.write_trial(place, full())
    )
