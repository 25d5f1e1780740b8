"""The servers behind an address (see `uri`): data on a web server or in an object store are listed and fetched."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

from pyarrow import fs

from trainables.datasets.download import Interrupted, append, blocks, opened
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

BLOCK = 16 * 2**20  # bytes of an object per request
THREADS = 16  # objects of a prefix that are fetched at a time
AHEAD = 1024  # objects that may wait for a slow one
GCS_RETRIES = timedelta(seconds=60)  # that a request may be retried; Arrow's default is 15 minutes


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
            return _survey_web(address)
        files = _connect(address)
        return _survey_prefix(files, address) if address.is_prefix else _survey_object(files, address)
    except (FileNotFoundError, ConnectionError):
        raise
    except OSError as error:
        raise ConnectionError(f"{address.uri}: {_one_line(error)}") from error


def bring(address: Address, found: Survey, folder: Path) -> None:
    """Fetch all data of the survey into the folder, as <name>, an archive or a folder; partial files are continued.

    Raises ConnectionError, and OSError (ENOSPC) if the disk is too small.
    """
    here = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    needed, free = sum(size or 0 for size in found.sizes.values()) - here, shutil.disk_usage(folder).free
    if needed > free:
        said = f"{address.uri} needs {needed:,} bytes in {folder.parent}, {free:,} are free; TUNE_CD_CACHE moves it"
        raise OSError(errno.ENOSPC, said)
    files = None if address.is_web else _connect(address)

    def bring_one(name: str) -> None:
        path, size = folder / address.name / name if address.is_prefix else folder / name, found.sizes[name]
        if path.exists() and path.stat().st_size == size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        source = f"{address.bucket}/{address.path}{name if address.is_prefix else ''}"
        read = partial(blocks, address.uri) if files is None else partial(_blocks, files, source)
        append(path, read, f"{address.scheme}://{source}")
        if size is not None and path.stat().st_size != size:
            path.unlink()
            raise ConnectionError(f"{source}: another size than announced; it changes, or its server is at fault")

    for _ in in_order(bring_one, found.sizes, THREADS, AHEAD):
        pass


def _survey_web(address: Address) -> Survey:
    with opened(address.uri) as response:  # not HEAD, which some servers do not know
        stamps, size = [response.headers["ETag"], response.headers["Last-Modified"]], response.length
    return Survey(json.dumps([size, *stamps]) if any(stamps) else None, {address.name: size})


def _survey_object(files: fs.FileSystem, address: Address) -> Survey:
    path = f"{address.bucket}/{address.path}"
    info = files.get_file_info(path)
    if info.type != fs.FileType.File:
        raise FileNotFoundError(f"{address.uri}: there is no such object, or no bucket {address.bucket}")
    with files.open_input_file(path) as source:
        tag = (source.metadata() or {}).get("ETag", b"").decode(errors="replace")
    return Survey(json.dumps([info.size, tag, info.mtime_ns]), {address.name: info.size})


def _survey_prefix(files: fs.FileSystem, address: Address) -> Survey:
    prefix = f"{address.bucket}/{address.path}"
    found = files.get_file_info(fs.FileSelector(prefix.rstrip("/"), recursive=True, allow_not_found=True))
    stamps = sorted(
        (info.path.removeprefix(prefix), info.size, info.mtime_ns) for info in found if info.type == fs.FileType.File
    )
    if not stamps:
        raise FileNotFoundError(f"{address.uri}: there is no object below it, or no bucket {address.bucket}")
    for name, _, _ in stamps:
        if any(part in ("", ".", "..") for part in name.split("/")) or re.search(r"[\\\x00-\x1f\x7f]", name):
            raise ValueError(
                f"{address.uri}: the object's name {name!r} is refused; allowed are relative names without '..', "
                "backslashes and control characters"
            )
    return Survey(sha256(repr(stamps).encode()).hexdigest(), {name: size for name, size, _ in stamps})


def _blocks(files: fs.FileSystem, source: str, start: int) -> Iterator[bytes]:
    """Yield the object's bytes from `start` on. Raises FileNotFoundError if it is gone, Interrupted for all else."""
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
        return fs.GcsFileSystem(anonymous=address.host != address.bucket, retry_time_limit=GCS_RETRIES, **options)
    # Arrow's constructor does not ask the environment for an endpoint, its from_uri does
    usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = options.pop("endpoint_override", usual)
    region = options.pop("region", None) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(address.bucket)
    return fs.S3FileSystem(region=region, endpoint_override=endpoint, **options)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
