"""Networks of a user's own, named `own_networks:<function>`, that pass a look at two images and fail in training."""

import sys

import torch
from torch import nn


class Plain(nn.Module):
    """Maps images to features [n, 8]."""

    def __init__(self, channels, image_size):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.out = nn.LazyLinear(8)

    def forward(self, x):
        return self.out(self.body(x).flatten(1))


class Viewing(Plain):
    """Its `view` refuses activations in channels_last."""

    def forward(self, x):
        maps = self.body(x)
        return self.out(maps.view(len(maps), -1))


def without_parameters(channels, image_size):
    return nn.Flatten()


def frozen(channels, image_size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * image_size**2, 4)).requires_grad_(False)


def ending(after):
    """A network whose output is after(features, images, whether it is in training)."""

    class Ending(Plain):
        def forward(self, x):
            return after(super().forward(x), x, self.training)

    return Ending


def of_even_batches(z, x, training):
    assert len(x) % 2 == 0, "even batches\nonly"
    return z


Detached = ending(lambda z, x, training: z.detach())
TwoInTraining = ending(lambda z, x, training: (z, z) if training else z)
Squeezed = ending(lambda z, x, training: z.squeeze())
EvenBatches = ending(of_even_batches)
NotFinite = ending(lambda z, x, training: z / float(not x.any()))  # finite for images of zeros alone
Exits = ending(lambda z, x, training: sys.exit(0) if training else z)


class Growing(Plain):
    def __init__(self, channels, image_size):
        super().__init__(channels, image_size)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        if self.training:
            self.seen = torch.cat([self.seen, x.detach().mean((1, 2, 3))])
        return super().forward(x)
