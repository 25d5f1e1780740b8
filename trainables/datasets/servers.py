"""What lies behind an address (see `uri`): asked for, and fetched, from a web server or an object store."""

import errno
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pyarrow import fs

from trainables.datasets import download
from trainables.datasets.download import ATTEMPTS, REPORT_EVERY, TIMEOUT, Interrupted, fetch, opened
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

BACKOFF = 1.0  # s before the second attempt, doubled before each further one
BLOCK = 16 * 2**20  # bytes of an object that are asked for at a time
THREADS = 16  # objects of a prefix that are fetched at a time
AHEAD = 1024  # objects that may wait for a slow one
GCS_SECONDS = (
    60  # that a request may be retried, unless the URI says otherwise; Arrow's own default is a quarter of an hour
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Survey:
    """What a server says of its data before they are fetched.

    version: changes when they change; None where the server says nothing that would.  sizes: bytes by relative name, None
    where it is not said.
    """

    version: str | None
    sizes: dict[str, int | None]


def survey(address: Address) -> Survey:
    """Raises FileNotFoundError where nothing is there, ConnectionError where that cannot be known, ValueError for names of
    objects that are no plain relative paths."""
    if address.is_web:
        return _survey_web(address)
    try:
        files = _connect(address)
        return _survey_prefix(files, address) if address.is_prefix else _survey_object(files, address)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConnectionError(f"{address.uri}: {_one_line(error)}") from error


def bring(address: Address, found: Survey, folder: Path) -> None:
    """All that was found, below the folder, continued where it broke off: <name>, an archive or a folder. What is there
    under its name is whole. Raises ConnectionError, ValueError for an archive above `download.MAX_BYTES`, and OSError
    (ENOSPC) where it does not fit the disk."""
    _check_room(found, folder)
    if address.is_web:
        if (found.sizes[address.name] or 0) > download.MAX_BYTES:
            raise ValueError(
                f"{address.uri} has {found.sizes[address.name]:,} bytes, of a web server at most {download.MAX_BYTES:,} are fetched"
            )
        fetch(address.uri, folder / address.name, verify=lambda path: None, backoff=BACKOFF)
        (folder / f"{address.name}.lock").unlink(missing_ok=True)
        return
    files, parts = _connect(address), folder / "parts"
    parts.mkdir(exist_ok=True)
    log.info("%s: fetching %d files, %s bytes", address.uri, len(found.sizes), f"{sum(found.sizes.values()):,}")

    def bring_one(numbered: tuple[int, tuple[str, int]]) -> int:
        number, (name, size) = numbered
        path = folder / address.name / name if address.is_prefix else folder / address.name
        _bring_object(files, _object(address, name), size, path, parts / str(number))
        return size

    done, reported = 0, time.monotonic()
    for number, size in enumerate(in_order(bring_one, enumerate(found.sizes.items()), THREADS, AHEAD), start=1):
        done += size
        if time.monotonic() - reported > REPORT_EVERY:
            reported = time.monotonic()
            log.info("%s: %d of %d files, %s bytes", address.uri, number, len(found.sizes), f"{done:,}")
    shutil.rmtree(parts)


def _check_room(found: Survey, folder: Path) -> None:
    """Raises OSError (ENOSPC) where the files are larger than what is left of the disk."""
    here = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    needed, free = sum(size or 0 for size in found.sizes.values()) - here, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed, {free:,} are left")


def _survey_web(address: Address) -> Survey:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with opened(address.uri, TIMEOUT) as response:  # not HEAD, which some servers do not know
                stamps, size = [response.headers["ETag"], response.headers["Last-Modified"]], response.length
            break
        except ConnectionError as error:
            if not isinstance(error, Interrupted) or attempt == ATTEMPTS:
                kind = FileNotFoundError if getattr(error, "status", None) in (404, 410) else ConnectionError
                raise kind(f"{address.uri}: {error}") from error
            _wait(address.uri, error, attempt)
    if not any(stamps):
        log.warning(
            "%s: the server says neither ETag nor Last-Modified, so it is fetched each time; #sha256=… behind the address helps",
            address.uri,
        )
    return Survey(json.dumps([size, *stamps]) if any(stamps) else None, {address.name: size})


def _wait(where: str, error: Exception, failures: int) -> None:
    delay = BACKOFF * 2 ** (failures - 1)
    log.warning("%s: %s; again in %.0f s", where, error, delay)
    time.sleep(delay)


def _survey_object(files: fs.FileSystem, address: Address) -> Survey:
    path = _object(address, address.name)
    info = files.get_file_info(path)
    if info.type != fs.FileType.File:
        raise _absent(files, address, "object")
    with files.open_input_file(path) as source:
        tag = (source.metadata() or {}).get("ETag", b"").decode(errors="replace")
    return Survey(json.dumps([info.size, tag, info.mtime_ns]), {address.name: info.size})


def _survey_prefix(files: fs.FileSystem, address: Address) -> Survey:
    """Raises ValueError for names that are no plain relative paths, or a file and a folder at once."""
    prefix = f"{address.host}/{address.path}"
    found = files.get_file_info(fs.FileSelector(prefix.rstrip("/"), recursive=True, allow_not_found=True))
    stamps = sorted(
        (info.path.removeprefix(prefix), info.size, info.mtime_ns) for info in found if info.type == fs.FileType.File
    )
    if not stamps:
        raise _absent(files, address, "object below it")
    names = {name for name, _, _ in stamps}
    for name in names:
        if any(part in ("", ".", "..") for part in name.split("/")) or re.search(r"[\\\x00-\x1f\x7f]", name):
            raise ValueError(
                f"{address.uri}: the object's name {name!r} is refused; allowed are relative names without '..', backslashes and control characters"
            )
        if any(str(parent) in names for parent in PurePosixPath(name).parents):
            raise ValueError(f"{address.uri}: {name!r} lies below an object, which as a file has nothing below it")
    return Survey(sha256(repr(stamps).encode()).hexdigest(), {name: size for name, size, _ in stamps})


def _absent(files: fs.FileSystem, address: Address, what: str) -> FileNotFoundError:
    try:
        no_bucket = files.get_file_info(address.host).type == fs.FileType.NotFound
    except OSError:  # it may be forbidden to ask about a bucket that may be read
        no_bucket = False
    return FileNotFoundError(f"{address.uri}: there is no {f'bucket {address.host}' if no_bucket else what}")


def _object(address: Address, name: str) -> str:
    return f"{address.host}/{address.path}{name if address.is_prefix else ''}"


def _bring_object(files: fs.FileSystem, source: str, size: int, path: Path, part: Path) -> None:
    """The object at the path, continued where it broke off. size: bytes that it has. Raises ConnectionError."""
    failures = 0
    while not path.exists():
        before = part.stat().st_size if part.exists() else 0
        try:
            with part.open("ab") as file:
                for data in _blocks(files, source, file.tell()):
                    file.write(data)
            if part.stat().st_size != size:
                part.unlink()
                raise Interrupted(f"not the {size:,} bytes that were announced")
            path.parent.mkdir(parents=True, exist_ok=True)
            part.rename(path)
        except (FileNotFoundError, ConnectionError) as error:
            failures = 1 if part.exists() and part.stat().st_size > before else failures + 1
            if not isinstance(error, Interrupted) or failures >= ATTEMPTS:
                raise ConnectionError(
                    f"{source} could not be fetched: {error}; what has arrived is continued next time"
                ) from error
            _wait(source, error, failures)


def _blocks(files: fs.FileSystem, source: str, start: int) -> Iterator[bytes]:
    """The object's bytes from `start` on. Raises FileNotFoundError where it is gone, Interrupted for all else."""
    try:
        with files.open_input_file(source) as file:
            file.seek(start)
            while data := file.read(BLOCK):
                yield data
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a seek behind the end
        raise Interrupted(_one_line(error)) from error


def _connect(address: Address) -> fs.FileSystem:
    """The file system of a bucket; credentials are the store's usual ones, from the environment."""
    options = dict(address.options)
    if address.scheme == "gs":
        limit = timedelta(seconds=float(options.pop("retry_limit_seconds", GCS_SECONDS)))
        return fs.GcsFileSystem(anonymous=address.anonymous, retry_time_limit=limit, **options)
    # Arrow's constructor does not ask the environment for an endpoint, its from_uri does
    endpoint = (
        options.pop("endpoint_override", None)
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
    )
    region = options.pop("region", None) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(address.host)
    return fs.S3FileSystem(region=region, endpoint_override=endpoint, **options)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
