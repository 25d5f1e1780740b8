"""Download of a published file: resumed where it broke off, checked before it gets its name, once for all processes.

During the download the file is called <name>.part. It is renamed to <name> once it is checked, so that a file of that
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
from functools import partial
from pathlib import Path

from filelock import FileLock
from tqdm import tqdm

ATTEMPTS = 5  # without a single new byte; a connection that breaks after some progress does not count
BACKOFF = 1.0  # s before the second attempt, doubled before each further one
TIMEOUT = 30.0  # s without an answer
CHUNK = 2**16  # bytes
THREADS = 16  # of many files, those fetched at a time
AHEAD = 1024  # of them, those that may wait for a slow one
TEMPORARY = frozenset({407, 408, 425, 429, *range(500, 600)})  # HTTP statuses (RFC 9110) that may pass
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; trainables.datasets)"}  # some servers refuse urllib's own name

log = logging.getLogger(__name__)


class Interrupted(ConnectionError):
    """No answer, a broken connection, or a server that says "later": another attempt may succeed."""


def fetch(url: str, path: Path, check: Callable[[Path], object]) -> Path:
    """Fetch the url (http or https) to the path, unless that exists; returns the path.

    check: reads the file, and raises ValueError for a wrong one; see `of_digest`. Raises ConnectionError if the url
    cannot be fetched (the bytes that arrived are continued next time), and ValueError for a wrong file (its bytes are
    deleted).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with FileLock(f"{path}.lock"):
        if not path.exists():  # another process may have fetched it in the meantime
            append(part, partial(blocks, url), url)
            try:
                check(part)
            except ValueError as error:
                part.unlink()
                raise ValueError(f"{url}: what arrived is wrong, and was deleted: {error}") from error
            part.rename(path)
            log.info("%s is complete", path)
    return path


def of_digest(published: str) -> Callable[[Path], None]:
    """The check of `fetch` for a published MD5 or SHA-256, in hexadecimal digits."""
    kind = {32: "md5", 64: "sha256"}[len(published)]

    def check(path: Path) -> None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest()
        if found != published:
            raise ValueError(f"{kind}: expected {published}, found {found}")

    return check


def append(path: Path, blocks: Callable[[int], Iterator[bytes]], what: str) -> None:
    """Append the bytes of blocks(length of the file) to the file, and go on after each Interrupted.

    Raises ConnectionError after ATTEMPTS in a row without a new byte.
    """
    failures = 0
    while True:
        with path.open("ab") as file:
            before = file.tell()
            try:
                file.writelines(blocks(before))
                return
            except Interrupted as error:
                kept, said = file.tell(), str(error).removeprefix(f"{what}: ")
                failures = 1 if kept > before else failures + 1
                if failures >= ATTEMPTS:
                    left = f"{kept:,} bytes are kept in {path} and continued next time"
                    raise ConnectionError(f"{what}: {said}; {left}") from error
        delay = BACKOFF * 2 ** (failures - 1)
        log.warning("%s: %s; again in %.0f s", what, said, delay)
        time.sleep(delay)


def blocks(url: str, start: int) -> Iterator[bytes]:
    """Yield the file's bytes from `start` on. Raises as `opened`, and Interrupted if it ends too early."""
    with opened(url, start) as response:
        if response is None:
            return
        skip = start if response.status == 200 else 0  # a server that does not know ranges sends everything
        bar = tqdm(desc=url, total=response.length, unit="B", unit_scale=True, disable=None)
        for data in chunks(response):
            yield data[skip:]
            skip = max(0, skip - len(data))
            bar.update(len(data))


def chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body in parts of CHUNK bytes. Raises Interrupted if it ends too early."""
    try:
        while data := response.read(CHUNK):
            yield data
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a malformed chunk length
        raise Interrupted(f"broken off: {error}") from error
    if response.length:
        raise Interrupted(f"broken off, {response.length:,} bytes before the end")


@contextmanager
def opened(url: str, start: int = 0) -> Iterator[http.client.HTTPResponse | None]:
    """Context of the server's response, redirects followed; None where nothing lies behind byte `start`.

    Raises Interrupted, FileNotFoundError where there is no such file, ConnectionError for another final refusal.
    """
    headers = HEADERS | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:  # an OSError, so it comes before those
        error.close()
        if start and error.code == 416:  # range not satisfiable
            yield None
            return
        kind = Interrupted if error.code in TEMPORARY else ConnectionError
        raise (FileNotFoundError if error.code in (404, 410) else kind)(f"{url}: {error}") from error
    except (OSError, http.client.HTTPException) as error:  # no name, no route, refused, reset, timed out
        raise Interrupted(f"{url}: {getattr(error, 'reason', None) or error}") from error
    with response:
        yield response
