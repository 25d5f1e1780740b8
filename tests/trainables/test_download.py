"""`fetch` against a server on this machine that breaks off, forgets, changes its mind or is not there."""

import hashlib
import logging
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from webserver import Page, serve

from trainables.datasets import download
from trainables.datasets.download import fetch, fetch_any

DATA = random.Random(0).randbytes(100_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA).hexdigest()


@pytest.fixture
def server():
    with serve() as server:
        server.pages["/file.zip"] = Page(DATA)
        yield server


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "er" / "file.zip"


def get(server, path, url="/file.zip", **options):
    return fetch(server.url + url, path, **({"sha256": SHA256, "backoff": 0.001, "timeout": 60} | options))


def left(path):
    """The names beside the file, without its lock."""
    return sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock")


def ranges(server):
    return [wanted for _, wanted in server.asked]


@pytest.mark.parametrize("checksum", [{"sha256": SHA256}, {"sha256": SHA256.upper()}, {"sha256": None, "md5": MD5}])
def test_a_file_is_fetched_once(server, path, checksum):
    for _ in range(2):
        assert get(server, path, **checksum) == path
        assert path.read_bytes() == DATA and left(path) == ["file.zip"]
    assert len(server.asked) == 1


def test_redirects_are_followed(server, path):
    server.pages["/old"] = Page(to="/file.zip")
    assert get(server, path, "/old").read_bytes() == DATA


@pytest.mark.parametrize("stamp", [{}, {"etag": None, "modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_a_broken_connection_is_continued(server, path, stamp):
    """More breaks than attempts: progress starts the count anew."""
    server.pages["/file.zip"] = Page(DATA, cut=9_000, **stamp)
    assert get(server, path, attempts=2).read_bytes() == DATA
    assert ranges(server) == [None, *(f"bytes={k}-" for k in range(9_000, 100_000, 9_000))]


def test_a_later_call_continues_what_an_earlier_one_left(server, path):
    server.pages["/file.zip"] = Page(DATA, cut=30_000, cuts=1, codes=[])
    with pytest.raises(
        ConnectionError, match="to .*file.zip.part: .*30,000 of 100,000.*30,000 bytes are kept and continued next time"
    ):
        get(server, path, attempts=1)
    assert left(path) == ["file.zip.part"]
    assert path.with_name("file.zip.part").read_bytes() == DATA[:30_000]
    assert get(server, path).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=30000-"] and left(path) == ["file.zip"]


def half(server, path, **page):
    """Leave 40 % of the file at the path, of a server's page."""
    server.pages["/file.zip"] = Page(**({"data": DATA, "cut": 40_000, "cuts": 1} | page))
    with pytest.raises(ConnectionError):
        get(server, path, attempts=1)
    server.asked.clear()


def test_a_server_that_ignores_ranges_sends_everything_again(server, path):
    half(server, path, ranges=False)
    assert get(server, path).read_bytes() == DATA
    assert ranges(server) == ["bytes=40000-"]


@pytest.mark.parametrize("page", [{"data": DATA, "etag": '"two"'}, {"data": DATA[:30_000]}], ids=["changed", "shorter"])
def test_a_changed_file_is_begun_anew(server, path, page):
    """Also where it has the stamp of the old one."""
    half(server, path, data=DATA[::-1])
    server.pages["/file.zip"] = Page(**page)
    now = page["data"]
    assert get(server, path, sha256=hashlib.sha256(now).hexdigest()).read_bytes() == now
    assert ranges(server) == ["bytes=40000-", None]


@pytest.mark.parametrize("stamp", [{"etag": None}, {"etag": 'W/"weak"'}])
def test_without_a_stamp_it_is_continued_as_well(server, path, stamp):
    """The checksum tells whether the two parts are of one file."""
    half(server, path, **stamp)
    assert get(server, path).read_bytes() == DATA
    assert ranges(server) == ["bytes=40000-"]


def test_a_part_that_was_whole_already_is_taken(server, path):
    """Killed between the last byte and the rename."""
    half(server, path)
    path.with_name("file.zip.part").write_bytes(DATA)
    assert get(server, path).read_bytes() == DATA
    assert ranges(server) == ["bytes=100000-"]


def test_a_wrong_checksum_leaves_nothing(server, path):
    server.pages["/file.zip"] = Page(b"<html>quota exceeded</html>")
    found = hashlib.sha256(b"<html>quota exceeded</html>").hexdigest()
    with pytest.raises(ValueError, match=rf"27 bytes.*sha256: expected {SHA256}, found {found}"):
        get(server, path)
    assert left(path) == []
    with pytest.raises(ValueError, match=f"expected {'0' * 32}"):
        get(server, path, sha256=None, md5="0" * 32)
    server.pages["/file.zip"] = Page(DATA)
    assert get(server, path).read_bytes() == DATA


def test_bad_arguments_are_refused_before_anything_is_asked(server, path):
    for checksum in ({"sha256": None}, {"md5": MD5}):
        with pytest.raises(ValueError, match="one published checksum"):
            get(server, path, **checksum)
    for url in ("ftp://cs.stanford.edu/x.zip", "file:///etc/passwd", "x.zip"):
        with pytest.raises(ValueError, match=f"{url}: only http:// and https:// are fetched"):
            fetch(url, path, sha256=SHA256)
    assert not server.asked and not path.parent.exists()


def test_a_busy_server_is_asked_again_and_a_missing_page_is_not(server, path):
    server.pages["/file.zip"] = Page(DATA, codes=[503, 429])
    assert get(server, path, attempts=3).read_bytes() == DATA
    server.asked.clear()
    with pytest.raises(ConnectionError, match=r"/gone.zip could not be fetched to .*other\.zip\.part: HTTP 404"):
        get(server, path.with_name("other.zip"), "/gone.zip")
    assert len(server.asked) == 1 and left(path) == ["file.zip"]


def test_a_hanging_server_times_out(server, path):
    server.pages["/file.zip"] = Page(DATA, hang=20)
    with pytest.raises(ConnectionError, match="timed out"):
        get(server, path, timeout=0.1, attempts=2)
    assert len(server.asked) == 2


def nobody_there() -> str:
    """The address of a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file.zip"


def test_offline(path, monkeypatch):
    delays = []
    monkeypatch.setattr(download.time, "sleep", delays.append)
    url = nobody_there()
    with pytest.raises(ConnectionError) as error:
        fetch(url, path, sha256=SHA256)
    for expected in (url, str(path), "refused"):
        assert expected in str(error.value)
    assert delays == [1, 2, 4, 8] and left(path) == []


def test_the_second_place_is_asked_where_the_first_is_silent(server, path, monkeypatch):
    monkeypatch.setattr(download.time, "sleep", lambda delay: None)
    silent = nobody_there()
    assert fetch_any((silent, f"{server.url}/file.zip"), path, sha256=SHA256).read_bytes() == DATA
    with pytest.raises(ConnectionError, match=f"{silent} could(.|\n)*gone.zip could"):
        fetch_any((silent, f"{server.url}/gone.zip"), path.with_name("b.zip"), sha256=SHA256)


def test_a_local_error_is_not_taken_for_the_network(server, path):
    """A full disk, or here a folder where the part belongs."""
    path.with_name("file.zip.part").mkdir(parents=True)
    with pytest.raises(OSError) as error:
        get(server, path)
    assert not isinstance(error.value, ConnectionError) and len(server.asked) <= 1


def test_many_threads_and_processes_fetch_once(server, path):
    server.pages["/file.zip"] = Page(DATA, hang=0.3)
    call = f"fetch('{server.url}/file.zip', Path('{path}'), sha256='{SHA256}')"
    imports = "from pathlib import Path; from trainables.datasets.download import fetch"
    other = subprocess.Popen([sys.executable, "-c", f"{imports}; {call}"])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: get(server, path), range(3)))
    assert other.wait() == 0
    assert path.read_bytes() == DATA and len(server.asked) == 1 and left(path) == ["file.zip"]


def test_progress_is_logged(server, path, caplog, monkeypatch):
    monkeypatch.setattr(download, "REPORT_EVERY", 0)
    monkeypatch.setattr(download, "CHUNK", 10_000)
    caplog.set_level(logging.INFO)
    get(server, path)
    lines = [record.getMessage() for record in caplog.records if record.name == download.__name__]
    assert "fetching 100,000 bytes" in lines[0] and "is complete" in lines[-1]
    assert any("of 100,000 bytes" in line for line in lines[1:-1])
