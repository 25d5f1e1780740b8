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


class Detached(Plain):
    def forward(self, x):
        return super().forward(x).detach()


class TwoInTraining(Plain):
    def forward(self, x):
        features = super().forward(x)
        return (features, features) if self.training else features


class Squeezed(Plain):
    def forward(self, x):
        return super().forward(x).squeeze()


class EvenBatches(Plain):
    def forward(self, x):
        assert len(x) % 2 == 0, "even batches\nonly"
        return super().forward(x)


class NotFinite(Plain):
    def forward(self, x):
        return super().forward(x) / float(not x.any())  # finite for images of zeros alone


class Whole(Plain):
    def forward(self, x):
        return super().forward(x).long()


class Elsewhere(Plain):
    def forward(self, x):
        return super().forward(x).to("meta")


class Exits(Plain):
    def forward(self, x):
        if self.training:
            sys.exit(0)
        return super().forward(x)


class Growing(Plain):
    def __init__(self, channels, image_size):
        super().__init__(channels, image_size)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        if self.training:
            self.seen = torch.cat([self.seen, x.detach().mean((1, 2, 3))])
        return super().forward(x)
