"""The servers behind an address (see `uri`): data on a web server or in an object store are listed and fetched."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

from pyarrow import fs

from trainables.datasets.download import Interrupted, append, blocks, opened
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

BLOCK = 16 * 2**20  # bytes of an object per request
THREADS = 16  # objects of a prefix that are fetched at a time
AHEAD = 1024  # objects that may wait for a slow one
GCS_SECONDS = 60  # that a request may be retried; Arrow's default is 15 minutes


@dataclass(frozen=True)
class Survey:
    """A server's description of its data, before they are fetched.

    version: changes when the data change; None if the server gives no sign of changes.  sizes: name relative to the
    address, "" of an archive -> bytes, None if unknown.
    """

    version: str | None
    sizes: dict[str, int | None]


def survey(address: Address) -> Survey:
    """Ask the server for its data's description. Raises FileNotFoundError if there are no data, ConnectionError if that
    is unknown, and ValueError for names of objects that are not plain relative paths."""
    try:
        return _survey_web(address) if address.is_web else _survey_store(address)
    except (FileNotFoundError, ConnectionError):
        raise
    except OSError as error:
        raise ConnectionError(f"{address.uri}: {_one_line(error)}") from error


def bring(address: Address, found: Survey, root: Path) -> None:
    """Fetch all data of the survey to the path `root`, an archive or a folder; partial files are continued.

    Raises ConnectionError, and OSError (ENOSPC) if the disk is too small.
    """
    here = sum(path.stat().st_size for path in (root, *root.rglob("*")) if path.is_file())
    needed, free = sum(size or 0 for size in found.sizes.values()) - here, shutil.disk_usage(root.parent).free
    if needed > free:
        place = root.parent.parent
        said = f"{address.uri} needs {needed:,} bytes in {place}, {free:,} are free; TUNE_CD_CACHE moves it"
        raise OSError(errno.ENOSPC, said)
    files = None if address.is_web else _connect(address)

    def bring_one(name: str) -> None:
        path, size, source = root / name, found.sizes[name], f"{address.bucket}/{address.path}{name}"
        if path.exists() and path.stat().st_size == size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
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
    return Survey(json.dumps([size, *stamps]) if any(stamps) else None, {"": size})


def _survey_store(address: Address) -> Survey:
    top = f"{address.bucket}/{address.path}"
    below = fs.FileSelector(top.rstrip("/"), recursive=True, allow_not_found=True)
    found = _connect(address).get_file_info(below if address.is_prefix else [top])
    stamps = sorted(
        (info.path.removeprefix(top), info.size, info.mtime_ns) for info in found if info.type == fs.FileType.File
    )
    if not stamps:
        raise FileNotFoundError(f"{address.uri}: there is no object, or no bucket {address.bucket}")
    for name, _, _ in stamps if address.is_prefix else []:
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
    """The file system of a bucket, with the store's usual credentials, endpoint and region from the environment."""
    if address.scheme == "gs":
        usual: dict[str, object] = {"retry_limit_seconds": GCS_SECONDS}
    else:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        own = "us-east-1" if endpoint or "endpoint_override" in dict(address.options) else None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or own
        usual = {"region": region} if region else {}  # without one, Arrow asks for the bucket's
    query = urlencode(usual | dict(address.options))
    return fs.FileSystem.from_uri(f"{address.scheme}://{address.host}/?{query}")[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
