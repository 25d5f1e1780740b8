"""The servers behind an address (see `uri`): data on a web server or in an object store are listed and fetched."""

import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pyarrow import fs

from trainables.datasets import download
from trainables.datasets.download import ATTEMPTS, TIMEOUT, Interrupted, Progress, opened, retried
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

BACKOFF = download.BACKOFF
BLOCK = 16 * 2**20  # bytes of an object per request
THREADS = 16  # objects of a prefix that are fetched at a time
AHEAD = 1024  # objects that may wait for a slow one
GCS_RETRIES = timedelta(seconds=60)  # that a request may be retried; Arrow's default is 15 minutes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Survey:
    """A server's description of its data, before they are fetched.

    version: changes when the data change; None if the server gives no sign of changes.  sizes: relative name -> bytes,
    None if unknown.
    """

    version: str | None
    sizes: dict[str, int | None]


def survey(address: Address) -> Survey:
    """Ask the server for its data's description. Raises FileNotFoundError if there are no data, ConnectionError if that
    is unknown, and ValueError for names of objects that are not plain relative paths."""
    try:
        if address.is_web:
            return retried(lambda: _survey_web(address), address.uri, ATTEMPTS, BACKOFF)
        files = _connect(address)
        return _survey_prefix(files, address) if address.is_prefix else _survey_object(files, address)
    except FileNotFoundError:
        raise
    except OSError as error:
        absent = getattr(error, "status", None) in (404, 410)
        raise (FileNotFoundError if absent else ConnectionError)(f"{address.uri}: {_one_line(error)}") from error


def bring(address: Address, found: Survey, folder: Path) -> None:
    """Fetch all data of the survey into the folder, as <name>, an archive or a folder; partial files are continued.

    Raises ConnectionError (Interrupted if a file has another size than announced), ValueError for an archive of a web
    server above `download.MAX_BYTES`, and OSError (ENOSPC) if the disk is too small.
    """
    here = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    total, free = sum(size or 0 for size in found.sizes.values()), shutil.disk_usage(folder).free
    if total - here > free:
        raise OSError(errno.ENOSPC, f"{total - here:,} bytes are needed, {free:,} are left")
    if address.is_web:
        _bring_file(lambda start: download.blocks(address.uri, start), address.uri, found, address.name, folder)
        return
    files, progress = _connect(address), Progress(address.uri, total, done=here)

    def bring_one(name: str) -> None:
        source = f"{address.host}/{address.path}{name if address.is_prefix else ''}"
        place = folder / address.name if address.is_prefix else folder
        _bring_file(lambda start: _blocks(files, source, start, progress), source, found, name, place)

    for _ in in_order(bring_one, found.sizes, THREADS, AHEAD):
        pass


def _bring_file(blocks: Callable[[int], Iterator[bytes]], source: str, found: Survey, name: str, folder: Path) -> None:
    path, size = folder / name, found.sizes[name]
    if path.exists() and path.stat().st_size == size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    download.bring(path, blocks, source, ATTEMPTS, BACKOFF)
    if size is not None and path.stat().st_size != size:
        arrived = path.stat().st_size
        path.unlink()
        raise Interrupted(f"{source}: {arrived:,} bytes arrived, {size:,} were announced")


def _survey_web(address: Address) -> Survey:
    with opened(address.uri, TIMEOUT) as response:  # not HEAD, which some servers do not know
        stamps, size = [response.headers["ETag"], response.headers["Last-Modified"]], response.length
    if not any(stamps):
        log.warning(
            "%s: the server says neither ETag nor Last-Modified, so that the file is fetched each time; "
            "#sha256=DIGEST at the end of the address avoids that",
            address.uri,
        )
    return Survey(json.dumps([size, *stamps]) if any(stamps) else None, {address.name: size})


def _survey_object(files: fs.FileSystem, address: Address) -> Survey:
    path = f"{address.host}/{address.path}"
    info = files.get_file_info(path)
    if info.type != fs.FileType.File:
        raise FileNotFoundError(f"{address.uri}: there is no such object, or no bucket {address.host}")
    with files.open_input_file(path) as source:
        tag = (source.metadata() or {}).get("ETag", b"").decode(errors="replace")
    return Survey(json.dumps([info.size, tag, info.mtime_ns]), {address.name: info.size})


def _survey_prefix(files: fs.FileSystem, address: Address) -> Survey:
    """Survey the objects below a prefix. Raises ValueError for names that are not plain relative paths, or that are a
    file and a folder at once."""
    prefix = f"{address.host}/{address.path}"
    found = files.get_file_info(fs.FileSelector(prefix.rstrip("/"), recursive=True, allow_not_found=True))
    stamps = sorted(
        (info.path.removeprefix(prefix), info.size, info.mtime_ns) for info in found if info.type == fs.FileType.File
    )
    if not stamps:
        raise FileNotFoundError(f"{address.uri}: there is no object below it, or no bucket {address.host}")
    names = {name for name, _, _ in stamps}
    for name in names:
        if any(part in ("", ".", "..") for part in name.split("/")) or re.search(r"[\\\x00-\x1f\x7f]", name):
            raise ValueError(
                f"{address.uri}: the object's name {name!r} is refused; allowed are relative names without '..', "
                "backslashes and control characters"
            )
        if any(str(parent) in names for parent in PurePosixPath(name).parents):
            raise ValueError(f"{address.uri}: {name!r} lies below an object, which as a file has nothing below it")
    return Survey(sha256(repr(stamps).encode()).hexdigest(), {name: size for name, size, _ in stamps})


def _blocks(files: fs.FileSystem, source: str, start: int, progress: Progress) -> Iterator[bytes]:
    """Yield the object's bytes from `start` on. Raises FileNotFoundError if it is gone, Interrupted for all else."""
    try:
        with files.open_input_file(source) as file:
            file.seek(start)
            while data := file.read(BLOCK):
                progress.add(len(data))
                yield data
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a seek behind the end
        raise Interrupted(_one_line(error)) from error


def _connect(address: Address) -> fs.FileSystem:
    """The file system of a bucket; credentials are the store's usual ones, from the environment."""
    options = dict(address.options)
    if address.scheme == "gs":
        return fs.GcsFileSystem(anonymous=address.anonymous, retry_time_limit=GCS_RETRIES, **options)
    # Arrow's constructor does not ask the environment for an endpoint, its from_uri does
    usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = options.pop("endpoint_override", usual)
    region = options.pop("region", None) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(address.host)
    return fs.S3FileSystem(region=region, endpoint_override=endpoint, **options)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
