"""Extraction of wanted files from untrusted tar archives."""

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from trainables.datasets.source import MAX_MEMBER_BYTES
from trainables.datasets.structure import made_whole, preview

MAX_ARCHIVE_BYTES = 16 * 2**30  # inflated; the largest of those that are fetched has 2 GB
MAX_MEMBERS = 1_000_000  # tarfile keeps a record of each in memory


class _Inflated(gzip.GzipFile):
    """A .tgz with bounds on a member's headers, which tarfile reads into memory, and on the inflated whole."""

    left: int  # bytes that may be read until it is set again

    def read(self, size: int = -1) -> bytes:
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError(f"the headers of a member have more than {MAX_MEMBER_BYTES:,} bytes")
        self._check_place(self.tell() + size)
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_place(offset)
        return super().seek(offset, whence)

    def _check_place(self, place: int) -> None:
        if place > MAX_ARCHIVE_BYTES:
            raise tarfile.ReadError(f"it inflates to more than {MAX_ARCHIVE_BYTES:,} bytes")


def check_complete(archive: Path) -> None:
    """Read a .tgz archive to its end. Raises ValueError for a damaged one, or one beyond the bounds of this module."""
    try:
        for _ in _members(archive):
            pass
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"{archive.name} is no complete tar archive: {error}") from error


def extract(archives: Iterable[Path], folder: Path, wanted: set[str]) -> None:
    """Extract the wanted files of .tgz archives into one flat folder, which appears once it is complete.

    wanted: file names without a path, which may lie anywhere in an archive; links and other files are skipped.
    Raises ValueError for a member that points outside of the folder, for a file above MAX_MEMBER_BYTES, for two of one
    name, for an archive that is damaged or beyond the bounds of this module, and for a wanted file that is in none.
    """
    with made_whole(folder) as partial:
        for archive in archives:
            try:
                _extract_one(archive, partial, wanted)
            except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
                raise ValueError(f"{archive}: {error}; remove it and download it again") from error
        missing = sorted(wanted - set(os.listdir(partial)))
        if missing:
            raise ValueError(
                f"{len(missing)} images are in no archive ({', '.join(map(str, archives))}): {preview(missing)}"
            )


def _extract_one(archive: Path, folder: Path, wanted: set[str]) -> None:
    for tar, member in _members(archive):
        tarfile.data_filter(member, str(folder))  # raises FilterError for a path outside of the folder, or a device
        name = PurePosixPath(member.name).name
        if not member.isfile() or member.issparse() or name not in wanted:
            continue
        if member.size > MAX_MEMBER_BYTES:
            raise ValueError(f"{archive}: {member.name} has {member.size:,} bytes, at most {MAX_MEMBER_BYTES:,}")
        if (folder / name).exists():
            raise ValueError(f"{archive}: a second image of the name {name}: {member.name}")
        with tar.extractfile(member) as source, (folder / name).open("xb") as target:
            shutil.copyfileobj(source, target)


def _members(archive: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The open archive with each of its members, in their order."""
    with _Inflated(archive) as inflated:
        inflated.left = MAX_MEMBER_BYTES
        with tarfile.open(fileobj=inflated, mode="r:") as tar:
            for number, member in enumerate(tar):
                if number == MAX_MEMBERS:
                    raise tarfile.ReadError(f"more than {MAX_MEMBERS:,} members")
                inflated.left = MAX_MEMBER_BYTES
                yield tar, member
                inflated.left = MAX_MEMBER_BYTES
