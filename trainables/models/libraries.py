"""Networks of timm and torchvision by name, up to their features: "timm:resnet50.a1_in1k", "torchvision:resnet50"."""

import importlib
from collections.abc import Sequence
from typing import Any

from torch import nn

from trainables.own import blamed

LIBRARIES = ("timm", "torchvision")
Numbers = Sequence[float]


def is_librarys(name: str) -> bool:
    """Whether a network is a library's, not one of ours or a user's own."""
    return name.partition(":")[0] in LIBRARIES and ":" in name


def library_network(name: str, channels: int, image_size: int, pretrained: bool = False) -> nn.Module:
    """The library's network without its classifier: images [b, channels, h, w] -> features [b, d].

    pretrained: with the weights that timm publishes under the name, which it fetches once a machine; torchvision's are
        those of `weights.read_weights`.
    Raises ValueError for a library that is not installed, an unknown name and a network that does not fit the images.
    """
    library, model = _library(name), name.partition(":")[2]
    with blamed(f"network {name!r}, with channels={channels} and image_size={image_size},"):
        if name.startswith("torchvision:"):
            return _torchvision(library.get_model(model, weights=None), channels)
        fixed = library.models.get_pretrained_cfg_value(model, "fixed_input_size")
        size = {"img_size": image_size} if fixed else {}
        return library.create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels, **size)


def statistics(name: str) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation of R, G and B in [0, 1] that the library's own weights of this network expect."""
    library, model = _library(name), name.partition(":")[2]
    if name.startswith("timm:"):
        return tuple(library.models.get_pretrained_cfg_value(model, value) for value in ("mean", "std"))
    transforms = library.get_model_weights(model).DEFAULT.transforms()
    return transforms.mean, transforms.std


def _library(name: str) -> Any:
    """The module timm or torchvision.models. Raises ValueError where it is not installed."""
    library = name.partition(":")[0]
    try:
        return importlib.import_module({"torchvision": "torchvision.models"}.get(library, library))
    except ImportError as error:
        raise ValueError(f"network {name!r}: {library} is not installed; pip install 'tune_cd[{library}]'") from error


def _torchvision(net: nn.Module, channels: int) -> nn.Module:
    """The network without its last linear layer, the classifier, for images of so many channels."""
    linear = [name for name, part in net.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise ValueError("it ends in no linear layer")
    net.set_submodule(linear[-1], nn.Identity())
    if channels != 3:
        name, first = next((name, part) for name, part in net.named_modules() if isinstance(part, nn.Conv2d))
        shape = (first.out_channels, first.kernel_size, first.stride, first.padding)
        net.set_submodule(name, nn.Conv2d(channels, *shape, bias=first.bias is not None))
    return net
