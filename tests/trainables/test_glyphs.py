"""Glyphs: their classes and splits, how they are drawn, and that they are distorted once, as a hand would."""

from hashlib import blake2b

import numpy as np
import pytest
from datafiles import splits

from trainables.datasets import check_source, glyphs, load_dataset

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("task, name, classes, faces, digest", [
    ("dml", "glyphs", [736, 184, 306], [12, 12, 12], "fd4241ade3c0ffe3"),
    ("ssl", "glyphs-200", [200, 200, 200], [8, 2, 2], "31c50f6ca309f045"),
])  # fmt: skip
def test_classes_and_faces_of_the_splits(task, name, classes, faces, digest):
    """In dml disjoint classes of all faces, in ssl all classes of disjoint faces. Pinned, as results depend on it."""
    plan = glyphs.plan([], task)
    parts = list(plan.splits.values())
    assert plan.name == name and [len(split.class_names) for split in parts] == classes
    assert [set(np.bincount(split.labels)) for split in parts] == [{count} for count in faces]
    assert len({item for split in parts for item in split.items}) == 12 * (1226 if task == "dml" else 200)
    train = "\n".join(parts[0].class_names) if task == "dml" else repr(sorted(parts[0].items))
    assert blake2b(train.encode(), digest_size=8).hexdigest() == digest
    if task == "dml":
        everything = {name for split in parts for name in split.class_names}
        assert {"U+0041 LATIN CAPITAL LETTER A", "U+006F LATIN SMALL LETTER O", "U+0037 DIGIT SEVEN"} <= everything
        assert not {"U+0391 GREEK CAPITAL LETTER ALPHA", "U+0410 CYRILLIC CAPITAL LETTER A"} & everything
    else:
        assert len({split.class_names for split in parts}) == 1
        assert all({face for _, face in split.items} == set(glyphs.FACES) for split in parts)


@pytest.mark.parametrize("face", ["DejaVuSans.ttf", "DejaVuSerif-BoldItalic.ttf"])
@pytest.mark.parametrize("size", [16, 28, 64])
def test_glyphs_are_centred_and_whole(face, size):
    with glyphs.plan([], distortion=0.0).renderer(size) as render:
        images = {character: render((character, face)) for character in "oO1Ж\u1e9e"}
    for image in images.values():
        assert image.shape == (1, size, size) and image.dtype == np.uint8
        assert image.max() > 100 and np.median(image) == 0
        for axis in (0, 1):
            line = np.flatnonzero(image[0].any(axis=axis))
            assert abs(line[0] - (size - 1 - line[-1])) <= 2
    assert (images["O"] > 0).sum() > (images["o"] > 0).sum()


@pytest.mark.slow
def test_all_glyphs():
    dataset, owners = load_dataset("glyphs", image_size=28), {}
    images = np.concatenate([split.images for split in splits(dataset)])
    assert images.shape == (12 * 1226, 1, 28, 28)
    assert images.max(axis=(1, 2, 3)).min() > 100, "every image has ink"
    names = np.concatenate([np.array(split.class_names)[split.labels] for split in splits(dataset)])
    for image, name in zip(images, names, strict=True):
        assert owners.setdefault(image.tobytes(), name) == name, "one image in two classes"
    assert check_source("glyphs", "/nowhere").training_classes == len(dataset.train.class_names)


def ring(size):
    """A ring with soft edges: uint8 [1, size, size]."""
    away = np.hypot(*((np.indices((size, size)) + 0.5) / size - 0.5))
    return (255 * np.clip(4 - 60 * abs(away - 0.25), 0, 1)).astype(np.uint8)[None]


def test_a_name_draws_the_same_distortion_each_time_and_at_any_size():
    small, large = (glyphs.distorted(ring(size), 1.0, "A face") for size in (28, 56))
    assert np.array_equal(small, glyphs.distorted(ring(28), 1.0, "A face")) and small.dtype == np.uint8
    halved = large.reshape(1, 28, 2, 28, 2).mean((2, 4))
    assert np.corrcoef(small.ravel(), halved.ravel())[0, 1] > 0.95
    other = glyphs.distorted(ring(28), 1.0, "B face")
    assert np.corrcoef(small.ravel(), other.ravel())[0, 1] < 0.9


def test_the_distortions_have_the_deviations_that_are_written():
    """The centres of mass of many rings move by SHIFT, and by what the smooth displacement moves a whole ring."""
    rows, columns = np.indices((28, 28))
    centres = []
    for number in range(400):
        ink = glyphs.distorted(ring(28), 1.0, f"{number} face")[0].astype(float)
        centres.append([(rows * ink).sum() / ink.sum() - 13.5, (columns * ink).sum() / ink.sum() - 13.5])
    assert np.abs(np.mean(centres, axis=0)).max() < 0.25, "a thicker stroke grows to one side"
    assert (np.std(centres, axis=0) > glyphs.SHIFT).all() and (np.std(centres, axis=0) < 1.5 * glyphs.SHIFT).all()


def test_strength_scales_it_and_0_is_plain():
    plain = load_dataset("glyphs", image_size=28, task="ssl", distortion=0.0).validation.images
    usual = load_dataset("glyphs", image_size=28, task="ssl").validation.images
    weak = load_dataset("glyphs", image_size=28, task="ssl", distortion=0.1).validation.images
    away = [np.abs(images.astype(float) - plain).mean() for images in (weak, usual)]
    assert 0 < away[0] < 0.3 * away[1]
    ink = usual.sum((1, 2, 3)) / plain.sum((1, 2, 3))
    assert np.quantile(ink, 0.01) > 0.6, "no character is pushed out of its image"
