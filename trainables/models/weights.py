"""Pretrained weights: ImageNet's or a user's file, compared with the network name by name, loaded whole or not at all.

A state dict comes in one of two forms. Plain: the trunk's own names, as torchvision saves a ResNet, with or without its
classifier `fc`. Ours: an `Embedder`'s, whose names begin with `trunk.` and `head.`, alone or in the file of a trained
network (`trainables.trained`). No file is ever executed: torch.load(weights_only=True) is the only reader.
"""

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlparse

import torch
from torch import Tensor, nn

from trainables.datasets.structure import local_path

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

IMAGENET = {"resnet18_gem": "ResNet18_Weights", "resnet50": "ResNet50_Weights", "resnet50_xbm": "ResNet50_Weights"}
"""The networks made of torchvision's layers, and torchvision's name for the weights that fit them."""

# of R, G, B in [0, 1]; torchvision's numbers
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

State = dict[str, Tensor]


def imagenet_weights(network: str) -> "WeightsEnum":
    """torchvision's first version of the weights that fit a network of `IMAGENET`."""
    from torchvision import models  # takes seconds, which other networks' trials need not spend

    return getattr(models, IMAGENET[network]).IMAGENET1K_V1


class Standardise(nn.Module):
    """Converts images from `augmentation.normalise` to the input of ImageNet's weights: (x - mean) / std, x in [0, 1].

    [b, 1 or 3, h, w] in [-1, 1] -> [b, 3, h, w]. Grey is repeated, so that the first convolution stays as trained.
    The numbers are buffers, so that a saved network carries the form of its input.
    """

    def __init__(self):
        super().__init__()
        mean, std = torch.tensor((IMAGENET_MEAN, IMAGENET_STD), dtype=torch.float64).reshape(2, 1, 3, 1, 1)
        self.register_buffer("mean", (2 * mean - 1).float())
        self.register_buffer("std", (2 * std).float())

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def read_weights(network: str, weights: str) -> State | None:
    """Read the state dict named by `weights`, under an `Embedder`'s names; None for "none", a start from scratch.

    weights: "none", "imagenet" (downloaded once a machine, into torch.hub's folder), or a file's path, in which ~ is
        one's home and which every machine that trains must see.
    A plain file for a network of `IMAGENET` is torchvision's, and gets the buffers of `Standardise`; one of ours has
    them if it was trained with them. Raises ValueError for "imagenet" with other networks, for a URI and for a file
    that is not a state dict, OSError for an absent file and for ImageNet weights that cannot be downloaded.
    """
    if weights == "none":
        return None
    state = _imagenet(network) if weights == "imagenet" else _file(weights)
    if any(name.startswith("trunk.") for name in state):
        return state
    state = {f"trunk.{name}": tensor for name, tensor in state.items()}
    if network in IMAGENET:
        state |= {f"trunk.standardise.{name}": tensor for name, tensor in Standardise().state_dict().items()}
    return state


def load_tensors(file: BinaryIO) -> Any:
    """Read a torch.save of tensors and plain types; runs no code. Raises OSError, and ValueError for other content."""
    try:
        if _inflated_bytes(file) <= file.seek(0, os.SEEK_END):
            file.seek(0)
            return torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # wrong bytes may make the unpickler raise anything
        raise ValueError(f"torch.load(weights_only=True) refuses it with {type(error).__name__}") from error
    raise ValueError("it stands for more bytes than it has, which torch.load would inflate and torch.save never writes")


def _inflated_bytes(file: BinaryIO) -> int:
    """The sum of the claimed sizes of a zip archive's members; 0 for torch.save's old form, which inflates nothing."""
    if file.read(4) != b"PK\3\4":  # the same test as torch.load's
        return 0
    with zipfile.ZipFile(file) as archive:
        return sum(member.file_size for member in archive.infolist())


def wants_standardised(state: State) -> bool:
    """Whether these weights were trained on ImageNet's standardised colours, not on [-1, 1]."""
    return "trunk.standardise.mean" in state


def load_weights(model: nn.Module, state: State, source: str, may_miss: tuple[str, ...] = ()) -> None:
    """Load `state` into an `Embedder`, all of it or nothing.

    may_miss: name prefixes of layers that were added to the network; they keep their values if `state` has none of
    their names. A head or a classifier `fc` that the network lacks is left out. BatchNorm's counters may be absent, as
    in old files. Raises ValueError naming `source`, how many names do not fit, and the first of them.
    """
    here = model.state_dict()
    absent = tuple(start for start in may_miss if not any(name.startswith(start) and name in here for name in state))
    missing = [name for name in here if name not in state and not name.startswith(absent)]
    missing = [name for name in missing if not name.endswith(".num_batches_tracked")]
    unknown = [name for name in state if name not in here and not name.startswith(("head.", "trunk.fc."))]
    both = [name for name in here if name in state]
    unfit = [name for name in both if here[name].shape != state[name].shape]
    if missing or unknown or unfit:
        shapes = f": {list(state[unfit[0]].shape)}, here {list(here[unfit[0]].shape)}" if unfit else ""
        raise ValueError(
            f"weights {source!r} are another network's: of {len(here)} names {len(both) - len(unfit)} fit, "
            f"{_count(missing)} missing, {_count(unfit, shapes)} of another shape, and {_count(unknown)} unknown here"
        )
    model.load_state_dict({name: state[name] for name in both}, strict=False)


def _count(names: list[str], more: str = "") -> str:
    return f"{len(names)} ({names[0]}{more}{', ...' * (len(names) > 1)}) are" if names else "0 are"


def _imagenet(network: str) -> State:
    if network not in IMAGENET:
        raise ValueError(f"weights 'imagenet' exist for {sorted(IMAGENET)}, not for network {network!r}")
    weights = imagenet_weights(network)
    url = weights.url
    cached = os.path.join(torch.hub.get_dir(), "checkpoints", os.path.basename(urlparse(url).path))
    try:
        return weights.get_state_dict(progress=False, check_hash=True, map_location="cpu", weights_only=True)
    except Exception as error:  # no connection, an error page, a wrong checksum, a damaged copy
        kind = type(error).__name__
        # torch.hub moves a file there only when it is whole and its checksum is right
        reason = f"its copy does not load, {kind}; remove" if os.path.exists(cached) else f"{kind}: {error}; put it at"
        raise OSError(
            f"weights 'imagenet': no {url} ({reason} {cached}, where torch.hub looks and TORCH_HOME leads); or use "
            "`--weights none` to train from scratch, or `--weights FILE`"
        ) from error


def _file(weights: str) -> State:
    path = local_path(weights, "weights")
    if not path.is_file():
        raise FileNotFoundError(
            f"weights {weights!r}: no such file in {Path.cwd()}; allowed are none, imagenet and a file"
        )
    hint = "save one with torch.save(model.state_dict(), FILE)"
    try:
        with path.open("rb") as file:
            state = load_tensors(file)
    except ValueError as error:
        raise ValueError(f"weights {weights!r}: not a state dict, {error}; {hint}") from error
    if isinstance(state, dict) and isinstance(state.get("network"), dict):  # a trained network's file has more
        state = state["network"]
    if not isinstance(state, dict) or not state:
        raise ValueError(
            f"weights {weights!r}: not a state dict but {type(state).__name__}, empty or of another kind; {hint}"
        )
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(
                f"weights {weights!r}: not a state dict, {name!r} is {type(value).__name__}, not a tensor; {hint}"
            )
    return state
