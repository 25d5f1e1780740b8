"""Data behind a URI (see `uri.parse`) as local files: fetched once a machine, whole or not at all.

<cache>/sources/<name>-<key>/ holds the archive <name>.zip or the folder <name>/; <key> is the first 24 digits of the
content's SHA-256. For a folder that is the output of `find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` in
it. Beside it <name>-<key of the version>.sha256 holds the content's SHA-256 at a server's version of the data (size,
ETag, Last-Modified): when that changes, the data are fetched again into another folder, and the old one stays. A copy
with another number of bytes than it had, as after a clean-up of the cache, is fetched again.
"""

import os
import shutil
import zipfile
from hashlib import file_digest, sha256
from pathlib import Path

from filelock import FileLock

from trainables.datasets.cache import cache_root
from trainables.datasets.servers import Survey, bring, survey
from trainables.datasets.uri import Address

KEY = 24  # hexadecimal digits of the SHA-256 in a folder's name


def materialise(address: Address) -> Path:
    """The path of the local copy, an archive or a folder; fetched if absent, by only one of several processes.

    If a copy with the address's digest is present, the server is not asked. Raises FileNotFoundError and
    ConnectionError if the data cannot be fetched (a partial copy is continued next time), ValueError if they have
    another digest than the address, are no archive, have names that lead elsewhere, or are of a server that shows no
    sign of changes; OSError if they do not fit the disk.
    """
    return _copy(address, _digest_of(address))


def held(address: Address) -> bool:
    """Whether a copy with the address's digest is on this machine; does not ask the server."""
    return address.sha256 is not None and _is_whole(_copy(address, address.sha256))


def pinned(address: Address) -> str:
    """The URI with the digest of its present content, which is fetched if absent."""
    return address.pinned(_digest_of(address))


def content(path: Path) -> str | None:
    """The content's identity of a local copy, or of a path in it: digest and relative path. None for other paths."""
    if not path.is_relative_to(_shelf()) or path == _shelf():
        return None
    top, *below = path.relative_to(_shelf()).parts
    return f"{top[-KEY:]} {'/'.join(below)}"


def _shelf() -> Path:
    return cache_root() / "sources"


def _copy(address: Address, digest: str) -> Path:
    return _shelf() / f"{address.stem}-{digest[:KEY]}" / address.name


def _is_whole(copy: Path) -> bool:
    known = copy.with_name(".bytes")
    return known.exists() and known.read_text() == str(_bytes(copy))


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in (root, *root.rglob("*")) if path.is_file())


def _digest_of(address: Address) -> str:
    """The SHA-256 of the present content, which is then on this machine."""
    if held(address):
        return address.sha256
    _shelf().mkdir(parents=True, exist_ok=True)
    with FileLock(_shelf() / f"{address.stem}.lock"):
        if held(address):  # another process has fetched it in the meantime
            return address.sha256
        found = survey(address)
        if found.version is None and address.sha256 is None:
            raise ValueError(
                f"{address.uri}: its server says neither ETag nor Last-Modified, so that changes would go unnoticed; "
                "add #sha256=DIGEST to the address"
            )
        note = _shelf() / f"{address.stem}-{address.key(found.version)}.sha256"
        known = note.read_text() if note.exists() and address.sha256 is None else ""
        if known and _is_whole(_copy(address, known)):
            return known
        digest = _fetch(address, found)
        note.write_text(digest)
        return digest


def _fetch(address: Address, found: Survey) -> str:
    """Fetch into a partial folder, check it, and rename it; returns the SHA-256. The caller holds the lock."""
    partial = _shelf() / f"{address.stem}-{address.key(found.version)}.partial"
    for other in _shelf().glob(f"{address.stem}-*.partial"):
        if other != partial or found.version is None:  # of another version, or perhaps
            shutil.rmtree(other)
    partial.mkdir(exist_ok=True)
    root = partial / address.name
    bring(address, found, root)
    digest = _digest(root)
    wrong = ""
    if address.sha256 not in (None, digest):
        wrong = f"what is there now has SHA-256 {digest}, but {address.sha256} is asked for"
    elif not address.is_prefix and not zipfile.is_zipfile(root):
        wrong = f"what arrived ({root.stat().st_size:,} bytes) is no zip archive"
    elif address.sha256 is None and survey(address).version != found.version:
        wrong = "it changed while it was fetched; try again"
    if wrong:
        shutil.rmtree(partial)
        raise ValueError(f"{address.uri}: {wrong}; it was deleted")
    if not _is_whole(_copy(address, digest)):
        shutil.rmtree(_copy(address, digest).parent, ignore_errors=True)
        (partial / ".bytes").write_text(str(_bytes(root)))
        partial.rename(_copy(address, digest).parent)
    shutil.rmtree(partial, ignore_errors=True)
    return digest


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
