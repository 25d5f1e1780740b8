"""A tiny copy of a revisited benchmark: images, and ground truth in a pickle."""

import pickle

import numpy as np
import pytest
from datafiles import encoded, write_folder

COLOURS = ((220, 30, 30), (30, 200, 40), (30, 40, 220))
SIZES = ((40, 30), (30, 44), (36, 36))  # width, height
NAMES = [f"scene{colour}_{number:06d}" for colour in range(3) for number in range(4)]


def image_files() -> dict[str, bytes]:
    """Twelve images of three colours; queries show their scene left of x = 32 px and the next scene to the right of
    it."""
    files = {}
    for index, name in enumerate(NAMES):
        width, height = SIZES[index % 3]
        files[name] = encoded(np.full((height, width, 3), COLOURS[index // 4], dtype=np.uint8), "JPEG")
    for query, colour in enumerate(COLOURS):
        pixels = np.full((32, 96, 3), COLOURS[(query + 1) % 3], dtype=np.uint8)
        pixels[:, :32] = colour
        files[f"query_{query}"] = encoded(pixels, "JPEG")
    return files


def ground_truth() -> dict:
    """Scene q answers query q: two images easy, one hard, one junk; in the types that real files mix."""
    gnd = []
    for query in range(3):
        first = 4 * query
        gnd.append({
            "bbx": [0.2, 0.0, np.float64(31.7), 32.0], "easy": np.array([first, first + 1]), "hard": [first + 2],
            "junk": [np.int64(first + 3)] if query else [],
        })  # fmt: skip
    gnd[0]["junk"] = np.array([3], dtype=">i4")
    queries = [f"query_{query}" for query in range(3)]
    return {"imlist": NAMES, "qimlist": queries, "gnd": gnd, "simlist": [], "note": b"bytes"}


def write_truth(path, content=None, protocol=pickle.DEFAULT_PROTOCOL):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(ground_truth() if content is None else content, protocol))
    return path


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data" / "roxford5k"
    write_folder(folder / "jpg", {f"{name}.jpg": data for name, data in image_files().items()})
    write_truth(folder / "gnd_roxford5k.pkl")
    return tmp_path / "data"
