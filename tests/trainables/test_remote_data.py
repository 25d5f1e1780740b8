"""Data behind a URI: fetched once a machine, verified, the same bytes everywhere. Web and S3 servers are local."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from datafiles import load_omniglot, omniglot_files, splits, write_folder, write_zip
from pyarrow import fs
from s3 import place, proxy, server  # noqa: F401
from webserver import Page, serve

from trainables.datasets import cache, check_source, data_roots, download, pin_source, remote, source_sha256
from trainables.datasets.uri import parse
from tune_cd.run.options import parse as parse_options
from tune_cd.run.study import check_study, store_config, with_form

FEW = omniglot_files({"Balinese": 1, "Greek": 1}, {"Tengwar": 1}, images=2)


@pytest.fixture(autouse=True)
def alone(own_cache, monkeypatch):
    monkeypatch.setattr(download, "BACKOFF", 0.001)


@pytest.fixture
def archive(tmp_path):
    return write_zip(tmp_path / "made" / "omniglot.zip", omniglot_files())


@pytest.fixture
def web(archive):
    """A server with the archive as /omniglot.zip."""
    with serve() as server:
        server.pages["/omniglot.zip"] = Page(archive.read_bytes())
        yield server


@pytest.fixture
def store(place):
    return Store(place)


class Store:
    """A prefix of a bucket on this machine's S3 server."""

    def __init__(self, place: str):
        self.files, self.prefix = fs.FileSystem.from_uri(place)
        self.query = place.partition("?")[2]

    def put(self, name: str, data: bytes) -> None:
        with self.files.open_output_stream(f"{self.prefix}/{name}") as file:
            file.write(data)

    def uri(self, name: str) -> str:
        return f"s3://{self.prefix}/{name}?{self.query}"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def changed(folder: Path) -> bytes:
    """An archive of fewer images."""
    return write_zip(folder / "some.zip", omniglot_files(images=3)).read_bytes()


def assert_same_images(dataset, expected):
    for found, wanted in zip(splits(dataset), splits(expected), strict=True):
        assert np.array_equal(found.images, wanted.images) and found.class_names == wanted.class_names


def copies() -> list[str]:
    """What lies beside each other for all URIs, but locks."""
    return sorted(path.name for path in (cache.cache_root() / "sources").glob("*") if path.suffix != ".lock")


# --- addresses


@pytest.mark.parametrize("uri, name", [
    ("s3://bucket/a/photos.zip", "photos.zip"), ("s3://bucket/a/photos/", "photos"), ("s3://bucket/", "bucket"),
    ("gs://anonymous@bucket/x.ZIP", "x.ZIP"), ("gs://bucket/a b/c (1)/?scheme=https", "c_1_"),
    ("https://host:8443/a/my%20photos.zip", "my_photos.zip"), ("http://[::1]:80/..zip", "zip"),
    ("http://127.0.0.1/%2e%2e%2fx.zip", "_x.zip"),
    ("s3://bucket/x.zip?endpoint_override=http://127.0.0.1:9000&region=eu-central-1&scheme=http", "x.zip"),
])  # fmt: skip
def test_an_address_stays_what_it_was_and_has_a_plain_name(uri, name):
    address, digest = parse(uri), "0123456789abcdef" * 4
    assert address.name == name and parse(address.uri) == address
    assert parse(address.pinned(digest)).sha256 == digest
    assert parse(f"{uri}#sha256={digest.upper()}").pinned(digest) == address.pinned(digest)


@pytest.mark.parametrize("uri", [
    "ftp://host/x.zip", "file:///data/x.zip", "s3:/bucket/x.zip", "s3://bucket/x.tar", "s3://bucket",
    "s3://Bucket/x.zip", "s3:///x.zip", "s3://bucket/a//x.zip", "s3://bucket/../x.zip", "s3://bucket/a\\x.zip",
    "s3://bucket/x.zip?regoin=eu", "gs://bucket/x.zip?region=eu", "s3://bucket/x.zip?scheme=ftp",
    "https://host/folder/", "https://host/x.tgz", "http://host/a\n.zip", "s3://bucket/x.zip#sha256=12",
    "s3://bucket/x.zip#md5=0123", "s3://anonymous@bucket/x.zip",
    # what may be a secret
    "s3://KEY:SECRET@bucket/x.zip", "s3://KEY:SEC/RET@bucket/x.zip", "s3://SECRET:x/x.zip",
    "s3://bucket/x.zip?secret_key=SECRET", "s3://bucket/x.zip?SECRET",
    "s3://bucket/x.zip#SECRET", "s3://bucket/x.zip#sha256=SECRET",
    "s3://bucket/x.zip?endpoint_override=http://a:SECRET@host", "gs://SECRET@bucket/x.zip",
    "s3://bucket/x.zip?region=eu%26sig%3DSECRET", "https://user:SECRET@host/x.zip",
    "https://user:SEC/RET@host/x.zip", "https://SECRET:pass/x.zip",
    "https://host/x.zip?X-Amz-Signature=SECRET", "http://SECRET@host/x.zip", "ftp://user:SECRET@host/x.zip",
    "s3:/KEY:SECRET@bucket/x.zip",
])  # fmt: skip
def test_what_is_not_allowed_is_refused_before_anything_is_asked_and_not_repeated(uri, monkeypatch, caplog):
    said = "{} is a URI that is not allowed.* Allowed: s3://BUCKET/KEY.zip"
    with pytest.raises(ValueError, match=said.format("the data root")) as argument:
        check_source("glyphs", uri)
    monkeypatch.setenv("TUNE_CD_DATA", uri)
    with pytest.raises(ValueError, match=said.format("TUNE_CD_DATA")) as variable:
        data_roots()
    told = f"{argument.value} {variable.value} {caplog.text}"
    assert "SEC" not in told and "RET" not in told and copies() == []


# --- a web server


def test_an_archive_is_fetched_once_and_a_pinned_one_asks_nobody(web, archive):
    uri, digest = f"{web.url}/omniglot.zip", sha256(archive.read_bytes())
    assert_same_images(load_omniglot(uri), load_omniglot(archive))
    assert len(copies()) == 1 and copies()[0].startswith("omniglot-"), "nothing but the copy is left"
    before = len(web.asked)
    pinned = pin_source("omniglot", uri)
    assert pinned == f"{uri}#sha256={digest}" == pin_source("omniglot", pinned) and source_sha256(pinned) == digest
    assert len(web.asked) == before + 1, "whether it has changed"
    (root,) = data_roots(pinned)
    assert root.read_bytes() == archive.read_bytes() and check_source("omniglot", pinned).location == str(root)
    assert len(web.asked) == before + 1


def test_processes_at_once_fetch_once(web, archive):
    web.pages["/omniglot.zip"].hang = 1.0  # s, in which the other comes to the lock
    code = "import sys; from trainables.datasets import data_roots; print(data_roots(sys.argv[1])[0])"
    command = [sys.executable, "-c", code, f"{web.url}/omniglot.zip#sha256={sha256(archive.read_bytes())}"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate(timeout=300)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0] and len(said) == 1
    assert len(web.asked) == 2, "what it is, and its bytes"


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(path.read_bytes()[:-1]), Path.unlink])
def test_a_copy_of_which_a_part_is_gone_is_fetched_again(web, archive, harm):
    pinned = pin_source("omniglot", f"{web.url}/omniglot.zip")
    for uri in (pinned, pinned.partition("#")[0]):
        (path,) = data_roots(uri)
        harm(path)
        assert data_roots(uri) == [path] and path.read_bytes() == archive.read_bytes() and len(copies()) == 1


@pytest.mark.parametrize("stamps", [("etag", '"two"'), ("modified", "Wed, 21 Oct 2015 07:28:00 GMT")])
def test_a_changed_file_is_another_copy_and_the_old_one_stays(web, archive, tmp_path, stamps, monkeypatch):
    page, uri = web.pages["/omniglot.zip"], f"{web.url}/omniglot.zip"
    page.modified = "Tue, 20 Oct 2015 07:28:00 GMT"
    old = pin_source("omniglot", uri)
    page.data = changed(tmp_path)
    setattr(page, *stamps)
    new = pin_source("omniglot", uri)
    assert source_sha256(new) == sha256(page.data) and len(copies()) == 2
    assert data_roots(old)[0].read_bytes() == archive.read_bytes() and data_roots(new) == data_roots(uri)
    assert len(load_omniglot(old).train.images) > len(load_omniglot(new).train.images)
    monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / "another"))
    with pytest.raises(ValueError, match=f"SHA-256 {source_sha256(new)}, but {source_sha256(old)} is asked for"):
        load_omniglot(old)
    assert copies() == []


@pytest.mark.parametrize("answers, kind, said", [
    (1, ConnectionError, "another size"), (2, ValueError, "changed while it was fetched")
])  # fmt: skip
def test_a_file_that_changes_while_it_is_fetched_is_refused(web, archive, tmp_path, answers, kind, said):
    """Between what it is and its bytes, or behind them: else the bytes would be of another version than is noted."""
    web.pages["/omniglot.zip"].earlier = [changed(tmp_path)] * answers
    with pytest.raises(kind, match=said):
        data_roots(f"{web.url}/omniglot.zip")
    assert data_roots(f"{web.url}/omniglot.zip")[0].read_bytes() == archive.read_bytes() and len(copies()) == 1


def test_without_a_stamp_a_digest_is_needed(web, archive):
    web.pages["/omniglot.zip"].etag = None
    uri = f"{web.url}/omniglot.zip"
    with pytest.raises(ValueError, match="neither ETag nor Last-Modified.* add #sha256=DIGEST"):
        data_roots(uri)
    assert data_roots(f"{uri}#sha256={sha256(archive.read_bytes())}")[0].read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("page, kind, named", [
    (None, FileNotFoundError, "404"), (Page(codes=[403]), ConnectionError, "403"),
    (Page(codes=[503] * 99), ConnectionError, "503"),
    (Page(b"<html>please log in</html>"), ValueError, r"\(26 bytes\) is no zip archive; it was deleted"),
])  # fmt: skip
def test_an_archive_that_cannot_be_had_is_an_error_that_names_it(web, page, kind, named):
    uri, web.pages = f"{web.url}/omniglot.zip", {"/omniglot.zip": page}
    with pytest.raises(kind, match=f"{uri}.*{named}"):
        check_source("omniglot", uri)
    assert copies() == []


def test_a_full_disk_is_named_before_it_is_filled(web, archive, monkeypatch):
    uri, size = f"{web.url}/omniglot.zip", archive.stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match=f"{uri} needs {size:,} bytes in .*, 1,000 are free; TUNE_CD_CACHE"):
        data_roots(uri)


# --- an object store


def test_endpoint_and_region_come_from_the_environment_as_well(store, proxy, archive, monkeypatch):
    store.put("omniglot.zip", archive.read_bytes())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{proxy.server_port}")
    assert data_roots(f"s3://{store.prefix}/omniglot.zip")[0].read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("name", ["omniglot.zip", "omniglot/"])
def test_an_absent_or_forbidden_object_is_named(store, proxy, name):
    with pytest.raises(FileNotFoundError, match=f"s3://{store.prefix}/{name}.*there is no (such )?object"):
        check_source("omniglot", store.uri(name))
    with pytest.raises(FileNotFoundError, match="there is no .* or no bucket no-such-bucket"):
        check_source("omniglot", f"s3://no-such-bucket/{name}?{store.query}")
    proxy.fault = lambda method, path: 403
    with pytest.raises(ConnectionError, match=f"s3://{store.prefix}/{name}.*AWS Error"):
        check_source("omniglot", store.uri(name))
    assert copies() == []


def test_all_objects_below_a_prefix_are_a_folder(store, tmp_path):
    for name, data in FEW.items():
        store.put(f"omni/{name}", data)
    store.put("omni-other/x.png", b"another prefix")
    uri, made = store.uri("omni/"), write_folder(tmp_path / "made", FEW)
    (folder,) = data_roots(uri)
    command = "find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
    ours, theirs = (subprocess.check_output(command, shell=True, cwd=place, text=True) for place in (folder, made))
    assert source_sha256(pin_source("omniglot", uri)) == ours.split()[0] == theirs.split()[0]
    assert_same_images(load_omniglot(uri), load_omniglot(made))
    assert len(copies()) == 1


def test_a_changed_prefix_is_another_copy_and_what_was_begun_is_continued(store, proxy, monkeypatch):
    for k in range(6):
        store.put(f"photos/{k}.png", bytes([k]) * 100)
    uri, asked, broken = store.uri("photos/"), [], {"3.png"}
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setattr(remote, "THREADS", 1)

    def fault(method, path):
        if method == "GET" and path.partition("?")[0].endswith(".png"):
            asked.append(path.rpartition("/")[2])
            return 403 if asked[-1] in broken else None

    proxy.fault = fault
    with pytest.raises(ConnectionError, match="photos/3.png: "):
        data_roots(uri)
    begun = set(asked)
    asked.clear()
    broken.clear()
    first = pin_source("folder", uri)
    assert {"0.png", "3.png"} <= begun and set(asked) == {f"{k}.png" for k in range(6)} - begun | {"3.png"}
    store.put("photos/6.png", b"6")
    assert pin_source("folder", uri) != first and len(copies()) == 2


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "a//b.png", "a\\b.png", "a&#10;b.png"])
def test_names_that_lead_elsewhere_are_refused(web, name):
    """As a store may list them."""
    objects = (f"<Contents><Key>photos/{key}</Key><Size>1</Size></Contents>" for key in ("a.png", name))
    listed = f"<ListBucketResult>{''.join(objects)}</ListBucketResult>"
    web.pages["*"] = Page(listed.encode(), kind="application/xml")
    with pytest.raises(ValueError, match="name .* is refused; allowed are relative names without"):
        data_roots(f"s3://bucket/photos/?endpoint_override={web.url}&region=eu")
    assert copies() == []


# --- several machines


@pytest.mark.parametrize("name", ["omniglot.zip", "omniglot/"])
def test_every_machine_has_the_same_cache_key(store, archive, name, monkeypatch, tmp_path):
    for path, data in FEW.items() if name.endswith("/") else [("", archive.read_bytes())]:
        store.put(f"{name}{path}", data)
    pinned, entries = pin_source("omniglot", store.uri(name)), []
    for machine in ("one", "another"):
        monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / machine))
        load_omniglot(pinned)
        entries += [path.name for path in (tmp_path / machine / "arrays").iterdir() if path.is_dir()]
    assert len(entries) == 2 and len(set(entries)) == 1


def test_the_environment_may_name_a_uri_and_what_is_drawn_needs_no_data(web, archive, monkeypatch):
    assert pin_source("omniglot", archive) == str(archive) and source_sha256(archive) is None, "a path stays"
    assert pin_source("omniglot", None) is None
    uri = f"{web.url}/omniglot.zip"
    with pytest.warns(UserWarning, match=f"{uri} is not read: glyphs is drawn .* own images are --dataset folder"):
        assert check_source("glyphs", uri).training_classes == 736 and pin_source("glyphs", uri) == uri
    monkeypatch.setenv("TUNE_CD_DATA", uri)
    assert pin_source("glyphs", None) is None and not web.asked
    assert pin_source("omniglot", None) == f"{uri}#sha256={sha256(archive.read_bytes())}"
    assert check_source("omniglot").location == str(data_roots()[0])


def test_a_download_into_a_uri_is_refused(web):
    for call in (lambda uri: check_source("omniglot", uri, download=True), lambda uri: data_roots(uri, download=True)):
        with pytest.raises(ValueError, match="exclude each other"):
            call(f"{web.url}/omniglot.zip")
    assert not web.asked


# --- studies


def study_options(tmp_path, uri, *more):
    places = ["--data-root", uri, "--results", str(tmp_path / "results")]
    fixed = ["--study", "mine", "--dataset", "omniglot", "--setup", "small", "--batch-size", "4"]
    return parse_options([*fixed, *places, *more])


def test_trials_get_the_digest_and_the_study_keeps_the_uri(web, archive, tmp_path):
    page, uri, digest = web.pages["/omniglot.zip"], f"{web.url}/omniglot.zip", sha256(archive.read_bytes())
    study = check_study(study_options(tmp_path, uri, "--weights", "none"))
    assert (study.data_root, study.config.data_root) == (f"{uri}#sha256={digest}", uri)
    fetching = len(web.asked)
    with_form(study, "paper")  # another set-up, checked against the data once more
    assert len(web.asked) == fetching == 3, "what it is, its bytes, and whether it is still the same"
    store_config(study)
    stored = json.loads((tmp_path / "results" / "studies" / "mine" / "study.json").read_text())["options"]
    assert (stored["data_root"], stored["data_found"]) == (uri, digest)

    again = check_study(parse_options(["--results", str(tmp_path / "results"), "--study", "mine", "--resume"]))
    assert again.data_root == study.data_root and len(web.asked) == fetching + 1
    page.data, page.etag = changed(tmp_path), '"two"'
    said = f"--resume: {uri} was {digest} and is {sha256(page.data)}; put it back, or name a new --study"
    with pytest.raises(ValueError, match=said):
        check_study(study_options(tmp_path, uri, "--resume"))


def test_the_cheap_checks_come_before_the_data(web, tmp_path):
    for wrong, named in ((["--range", "2,1"], "2"), (["--workers", "0"], "workers")):
        with pytest.raises(ValueError, match=named):
            check_study(study_options(tmp_path, f"{web.url}/none.zip", *wrong))
    assert not web.asked
