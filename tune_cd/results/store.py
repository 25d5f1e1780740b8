"""One interface to folders and object stores: list, read, write atomically, remove. Names are relative to RESULTS."""

import os
import re
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


class Store:
    """A folder of a local or mounted file system, or a prefix of an object store. location: a checked one.

    An object store writes objects whole or not at all. It is contacted here only for an S3 region not configured.
    """

    def __init__(self, location: Path | str):
        self.folder = location if isinstance(location, Path) else None
        scheme, _, bucket = str(location).partition("?")[0].partition("://")
        self._head, self._root = ("", str(location)) if self.folder else (f"{scheme}://", bucket)
        self._files = fs.LocalFileSystem() if self.folder else _connect(str(location))
        self.readers = 4 if self.folder else 32  # threads: a local disk needs two, more hide a network's latency
        self.at_once = 0 if self.folder else 1000  # a listing of fewer files shows one moment
        self.trusted = 0.0 if self.folder else 300.0  # seconds for which a statement about compactions is believed
        self.compactions: dict[str, tuple[float, bytes, list[str]]] = {}  # study -> what `compaction.compacted` knows

    def where(self, name: str = "") -> Path | str:
        """The place of a file, for messages and for callers that open it; of an object without query parameters."""
        return self.folder / name if self.folder else f"{self._head}{self._path(name)}"

    def require(self) -> None:
        """Raise FileNotFoundError if there is no such folder or bucket. A prefix without objects is valid."""
        place = self._root if self.folder else self._root.partition("/")[0]
        try:
            found = self._files.get_file_info(place).type
        except OSError:  # the check may be forbidden for a usable bucket; otherwise its use will fail
            return
        if found != fs.FileType.Directory:
            raise FileNotFoundError(f"there is no {'results folder' if self.folder else 'bucket'} {place}")

    def listing(self, folder: str, recursive: bool = False) -> list[str]:
        """Sorted names of files, also hidden ones, in a folder, or also below it; empty without the folder."""
        root, files = len(self._path("")) + 1, self._found(folder, recursive)
        return sorted(one.path[root:] for one in files if one.type == fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        """Sorted names of the folders in a folder, without what is below them; empty without the folder."""
        return sorted(one.base_name for one in self._found(folder, False) if one.type == fs.FileType.Directory)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError, FileNotFoundError if it is not there."""
        try:
            return self._read(name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise
        except OSError:  # a connection that broke off in the middle of an answer, which Arrow does not try again
            return self._read(name)

    def age(self, name: str, missing: float = 0.0) -> float:
        """Seconds since a file was written; `missing` if it is gone."""
        changed = self._files.get_file_info(self._path(name)).mtime
        return missing if changed is None else time.time() - changed.timestamp()

    def write(self, name: str, data: bytes | pa.Buffer, new: bool = False) -> None:
        """Write a file atomically. new: raise FileExistsError if it exists; in an object store the caller has looked,
        and one that has come since is replaced."""
        if self.folder:
            publish(self.folder / name, data, new)
            return
        stream = self._files.open_output_stream(self._path(name))
        stream.write(data)
        stream.close()

    def remove(self, name: str) -> bool:
        """Remove a file; returns whether it was there, since another process may have removed it already."""
        with suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))
            return True
        return False

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/") or "/"

    def _read(self, name: str) -> bytes:
        with self._files.open_input_file(self._path(name)) as file:
            return bytes(file.readall())

    def _found(self, folder: str, recursive: bool) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
        try:
            return list(self._files.get_file_info(selector))
        except NotADirectoryError:
            return []
        except FileNotFoundError:  # it was made, or removed, while Arrow looked
            return list(self._files.get_file_info(selector))


def store_of(results: str | Path) -> Store:
    """The store that `results` names. Raises ValueError for a location that is not allowed."""
    return _store(check_location(results), os.getpid())


@lru_cache(maxsize=8)
def _store(location: Path | str, process: int) -> Store:
    """One connection for many writes; `process` is in the key, since a fork cannot use its parent's connection."""
    return Store(location)


def address_of(results: str | Path) -> str:
    """The address of results: of a folder the same however it is written."""
    location = check_location(results)
    return os.path.realpath(location) if isinstance(location, Path) else f"{location} {_endpoint()}"


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


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


TEMPORARY = re.compile(r".*/\.[^/]+\.[0-9a-f]{16}")
"""The name of a file that `publish` has begun."""


def publish(path: Path, data: bytes | pa.Buffer, new: bool = False) -> None:
    """Write a local file atomically: readers see the old file or the new one, also after a crash.

    new: raise FileExistsError if the file exists. Without hard links the check comes a moment before the rename.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        (_link if new else os.replace)(temporary, path)
    except OSError as error:
        if error.filename is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # nobody knows the temporary file
    finally:  # also after an interrupt, and beside a link
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # makes the rename survive a power cut
    os.close(folder)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError:
        if path.exists():
            raise FileExistsError(f"{path} is there already") from None
        os.replace(temporary, path)
