"""Glyphs: letters and digits in the 12 DejaVu text faces inside matplotlib; one class a character, one image a face.

Made offline, in Omniglot's shape (many classes, few images each). These are rendered fonts, not photographs. Greyscale,
ink = 255 on 0. As 12 faces draw a character nearly alike, each image is distorted once, as a hand would.

dml: the classes of the three splits are disjoint.
ssl: SSL_CLASSES classes in every split, each with SSL_FACES of its faces for validation and as many for the test.
"""

import importlib.util
import os
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b, shake_128
from math import radians
from pathlib import Path
from types import ModuleType

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features
from scipy.ndimage import map_coordinates, maximum_filter
from scipy.special import ndtri

from trainables.datasets.structure import Plan, Recipe, Render, SplitPlan, allowed_task, fixed_order, published_name

PUBLISHED_CLASSES = 1226  # with DejaVu 2.37, the last release (2016), which matplotlib has shipped ever since
SSL_CLASSES = 200  # as many as Tiny-ImageNet has; a linear probe of all takes longer than a small training
SSL_FACES = 2  # of 12
SPLIT_FRACTIONS = {"train": 0.60, "validation": 0.15, "test": 0.25}
FACES = tuple(
    f"DejaVu{family}{style}.ttf"
    for family, slant in (("Sans", "Oblique"), ("SansMono", "Oblique"), ("Serif", "Italic"))
    for style in ("", "-Bold", f"-{slant}", f"-Bold{slant}")
)
# Upper, lower and title case, letters without case, decimal digits. Not Lm: those are small copies of other letters.
CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lo", "Nd"})
# Font size / image size. One size for all characters, as case shows in size only (o, O). At 20 of 28 px four of the
# 14,712 images have ink beyond the border; those few are shrunk.
FONT_SIZE = 20 / 28
PIXEL = 1 / 28  # of the image's side: the lengths of a distortion are written for 28 px
ROTATION, SHEAR, LOG_SCALE, SHIFT = radians(6), 0.1, 0.06, 0.5  # standard deviations; of the shift in PIXELs
DISPLACEMENT, SMOOTHNESS = 0.5, 4.0  # PIXELs: standard deviations of the displacement and of the filter that smooths it
THICKER = 0.25  # share of the images whose stroke is a PIXEL thicker
GRID = 10  # points of the displacement field along a side, for images of any size


def recipe(roots: list[Path], task: str | None = None, distortion: float = 1.0) -> Recipe:
    """The recipe for glyphs; `roots` is ignored. distortion: see `distorted`. Raises FileNotFoundError without
    matplotlib or its fonts, ValueError for an unknown task."""
    task = allowed_task("glyphs", task, ("dml", "ssl"))
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

    identity = f"{_identity(folder)}-{distortion!r}"
    if task == "ssl":
        return Recipe("glyphs", str(folder), f"{identity}-ssl", lambda: _ssl_plan(folder), renderer)
    return Recipe("glyphs", str(folder), identity, lambda: _plan(folder), renderer)


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
    bits = np.frombuffer(shake_128(name.encode()).digest(4 * (7 + 2 * GRID**2)), "<u4")
    uniform = (bits + 0.5) / 2**32
    return ndtri(uniform[1:]), float(uniform[0])


@lru_cache(maxsize=4)
def _smoothing(size: int) -> np.ndarray:
    """Weights [size, GRID] that smooth noise at GRID points along a side to deviation 1 at each of `size` pixels."""
    pixels, points = (np.arange(size) + 0.5) / size, (np.arange(GRID) + 0.5) / GRID
    weights: np.ndarray = np.exp(-(((pixels[:, None] - points) / (SMOOTHNESS * PIXEL)) ** 2) / 2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


@lru_cache(maxsize=1)  # half a second, and the same for all set-ups and sizes
def characters(folder: Path) -> tuple[str, ...]:
    """Letters and digits that all faces have, without homoglyphs: of those that share an outline the first is kept.

    Latin A, Greek Alpha and Cyrillic A have one outline in most faces. Two characters are one class as soon as a single
    face draws them alike (up to a shift, which centring removes): otherwise one image would belong to two classes.
    Outlines in font units are compared, not images, so that the list depends on neither the image size nor FreeType.
    """
    ft2font = _font_reader()
    fonts = [ft2font.FT2Font(str(folder / face)) for face in FACES]
    common = set.intersection(*(set(font.get_charmap()) for font in fonts))
    codes = [code for code in sorted(common) if unicodedata.category(chr(code)) in CATEGORIES]
    first = {code: code for code in codes}  # union-find: towards the smallest code point that looks the same

    def root(code: int) -> int:
        while first[code] != code:
            code = first[code]
        return code

    for font in fonts:
        seen: dict[bytes, int] = {}
        for code in codes:
            font.load_char(code, flags=ft2font.LoadFlags.NO_SCALE)
            vertices, _ = font.get_path()  # [k, 2]
            # as sorted complex numbers, because some twins (Ï of Latin and Greek) have their contours in another order
            outline = np.sort((vertices - vertices.min(axis=0)) @ (1, 1j))
            twin = root(seen.setdefault(outline.tobytes(), code))
            first[max(twin, root(code))] = min(twin, root(code))
    return tuple(chr(code) for code in codes if root(code) == code)


def _font_reader() -> ModuleType:
    """matplotlib's `ft2font`, which is slow to import, and needed only where the list is made.

    matplotlib refuses to be imported under an MPLBACKEND that is not installed, such as that of a notebook's terminal.
    """
    try:
        return importlib.import_module("matplotlib.ft2font")
    except ValueError:
        if (backend := os.environ.pop("MPLBACKEND", None)) is None:
            raise
        try:
            return importlib.import_module("matplotlib.ft2font")
        finally:
            os.environ["MPLBACKEND"] = backend


def _named(folder: Path) -> dict[str, str]:
    """Class name -> character."""
    return {f"U+{ord(character):04X} {unicodedata.name(character)}": character for character in characters(folder)}


def _ssl_plan(folder: Path) -> Plan:
    names = _named(folder)
    splits: dict[str, dict[str, list[tuple[str, str]]]] = {"train": {}, "validation": {}, "test": {}}
    for name in sorted(fixed_order(names, "glyphs ssl")[:SSL_CLASSES]):
        faces = fixed_order(FACES, f"glyphs ssl {name}")
        parts = (faces[2 * SSL_FACES :], faces[:SSL_FACES], faces[SSL_FACES : 2 * SSL_FACES])
        for split, chosen in zip(splits.values(), parts):
            split[name] = [(names[name], face) for face in sorted(chosen)]
    plans = {split: SplitPlan.of(classes, images_per_class=1) for split, classes in splits.items()}
    return Plan(f"glyphs-{len(splits['train'])}", 1, plans)


def _plan(folder: Path) -> Plan:
    names = _named(folder)
    shuffled = fixed_order(names, "glyphs split")
    splits, start, upto = {}, 0, 0.0
    for split, fraction in SPLIT_FRACTIONS.items():
        upto += fraction
        stop = round(upto * len(shuffled))
        chosen = {name: [(names[name], face) for face in FACES] for name in sorted(shuffled[start:stop])}
        splits[split], start = SplitPlan.of(chosen, images_per_class=2), stop
    return Plan(published_name("glyphs", len(names), len(names) == PUBLISHED_CLASSES), 1, splits)


def _font_folder() -> Path:
    """matplotlib's fonts, found without importing it (which takes longer than loading cached arrays)."""
    package = importlib.util.find_spec("matplotlib")
    if package is None:
        raise FileNotFoundError(
            "glyphs are drawn from matplotlib's fonts, and matplotlib is not installed: pip install matplotlib"
        )
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
