"""The second results folder, for rows that the store does not take: ordinary files of results on this machine.

Places, in this order: beside a results folder, in the user's cache, in the temporary folder. The name has a hash of the
results' address, so that the next program that uses the results finds it. `read` reads it too; `merge` empties it.
"""

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tune_cd.results.location import parse
from tune_cd.results.store import address_of

STEM = 100  # largest number of characters of the results' name in the folder's


def keep(results: str | Path, write: Callable[[Path], None]) -> Path:
    """Call `write` with one place after the other until one takes what it writes; returns that.

    Raises OSError naming all places if each refuses, and whatever else `write` raises.
    """
    refused = []
    for folder, mode in _places(results).items():
        try:
            folder.mkdir(mode, parents=True, exist_ok=True)
            if not _is_ours(folder):
                raise PermissionError("it is another user's")
            write(folder)
            return folder
        except OSError as problem:
            refused.append(f"{folder}: {problem.strerror or problem}")
            prune(folder)
    raise OSError(f"no other place takes them ({'; '.join(refused)})")


def folders(results: str | Path) -> list[Path]:
    """The second folders that exist. Another user's is left out where everybody may create one."""
    return [folder for folder in _places(results) if _is_ours(folder)]


def prune(folder: Path) -> None:
    """Remove a folder and those in it, as far as they are empty."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        with suppress(OSError):
            path.rmdir()


def _places(results: str | Path) -> dict[Path, int]:
    """Folder -> the mode with which it is made: beside results, everybody's."""
    address, beside = address_of(results), isinstance(parse(results), Path)
    parent, stem = os.path.split(address)
    name = f".{stem[:STEM]}-waiting-{sha256(os.fsencode(address)).hexdigest()[:16]}"
    places = {Path(parent, name): 0o777} if beside and stem else {}
    places.setdefault(Path(os.path.expanduser("~/.cache/tune_cd"), name), 0o700)
    with suppress(FileNotFoundError):  # no folder takes temporary files
        places.setdefault(Path(tempfile.gettempdir(), f"{name}-{os.getuid()}"), 0o700)
    return {place: mode for place, mode in places.items() if place.is_absolute()}  # without a home, "~" stays


def _is_ours(folder: Path) -> bool:
    try:
        found, beside = folder.lstat(), folder.parent.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (found.st_uid == os.getuid() or not beside.st_mode & stat.S_ISVTX)
