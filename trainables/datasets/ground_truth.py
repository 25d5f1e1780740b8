"""The ground truth of revisited Oxford and Paris, a pickle that is read without running any code of it."""

import io
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LISTS = ("easy", "hard", "junk")
_KIND = re.compile(r"[<>|=]?[biufSU]\d{0,9}")  # numbers and text
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # it becomes part of a path


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

    @property
    def images(self) -> tuple[str, ...]:
        """The database's, then the queries'."""
        return (*self.database, *self.queries)


def load_ground_truth(path: Path) -> GroundTruth:
    """Read and check gnd_<name>.pkl, a dict of imlist, qimlist and gnd (a list of {bbx, easy, hard, junk}).

    Raises ValueError naming anything but plain data and numpy's arrays that the pickle asks for (nothing of it is run),
    and for wrong or damaged content.
    """
    try:
        # latin1: numpy's arrays pickled by Python 2 need it, and the names are ASCII
        return _checked(_PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load())
    except OSError:
        raise
    except Exception as error:  # wrong bytes may make the unpickler raise anything
        raise ValueError(f"{path} is no ground truth: {type(error).__name__}: {error}") from error


class _Type:
    """Stands for numpy.dtype in a pickle, which takes any state from the file, and crashes on a damaged one."""

    def __init__(self, kind: str, *_: Any):
        if not _KIND.fullmatch(kind):
            raise ValueError(f"it asks for an array of {kind!r}; numbers and text are allowed")
        self.numpy = np.dtype(kind)

    def __setstate__(self, state: tuple) -> None:
        self.numpy = self.numpy.newbyteorder(state[1])


class _Array(list):
    """Stands for numpy.ndarray in a pickle: a list, filled from bytes of exactly the right number."""

    def __init__(self, *_: Any):
        super().__init__()

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, data = state
        self[:] = np.frombuffer(data, kind.numpy).reshape(shape, order="F" if fortran else "C").tolist()


CALLS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): lambda kind, data: np.frombuffer(data, kind.numpy, 1)[0],
    ("numpy.core.numeric", "_frombuffer"): lambda data, kind, *_: np.frombuffer(data, kind.numpy),
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # how Python 3 writes bytes for Python 2
}
"""What a pickle of plain data and flat arrays calls, each replaced by a function that makes nothing else."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core.", "numpy.core.")  # the name since and before numpy 2
        if (module, name) not in CALLS:
            raise ValueError(f"it asks for {module}.{name}; allowed are plain data and numpy arrays")
        return CALLS[module, name]


def checked_positions(lists: Mapping[str, Sequence[int]], images: int, query: str) -> dict[str, np.ndarray]:
    """The lists easy, hard and junk of a query, int64 positions in a database of so many images. Raises ValueError for
    other positions, and for an image in two places."""
    positions = {name: np.asarray(lists[name]).ravel() for name in LISTS}
    for name, listed in positions.items():
        if listed.dtype.kind not in "iuf" or not np.isin(listed, range(images)).all():  # an empty list is of floats
            raise ValueError(f"{query}: {name} has a position that is not an integer of 0 to {images - 1}")
    every = np.concatenate(list(positions.values()))
    if len(np.unique(every)) != len(every):
        raise ValueError(f"{query}: an image is twice in the lists easy, hard and junk")
    return {name: listed.astype(np.int64) for name, listed in positions.items()}


def _checked(content: Any) -> GroundTruth:
    database, queries = (tuple(map(str, content[key])) for key in ("imlist", "qimlist"))
    boxes = np.array([entry["bbx"] for entry in content["gnd"]], dtype=np.float64)
    for names in (database, queries):
        if odd := [name for name in names if not _NAME.fullmatch(name)]:
            raise ValueError(f"{odd[0]!r} is a name; letters, digits, '_', '.' and '-' are expected")
    if boxes.shape != (len(queries), 4) or not (boxes[:, :2] < boxes[:, 2:]).all():
        raise ValueError("every query needs a box bbx, x0 < x1 and y0 < y1 in [x0, y0, x1, y1]")
    relevant = tuple(checked_positions(one, len(database), query) for query, one in zip(queries, content["gnd"]))
    return GroundTruth(database, queries, boxes, relevant)
