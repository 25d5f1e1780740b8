"""Data behind a URI (see `uri.parse`) as local files: fetched once a machine, whole or not at all.

<cache>/sources/<name>-<key>/ holds the archive <name>.zip or the folder <name>/, and source.json; <key> is the first
24 digits of the content's SHA-256. For a folder that is the output of `find * -type f | LC_ALL=C sort | xargs sha256sum
| sha256sum` in it. The server's version of the data (size, ETag, Last-Modified) is recorded: when it changes, the data
are fetched again into another folder, and the old one stays. At every use names, sizes and times of change are compared
with the recorded ones; if they differ, the content is hashed again.
"""

import errno
import json
import logging
import os
import shutil
import zipfile
from hashlib import file_digest, sha256
from pathlib import Path

from filelock import FileLock

from trainables.datasets.cache import cache_root
from trainables.datasets.download import ATTEMPTS, Interrupted
from trainables.datasets.servers import Survey, bring, survey
from trainables.datasets.uri import Address

KEY = 24  # hexadecimal digits of the SHA-256 in a folder's name
RECORD = "source.json"
FULL = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


def materialise(address: Address) -> Path:
    """The path of the local copy, an archive or a folder; fetched if absent, by only one of several processes.

    If a copy with the address's digest is present, the server is not asked. Raises FileNotFoundError and
    ConnectionError if the data cannot be fetched (a partial copy is continued next time), ValueError if they have
    another digest than the address, are not an archive or have names that lead elsewhere, OSError if they do not fit
    the disk.
    """
    there = None if address.sha256 else survey(address)
    version = there and there.version
    folder = _find(address, version)
    if folder is None:
        _shelf().mkdir(parents=True, exist_ok=True)
        with FileLock(_shelf() / f"{address.stem}.lock"):  # another process may have fetched it in the meantime
            folder = _find(address, version) or _fetch(address, there or survey(address))
    return folder / address.name


def held(address: Address) -> bool:
    """Whether a whole copy with the address's digest is on this machine; does not ask the server."""
    return address.sha256 is not None and _find(address, None) is not None


def pinned(address: Address) -> str:
    """The URI with the digest of its present content, which is fetched if absent."""
    return address.pinned(_record(materialise(address).parent)["sha256"])


def content(path: Path) -> str | None:
    """The content's identity of a local copy, or of a path in it: digest and relative path. None for other paths."""
    if not path.is_relative_to(_shelf()) or path == _shelf():
        return None
    folder = _shelf() / path.relative_to(_shelf()).parts[0]
    record = _record(folder)
    return record and f"{record['sha256']} {path.relative_to(folder).as_posix()}"


def _shelf() -> Path:
    return cache_root() / "sources"


def _find(address: Address, version: str | None) -> Path | None:
    """The folder of a whole copy with the address's digest or, if it has none, of that version; None if absent."""
    for folder in _folders(address):
        record = _record(folder)
        if record is None:
            continue
        if address.sha256:
            same = record["sha256"] == address.sha256
        else:
            same = version is not None and record["seen"].get(address.uri) == version
        if same and _is_whole(folder, address.name, record):
            return folder
    return None


def _folders(address: Address, ending: str = "") -> list[Path]:
    """Folders of the copies of this name; with ".partial" those still being fetched."""
    return sorted(_shelf().glob(f"{address.stem}-{'[0-9a-f]' * KEY}{ending}"))


def _record(folder: Path) -> dict | None:
    """{"sha256", "seen": {URI: version}, "files": {name: [bytes, time of change in ns]}}; None if it cannot be read."""
    try:
        record = json.loads((folder / RECORD).read_text())
        return record if record.keys() >= {"sha256", "seen", "files"} else None
    except (OSError, ValueError, AttributeError):
        return None


def _write_record(folder: Path, record: dict) -> None:
    new = folder / f"{RECORD}.{os.getpid()}"
    new.write_text(json.dumps(record))
    new.replace(folder / RECORD)


def _is_whole(folder: Path, name: str, record: dict) -> bool:
    """Whether the copy is as recorded. If only times differ, as after copying it, they are recorded anew."""
    try:
        found = _status(folder / name)
        if found == record["files"]:
            return True
        if _digest(folder / name) != record["sha256"]:
            log.warning("%s is damaged, it is fetched again", folder / name)
            return False
        _write_record(folder, record | {"files": found})
    except FileNotFoundError:  # another process is replacing it
        return False
    return True


def _files(root: Path) -> list[Path]:
    return [root] if root.is_file() else [path for path in root.rglob("*") if not path.is_dir()]


def _status(root: Path) -> dict[str, list[int]]:
    """{relative name: [bytes, time of change in ns]}; the name of an archive is "."."""
    found = ((path.relative_to(root).as_posix(), path.stat()) for path in _files(root))
    return {name: [status.st_size, status.st_mtime_ns] for name, status in sorted(found)}


def _digest(root: Path) -> str:
    """SHA-256 of an archive, or of the lines that sha256sum prints for a folder's files in the order of their names."""
    digests = {}
    for path in _files(root):
        with path.open("rb") as file:
            digests[os.fsencode(path.relative_to(root))] = file_digest(file, "sha256").hexdigest()
    if root.is_file():
        return digests[b"."]
    return sha256(b"".join(f"{digests[name]}  ".encode() + name + b"\n" for name in sorted(digests))).hexdigest()


def _fetch(address: Address, found: Survey) -> Path:
    """Fetch into a partial folder, check it, and rename it; the caller holds the lock. Raises as `materialise`."""
    for _ in range(ATTEMPTS):
        partial = _shelf() / f"{address.stem}-{address.key(found.version)}.partial"
        if found.version is None:  # the part may be of another version
            shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(exist_ok=True)
        try:
            bring(address, found, partial)
            digest = _digest(partial / address.name)
            _check(address, partial / address.name, digest)
        except Interrupted as error:
            log.warning("%s; asked for again", error)
            found = survey(address)
            continue
        except ValueError as error:
            shutil.rmtree(partial)
            raise ValueError(f"{address.uri}: {error}; it was deleted") from error
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise OSError(
                error.errno,
                f"{address.uri} does not fit the disk of {_shelf()} ({error.strerror}); make room, and it is "
                "continued, or name another place by TUNE_CD_CACHE",
            ) from error
        begun, found = found, found if address.sha256 else survey(address)
        if begun.version == found.version:
            return _publish(address, found, partial, digest)
        shutil.rmtree(partial)
        log.warning("%s changed while it was fetched; again", address.uri)
    raise ConnectionError(f"{address.uri} changed each of {ATTEMPTS} times that it was fetched")


def _check(address: Address, root: Path, digest: str) -> None:
    """Raise ValueError if the data have another digest than requested, or are not a zip archive."""
    if address.sha256 and digest != address.sha256:
        raise ValueError(
            f"what is there now has SHA-256 {digest}, but {address.sha256} is asked for: it has changed, or is "
            "something else"
        )
    if not address.is_prefix and not zipfile.is_zipfile(root):
        raise ValueError(f"what arrived ({root.stat().st_size:,} bytes) is no zip archive")


def _publish(address: Address, found: Survey, partial: Path, digest: str) -> Path:
    """Give a whole copy its final name; an existing copy of the same content stays, as others may be reading it."""
    folder = _shelf() / f"{address.stem}-{digest[:KEY]}"
    before = _record(folder)
    same = before is not None and before["sha256"] == digest and _is_whole(folder, address.name, before)
    record = _record(folder) if same else {"sha256": digest, "seen": {}, "files": _status(partial / address.name)}
    _write_record(folder if same else partial, record | {"seen": record["seen"] | {address.uri: found.version}})
    if not same:
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    for left in _folders(address, ".partial"):  # of other versions; the lock keeps other processes from them
        shutil.rmtree(left, ignore_errors=True)
    log.info("%s is complete, SHA-256 %s", folder / address.name, digest)
    return folder
