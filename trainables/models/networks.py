"""Embedding networks f_θ (`subsec:pipeline`) from images [b, c, h, w] to embeddings [b, d], usually unit vectors.

Every network is an `Embedder`: a trunk that makes features and a head that makes the embedding the loss sees. In deep
metric learning the head is the identity, or linear; in self-supervision it is a projection that the linear probe leaves
out. Networks are built on the CPU and take images from `data.augmentation.normalise`.
"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.models.heads import head_of
from trainables.models.libraries import is_librarys, library_network
from trainables.models.weights import State, load_weights, read_weights, standardisation
from trainables.own import blamed, imported, kind_of

MADE: WeakSet[nn.Module] = WeakSet()  # trained parts of users' networks: others of them would begin with their weights


class Embedder(nn.Module):
    """trunk: images [b, c, h, w] -> features [b, feature_dim]; head: features -> embedding before normalisation.

    standardise: of the images, before the trunk; `build_network` sets it for weights that were trained so.
    normalised: whether embeddings are divided by their length; `build_network` sets it as the loss requires.
    memory_format: of its images, and of its weights once they are moved to a device; `build_network` sets it.
    """

    memory_format = torch.channels_last

    def __init__(self, trunk: nn.Module, head: nn.Module | None = None, normalised: bool = True):
        super().__init__()
        self.standardise: nn.Module = nn.Identity()
        self.trunk = trunk
        self.head = head if head is not None else nn.Identity()
        self.normalised = normalised

    def features(self, images: Tensor) -> Tensor:
        """The input of the linear probe, [b, feature_dim]."""
        return self.trunk(self.standardise(images.contiguous(memory_format=self.memory_format)))

    def forward(self, images: Tensor) -> Tensor:
        """The input of the loss and of retrieval, [b, d] in float32 at least: unit vectors where `normalised`."""
        embedding = self.head(self.features(images))
        # a vector in bfloat16 does not have length 1
        embedding = embedding.to(torch.promote_types(embedding.dtype, torch.float32))
        return F.normalize(embedding, dim=1) if self.normalised else embedding


class GeM(nn.Module):
    """Generalised-mean pooling, avg_pool(clamp(x, eps)^p)^(1/p) with a learnable p: [b, c, h, w] -> [b, c].

    Computed in float32 (float64 stays) inside autocast too: bfloat16 has too few digits for powers. Each map is divided
    by its largest value before the power and multiplied by it afterwards. This changes neither the result nor its
    gradient, and no p under- or overflows.
    """

    def __init__(self, p: float = 3.0, eps: float = 1e-6):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x = x if x.dtype == torch.float64 else x.float()
            x = x.clamp(min=self.eps)
            largest = x.detach().amax((2, 3), keepdim=True)  # detached: the pooled value does not depend on it
            pooled = largest[:, :, 0, 0] * (x / largest).pow(self.p).mean((2, 3)).pow(1 / self.p)
            return pooled.to(self.p.dtype)  # float32, but for a network that is in half precision as a whole


def small_conv(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """Four strided 3x3 convolutions with batch normalisation, 0.24 M parameters: a network for two CPU cores.

    28 px images become 128 maps of 2 x 2, flattened: 512 features, as many as ResNet-18 has.
    """
    widths = [channels, 32, 64, 128, 128]
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(True)]
    layers += [_PoolToTwo(2), nn.Flatten()]
    return nn.Sequential(*layers), 4 * widths[-1]


class _PoolToTwo(nn.AdaptiveAvgPool2d):
    """2 x 2 means. Maps of 2 x 2 (images of 17 to 32 px) pass unchanged: means of one value cost 3 % of a step."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[-2:] == (2, 2) else super().forward(x)


def resnet18_gem(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18 with GeM: 512 features."""
    net = library_network("torchvision:resnet18", channels, image_size)
    net.avgpool = GeM()
    return net, 512


def resnet50(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """torchvision's ResNet-50, global average included: 2048 features."""
    return library_network("torchvision:resnet50", channels, image_size), 2048


def resnet50_xbm(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """ResNet-50 as the authors of XBM have it (research-xbm, modeling/backbone/resnet.py): 2048 features.

    torchvision's layers and ImageNet weights, but a global maximum in place of the average and no ReLU between the
    first batch normalisation and the pooling. (That class's own default, stride 1 in the last stage, is not used:
    LAST_STRIDE is 2 in their config/defaults.py.)
    """
    net = library_network("torchvision:resnet50", channels, image_size)
    net.relu, net.avgpool = nn.Identity(), nn.AdaptiveMaxPool2d(1)
    return net, 2048


def resnet32(channels: int, image_size: int) -> tuple[nn.Module, int]:
    """The CIFAR-style ResNet-32: three stages of 5 blocks, 16/32/64 channels, 64 features, 0.47 M parameters."""
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
    from torchvision.models.resnet import BasicBlock

    return BasicBlock(n_in, n_out, stride, shortcut)


NETWORKS: dict[str, Callable[[int, int], tuple[nn.Module, int]]] = {
    "small_conv": small_conv, "resnet18_gem": resnet18_gem, "resnet32": resnet32, "resnet50": resnet50,
    "resnet50_xbm": resnet50_xbm,
}  # fmt: skip
"""name -> build(channels, image_size) -> (trunk, feature_dim)."""


def build_network(
    name: str, *, channels: int, image_size: int, projection: bool, seed: int, embedding: int = 0,
    weights: str | State = "none", activation: str = "relu", projector: Sequence[int] = (), normalised: bool = True,
) -> Embedder:  # fmt: skip
    """Build a network with a fresh head, equal for equal seeds; torch's global generators stay unchanged.

    name: one of `NETWORKS`, a library's, such as "timm:resnet50.a1_in1k" or "torchvision:resnet50", or
        "module:function" for one's own: function(channels, image_size), or function(), returns a module that maps
        [b, c, h, w] to [b, features]. The module is imported as Python imports: `python -m` finds it in the current
        directory, Ray's workers where it is installed, on their PYTHONPATH, or in the `working_dir` or `py_modules` of
        Ray's `runtime_env`.
    projection: False: the head is the identity or linear (metric learning); True: it is the projection head.
    embedding: dimension of the embedding; 0: that of the features, or the projection's usual 64.
    activation: of the projection, one of `heads.ACTIVATIONS`.
    projector: widths of layers that replace the usual projection, see `head_of`; () for the usual one.
    normalised: whether its embeddings are unit vectors.
    weights: "none", "imagenet" or a file, see `read_weights`, or an `Embedder`'s state dict; loaded completely, else
        ValueError. The head keeps its seeded weights unless the file has the same head. A library's weights get their
        inputs standardised as they were trained, and take one channel as grey or three as RGB.
    Raises ValueError, and OSError for weights that cannot be read, naming what is wrong and what is allowed.
    """
    if ":" not in name and name not in NETWORKS:
        known = f"one of {sorted(NETWORKS)}, timm:NAME, torchvision:NAME, or module:function for your own"
        raise ValueError(f"network {name!r}: {known}")
    given = not isinstance(weights, str)
    state = weights if given else read_weights(name, weights, image_size)
    standardise = None if state is None else standardisation(name, state)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))  # torch.manual_seed would seed the other devices' generators too
        build = NETWORKS.get(name) or partial(_own, name)
        trunk, features = build(channels if standardise is None else 3, image_size)
        activation = activation if projection else None
        head = head_of(features, activation=activation, embedding=embedding, projector=projector)
        if name == "resnet50_xbm" and isinstance(head, nn.Linear):  # research-xbm, modeling/heads/linear_norm.py
            nn.init.kaiming_normal_(head.weight, mode="fan_out")
            nn.init.zeros_(head.bias)
        model = Embedder(trunk, head, normalised)
        if state is not None:
            model.standardise = standardise or nn.Identity()
            on_top = ("head.", "standardise.", *(["trunk.avgpool.p"] if name == "resnet18_gem" else []))
            load_weights(model, state, "given" if given else weights, may_miss=on_top)
    if ":" in name and not is_librarys(name):
        model.memory_format = torch.contiguous_format  # any module takes it; `Tensor.view` refuses channels_last
    return model


def _own(name: str, channels: int, image_size: int) -> tuple[nn.Module, int]:
    """A library's or the user's module, and its number of features, found with two images of zeros in evaluation
    mode."""
    network = f"network {name!r}"
    if is_librarys(name):
        module = library_network(name, channels, image_size)
    else:
        function = imported(name, "network")
        with blamed(f"{network}: called with (channels={channels}, image_size={image_size}) it"):
            module = function(*((channels, image_size) if inspect.signature(function).parameters else ()))
    if not isinstance(module, nn.Module):
        raise ValueError(f"{network}: it returned {type(module).__name__}, allowed is a torch.nn.Module")
    trained = [part for part in module.modules() if any(own.requires_grad for own in part.parameters(recurse=False))]
    if any(part in MADE for part in trained):
        raise ValueError(f"{network}: it returned parts of an earlier call's, allowed is a new module at each call")
    MADE.update(trained)
    images = torch.zeros(2, channels, image_size, image_size)
    with blamed(f"{network}: with images {list(images.shape)} it"):
        output = _tried(module, images)
    there = isinstance(output, Tensor) and output.is_floating_point() and output.device == images.device
    if not there or output.ndim != 2 or output.shape[0] != 2 or not output.shape[1]:
        raise ValueError(
            f"{network}: it maps images {list(images.shape)} to {kind_of(output)}, allowed are floating point "
            "numbers of shape [2, features] on the images' device"
        )
    return module, output.shape[1]


@torch.no_grad()
def _tried(module: nn.Module, images: Tensor) -> Tensor:
    """The output of a user's module in evaluation mode; modes stay as set."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        return module(images)
    finally:
        for part, mode in modes:
            part.training = mode
