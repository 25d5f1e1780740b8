"""One interface to folders and object stores: list, read, write atomically, remove. Names are relative to RESULTS."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
from pyarrow import fs

from tune_cd.results.location import ObjectStore, parse

GCS_SECONDS = "60"  # time limit of a request's retries, unless the URI sets one; Arrow's own default is 15 minutes
Compactions = dict[str, tuple[float, bytes, list[str]]]
"""Study -> (when its compactions were looked at, their statement, the compacted files); see `lookup.compacted`."""


def store_of(results: str | Path) -> "Folder | Bucket":
    """The store that `results` names. Only an S3 bucket is contacted yet, for its region, if that is not configured.

    Raises ValueError for a location that is not allowed.
    """
    return _store(parse(results), os.getpid())


@lru_cache(maxsize=8)
def _store(location: Path | ObjectStore, process: int) -> "Folder | Bucket":
    """One connection for many writes; `process` is in the key, since a fork cannot use its parent's connection."""
    return Folder(location) if isinstance(location, Path) else Bucket(location)


class Store:
    """What folders and buckets have in common: files below a root of one of pyarrow's file systems."""

    quick = True  # whether to ask for one more name costs next to nothing
    at_once = 0  # a listing of fewer files shows one moment
    readers = 4  # threads; a local disk needs two, more hide the latency of a network file system
    trusted = 0.0  # seconds for which a statement about compactions is believed

    def __init__(self, files: fs.FileSystem, root: str, container: str):
        self._files, self._root, self._container = files, root, container
        self.compactions: Compactions = {}

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/") or "/"

    def require(self) -> None:
        """Raise FileNotFoundError if there is no such folder or bucket. A prefix without objects is valid."""
        if self._files.get_file_info(self._container).type in (fs.FileType.NotFound, fs.FileType.File):
            raise FileNotFoundError(f"there is no results folder or bucket {self._container}")

    def listing(self, folder: str, depth: int = 2) -> list[str]:
        """Sorted names of files, also hidden ones, below a folder; empty without the folder. depth: 1: those in the
        folder itself, else those of all levels."""
        return sorted(self.sizes(folder, depth))

    def sizes(self, folder: str, depth: int = 2) -> dict[str, int]:
        """Name -> size in bytes of the files of `listing`."""
        root, files = len(self._path("")) + 1, self._found(folder, depth > 1)
        return {one.path[root:]: one.size for one in files if one.type == fs.FileType.File}

    def folders(self, folder: str) -> list[str]:
        """Sorted names of the folders in a folder, without what is below them; empty without the folder."""
        return sorted(one.base_name for one in self._found(folder, False) if one.type == fs.FileType.Directory)

    def _found(self, folder: str, recursive: bool) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
        try:
            return list(self._files.get_file_info(selector))
        except NotADirectoryError:
            return []
        except FileNotFoundError:  # it was made, or removed, while Arrow looked
            return list(self._files.get_file_info(selector))

    def read(self, name: str) -> bytes:
        try:
            return self._read(name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise
        except OSError:  # a connection that broke off in the middle of an answer, which Arrow does not try again
            return self._read(name)

    def _read(self, name: str) -> bytes:
        with self.open(name) as file:
            return bytes(file.readall())

    def open(self, name: str) -> pa.NativeFile:
        """Open a file, to read parts of it."""
        return self._files.open_input_file(self._path(name))

    def age(self, name: str, missing: float = 0.0) -> float:
        """Seconds since a file was written; `missing` if it is gone."""
        changed = self._files.get_file_info(self._path(name)).mtime
        return missing if changed is None else time.time() - changed.timestamp()

    def remove(self, name: str) -> None:
        """Remove a file if it exists; another process may have removed it already."""
        with suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))


class Folder(Store):
    """A folder of a local or mounted file system."""

    def __init__(self, root: Path):
        super().__init__(fs.LocalFileSystem(), os.fspath(root), os.fspath(root))
        self.root = root

    def where(self, name: str = "") -> Path:
        """A file's path, for messages and for callers that open it."""
        return self.root / name

    def write(self, name: str, data: bytes | pa.Buffer, new: bool = False) -> None:
        """Write a file atomically. new: raise FileExistsError if it exists."""
        publish(self.where(name), data, new)


class Bucket(Store):
    """A prefix of an object store, which itself writes objects whole or not at all."""

    quick, trusted, at_once, readers = False, 300.0, 1000, 32  # S3 lists so many objects at once

    def __init__(self, location: ObjectStore):
        super().__init__(_connect(location), location.path, location.bucket)
        self.location = location

    def where(self, name: str = "") -> str:
        """A file's URI for messages, without query parameters."""
        return f"{self.location.scheme}://{self._path(name)}"

    def require(self) -> None:
        try:
            super().require()
        except FileNotFoundError:
            raise
        except OSError:  # the check may be forbidden for a usable bucket; otherwise its use will fail
            return

    def write(self, name: str, data: bytes | pa.Buffer, new: bool = False) -> None:
        """Upload outside the main thread: an interrupt reaches only that, and would close the stream of an upload and
        publish half an object. new: of no effect, the caller has looked; an object that appears since is replaced."""
        if threading.current_thread() is not threading.main_thread():
            self._upload(name, data)
            return
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self._upload, name, data).result()

    def _upload(self, name: str, data: bytes | pa.Buffer) -> None:
        stream = self._files.open_output_stream(self._path(name))
        stream.write(data)
        stream.close()


def _connect(location: ObjectStore) -> fs.FileSystem:
    """The file system of a bucket, with the store's usual credentials from the environment."""
    if location.scheme == "gs":
        more = {"retry_limit_seconds": GCS_SECONDS}
    else:
        region = _variable("AWS_REGION", "AWS_DEFAULT_REGION") or ("us-east-1" if _endpoint(location) else None)
        more = {"region": region} if region else {}  # without one, it is asked for
        # delayed opening: a small object takes one request instead of three, and leaves no multipart upload open
        more |= {"allow_delayed_open": "true"} if int(pa.__version__.split(".")[0]) >= 21 else {}
    return fs.FileSystem.from_uri(location.uri(**more))[0]


def address_of(results: str | Path) -> str:
    """The address of results, the same however it is written."""
    location = parse(results)
    if isinstance(location, Path):
        return os.path.realpath(location)
    server = (_endpoint(location) or "").rpartition("://")[2].rstrip("/")
    return f"{location.scheme}://{server}/{location.path}"


def _endpoint(location: ObjectStore) -> str | None:
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if location.scheme == "s3" else ()
    return dict(location.options).get("endpoint_override") or _variable(*variables)


def _variable(*names: str) -> str | None:
    """The value of the first of these environment variables that is not empty; else None."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def publish(path: Path, data: bytes | pa.Buffer, new: bool = False) -> None:
    """Write a local file atomically: readers see the old file or the new one, also after a crash.

    new: raise FileExistsError if the file exists, whoever made it, and leave it unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        (_link if new else os.replace)(temporary, path)
    finally:  # also after an interrupt, and beside a link
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # makes the rename survive a power cut
    os.close(folder)


def _link(temporary: Path, path: Path) -> None:
    """Rename a temporary file to `path`; raise FileExistsError if that exists. Without hard links the check comes a
    moment before the rename."""
    try:
        os.link(temporary, path)
    except OSError:
        if path.exists():
            raise FileExistsError(f"{path} is there already") from None
        os.replace(temporary, path)
