"""One interface to folders and object stores: list, read, write atomically, remove. Names are relative to RESULTS."""

import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from urllib.parse import parse_qsl, urlencode

import pyarrow as pa
from pyarrow import fs

from tune_cd.results.location import check_location

GCS_SECONDS = "60"  # time limit of a request's retries, unless the URI sets one; Arrow's own default is 15 minutes


def store_of(results: str | Path) -> "Folder | Bucket":
    """The store that `results` names. Only an S3 bucket is contacted yet, for its region, if that is not configured.

    Raises ValueError for a location that is not allowed.
    """
    return _store(check_location(results), os.getpid())


@lru_cache(maxsize=8)
def _store(location: Path | str, process: int) -> "Folder | Bucket":
    """One connection for many writes; `process` is in the key, since a fork cannot use its parent's connection."""
    return Folder(location) if isinstance(location, Path) else Bucket(location)


class Store:
    """What folders and buckets have in common: files below a root of one of pyarrow's file systems."""

    at_once = 0  # a listing of fewer files shows one moment
    readers = 4  # threads; a local disk needs two, more hide the latency of a network file system
    trusted = 0.0  # seconds for which a statement about compactions is believed

    def __init__(self, files: fs.FileSystem, root: str):
        self._files, self._root = files, root
        # study -> (when its compactions were looked at, their statement, the files): `writing.compacted`
        self.compactions: dict[str, tuple[float, bytes, list[str]]] = {}

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/") or "/"

    def listing(self, folder: str, depth: int = 2) -> list[str]:
        """Sorted names of files, also hidden ones, below a folder; empty without the folder. depth: 1: those in the
        folder itself, else those of all levels."""
        root, files = len(self._path("")) + 1, self._found(folder, depth > 1)
        return sorted(one.path[root:] for one in files if one.type == fs.FileType.File)

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
        with self._files.open_input_file(self._path(name)) as file:
            return bytes(file.readall())

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
        super().__init__(fs.LocalFileSystem(), os.fspath(root))
        self.root = root

    def where(self, name: str = "") -> Path:
        """A file's path, for messages and for callers that open it."""
        return self.root / name

    def require(self) -> None:
        """Raise FileNotFoundError if there is no such folder."""
        if not self.root.is_dir():
            raise FileNotFoundError(f"there is no results folder {self.root}")

    def write(self, name: str, data: bytes | pa.Buffer, new: bool = False) -> None:
        """Write a file atomically. new: raise FileExistsError if it exists."""
        publish(self.where(name), data, new)


class Bucket(Store):
    """A prefix of an object store, which itself writes objects whole or not at all. uri: a checked one."""

    trusted, at_once, readers = 300.0, 1000, 32  # S3 lists so many objects at once

    def __init__(self, uri: str):
        self._scheme, _, place = uri.partition("?")[0].partition("://")
        super().__init__(_connect(uri), place)

    def where(self, name: str = "") -> str:
        """A file's URI for messages, without query parameters."""
        return f"{self._scheme}://{self._path(name)}"

    def require(self) -> None:
        """Raise FileNotFoundError if there is no such bucket. A prefix without objects is valid."""
        bucket = self._root.partition("/")[0]
        try:
            found = self._files.get_file_info(bucket).type
        except OSError:  # the check may be forbidden for a usable bucket; otherwise its use will fail
            return
        if found == fs.FileType.NotFound:
            raise FileNotFoundError(f"there is no bucket {bucket}")

    def write(self, name: str, data: bytes | pa.Buffer, new: bool = False) -> None:
        """Write an object. new: of no effect, the caller has looked; an object that appears since is replaced."""
        stream = self._files.open_output_stream(self._path(name))
        stream.write(data)
        stream.close()


def _connect(uri: str) -> fs.FileSystem:
    """The file system of a bucket, with the store's usual credentials from the environment."""
    place, _, query = uri.partition("?")
    given = dict(parse_qsl(query))
    if uri.startswith("gs:"):
        usual = {"retry_limit_seconds": GCS_SECONDS}
    else:
        own = "us-east-1" if "endpoint_override" in given or _endpoint() else None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or own
        usual = {"region": region} if region else {}  # without one, it is asked for
        # delayed opening: a small object takes one request instead of three, and leaves no multipart upload open
        usual |= {"allow_delayed_open": "true"} if int(pa.__version__.split(".")[0]) >= 21 else {}
    return fs.FileSystem.from_uri(f"{place}?{urlencode(usual | given)}")[0]


def address_of(results: str | Path) -> str:
    """The address of results: of a folder the same however it is written."""
    location = check_location(results)
    return os.path.realpath(location) if isinstance(location, Path) else f"{location} {_endpoint()}"


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


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
