"""`fetch` against a server on this machine that breaks off, forgets, changes its mind or is not there."""

import hashlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from s3 import free_port
from webserver import Page, serve

from trainables.datasets import download
from trainables.datasets.download import fetch, of_digest

DATA = random.Random(0).randbytes(100_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA).hexdigest()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(download, "BACKOFF", 0.001)


@pytest.fixture
def server():
    with serve() as server:
        server.pages["/file.zip"] = Page(DATA)
        yield server


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "er" / "file.zip"


def get(server, path, url="/file.zip", digest=SHA256):
    return fetch(server.url + url, path, of_digest(digest))


def left(path):
    """The names beside the file, without its lock."""
    return sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock")


@pytest.mark.parametrize("digest", [SHA256, MD5])
def test_a_file_is_fetched_once_and_redirects_are_followed(server, path, digest):
    server.pages["/old"] = Page(to="/file.zip")
    for _ in range(2):
        assert get(server, path, "/old", digest) == path
        assert path.read_bytes() == DATA and left(path) == ["file.zip"]
    assert len(server.asked) == 2


def test_a_broken_connection_is_continued(server, path):
    """More breaks than attempts: progress starts the count anew."""
    server.pages["/file.zip"] = Page(DATA, cut=9_000)
    assert get(server, path).read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, *(f"bytes={k}-" for k in range(9_000, 100_000, 9_000))]


def half(server, path, monkeypatch, **page):
    """Leave 40 % of the file at the path, of a server's page."""
    server.pages["/file.zip"] = Page(**({"data": DATA, "cut": 40_000, "cuts": 1} | page))
    said = "60,000 bytes before the end; 40,000 bytes are kept in .*file.zip.part"
    with monkeypatch.context() as patch, pytest.raises(ConnectionError, match=said):
        patch.setattr(download, "ATTEMPTS", 1)
        get(server, path)
    assert left(path) == ["file.zip.part"]
    server.asked.clear()


@pytest.mark.parametrize("ranges_known", [True, False])
def test_a_later_call_continues_what_an_earlier_one_left(server, path, monkeypatch, ranges_known):
    """A server that does not know ranges sends everything again."""
    half(server, path, monkeypatch, ranges=ranges_known)
    assert get(server, path).read_bytes() == DATA
    assert server.asked == [("/file.zip", "bytes=40000-")] and left(path) == ["file.zip"]


def test_a_wrong_file_leaves_nothing(server, path, monkeypatch):
    """Also where its beginning was of another file."""
    server.pages["/file.zip"] = Page(b"<html>quota exceeded</html>")
    found = hashlib.sha256(b"<html>quota exceeded</html>").hexdigest()
    with pytest.raises(ValueError, match=rf"wrong, and was deleted: sha256: expected {SHA256}, found {found}"):
        get(server, path)
    assert left(path) == []
    half(server, path, monkeypatch, data=DATA[::-1])
    server.pages["/file.zip"] = Page(DATA)
    with pytest.raises(ValueError, match=f"expected {SHA256}"):
        get(server, path)
    assert get(server, path).read_bytes() == DATA


def test_a_busy_server_is_asked_again_and_a_missing_page_is_not(server, path):
    server.pages["/file.zip"] = Page(DATA, codes=[503, 429])
    assert get(server, path).read_bytes() == DATA
    server.asked.clear()
    with pytest.raises(FileNotFoundError, match=r"/gone.zip: HTTP Error 404"):
        get(server, path.with_name("other.zip"), "/gone.zip")
    assert len(server.asked) == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_server_that_hangs_or_is_absent_is_named(server, path, monkeypatch, there):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    server.pages["/file.zip"] = Page(DATA, hang=20)
    url = f"{server.url if there else f'http://127.0.0.1:{free_port()}'}/file.zip"
    said = f"^{url}: [^:]*({'timed out' if there else 'refused'}); 0 bytes are kept"  # the address is named once
    with pytest.raises(ConnectionError, match=said):
        fetch(url, path, of_digest(SHA256))
    assert len(server.asked) == (download.ATTEMPTS if there else 0)


def test_many_threads_and_processes_fetch_once(server, path):
    server.pages["/file.zip"] = Page(DATA, hang=0.3)
    call = f"fetch('{server.url}/file.zip', Path('{path}'), of_digest('{SHA256}'))"
    imports = "from pathlib import Path; from trainables.datasets.download import fetch, of_digest"
    other = subprocess.Popen([sys.executable, "-c", f"{imports}; {call}"])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: get(server, path), range(3)))
    assert other.wait() == 0
    assert path.read_bytes() == DATA and len(server.asked) == 1 and left(path) == ["file.zip"]
