"""Download of a published file: resumed where it broke off, verified before it gets its name, once for all processes.

During the download the file is called <name>.part. It is renamed to <name> once it is verified, so that a file of that
name is always whole.
"""

import hashlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from filelock import FileLock

ATTEMPTS = 5  # without a single new byte; a connection that breaks after some progress does not count
BACKOFF = 1.0  # s before the second attempt, doubled before each further one
TIMEOUT = 30.0  # s without an answer
CHUNK = 2**20  # bytes
MAX_BYTES = 16 * 2**30  # of a file; the largest of those that are fetched has 3 GB
REPORT_EVERY = 15.0  # s between two lines of progress
TEMPORARY = frozenset({407, 408, 425, 429, *range(500, 600)})  # HTTP statuses (RFC 9110) that may pass
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; trainables.datasets)"}  # some servers refuse urllib's own name

T = TypeVar("T")

log = logging.getLogger(__name__)


class Interrupted(ConnectionError):
    """No answer, a broken connection, or a server that says "later": another attempt may succeed."""

    progress = False  # whether new bytes had arrived


class Progress:
    """Logs the progress of a download every REPORT_EVERY seconds. total: None if it is unknown."""

    def __init__(self, what: object, total: int | None, unit: str = "bytes", done: int = 0):
        self._what, self._total, self._unit = what, "?" if total is None else f"{total:,}", unit
        self.done, self._reported = done, time.monotonic()
        log.info("%s: fetching %s %s", what, self._total, unit)

    def add(self, amount: int) -> None:
        self.done += amount
        if time.monotonic() - self._reported > REPORT_EVERY:
            self._reported = time.monotonic()
            log.info("%s: %s of %s %s", self._what, f"{self.done:,}", self._total, self._unit)


def fetch(
    url: str, path: Path, *, sha256: str | None = None, md5: str | None = None,
    verify: Callable[[Path], object] | None = None, attempts: int = ATTEMPTS, backoff: float = BACKOFF,
    timeout: float = TIMEOUT,
) -> Path:  # fmt: skip
    """Fetch the url (http or https) to the path, unless that exists; returns the path.

    sha256, md5: the published checksum, one of the two, as hexadecimal digits.  backoff, timeout: s.
    verify: if none is published, a function that reads the whole file and raises ValueError for a wrong one.
    Raises ConnectionError if the url cannot be fetched (the bytes that arrived are kept and continued next time), and
    ValueError for a wrong file or one above MAX_BYTES (the bytes are deleted), for another kind of url, for one with
    credentials, which it does not repeat, and unless exactly one of sha256, md5 and verify is given.
    """
    if "@" in urlsplit(url).netloc:
        raise ValueError("an address with credentials is refused, as it would end up in logs; fetch the file by hand")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url}: only http:// and https:// are fetched")
    if [sha256, md5, verify].count(None) != 2:
        raise ValueError(f"{url}: one published checksum, sha256 or md5, or else verify is needed")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with FileLock(f"{path}.lock"):
        while not path.exists():  # another process may have fetched it in the meantime
            continued = part.exists()
            try:
                bring(part, lambda start: blocks(url, start, timeout), url, attempts, backoff)
                _check(part, sha256, md5) if verify is None else verify(part)
                part.rename(path)
                log.info("%s is complete", path)
            except ValueError as error:
                size = part.stat().st_size
                part.unlink()
                if not continued:
                    raise ValueError(
                        f"{url}: what arrived ({size:,} bytes) is wrong and was deleted: {error}"
                    ) from error
                log.warning("%s: begun anew, as the file that was continued is wrong: %s", url, error)
    return path


def _check(part: Path, sha256: str | None, md5: str | None) -> None:
    expected, kind = (sha256, "sha256") if sha256 else (md5, "md5")
    with part.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected.lower():
        raise ValueError(f"{kind}: expected {expected}, found {found}")


def fetch_any(urls: tuple[str, ...], path: Path, **checksum: str) -> Path:
    """As `fetch`, from the first url that can be fetched. Raises ConnectionError naming all if none can."""
    failures = []
    for url in urls:
        try:
            return fetch(url, path, **checksum)
        except ConnectionError as error:
            failures.append(str(error))
    raise ConnectionError("\n".join(failures))


def bring(
    path: Path, blocks: Callable[[int], Iterator[bytes]], what: str, attempts: int = ATTEMPTS, backoff: float = BACKOFF
) -> None:
    """Append the bytes of blocks(length of the file) to the file, with a retry after each Interrupted.

    Raises ConnectionError after `attempts` in a row without a new byte.
    """

    def attempt() -> None:
        with path.open("ab") as file:
            before = file.tell()
            try:
                file.writelines(blocks(before))
            except Interrupted as error:
                error.progress = file.tell() > before
                raise

    try:
        retried(attempt, what, attempts, backoff)
    except ConnectionError as error:
        kept = path.stat().st_size
        if not kept:
            path.unlink()
        note = f"; {kept:,} bytes are kept and continued next time" if kept else ""
        raise ConnectionError(f"{what} could not be fetched to {path}: {error}{note}") from error


def retried(call: Callable[[], T], what: str, attempts: int = ATTEMPTS, backoff: float = BACKOFF) -> T:
    """The result of call(), retried after Interrupted; raises it after `attempts` in a row without progress."""
    failures = 0
    while True:
        try:
            return call()
        except Interrupted as error:
            failures = 1 if error.progress else failures + 1
            if failures >= attempts:
                raise
            delay = backoff * 2 ** (failures - 1)
            log.warning("%s: %s; again in %.0f s", what, error, delay)
            time.sleep(delay)


def blocks(url: str, start: int, timeout: float = TIMEOUT) -> Iterator[bytes]:
    """Yield the file's bytes from `start` on. Raises as `opened`, `chunks`, and ValueError for more than MAX_BYTES."""
    try:
        with opened(url, timeout, {"Range": f"bytes={start}-"} if start else None) as response:
            skip = start if response.status == 200 else 0  # a server that does not know ranges sends everything
            total = None if response.length is None else response.length + start - skip
            progress = Progress(url, total, done=start)
            for data in chunks(response):
                new, skip = data[skip:], max(0, skip - len(data))
                progress.add(len(new))
                if max(progress.done, total or 0) > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES:,} bytes")
                yield new
    except ConnectionError as error:
        if getattr(error, "status", None) != 416:  # range not satisfiable: nothing lies behind `start`
            raise


@contextmanager
def opened(url: str, timeout: float, headers: dict[str, str] | None = None) -> Iterator[http.client.HTTPResponse]:
    """Context of the server's response, redirects followed. Raises Interrupted; ConnectionError for a final refusal."""
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=HEADERS | (headers or {})), timeout=timeout
        )
    except urllib.error.HTTPError as error:  # an OSError, so it comes before those
        kind = Interrupted if error.code in TEMPORARY else ConnectionError
        failure = kind(f"HTTP {error.code} {error.reason}")
        failure.status = error.code
        error.close()
        raise failure from error
    except (OSError, http.client.HTTPException) as error:  # no name, no route, refused, reset, timed out
        raise Interrupted(f"{getattr(error, 'reason', None) or error or type(error).__name__}") from error
    with response:
        yield response


def chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body, at most CHUNK bytes at a time. Raises Interrupted if it ends before the announced length."""
    announced, got = response.length, 0  # http.client forgets the length as it reads
    while True:
        try:
            data = response.read1(CHUNK)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a malformed chunk length
            raise Interrupted(f"broken off after {got:,} bytes ({error})") from error
        if not data:
            break
        got += len(data)
        yield data
    if announced is not None and got < announced:
        raise Interrupted(f"broken off after {got:,} of {announced:,} bytes")
