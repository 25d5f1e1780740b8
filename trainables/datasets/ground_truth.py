"""The ground truth of revisited Oxford and Paris, a pickle that is read without running any code of it."""

import io
import pickle
import re
import reprlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

MAX_BYTES = 8 * 2**20  # the published files have less than 1 MB
MAX_PAIRS = 10**8  # of a query and an image: each has a similarity; published are 442,540
LISTS = ("easy", "hard", "junk")

_KIND = re.compile(r"[<>|=]?[biufSU]\d{0,9}")  # numbers and text
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # it becomes part of a path
_DAMAGED = (
    pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError,
    UnicodeDecodeError, ValueError, struct.error,
)  # fmt: skip


@dataclass(frozen=True)
class GroundTruth:
    """The images of the database and of the queries, and each query's relevant images.

    database, queries: names of images, without extension.  boxes: float64 [queries, 4], x0, y0, x1, y1 in px.
    relevant: for every query {"easy", "hard", "junk"} -> int64 positions in the database.
    """

    database: tuple[str, ...]
    queries: tuple[str, ...]
    boxes: np.ndarray
    relevant: tuple[dict[str, np.ndarray], ...]


def load_ground_truth(path: Path) -> GroundTruth:
    """Read and check gnd_<name>.pkl, a dict of imlist, qimlist and gnd (a list of {bbx, easy, hard, junk}).

    Only dicts, lists, tuples, text, bytes, numbers and numpy's arrays of numbers or text are read. Raises ValueError
    naming anything else that the pickle asks for (nothing of it is run), and for wrong or damaged content.
    """
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} are read")
    try:
        # latin1: numpy's arrays pickled by Python 2 need it, and the names are ASCII
        content = _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except _Refused as error:
        raise ValueError(f"{path} is refused: {error}") from None
    except _DAMAGED as error:
        raise ValueError(f"{path} is not a readable ground truth: {error}") from error
    try:
        return _checked(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class _Refused(ValueError):
    """A pickle asks for something that is not plain data."""


class _PlainUnpickler(pickle._Unpickler):
    """Reads plain data only. In Python, as the C unpickler allocates its memo up to any index that a file names: 64 GB
    for ten bytes."""

    def find_class(self, module: str, name: str) -> Any:
        known = _constructors()
        for package in ("numpy._core.", "numpy.core."):  # the name before and since numpy 2
            if module.startswith(package):
                module = "numpy.core." + module.removeprefix(package)
        if (module, name) not in known:
            raise _Refused(f"it asks for {module}.{name}; allowed are plain data and numpy arrays")
        return known[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"it refers to an object outside of the file, {reprlib.repr(pid)}")

    def load_bytearray8(self) -> None:  # pickle's allocates before it checks the size
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    dispatch = pickle._Unpickler.dispatch | {pickle.BYTEARRAY8[0]: load_bytearray8}


class _Type:
    """Stands for numpy.dtype in a pickle, whose own __setstate__ would take more than a byte order from the file."""

    __slots__ = ("numpy",)

    def __init__(self, kind: Any):
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise _Refused(f"it asks for an array of {reprlib.repr(kind)}; numbers and text are allowed")
        self.numpy = np.dtype(kind)

    def __setstate__(self, state: tuple) -> None:
        _, order, *rest = state
        if any(part is not None for part in rest[:3]):
            raise _Refused("it asks for a structured array")
        self.numpy = self.numpy.newbyteorder(order)


class _Array:
    """Stands for numpy.ndarray in a pickle: filled from bytes of exactly the right number."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray | None = None):
        self.value = value

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, data = state
        self.value = np.frombuffer(data, dtype=kind.numpy).reshape(shape, order="F" if fortran else "C")


def _constructors() -> dict[tuple[str, str], Callable | str]:
    """The functions that a pickle of plain arrays calls, each replaced by one that makes only such arrays and bytes.

    The functions are made anew for every use, because a pickle can set attributes of objects that it gets.
    """

    def scalar(kind: _Type, data: bytes) -> Any:
        return np.frombuffer(data, dtype=kind.numpy, count=1)[0]

    def from_buffer(buffer: bytes, kind: _Type, shape: tuple[int, ...], order: str) -> _Array:
        return _Array(np.frombuffer(buffer, dtype=kind.numpy).reshape(shape, order=order))

    def encode(text: str, encoding: str) -> bytes:  # how Python 3 writes bytes for Python 2
        if encoding != "latin1":
            raise _Refused(f"it asks for the encoding {encoding!r}")
        return text.encode("latin1")

    return {
        ("numpy", "ndarray"): "ndarray",
        ("numpy", "dtype"): lambda kind, *_: _Type(kind),
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy.core.multiarray", "scalar"): scalar,
        ("numpy.core.numeric", "_frombuffer"): from_buffer,
        ("_codecs", "encode"): encode,
    }


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _checked(content: Any) -> GroundTruth:
    if not isinstance(content, dict) or not {"imlist", "qimlist", "gnd"} <= set(content):
        raise ValueError("a dict with imlist, qimlist and gnd is expected")
    database, queries = (_names(_plain(content[key]), key) for key in ("imlist", "qimlist"))
    if len(database) * len(queries) > MAX_PAIRS:
        raise ValueError(f"{len(queries):,} queries of {len(database):,} images; at most {MAX_PAIRS:,} pairs are read")
    gnd = _plain(content["gnd"])
    if not isinstance(gnd, list | tuple) or len(gnd) != len(queries):
        raise ValueError(f"gnd must be a list of {len(queries)} dicts, as many as qimlist has names")
    boxes, relevant = [], []
    for query, entry in zip(queries, gnd, strict=True):
        if not isinstance(entry, dict) or not {"bbx", *LISTS} <= set(entry):
            raise ValueError(f"the entry of query {query} must be a dict with bbx, {', '.join(LISTS)}")
        boxes.append(_box(_plain(entry["bbx"]), query))
        lists = {name: _positions(_plain(entry[name]), f"{name} of query {query}", len(database)) for name in LISTS}
        relevant.append(lists)
        every = np.concatenate(list(lists.values()))
        if len(np.unique(every)) != len(every):
            raise ValueError(f"query {query} has an image twice in easy, hard and junk")
    return GroundTruth(database, queries, np.array(boxes), tuple(relevant))


def _names(values: Any, key: str) -> tuple[str, ...]:
    listed = isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not listed or not len(values):
        raise ValueError(f"{key} must be a list of image names")
    for name in values:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{key} has {reprlib.repr(name)}; names of letters, digits, '_', '.' and '-' are expected")
    if len(set(values)) != len(values):
        raise ValueError(f"{key} has a name twice")
    return tuple(map(str, values))


def _box(value: Any, query: str) -> np.ndarray:
    """[x0, y0, x1, y1] as float64."""
    try:
        box = np.array(_flat(value), dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        box = np.empty(0)
    if box.shape != (4,) or not np.isfinite(box).all() or box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError(
            f"bbx of query {query} is {reprlib.repr(value)}; x0 < x1 and y0 < y1 in [x0, y0, x1, y1] are expected"
        )
    return box


def _positions(value: Any, what: str, images: int) -> np.ndarray:
    """Positions in the database as int64 [n]; an empty list has any type."""
    try:
        positions = np.array(_flat(value))
    except ValueError:
        positions = np.empty((1, 1))
    if positions.size == 0:
        return np.empty(0, dtype=np.int64)
    if positions.dtype.kind == "f" and (positions == np.round(positions)).all() and np.isfinite(positions).all():
        positions = positions.astype(np.int64)  # whole numbers, as Matlab writes them
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(f"{what} must be a list of integers, not {reprlib.repr(value)}")
    if positions.min() < 0 or positions.max() >= images:
        raise ValueError(f"{what} has positions from {positions.min()} to {positions.max()}; 0 to {images - 1} exist")
    return positions.astype(np.int64)


def _flat(values: Any) -> Any:
    """The values, a flat list of numbers. Raises ValueError for others: from a few bytes of nested lists numpy would
    make an array of any size."""
    if not isinstance(values, np.ndarray) and not (
        isinstance(values, list | tuple) and all(isinstance(value, Real) for value in values)
    ):
        raise ValueError("not a list of numbers")
    return values
