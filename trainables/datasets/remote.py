"""Data behind a URI (see `uri.parse`) as local files: fetched once a machine, whole or not at all.

<cache>/sources/<name>-<key>/ holds the archive <name>.zip or the folder <name>/; <key> stands for the URI and the
server's version of the data (size, ETag, Last-Modified): when that changes, the data are fetched again into another
folder, and the old one stays. Its file .content holds the content's SHA-256 and number of bytes; a copy of another
number, as after a clean-up of the cache, is fetched again. The SHA-256 of a folder is the output of
`find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` in it.
"""

import errno
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b, file_digest, sha256
from pathlib import Path
from urllib.parse import urlencode

from filelock import FileLock
from pyarrow import fs

from trainables.datasets.cache import cache_root, writable
from trainables.datasets.download import AHEAD, THREADS, Interrupted, append, blocks, opened
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

KEY = 24  # hexadecimal digits in a folder's name
NOTE = ".content"  # of a copy: its SHA-256 and number of bytes
BLOCK = 16 * 2**20  # bytes of an object per request
GCS_SECONDS = 60  # that a request may be retried; Arrow's default is 15 minutes


def materialise(address: Address) -> Path:
    """The path of the local copy, an archive or a folder; fetched if absent, by only one of several processes.

    If a copy with the address's digest is present, the server is not asked. Raises FileNotFoundError and
    ConnectionError if the data cannot be fetched (a partial copy is continued next time), ValueError if they have
    another digest than the address, are no archive, have names that lead elsewhere, or are of a server that shows no
    sign of changes; OSError if they do not fit the disk.
    """
    if (copy := held(address)) is not None:
        return copy
    writable(_shelf())
    _shelf().mkdir(parents=True, exist_ok=True)
    with FileLock(_shelf() / f"{address.stem}.lock"):
        if (copy := held(address)) is not None:  # another process has fetched it in the meantime
            return copy
        version, sizes = survey(address)
        if version is None and address.sha256 is None:
            raise ValueError(
                f"{address.uri}: its server says neither ETag nor Last-Modified, so that changes would go unnoticed; "
                "add #sha256=DIGEST to the address"
            )
        key = blake2b(repr((address.uri, version or address.sha256)).encode(), digest_size=KEY // 2).hexdigest()
        folder = _shelf() / f"{address.stem}-{key}"
        if address.sha256 is not None or _digest_of(folder / address.name) is None:
            _fetch(address, version, sizes, folder)
        return folder / address.name


def pinned(address: Address) -> str:
    """The URI with the digest of its present content, which is fetched if absent."""
    return address.pinned(_digest_of(materialise(address)))


def held(address: Address) -> Path | None:
    """A copy with the address's digest that is on this machine; does not ask the server."""
    copies = (folder / address.name for folder in _shelf().glob(f"{address.stem}-*") if address.sha256)
    return next((copy for copy in copies if _digest_of(copy) == address.sha256), None)


def content(path: Path) -> str | None:
    """The content's identity of a local copy, or of a path in it: digest and relative path. None for other paths."""
    folder = next((place for place in (path, *path.parents) if place.parent == _shelf()), None)
    if folder is None or not (folder / NOTE).exists():
        return None
    return f"{(folder / NOTE).read_text()} {path.relative_to(folder).as_posix()}"


def survey(address: Address) -> tuple[str | None, dict[str, int | None]]:
    """Ask the server for its data: their version, and {name relative to the address, "" of an archive: bytes}.

    The version changes when the data change; it is None if the server gives no sign of changes, as bytes are if they
    are unknown. Raises FileNotFoundError if there are no data, ConnectionError if that is unknown, and ValueError for
    names of objects that are not plain relative paths.
    """
    if address.is_web:
        with opened(address.uri) as response:  # not HEAD, which some servers do not know
            stamps, size = [response.headers["ETag"], response.headers["Last-Modified"]], response.length
        return json.dumps([size, *stamps]) if any(stamps) else None, {"": size}
    top = f"{address.bucket}/{address.path}"
    below = fs.FileSelector(top.rstrip("/"), recursive=True, allow_not_found=True)
    try:
        found = _connect(address).get_file_info(below if address.is_prefix else [top])
    except OSError as error:
        raise ConnectionError(f"{address.uri}: {_one_line(error)}") from error
    files = sorted((one.path.removeprefix(top), one.size, one.mtime_ns) for one in found if one.is_file)
    if not files:
        raise FileNotFoundError(f"{address.uri}: there is no object, or no bucket {address.bucket}")
    for name, _, _ in files if address.is_prefix else []:
        if any(part in ("", ".", "..") for part in name.split("/")) or re.search(r"[\\\x00-\x1f\x7f]", name):
            raise ValueError(
                f"{address.uri}: the object's name {name!r} is refused; allowed are relative names without '..', "
                "backslashes and control characters"
            )
    return sha256(repr(files).encode()).hexdigest(), {name: size for name, size, _ in files}


def _shelf() -> Path:
    return cache_root() / "sources"


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in (root, *root.rglob("*")) if path.is_file())


def _digest_of(copy: Path) -> str | None:
    """The SHA-256 of a copy, None if it is absent or not whole."""
    note = copy.with_name(NOTE)
    digest, _, size = note.read_text().partition(" ") if note.exists() else ("", "", "")
    return digest if size == str(_bytes(copy)) else None


def _fetch(address: Address, version: str | None, sizes: dict[str, int | None], folder: Path) -> None:
    """Fetch, check, and put in the folder's place, which is then whole. The caller holds the lock."""
    begun = folder.with_name(f"{folder.name}.partial")
    for other in _shelf().glob(f"{address.stem}-{'?' * KEY}.partial"):
        if other != begun or version is None:  # of another version, or perhaps
            shutil.rmtree(other)
    begun.mkdir(exist_ok=True)
    root = begun / address.name
    _bring(address, sizes, root)
    digest, wrong = _digest(root), ""
    if address.sha256 not in (None, digest):
        wrong = f"what is there now has SHA-256 {digest}, but {address.sha256} is asked for"
    elif not address.is_prefix and not zipfile.is_zipfile(root):
        wrong = f"what arrived ({root.stat().st_size:,} bytes) is no zip archive"
    elif address.sha256 is None and survey(address)[0] != version:
        wrong = "it changed while it was fetched; try again"
    if wrong:
        shutil.rmtree(begun)
        raise ValueError(f"{address.uri}: {wrong}; it was deleted")
    (begun / NOTE).write_text(f"{digest} {_bytes(root)}")
    shutil.rmtree(folder, ignore_errors=True)
    begun.rename(folder)


def _bring(address: Address, sizes: dict[str, int | None], root: Path) -> None:
    """Fetch data of these names to the path `root`, an archive or a folder; partial files are continued.

    Raises ConnectionError, and OSError (ENOSPC) if the disk is too small.
    """
    needed, free = sum(size or 0 for size in sizes.values()) - _bytes(root), shutil.disk_usage(_shelf()).free
    if needed > free:
        said = f"{address.uri} needs {needed:,} bytes in {_shelf()}, {free:,} are free; TUNE_CD_CACHE moves it"
        raise OSError(errno.ENOSPC, said)
    files = None if address.is_web else _connect(address)

    def bring_one(name: str) -> None:
        path, size, source = root / name, sizes[name], f"{address.bucket}/{address.path}{name}"
        if path.exists() and path.stat().st_size == size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        read = partial(blocks, address.uri) if files is None else partial(_blocks, files, source)
        append(path, read, f"{address.scheme}://{source}")
        if size is not None and path.stat().st_size != size:
            path.unlink()
            raise ConnectionError(f"{source}: another size than announced; it changes, or its server is at fault")

    for _ in in_order(bring_one, sizes, THREADS, AHEAD):
        pass


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
        own = "us-east-1" if endpoint or "endpoint_override" in address.options else None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or own
        usual = {"region": region} if region else {}  # without one, Arrow asks for the bucket's
    query = urlencode(usual | address.options)
    return fs.FileSystem.from_uri(f"{address.scheme}://{address.host}/?{query}")[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _digest(root: Path) -> str:
    """SHA-256 of an archive, or of the lines that sha256sum prints for a folder's files in the order of their names."""
    digests = {}
    for path in [root] if root.is_file() else root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                digests[os.fsencode(path.relative_to(root))] = file_digest(file, "sha256").hexdigest()
    if root.is_file():
        return digests[b"."]
    return sha256(b"".join(f"{digests[name]}  ".encode() + name + b"\n" for name in sorted(digests))).hexdigest()
