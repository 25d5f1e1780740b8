"""Glyphs that are distorted once, as a hand would."""

import numpy as np
import pytest

from trainables.datasets import glyphs, load_dataset

pytestmark = pytest.mark.usefixtures("own_cache")


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
