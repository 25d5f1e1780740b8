"""Wanted files out of tar archives that somebody else made."""

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from trainables.datasets.source import MAX_MEMBER_BYTES
from trainables.datasets.structure import preview


def check_complete(archive: Path) -> None:
    """Read a tar archive to its end. Raises ValueError for a damaged one."""
    try:
        with tarfile.open(archive) as tar:
            for _ in tar:
                pass
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(f"{archive.name} is no complete tar archive: {error}") from error


def extract(archives: Iterable[Path], folder: Path, wanted: set[str]) -> None:
    """Put the wanted files of tar archives side by side into the folder, which appears once it is complete.

    wanted: file names without a path; where a file lies in an archive does not matter, links and other files are left.
    Raises ValueError for a member that points outside of the folder, for a file above MAX_MEMBER_BYTES, for two of one
    name, for a damaged archive, and where a wanted file is in none.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    partial.mkdir(parents=True)
    try:
        for archive in archives:
            try:
                _extract_one(archive, partial, wanted)
            except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
                raise ValueError(f"{archive}: {error}; remove it and download it again") from error
        missing = sorted(wanted - set(os.listdir(partial)))
        if missing:
            raise ValueError(f"{len(missing)} images are in no archive ({', '.join(map(str, archives))}): {preview(missing)}")
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _extract_one(archive: Path, folder: Path, wanted: set[str]) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            tarfile.data_filter(member, str(folder))  # raises FilterError for what would leave the folder, or a device
            name = PurePosixPath(member.name).name
            if not member.isfile() or name not in wanted:
                continue
            if member.size > MAX_MEMBER_BYTES:
                raise ValueError(f"{archive}: {member.name} has {member.size:,} bytes, at most {MAX_MEMBER_BYTES:,}")
            if (folder / name).exists():
                raise ValueError(f"{archive}: a second image of the name {name}: {member.name}")
            with tar.extractfile(member) as source, (folder / name).open("xb") as target:
                shutil.copyfileobj(source, target)
