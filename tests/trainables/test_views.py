"""Augmented views against torchvision: the operations with the same parameters, the draws by their distributions."""

import math
from dataclasses import fields

import pytest
import torch
import torchvision.transforms.v2.functional as tv
from embedded import seeded
from torchvision.transforms import RandomResizedCrop

from trainables.data.augmentation import (
    BRIGHTNESS,
    CONTRAST,
    CROP_NUMBERS,
    SATURATION,
    apply_views,
    crop_views,
    crops_of,
    draw_views,
    normalise,
    simclr_views,
)

BLENDS = {BRIGHTNESS: tv.adjust_brightness, CONTRAST: tv.adjust_contrast, SATURATION: tv.adjust_saturation}


def photographs(n=12, channels=3, height=20, width=24):
    """uint8 [n, c, h, w]: noise, flat areas, greys and extreme values."""
    images = torch.randint(0, 256, (n, channels, height, width), generator=seeded(5), dtype=torch.uint8)
    images[1] = 130
    images[2, :, :8] = 0
    images[3, :, :, :8] = 255
    images[4] = images[4, :1]
    images[5, 0] = images[5, -1]
    return images


def floats(images):
    return images.float() / 255


def torchvision_view(image, view, size):
    """One image [c, h, w] through torchvision's functions, with the parameters of one view (a dict of numbers)."""
    box = [int(view[name]) for name in ("top", "left", "height", "width")]
    image = tv.resized_crop(image, *box, size=list(size), antialias=False)
    if view["flip"]:
        image = tv.horizontal_flip(image)
    if view["jitter"]:
        order = [*view["blends"]]
        order.insert(view["hue_place"], "hue")
        for operation in order:
            if operation == "hue":
                image = tv.adjust_hue(image, view["hue"])
            else:
                image = BLENDS[operation](image, view["factors"][operation])
    return tv.rgb_to_grayscale(image, num_output_channels=image.shape[0]) if view["grey"] else image


def one(batch, index):
    return {field.name: getattr(batch, field.name)[index].tolist() for field in fields(batch)}


BOXES = [(3, 4, 1, 1), (0, 0, 20, 24), (0, 0, 5, 4), (15, 20, 5, 4), (0, 23, 20, 1)]
"""top, left, height, width: the smallest box, the whole image, the corners, a border."""


@pytest.mark.parametrize("size", [(20, 24), (32, 32), (7, 9)], ids=["kept", "enlarged", "reduced"])
@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_torchvisions_with_the_same_parameters(channels, size):
    """Each of its own image alone."""
    images = floats(photographs(n=96, channels=channels))
    view = draw_views(96, 20, 24, seeded(3))
    view.top[:5], view.left[:5], view.height[:5], view.width[:5] = torch.tensor(BOXES).T
    expected = torch.stack([torchvision_view(images[k], one(view, k), size) for k in range(96)])
    torch.testing.assert_close(apply_views(images, view, size), expected, rtol=0, atol=2e-5)


def test_shapes_ranges_and_seeds():
    images = photographs()
    before, batch = images.clone(), simclr_views(images, seeded())
    assert batch.shape == images.shape and batch.dtype == torch.float32
    assert batch.min() >= 0 and batch.max() <= 1 and torch.equal(images, before)
    generator = seeded()
    first, second = simclr_views(images, generator), simclr_views(images, generator)
    assert torch.equal(first, batch) and not torch.equal(first, second)
    equal_images = images[:1].repeat(12, 1, 1, 1)
    assert len(torch.unique(simclr_views(equal_images, seeded()).flatten(1), dim=0)) == 12


def test_normalise_is_the_same_for_bytes_and_floats():
    images = photographs()
    torch.testing.assert_close(normalise(images), (floats(images) - 0.5) / 0.5)
    torch.testing.assert_close(normalise(floats(images)), normalise(images))
    assert normalise(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [-1, 1]


@pytest.mark.parametrize(("channels", "size"), [(3, 24), (3, 16), (1, 33)])
def test_crop_views_are_torchvisions_crops_with_the_same_boxes(channels, size):
    images = photographs(n=96, channels=channels)
    before = images.clone()
    crops = crops_of(torch.rand(96, CROP_NUMBERS, generator=seeded(3)), 20, 24, (0.25, 1.0))
    batch = crop_views(images, seeded(3), size)
    colours = {"jitter": False, "grey": False}
    expected = [
        torchvision_view(image, one(crops, k) | colours, (size, size)) for k, image in enumerate(floats(images))
    ]
    torch.testing.assert_close(batch, torch.stack(expected), rtol=0, atol=2e-6)
    assert batch.dtype == torch.float32 and torch.equal(images, before)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (28, 28), (20, 60)])
def test_crops_are_distributed_as_torchvisions(height, width):
    """Means of place, size, area and shape against 3,000 draws of torchvision, at four standard errors."""
    n = 3000
    torch.manual_seed(0)
    image = torch.zeros(1, height, width)
    theirs = [RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(n)]
    mine = draw_views(n, height, width, seeded(2))

    def quantities(top, left, h, w):
        return torch.stack([top, left, h * w, (h * w) ** 2, torch.log(w / h), torch.log(w / h) ** 2])

    a = quantities(mine.top, mine.left, mine.height, mine.width)
    b = quantities(*torch.tensor(theirs, dtype=torch.float64).T)
    assert ((a.mean(1) - b.mean(1)).abs() <= 4 * ((a.var(1) + b.var(1)) / n).sqrt()).all()
    for start, length, extent in ((mine.top, mine.height, height), (mine.left, mine.width, width)):
        assert (start >= 0).all() and (length >= 1).all() and (start + length <= extent).all()
        assert torch.equal(start, start.round()) and torch.equal(length, length.round())


def test_the_other_draws_have_their_published_distributions():
    n = 20_000
    view = draw_views(n, 32, 32, seeded(4))

    def close(sample, expected):
        assert abs(sample.float().mean() - expected) < 4 * sample.float().std() / math.sqrt(n)

    for coin, probability in ((view.flip, 0.5), (view.jitter, 0.8), (view.grey, 0.2)):
        close(coin, probability)
    for values, low, high in [*((factors, 0.2, 1.8) for factors in view.factors.T), (view.hue, -0.2, 0.2)]:
        assert low <= values.min() < low + 0.01 and high - 0.01 < values.max() <= high
        close(values, (low + high) / 2)
        close((values - (low + high) / 2) ** 2, (high - low) ** 2 / 12)
    # all 24 orders of the four operations, equally often
    orders, counts = torch.unique(torch.cat([view.blends, view.hue_place[:, None]], dim=1), dim=0, return_counts=True)
    assert len(orders) == 24
    assert ((counts - n / 24).abs() < 4.5 * math.sqrt(n / 24)).all()
    drawn = torch.stack([view.flip, view.jitter, view.grey, *view.factors.T, view.hue, view.hue_place])
    correlation = torch.corrcoef(drawn.float()) - torch.eye(len(drawn))
    assert correlation.abs().max() < 4.5 / math.sqrt(n), "the draws are independent"
