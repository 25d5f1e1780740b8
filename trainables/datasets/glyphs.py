"""Glyphs: letters and digits in the 12 DejaVu text faces inside matplotlib; one class a character, one image a face.

Made offline, in Omniglot's shape (many classes, few images each). These are rendered fonts, not photographs. Greyscale,
ink = 255 on 0. As 12 faces draw a character nearly alike, each image is distorted once, as a hand would.

dml: the classes of the three splits are disjoint.
ssl: SSL_CLASSES classes in every split, each with SSL_FACES of its faces for validation and as many for the test.
"""

import importlib.util
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b, shake_128
from itertools import pairwise
from math import radians
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features

from trainables.datasets.structure import Plan, Render, SplitPlan, fixed_order

SSL_CLASSES = 200  # as many as Tiny-ImageNet has; a linear probe of all takes longer than a small training
SSL_FACES = 2  # of 12
SPLITS, BOUNDS = ("train", "validation", "test"), (0, 0.60, 0.75, 1)  # shares of the classes
FACES = tuple(
    f"DejaVu{family}{style}.ttf"
    for family, slant in (("Sans", "Oblique"), ("SansMono", "Oblique"), ("Serif", "Italic"))
    for style in ("", "-Bold", f"-{slant}", f"-Bold{slant}")
)
# Font size / image size. One size for all characters, as case shows in size only (o, O). At 20 of 28 px four of the
# 14,712 images have ink beyond the border; those few are shrunk.
FONT_SIZE = 20 / 28
PIXEL = 1 / 28  # of the image's side: the lengths of a distortion are written for 28 px
ROTATION, SHEAR, LOG_SCALE, SHIFT = radians(6), 0.1, 0.06, 0.5  # standard deviations; of the shift in PIXELs
DISPLACEMENT, SMOOTHNESS = 0.5, 4.0  # PIXELs: standard deviations of the displacement and of the filter that smooths it
THICKER = 0.25  # share of the images whose stroke is a PIXEL thicker
GRID = 10  # points of the displacement field along a side, for images of any size
CHARACTERS = """
30-39 41-5A 61-7A AA B5 BA C0-D6 D8-F6 F8-10F 111-12B 12D-188 18A-1C3 1CD-1DD 1DF-1E3 1E6-1EF 1F4-1F6 1F8-1F9 1FC-21F
221 224-241 243-245 24C-24D 250-258 25A-2AF 386 388-38A 38C 38E-390 393-394 398 39E 3A0 3A6 3A8-3A9 3AC-3B0 3B2-3B4
3B6 3B8 3BB 3BD-3BE 3C1-3CB 3CD-3CE 3D0-3D4 3D6-3DB 3DD-3E1 3F0-3F1 3F5 3FA-3FC 3FE-3FF 402-404 409-40F 414 416
418-419 41B 423-424 426-42F 431 433-434 436 439 43B-43C 444 446-44F 452-453 459-45F 462-463 490-49B 4A2-4A5 4AC-4AD
4AF-4B3 4BA 4C1-4C4 4C7-4C8 4CB-4CC 4DA-4DF 4E2-4E5 4EA-4EE 4F0 4F2-4F9 531-54C 54E-554 556 561-56F 571-574 576-577
579-57C 57E-584 586-587 10D0-10FA 1D02 1D08-1D09 1D14 1D16-1D17 1D1D-1D1F 1D77 1D7B 1D85 1E00-1E13 1E18-1E2D 1E30-1E4D
1E54-1E63 1E68-1E79 1E7C-1E99 1E9B 1EA0-1EA1 1EAC-1EAD 1EB0-1EB1 1EB6-1EB9 1EBC-1EBD 1EC6-1EC7 1ECA-1ECD 1ED8-1EDD
1EE0-1EE5 1EE8-1EEB 1EEE-1EF5 1EF8-1EF9 1F00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F70
1F72 1F74 1F76 1F7A 1F7C 1F80-1FB4 1FB6-1FB7 1FBA 1FBC 1FBE 1FC2-1FC4 1FC6-1FC8 1FCA 1FCC 1FD0-1FD2 1FD6-1FD7 1FDA
1FE0-1FE2 1FE4-1FE8 1FEA 1FEC 1FF2-1FF4 1FF6-1FF8 1FFA 1FFC 210F 2C64 2C6D-2C70 2C75-2C77 2C79-2C7A 2C7E-2C7F
A726-A727 A78B-A78C A790-A791 A7AA FB01-FB02
"""
"""Code points (hexadecimal, ranges) of the letters and digits that all faces have, without homoglyphs.

Categories Lu, Ll, Lt, Lo and Nd; not Lm, which are small copies of other letters. Of characters that share an outline
in one face, up to a shift, the first is kept: Latin A, Greek Alpha and Cyrillic A have one outline in most faces, and
one image would belong to two classes. Found in the outlines of DejaVu 2.37, the last release (2016), which matplotlib
has shipped ever since.
"""


def plan(roots: list[Path], task: str | None = None, distortion: float = 1.0) -> Plan:
    """The plan of glyphs; `roots` is ignored. distortion: see `distorted`. Raises FileNotFoundError without
    matplotlib's fonts."""
    folder = _font_folder()

    @contextmanager
    def renderer(image_size: int) -> Iterator[Render]:
        """Open the fonts for images of so many pixels; items are (character, face)."""
        size = round(FONT_SIZE * image_size)
        # the basic layout: raqm, where a machine has it, would place marks differently
        fonts = {
            face: ImageFont.truetype(str(folder / face), size, layout_engine=ImageFont.Layout.BASIC) for face in FACES
        }
        one_at_a_time = threading.Lock()  # FreeType's faces are stateful; drawing holds Python's lock anyway

        def render(item: tuple[str, str]) -> np.ndarray:
            with one_at_a_time:
                image = draw_glyph(fonts[item[1]], item[0], image_size)
            return distorted(image, distortion, " ".join(item)) if distortion else image

        yield render

    splits = _ssl_splits() if task == "ssl" else _splits()
    name = f"glyphs-{len(splits['train'].classes)}" if task == "ssl" else "glyphs"
    return Plan(name, 1, splits, str(folder), f"{_identity(folder)}-{distortion!r}", renderer)


def draw_glyph(font: ImageFont.FreeTypeFont, character: str, image_size: int) -> np.ndarray:
    """Draw a character: uint8 [1, image_size, image_size], its ink centred, shrunk (aspect kept) if it does not fit."""
    canvas = Image.new("L", (3 * image_size, 3 * image_size))
    ImageDraw.Draw(canvas).text((image_size, image_size), character, fill=255, font=font)
    ink = canvas.crop(canvas.getbbox())  # font.getbbox would include the space around a letter
    side = max(*ink.size, image_size)
    image = Image.new("L", (side, side))
    image.paste(ink, ((side - ink.width) // 2, (side - ink.height) // 2))
    if side > image_size:
        image = image.resize((image_size, image_size), Image.Resampling.BILINEAR)
    return np.asarray(image)[None]


def distorted(image: np.ndarray, strength: float, name: str) -> np.ndarray:
    """An image uint8 [1, s, s] after a random affine map and a smooth displacement, some with a thicker stroke.

    strength: a factor of all standard deviations and of THICKER. name: draws the random numbers, the same at any size.
    """
    from scipy.ndimage import map_coordinates, maximum_filter  # here, as trainings on cached arrays need no scipy

    size = image.shape[-1]
    normals, thick = _draws(name)
    angle, shear, log_height, log_width, *shift = strength * normals[:6]
    cos, sin = np.cos(ROTATION * angle), np.sin(ROTATION * angle)
    matrix = (
        np.array([[cos, -sin], [sin, cos]])
        @ [[1, SHEAR * shear], [0, 1]]
        @ np.diag(np.exp([LOG_SCALE * log_height, LOG_SCALE * log_width]))
    )
    weights = _smoothing(size)
    smooth = strength * DISPLACEMENT * (weights @ normals[6:].reshape(2, GRID, GRID) @ weights.T).reshape(2, -1)
    middle = (size - 1) / 2
    places = matrix @ (np.indices((size, size)).reshape(2, -1) - middle) + middle  # [2, s * s], rows and columns
    places += PIXEL * size * (smooth + SHIFT * np.array(shift)[:, None])
    ink = image[0].astype(np.float32)
    if thick < THICKER * strength:
        ink = maximum_filter(ink, size=1 + max(1, round(PIXEL * size)))
    moved: np.ndarray = map_coordinates(ink, places, order=1, output=np.float32)
    return moved.round().astype(np.uint8).reshape(1, size, size)


def _draws(name: str) -> tuple[np.ndarray, float]:
    """The random numbers of a name: normal ones [6 + 2·GRID²] and a uniform one. A hash, as in `fixed_order`."""
    from scipy.special import ndtri

    bits = np.frombuffer(shake_128(name.encode()).digest(4 * (7 + 2 * GRID**2)), "<u4")
    uniform = (bits + 0.5) / 2**32
    return ndtri(uniform[1:]), float(uniform[0])


@lru_cache(maxsize=4)
def _smoothing(size: int) -> np.ndarray:
    """Weights [size, GRID] that smooth noise at GRID points along a side to deviation 1 at each of `size` pixels."""
    pixels, points = (np.arange(size) + 0.5) / size, (np.arange(GRID) + 0.5) / GRID
    weights: np.ndarray = np.exp(-(((pixels[:, None] - points) / (SMOOTHNESS * PIXEL)) ** 2) / 2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


@lru_cache(maxsize=1)
def characters() -> dict[str, str]:
    """Class name -> character, for all CHARACTERS."""
    ranges = [[int(code, 16) for code in item.split("-")] for item in CHARACTERS.split()]
    found = [chr(code) for ends in ranges for code in range(ends[0], ends[-1] + 1)]
    return {f"U+{ord(character):04X} {unicodedata.name(character)}": character for character in found}


def _ssl_splits() -> dict[str, SplitPlan]:
    names = characters()
    splits: dict[str, dict[str, list[tuple[str, str]]]] = {split: {} for split in SPLITS}
    for name in sorted(fixed_order(names, "glyphs ssl")[:SSL_CLASSES]):
        faces = fixed_order(FACES, f"glyphs ssl {name}")
        parts = (faces[2 * SSL_FACES :], faces[:SSL_FACES], faces[SSL_FACES : 2 * SSL_FACES])
        for split, chosen in zip(splits.values(), parts):
            split[name] = [(names[name], face) for face in sorted(chosen)]
    return {split: SplitPlan(classes, images_per_class=1) for split, classes in splits.items()}


def _splits() -> dict[str, SplitPlan]:
    names = characters()
    shuffled = fixed_order(names, "glyphs split")
    bounds = pairwise(round(share * len(shuffled)) for share in BOUNDS)
    return {
        split: SplitPlan({name: [(names[name], face) for face in FACES] for name in sorted(shuffled[start:stop])}, 2)
        for split, (start, stop) in zip(SPLITS, bounds)
    }


def _font_folder() -> Path:
    """matplotlib's fonts, found without importing it (which takes longer than loading cached arrays)."""
    package = importlib.util.find_spec("matplotlib")  # which this package requires
    folder = Path(package.submodule_search_locations[0]) / "mpl-data" / "fonts" / "ttf"
    if missing := [face for face in FACES if not (folder / face).is_file()]:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)}; expected are the 12 DejaVu faces of a pip-installed matplotlib"
        )
    return folder


def _identity(folder: Path) -> str:
    """Digest of the faces and of the rasteriser's version."""
    digest = blake2b(features.version("freetype2").encode(), digest_size=16)
    for face in FACES:
        digest.update((folder / face).read_bytes())
    return digest.hexdigest()
