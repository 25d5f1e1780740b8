"""Augmentation on the device: one random view of every image of a batch, each with parameters of its own.

`crop_views`, usual in metric learning on photographs, crops, resizes and flips. `simclr_views` is SimCLR's:
RandomResizedCrop (scale 0.08-1, ratio 3/4-4/3), horizontal flip (p = .5), ColorJitter(.8, .8, .8, .2) (p = .8, its four
operations in random order), greyscale (p = .2), no blur. The distributions are those of torchvision's transforms, which
draw one set of parameters for a whole batch. `draw_views` draws the parameters, `apply_views` applies them.

The host never synchronises and shapes do not depend on data, so that a training step with views fits into a CUDA graph.
Hence every image goes through every operation, with a neutral parameter where the operation is not wanted.
On one core 64 RGB images of 64 px take 10 ms; a loop over torchvision's transforms takes 28 ms.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

# As in relational (see `training.setups`), datamanager.py, where nothing else is said.
SCALE = (0.08, 1.0)  # SimCLR's area of the crop / area of the image
RATIO = (3 / 4, 4 / 3)  # width / height of the crop, log-uniform
ATTEMPTS = 10  # to find a crop that fits; torchvision's number
CROP_NUMBERS = 2 * ATTEMPTS + 3  # uniform: areas, ratios, two of the place, one of the flip
P_FLIP, P_JITTER, P_GREY = 0.5, 0.8, 0.2
STRENGTH = 0.8  # of brightness, contrast and saturation: factors uniform in 1 ± STRENGTH
HUE = 0.2  # shift of hue, uniform in ± HUE turns
LUMA = (0.2989, 0.587, 0.114)  # torchvision's weights of R, G, B

BRIGHTNESS, CONTRAST, SATURATION = range(3)


@dataclass(frozen=True)
class Crops:
    """Parameters of one crop of each of n images."""

    top: Tensor  # [n] float, the crop's place and size in whole pixels
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor  # [n] bool


@dataclass(frozen=True)
class Views(Crops):
    """Parameters of one SimCLR view of each of n images."""

    jitter: Tensor  # [n] bool, whether colours are changed at all
    blends: Tensor  # [n, 3] int, BRIGHTNESS, CONTRAST and SATURATION in the order of application
    factors: Tensor  # [n, 3] float, of brightness, contrast and saturation, in this order
    hue: Tensor  # [n] float, turns
    hue_place: Tensor  # [n] int, how many of the blends come before the shift of hue, 0..3
    grey: Tensor  # [n] bool


def simclr_views(images: Tensor, generator: Generator) -> Tensor:
    """A random view of each image: uint8 [n, c, h, w] -> float32 [n, c, h, w] in [0, 1].

    c: 3, or 1 (then only brightness and contrast change colours).  generator: on the images' device.
    """
    n, _, height, width = images.shape
    return apply_views(images.float().div_(255), draw_views(n, height, width, generator), (height, width))


def crop_views(images: Tensor, generator: Generator, size: int, scale: tuple[float, float] = (0.25, 1.0)) -> Tensor:
    """A random crop of each image, resized, half of them mirrored.

    uint8 [n, c, h, w] -> float32 [n, c, size, size] in [0, 1].
    RandomResizedCrop (ratio 3/4-4/3) and horizontal flip (p = .5); colours stay, as they can tell classes apart.
    scale: least and largest area of the crop / area of the image.  c, generator: as in `simclr_views`.
    """
    n, _, height, width = images.shape
    u = torch.rand(n, CROP_NUMBERS, generator=generator, device=generator.device)
    return crop(images.float().div_(255), crops_of(u, height, width, scale), (size, size))


def centre(images: Tensor, size: int) -> Tensor:
    """The middle size x size pixels of images [n, c, h, w] as a view, [n, c, size, size].

    Where a side has two middles it is the upper or left one. Images are at least that large.
    """
    height, width = images.shape[2:]
    top, left = (height - size) // 2, (width - size) // 2
    return images[:, :, top : top + size, left : left + size]


def normalise(images: Tensor) -> Tensor:
    """The input of networks in training and evaluation: uint8, or float in [0, 1], -> float32 in [-1, 1]."""
    if images.dtype == torch.uint8:
        return images.float().mul_(2 / 255).sub_(1)
    return images.float() * 2 - 1


def draw_views(n: int, height: int, width: int, generator: Generator) -> Views:
    """Parameters for n images of height x width px, on the generator's device, from one call of the generator."""
    u = torch.rand(n, CROP_NUMBERS + 10, generator=generator, device=generator.device)
    of_crop, jitter, grey, order, factors, hue, hue_place = u.split((CROP_NUMBERS, 1, 1, 3, 3, 1, 1), dim=1)
    return Views(
        **vars(crops_of(of_crop, height, width, SCALE)),
        jitter=jitter[:, 0] < P_JITTER,
        blends=order.argsort(dim=1),
        factors=1 + STRENGTH * (2 * factors - 1),
        hue=HUE * (2 * hue[:, 0] - 1),
        hue_place=(4 * hue_place[:, 0]).long(),  # a random place in a random order of three: a random order of four
        grey=grey[:, 0] < P_GREY,
    )


def crops_of(u: Tensor, height: int, width: int, scale: tuple[float, float]) -> Crops:
    """Crops of images of height x width px from uniform numbers u [n, CROP_NUMBERS]: the first attempt that fits.

    Where none fits, as can happen in long images: the largest crop with an allowed ratio. (It has a random place like
    the others; torchvision centres it.)
    """
    areas, ratios, (v, h, flip) = *u[:, :-3].split(ATTEMPTS, dim=1), u[:, -3:].unbind(dim=1)
    area = (scale[0] + (scale[1] - scale[0]) * areas) * (height * width)
    ratio = torch.exp(math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * ratios)
    widths, heights = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first, found = fits.int().argmax(dim=1, keepdim=True), fits.any(dim=1)
    tall = torch.where(found, heights.gather(1, first)[:, 0], min(height, round(width / RATIO[0])))
    wide = torch.where(found, widths.gather(1, first)[:, 0], min(width, round(height * RATIO[1])))
    # a whole number from 0 to the room that is left; the product can be rounded up to one more
    top, left = (torch.minimum((at * (room + 1)).floor(), room) for at, room in ((v, height - tall), (h, width - wide)))
    return Crops(top, left, tall, wide, flip < P_FLIP)


def apply_views(images: Tensor, views: Views, size: tuple[int, int]) -> Tensor:
    """Apply the views to float images [n, c, h, w] in [0, 1] -> [n, c, *size]."""
    images = crop(images, views, size)
    factors = torch.where(views.jitter[:, None], views.factors.gather(1, views.blends), 1)  # [n, 3], as applied
    if images.shape[1] == 1:
        return _blend_in_order(images, views.blends, factors)
    # The shift of hue costs ten blends, so it is computed once, between two rounds of blends. Each blend acts in one of
    # the rounds and has factor 1, which changes nothing, in the other.
    early = torch.arange(3, device=images.device) < views.hue_place[:, None]  # [n, 3]
    images = _blend_in_order(images, views.blends, torch.where(early, factors, 1))
    images = torch.where(views.jitter[:, None, None, None], shift_hue(images, views.hue), images)
    images = _blend_in_order(images, views.blends, torch.where(early, 1, factors))
    return torch.where(views.grey[:, None, None, None], luma(images), images)


def crop(images: Tensor, views: Crops, size: tuple[int, int]) -> Tensor:
    """Crop each image, resize it (bilinear, not antialiased) and flip it: [n, c, h, w] -> [n, c, *size].

    The sampling points are clamped to the box; without it, those near its border would see pixels outside of the crop.
    """
    y = _sampling_points(views.top, views.height, size[0], images.shape[2])  # [n, size[0]]
    x = _sampling_points(views.left, views.width, size[1], images.shape[3])  # [n, size[1]]
    x = torch.where(views.flip[:, None], x.flip(1), x)
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), dim=-1)  # [n, *size, 2]
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def blend(images: Tensor, operation: Tensor, factor: Tensor) -> Tensor:
    """Brightness, contrast or saturation: factor * image + (1 - factor) * reference, clamped to [0, 1].

    images: [n, c, h, w] in [0, 1].  factor: [n], at least 0; exactly 1 leaves an image alone.
    operation: [n], decides each image's reference: black, its mean grey, or itself in grey (so that saturation does
    nothing to images of one channel).
    """
    grey = luma(images)  # [n, 1, h, w]
    mean = grey.mean(dim=(2, 3), keepdim=True)  # [n, 1, 1, 1]
    operation, factor = operation[:, None, None, None], factor[:, None, None, None]
    reference = torch.where(operation == SATURATION, grey, mean * (operation == CONTRAST))  # [n, 1, h, w]
    return torch.lerp(reference, images, factor).clamp_(0, 1)


def shift_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue of RGB images [n, 3, h, w] in [0, 1] by turns [n], keeping value and saturation of HSV.

    In HSV with value v, chroma c = max - min and hue h in sixths of a turn (0 for grey), each channel is
    v - c * clamp(min(k, 4 - k), 0, 1), where k = (offset + h) mod 6 and offset = 5, 3, 1 for R, G, B.
    """
    red, green, blue = images.unbind(dim=1)  # [n, h, w] each, as all below
    value = torch.maximum(torch.maximum(red, green), blue)  # five times as fast as aminmax over the channels
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    divisor = torch.where(chroma == 0, 1, chroma)
    hue = torch.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4)
    hue = torch.where(value == red, (green - blue) / divisor, hue) + 6 * turns[:, None, None]
    channels = []
    for offset in (5, 3, 1):
        k = (hue + offset).remainder_(6)
        channels.append(value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1))
    return torch.stack(channels, dim=1)


def luma(images: Tensor) -> Tensor:
    """The images in grey: [n, c, h, w] -> [n, 1, h, w]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, dim=1)
    return red.mul(LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def _blend_in_order(images: Tensor, operations: Tensor, factors: Tensor) -> Tensor:
    """`blend` by each column of operations [n, 3] and factors [n, 3] in turn."""
    for operation, factor in zip(operations.unbind(dim=1), factors.unbind(dim=1), strict=True):
        images = blend(images, operation, factor)
    return images


def _sampling_points(start: Tensor, length: Tensor, size: int, extent: int) -> Tensor:
    """Points [n, size] at which `size` output px sample the crops [n] of an axis of `extent` px, -1..1 edge to edge."""
    output = torch.arange(size, device=start.device) + 0.5  # centres of the output's pixels
    points = output * (length / size)[:, None] - 0.5  # 0 is the centre of the crop's first pixel
    points = torch.minimum(points.clamp_(min=0), length[:, None] - 1) + start[:, None]
    return (2 * points + 1) / extent - 1
