"""Image files in directories or zip archives, listed and read the same way.

Archives are read in memory, never extracted.
"""

import errno
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from trainables.datasets.remote import content
from trainables.datasets.structure import Render, UndecodableImage

# Photographs from the web (Landmarks, a user's folder) come from cameras of up to 50 Mpx; the other datasets stay below
# 1 Mpx and 1 MB. A file of a few kB can claim gigapixels, and every thread decodes one in memory: hence limits.
MAX_MEMBER_BYTES = 64 * 2**20
MAX_PIXELS = 64 * 10**6  # 192 MB as RGB

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")

ABSENT = (errno.ENOENT, errno.ELOOP)
"""Errors of a link to a file that is absent, or to itself."""


@dataclass(frozen=True)
class Member:
    """One file: the directory or archive it lies in, its size in bytes, a stamp (CRC-32 in a zip, else mtime in ns)."""

    root: Path
    size: int
    stamp: int


@dataclass(frozen=True)
class Source:
    """The wanted files below some directories and archives.

    wanted: a pattern that finds their names ('/' between the parts). Names inside an archive are the archive's own;
    names below a directory begin with the directory's own name.
    """

    roots: tuple[Path, ...]
    wanted: re.Pattern[str]

    @cached_property
    def listing(self) -> list[tuple[str, Member]]:
        """(name, file) of every file, wanted or not, except those of tools (`_is_hidden`).

        Raises ValueError for an incomplete archive, OSError for a folder that cannot be listed.
        """
        return [file for root in self.roots for file in (_list_zip(root) if root.is_file() else _list_directory(root))]

    @cached_property
    def members(self) -> dict[str, Member]:
        """Every wanted file by its name. Raises as `listing`."""
        return {name: member for name, member in self.listing if self.wanted.search(name)}

    def top(self, marks: Iterable[str], layout: str) -> str:
        """What names begin with up to these files. Raises ValueError unless there is one of each, in one folder."""
        found = [(name, mark) for name in self.members for mark in marks if name == mark or name.endswith(f"/{mark}")]
        tops = {name.removesuffix(mark) for name, mark in found}
        if len(tops) != 1 or {mark for _, mark in found} != set(marks):
            listed = [name for name, _ in found]
            raise ValueError(f"{self.location}: not one of each of {marks} (found: {listed}). Expected: {layout}")
        return tops.pop()

    @property
    def location(self) -> str:
        return ", ".join(map(str, self.roots))

    def identity(self) -> str:
        """Digest of every name and size, and of the CRC (archive) or time of change (directory), but not of the path.

        For data from a URI it covers their SHA-256 instead, so that it is the same on every machine.
        """
        digest = blake2b(digest_size=16)
        for root in self.roots:
            if known := content(root):
                digest.update(known.encode())
            else:
                files = [(name, file.size, file.stamp) for name, file in self.members.items() if file.root == root]
                digest.update(repr(sorted(files)).encode())
        return digest.hexdigest()

    @contextmanager
    def reader(self) -> Iterator[Callable[[str], bytes]]:
        """Yield a function name -> bytes that many threads may call.

        It raises UndecodableImage for a file above MAX_MEMBER_BYTES, a link to a file that is absent, and an archive
        member that is damaged, encrypted, or compressed but not by deflate.
        All threads share one handle of an archive: ZipFile locks it for a member's raw bytes only, and inflates and
        checks them outside of the lock. A handle of its own would cost each thread a listing of the archive.
        """
        with ExitStack() as stack:
            archives = {root: stack.enter_context(_open_zip(root)) for root in self.roots if root.is_file()}

            def read(name: str) -> bytes:
                root, size = self.members[name].root, self.members[name].size
                if size > MAX_MEMBER_BYTES:
                    raise UndecodableImage(f"{root}: {name} has {size:,} bytes, at most {MAX_MEMBER_BYTES:,} are read")
                try:
                    return _read_member(archives[root], name) if root in archives else (root.parent / name).read_bytes()
                except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # the last: it is encrypted
                    raise UndecodableImage(f"{root}: {name}: {error}") from error
                except OSError as error:
                    if error.errno not in ABSENT:
                        raise
                    raise UndecodableImage(f"{root.parent / name}: {error.strerror}") from error

            yield read

    @contextmanager
    def photographs(self, image_size: int, mode: str = "RGB", negative: bool = False) -> Iterator[Render]:
        """A `Plan`'s renderer: name -> uint8 [c, image_size, image_size]; mode: see `decode_image`. See `reader`."""
        with self.reader() as read:

            def render(name: str) -> np.ndarray:
                pixels = np.atleast_3d(decode_image(read(name), mode, image_size)).transpose(2, 0, 1)
                return 255 - pixels if negative else pixels

            yield render


@contextmanager
def opened_image(data: bytes, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Context of an image of at most MAX_PIXELS. Raises UndecodableImage, also for what decoding it in there raises."""
    try:
        with Image.open(BytesIO(data), formats=formats) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels, at most {MAX_PIXELS:,} are decoded")
            yield image
    except UnidentifiedImageError as error:
        raise UndecodableImage("of no known format") from error
    except (OSError, SyntaxError, EOFError, ValueError, Image.DecompressionBombError) as error:
        # Pillow raises all of these on damaged files, SyntaxError too ("broken PNG file").
        raise UndecodableImage(str(error)) from error


def decode_image(data: bytes, mode: str, size: int) -> Image.Image:
    """Decode an image file of one of FORMATS to size x size px.

    It is turned upright by its EXIF orientation, put on white where it is transparent, centre-cropped if it is not
    square, antialiased if it shrinks. Of several frames or pages the first is taken.
    mode: "L" or "RGB" (a greyscale image gets three equal channels); 16 bits of grey become 8. Raises UndecodableImage.
    """
    with opened_image(data) as image:
        image.load()  # Pillow turns a TIFF upright here
        fitted = _fitted(_of_eight_bits(image), mode, size)
        fitted.info = image.info  # with the EXIF
        return _upright(fitted)


def _fitted(image: Image.Image, mode: str, size: int) -> Image.Image:
    """Fit an image to size x size px. Transparency is resolved last: Pillow weights colours by it when it shrinks."""
    if image.mode not in ("LA", "PA", "RGBA", "RGBa") and "transparency" not in image.info:
        return ImageOps.fit(image.convert(mode), (size, size), Image.Resampling.BILINEAR)
    fitted = ImageOps.fit(image.convert("RGBA"), (size, size), Image.Resampling.BILINEAR)
    return Image.alpha_composite(Image.new("RGBA", fitted.size, "white"), fitted).convert(mode)


def _of_eight_bits(image: Image.Image) -> Image.Image:
    """Scale grey of 16 bits, 0 to 65535, to 0 to 255; Pillow would cut it off at 255. Raises ValueError for 32 bits a
    pixel, of which the value of white is unknown."""
    if image.mode in ("I", "F"):
        raise ValueError(f"greyscale of 32 bits a pixel (mode {image.mode}), 8 and 16 are decoded")
    if not image.mode.startswith("I;16"):
        return image
    return Image.fromarray(((np.asarray(image).astype(np.int32) + 128) // 257).astype(np.uint8))


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, struct.error):  # damaged EXIF spoils no pixels
        return image


def find_place(
    dataset: str, roots: list[Path], *, folders: tuple[str, ...], marks: tuple[str, ...],
    archives: tuple[str, ...] = (), layout: str, origin: str,
) -> Path:  # fmt: skip
    """The dataset's folder or archive in the first root that has one.

    folders: names of the folder below a root; the root itself may be the folder.  marks: what it holds.  archives:
    their names below a root; a root that is a file is the archive itself. Raises as `missing_data`.
    """
    for root in roots:
        for place in (root, *(root / folder for folder in folders)):
            if all((place / mark).exists() for mark in marks):
                return place
        for archive in (root, *(root / name for name in archives)) if archives else ():
            if archive.is_file():
                return archive
    raise missing_data(dataset, roots, layout, f"{origin}, or add --download")


def missing_data(dataset: str, tried: list[Path], layout: str, origin: str) -> FileNotFoundError:
    """The error for data that is not found: places tried, expected layout, origin."""
    places = ", ".join(map(str, tried))
    return FileNotFoundError(
        f"no {dataset} data found in {places}; another place is named by --data-root or $TUNE_CD_DATA\n"
        f"Expected: {layout}\nGet it from: {origin}"
    )


def _open_zip(path: Path) -> zipfile.ZipFile:
    """The archive, with names as of folders: Windows' old tools part them by backslashes, others begin with "./"."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        with suppress(EOFError, zlib.error):  # a compressed one that breaks off
            if tarfile.is_tarfile(path):
                raise ValueError(f"{path} is a tar archive; unpack it (tar -xf), and name the folder") from error
        raise ValueError(f"{path} is not a complete zip archive; name a folder, or download it again") from error
    for info in archive.infolist():
        of_windows = info.create_system == 0
        info.filename = re.sub(r"^(\./+)+", "", info.filename.replace("\\", "/") if of_windows else info.filename)
    archive.NameToInfo = {info.filename: info for info in archive.infolist()}
    return archive


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The member's bytes, inflated no further than its claimed size; `ZipFile.read` would inflate all, then cut."""
    info = archive.getinfo(name)
    # with other compressions zipfile inflates all that it has read
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("it is compressed, and not by deflate; only that is read")
    with archive.open(info) as member:
        return member.read(info.file_size)


def _list_zip(path: Path) -> Iterator[tuple[str, Member]]:
    with _open_zip(path) as archive:
        for info in archive.infolist():
            if not info.is_dir() and not _is_hidden(info.filename):
                yield info.filename, Member(path, info.file_size, info.CRC)


def _list_directory(top: Path) -> Iterator[tuple[str, Member]]:
    """The regular files below a directory. Links are followed, but not to a folder that is already above itself; one to
    a file that is absent has size 0. (A pipe or a device would be read without end.)"""
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(top.name, frozenset())]
    while waiting:
        prefix, above = waiting.pop()
        status = (top.parent / prefix).stat()
        if (own := (status.st_dev, status.st_ino)) in above:
            continue
        with os.scandir(top.parent / prefix) as entries:
            for entry in entries:
                name = f"{prefix}/{entry.name}"
                if _is_hidden(entry.name):
                    continue
                try:
                    status = entry.stat()
                except OSError as error:
                    if error.errno not in ABSENT:
                        raise
                    yield name, Member(top, 0, 0)
                    continue
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((name, above | {own}))
                elif stat.S_ISREG(status.st_mode):
                    yield name, Member(top, status.st_size, status.st_mtime_ns)


def _is_hidden(name: str) -> bool:
    """Whether it is a tool's file beside the data: .ipynb_checkpoints, .git, ._files and __MACOSX of macOS."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
