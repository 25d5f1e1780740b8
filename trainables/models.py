"""Embedding networks f_θ (`subsec:pipeline`): images [b, c, h, w] in, L2-normalised embeddings [b, d] out.

Every network is an `Embedder`: a trunk that makes features and a head that makes the embedding the loss sees. In deep
metric learning the head is the identity; in self-supervision it is a projection that the linear probe leaves out.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet18
from torchvision.models.resnet import BasicBlock


class Embedder(nn.Module):
    """trunk: images [b, c, h, w] -> features [b, feature_dim]; head: features -> embedding before normalisation."""

    def __init__(self, trunk: nn.Module, head: nn.Module | None = None):
        super().__init__()
        self.trunk = trunk
        self.head = head if head is not None else nn.Identity()

    def features(self, images: Tensor) -> Tensor:
        """What the linear probe sees, [b, feature_dim]."""
        return self.trunk(images)

    def forward(self, images: Tensor) -> Tensor:
        """What the loss and retrieval see: unit vectors [b, d]."""
        return F.normalize(self.head(self.trunk(images)), dim=1)


class GeM(nn.Module):
    """Generalised-mean pooling, avg_pool(clamp(x, eps)^p)^(1/p) with a learnable p: [b, c, h, w] -> [b, c]."""

    def __init__(self, p: float = 3.0, eps: float = 1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=self.eps).pow(self.p).mean((2, 3)).pow(1 / self.p)


def projection_head(features: int, hidden: int = 256, out: int = 64) -> nn.Module:
    """The projection between features and the self-supervised loss: 64-256-64 on ResNet-32."""
    return nn.Sequential(nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, out))


def small_conv(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """Four strided 3x3 convolutions with batch normalisation, 0.24 M parameters: a network for two CPU cores.

    28 px images become 128 maps of 2 x 2, flattened: 512 features, as many as ResNet-18 has.
    """
    widths = [channels, 32, 64, 128, 128]
    layers: list[nn.Module] = []
    for n_in, n_out in zip(widths, widths[1:]):
        layers += [nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers), 4 * widths[-1]


def resnet18_gem(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18 up to its last block, then GeM: 512 features. From scratch."""
    net = resnet18(weights=None)
    if channels != 3:
        net.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    net.avgpool, net.fc = nn.Identity(), nn.Identity()
    blocks = [net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2, net.layer3, net.layer4]
    return nn.Sequential(*blocks, GeM()), 512


def resnet32(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """The CIFAR-style ResNet-32: three stages of 5 blocks, 16/32/64 channels, global average: 64 features, 0.47 M parameters."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    n_in = 16
    for n_out, stride in ((16, 1), (32, 2), (64, 2)):
        layers.append(_block(n_in, n_out, stride))
        layers += [_block(n_out, n_out, 1) for _ in range(4)]
        n_in = n_out
    trunk = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in trunk.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return trunk, 64


def _block(n_in: int, n_out: int, stride: int) -> nn.Module:
    shortcut = None
    if stride != 1 or n_in != n_out:
        shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))
    return BasicBlock(n_in, n_out, stride, shortcut)


NETWORKS: dict[str, Callable[[int, int], tuple[nn.Module, int]]] = {
    "small_conv": small_conv,
    "resnet18_gem": resnet18_gem,
    "resnet32": resnet32,
}
"""name -> build(channels, image_size) -> (trunk, feature_dim)."""


def build_network(name: str, *, channels: int, image_size: int, projection: bool, seed: int) -> Embedder:
    """A freshly initialised network, the same for the same seed; torch's global generator is left as it was.

    Raises ValueError for an unknown name.
    """
    if name not in NETWORKS:
        raise ValueError(f"network {name!r}: one of {sorted(NETWORKS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk, features = NETWORKS[name](channels, image_size)
        return Embedder(trunk, projection_head(features) if projection else None)
