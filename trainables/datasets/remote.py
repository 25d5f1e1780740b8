"""Data behind a URI (see `uri.parse`) as local files: fetched once a machine, whole or not at all, the same bytes everywhere.

<cache>/sources/<name>-<key>/ holds the archive <name>.zip or the folder <name>/, and beside it source.json; <key> is the
beginning of the content's SHA-256. That of a folder is what `find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum`
says in it. What a server says of its file (size, ETag, Last-Modified) is kept with it: when that changes, the file is
fetched again and gets a folder of its own, and the old one stays. At every use names, sizes and times of change are
compared with those that were recorded; where they differ, the content is hashed again.
"""

import errno
import json
import logging
import os
import re
import shutil
import zipfile
from hashlib import file_digest, sha256
from pathlib import Path

from filelock import FileLock

from trainables.datasets.cache import cache_root
from trainables.datasets.download import ATTEMPTS
from trainables.datasets.servers import Survey, bring, survey
from trainables.datasets.structure import in_order
from trainables.datasets.uri import Address

KEY = 24  # hexadecimal digits of the SHA-256 in a folder's name
RECORD = "source.json"
FULL = (errno.ENOSPC, errno.EDQUOT)
AHEAD = 1024  # digests that may wait for a slow one

_KEYED = re.compile(rf"-[0-9a-f]{{{KEY}}}(\.partial)?")

log = logging.getLogger(__name__)


def materialise(address: Address) -> Path:
    """The local copy, an archive or a folder; fetched now unless it is there. Of several processes one fetches.

    An address with a digest whose copy is there asks no server. Raises FileNotFoundError and ConnectionError where the data
    cannot be had (what has arrived is continued next time), ValueError where they have another digest than the address
    says, are no archive or have names that lead elsewhere, OSError where they do not fit the disk.
    """
    found = _find(address, None if address.sha256 else survey(address).version)
    if found is None:
        _shelf().mkdir(parents=True, exist_ok=True)
        with FileLock(_shelf() / f"{address.stem}.lock"):
            found = _fetch(address)
    return found / address.name


def held(address: Address) -> bool:
    """Whether a whole copy with the address's digest is here; no server is asked."""
    return address.sha256 is not None and _find(address, None) is not None


def pinned(address: Address) -> str:
    """The URI with the digest of what is there now, which is fetched: who uses it gets the same bytes, or an error."""
    return address.pinned(_record(materialise(address).parent)["sha256"])


def content(path: Path) -> str | None:
    """What tells the content of a path, archive or folder, from any other; None for one that lies in no copy made here."""
    if not path.is_relative_to(_shelf()) or path == _shelf():
        return None
    folder = _shelf() / path.relative_to(_shelf()).parts[0]
    record = _record(folder)
    return record and f"{record['sha256']} {path.relative_to(folder).as_posix()}"


def _shelf() -> Path:
    return cache_root() / "sources"


def _find(address: Address, version: str | None) -> Path | None:
    """The folder of an undamaged copy with the address's digest, or where it has none, of that version."""
    for folder in _folders(address, ""):
        record = _record(folder)
        if record is None:
            continue
        same = (
            record["sha256"] == address.sha256
            if address.sha256
            else version is not None and record["seen"].get(address.uri) == version
        )
        if same and _is_whole(folder, address.name, record):
            return folder
    return None


def _folders(address: Address, ending: str) -> list[Path]:
    """Those of the address's name, of copies ("") or of what is being fetched (".partial")."""
    matches = (
        (folder, _KEYED.fullmatch(folder.name.removeprefix(address.stem)))
        for folder in _shelf().glob(f"{address.stem}-*")
    )
    return sorted(folder for folder, match in matches if match and (match[1] or "") == ending)


def _record(folder: Path) -> dict | None:
    """{"sha256", "seen": {URI: version}, "files": {name: [bytes, time of change in ns]}}; None where there is no such file."""
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
    """Whether the copy is as it was recorded; where only times differ, as after it was copied, they are recorded anew."""
    try:
        found = _status(folder / name)
        if found == record["files"]:
            return True
        digest = _digest(folder / name, found)
    except FileNotFoundError:  # another process is putting a whole one in its place
        return False
    if digest != record["sha256"]:
        log.warning(
            "%s is damaged (SHA-256 %s, expected %s), it is fetched again", folder / name, digest, record["sha256"]
        )
        return False
    _write_record(folder, record | {"files": found})
    return True


def _status(root: Path) -> dict[str, list[int]]:
    """{relative name: [bytes, time of change in ns]}, the name of an archive being "."; empty where there is nothing."""
    paths = [root] if root.is_file() else [path for path in root.rglob("*") if not path.is_dir()]
    found = ((path.relative_to(root).as_posix(), path.stat()) for path in paths)
    return {name: [status.st_size, status.st_mtime_ns] for name, status in sorted(found)}


def _digest(root: Path, names: dict[str, list[int]]) -> str:
    """SHA-256 of an archive, or of the lines that sha256sum would print for the files of a folder in the order of their names' bytes."""
    if root.is_file():
        return _hashed(root)
    ordered = sorted(names, key=os.fsencode)
    digests = in_order(lambda name: _hashed(root / name), ordered, os.cpu_count() or 1, AHEAD)
    return sha256(
        os.fsencode("".join(f"{digest}  {name}\n" for name, digest in zip(ordered, digests, strict=True)))
    ).hexdigest()


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _fetch(address: Address) -> Path:
    """Fetch into a folder of its own, check, and give it its name. Needs the lock. Raises as `materialise`."""
    if address.sha256 and (held := _find(address, None)):  # another process may have fetched it while we waited
        return held
    for _ in range(ATTEMPTS):
        found = survey(address)
        if not address.sha256 and (held := _find(address, found.version)):
            return held
        partial = _bring(address, found)
        status = _status(partial / address.name)
        digest = _digest(partial / address.name, status)
        reason = _wrong(address, partial / address.name, digest)
        if reason is None and survey(address).version == found.version:
            return _publish(address, found, partial, {"sha256": digest, "seen": {}, "files": status})
        shutil.rmtree(partial)
        if reason is not None:
            raise ValueError(f"{address.uri}: {reason}; it was deleted")
        log.warning("%s changed while it was fetched; again", address.uri)
    raise ConnectionError(f"{address.uri} changed each of {ATTEMPTS} times that it was fetched")


def _bring(address: Address, found: Survey) -> Path:
    """The folder into which all that was found has been fetched; what was begun of the same version is continued."""
    partial = _shelf() / f"{address.stem}-{address.key(found.version)}.partial"
    if found.version is None:  # nothing says whether what was begun is the same
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(exist_ok=True)
    try:
        bring(address, found, partial)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(
            error.errno,
            f"{address.uri} does not fit the disk of {_shelf()} ({error.strerror}); make room, where it is continued next time, or name another place by TUNE_CD_CACHE",
        ) from error
    return partial


def _wrong(address: Address, root: Path, digest: str) -> str | None:
    """What is wrong with what arrived, if anything."""
    if address.sha256 and digest != address.sha256:
        return f"what is there now has SHA-256 {digest}, but {address.sha256} is asked for: it has changed, or is something else"
    if not address.is_prefix and not zipfile.is_zipfile(root):
        return f"what arrived ({root.stat().st_size:,} bytes) is no zip archive"
    return None


def _publish(address: Address, found: Survey, partial: Path, record: dict) -> Path:
    """Rename what is whole; a copy of the same content stays as it is, others may be reading it."""
    folder = _shelf() / f"{address.stem}-{record['sha256'][:KEY]}"
    held = _record(folder)
    same = held is not None and held["sha256"] == record["sha256"] and held["files"] == _status(folder / address.name)
    record |= {"seen": (held["seen"] if same else {}) | {address.uri: found.version}}
    if same:
        _write_record(folder, held | {"seen": record["seen"]})
    else:
        _write_record(partial, record)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    for left in _folders(address, ".partial"):  # of other versions; nobody else is at them while we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    log.info("%s is complete, SHA-256 %s", folder / address.name, record["sha256"])
    return folder
