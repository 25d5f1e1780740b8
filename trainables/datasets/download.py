"""Fetch one published file: resumed where it was cut off, checked before it takes its name, once for all processes of a node.

While it is fetched a file is called <name>.part; it becomes <name> by a rename after its checksum was found right, so
that a file of that name is always whole. Beside the part lies <name>.part.json with the server's stamp of the file
(ETag or Last-Modified): bytes of two different versions are never joined.
"""

import hashlib
import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

ATTEMPTS = 5  # without a single new byte; a connection that breaks after some progress does not count
BACKOFF = 1.0  # s before the second attempt, doubled before each further one
TIMEOUT = 30.0  # s without an answer
CHUNK = 2**20  # bytes
MAX_BYTES = 16 * 2**30  # of a file; the largest of those that are fetched has 3 GB
REPORT_EVERY = 15.0  # s between two lines of progress
TEMPORARY = frozenset({407, 408, 425, 429, *range(500, 600)})  # states of HTTP (RFC 9110) that may pass
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; trainables.datasets)"}  # some servers refuse urllib's own name

log = logging.getLogger(__name__)


class Interrupted(ConnectionError):
    """No answer, a broken connection, or a server that says "later": another attempt may succeed."""


def fetch(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    verify: Callable[[Path], object] | None = None,
    attempts: int = ATTEMPTS,
    backoff: float = BACKOFF,
    timeout: float = TIMEOUT,
) -> Path:
    """The file at the path, fetched from the url (http or https) unless it is there already.

    sha256, md5: the published checksum, one of the two, as hexadecimal digits.  backoff, timeout: s.
    verify: where none is published, what reads the whole file and raises ValueError unless it is what it should be.
    Raises ConnectionError where the url cannot be fetched (what has arrived stays and is continued next time), and
    ValueError for a wrong file or one above MAX_BYTES (what has arrived is deleted), for another kind of url, for one
    with credentials, which it does not repeat, and for none of the three.
    """
    if "@" in urlsplit(url).netloc:
        raise ValueError(
            "credentials in the address of a download are refused, they would end up in logs; fetch it by hand"
        )
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url}: only http:// and https:// are fetched (ftp:// cannot be resumed here)")
    if [sha256, md5, verify].count(None) != 2:
        raise ValueError(
            f"{url}: a download needs one published checksum, sha256 or md5, or else verify; got {sha256=}, {md5=}, {verify=}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.exists():  # another process may have fetched it while we waited
            return path
        part = path.with_name(path.name + ".part")
        try:
            _fetch_part(url, part, attempts, backoff, timeout)
            _stamp_file(part).unlink(missing_ok=True)
            _check(part, sha256, md5) if verify is None else verify(part)
        except ValueError as error:
            size = _size(part)
            part.unlink(missing_ok=True)
            _stamp_file(part).unlink(missing_ok=True)
            raise ValueError(f"{url}: what arrived ({size:,} bytes) is wrong and was deleted: {error}") from error
        part.rename(path)
    log.info("%s is complete", path)
    return path


def _check(part: Path, sha256: str | None, md5: str | None) -> None:
    expected, kind = (sha256, "sha256") if sha256 else (md5, "md5")
    with part.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected.lower():
        raise ValueError(f"{kind}: expected {expected}, found {found}")


def fetch_any(urls: tuple[str, ...], path: Path, **checksum: str) -> Path:
    """As `fetch`, from the first of several places of the same file that answers; ConnectionError naming all if none does."""
    failures = []
    for url in urls:
        try:
            return fetch(url, path, **checksum)
        except ConnectionError as error:
            failures.append(str(error))
    raise ConnectionError("\n".join(failures))


@contextmanager
def opened(url: str, timeout: float, headers: dict[str, str] | None = None) -> Iterator[http.client.HTTPResponse]:
    """The server's answer (redirects followed). Raises Interrupted, and ConnectionError for a refusal that will stay."""
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=HEADERS | (headers or {})), timeout=timeout
        )
    except urllib.error.HTTPError as error:  # an OSError, so before those
        kind = Interrupted if error.code in TEMPORARY else ConnectionError
        failure = kind(f"HTTP {error.code} {error.reason}")
        failure.status, failure.headers = error.code, error.headers
        error.close()
        raise failure from error
    except (OSError, http.client.HTTPException) as error:  # no name, no route, refused, reset, timed out
        raise Interrupted(f"{getattr(error, 'reason', None) or error or type(error).__name__}") from error
    with response:
        yield response


def chunks(response: http.client.HTTPResponse, size: int = CHUNK) -> Iterator[bytes]:
    """The body, at most `size` bytes at a time. Raises Interrupted where it ends before the announced length."""
    announced, got = response.length, 0  # http.client forgets the length as it reads
    while True:
        try:
            data = response.read1(size)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a malformed chunk length
            raise Interrupted(f"broken off after {got:,} bytes ({error})") from error
        if not data:
            break
        got += len(data)
        yield data
    if announced is not None and got < announced:
        raise Interrupted(f"broken off after {got:,} of {announced:,} bytes")


def _fetch_part(url: str, part: Path, attempts: int, backoff: float, timeout: float) -> None:
    """Continue the part until it is as long as the server says; ConnectionError after `attempts` without progress."""
    failures = 0
    while True:
        before = _size(part)
        try:
            return _continue(url, part, timeout)
        except ConnectionError as error:
            failures = 1 if _size(part) > before else failures + 1
            if not isinstance(error, Interrupted) or failures >= attempts:
                can_continue = _size(part) and _read_stamp(part)
                kept = f"; {_size(part):,} bytes are kept in {part} and continued next time" if can_continue else ""
                raise ConnectionError(f"{url} could not be fetched to {part.with_suffix('')}: {error}{kept}") from error
            delay = backoff * 2 ** (failures - 1)
            log.warning("%s: %s; again in %.0f s", url, error, delay)
            time.sleep(delay)


def _continue(url: str, part: Path, timeout: float) -> None:
    """One connection: ask for what is missing, and begin anew if the server sends everything or the file has changed."""
    have, stamp = _size(part), _read_stamp(part)
    # Without a stamp nothing says whether the file is still the same one, so nothing is continued.
    wanted = {"Range": f"bytes={have}-", "If-Range": stamp} if have and stamp else {}
    try:
        with opened(url, timeout, wanted) as response:
            continues = response.status == 206 and (response.headers["Content-Range"] or "").startswith(
                f"bytes {have}-"
            )
            if response.status == 206 and not continues:
                part.unlink(missing_ok=True)
                raise Interrupted("the server sent another range than the one asked for")
            if not continues:
                part.unlink(missing_ok=True)
                _write_stamp(part, response.headers)
            _append(response, part, url)
    except ConnectionError as error:
        if getattr(error, "status", None) != 416:  # range not satisfiable: there is nothing behind what we have
            raise
        if error.headers["Content-Range"] != f"bytes */{have}":
            part.unlink(missing_ok=True)
            raise Interrupted("the file has become shorter") from error


def _append(response: http.client.HTTPResponse, part: Path, url: str) -> None:
    total = _size(part) + response.length if response.length is not None else None
    reported = time.monotonic()
    with part.open("ab") as file:
        log.info("%s: fetching %s bytes", url, "an unknown number of" if total is None else f"{total - file.tell():,}")
        for data in chunks(response):
            file.write(data)
            if file.tell() > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES:,} bytes")
            if time.monotonic() - reported > REPORT_EVERY:
                reported = time.monotonic()
                log.info("%s: %s of %s bytes", url, f"{file.tell():,}", "?" if total is None else f"{total:,}")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _stamp_file(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_stamp(part: Path) -> str | None:
    try:
        return json.loads(_stamp_file(part).read_text())
    except (OSError, ValueError):
        return None


def _write_stamp(part: Path, headers: http.client.HTTPMessage) -> None:
    """A weak ETag (W/...) promises no equal bytes, and If-Range does not take it."""
    tag = headers["ETag"]
    stamp = tag if tag and not tag.startswith("W/") else headers["Last-Modified"]
    _stamp_file(part).write_text(json.dumps(stamp))
