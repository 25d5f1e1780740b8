"""Pretrained weights: a library's or a user's file, compared with the network name by name, loaded whole or not at all.

A state dict comes in one of two forms. Plain: the trunk's own names, as torchvision saves a ResNet, with or without its
classifier. Ours: an `Embedder`'s, whose names begin with `trunk.` and `head.`. Either may be one value of a dict, as in
a training's checkpoint, and its names may have a common beginning, as within DataParallel, Lightning's modules, MoCo or
torch.compile. No file is ever executed: torch.load(weights_only=True) is the only reader.
"""

import errno
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlparse

import torch
from torch import Tensor, nn

from trainables.datasets.uri import local_path
from trainables.models.libraries import is_librarys, library_network, statistics

IMAGENET = {"resnet18_gem": "ResNet18_Weights", "resnet50": "ResNet50_Weights", "resnet50_xbm": "ResNet50_Weights"}
"""The networks made of torchvision's layers, and torchvision's name for the weights that fit them."""

# of R, G, B in [0, 1]; torchvision's numbers
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

CLASSIFIERS = ("head.", *(f"trunk.{name}." for name in ("fc", "classifier", "head", "heads")))
"""Beginnings of names that a file may have beyond the network's."""

WRAPPED = ("network", "state_dict", "model_state_dict", "model", "teacher")
"""Keys of a file that holds more than a state dict; the first is ours, the last DINO's."""

State = dict[str, Tensor]

log = logging.getLogger(__name__)


class Standardise(nn.Module):
    """Converts images from `augmentation.normalise` to the input of a library's weights: (x - mean) / std, x in [0, 1].

    [b, 1 or 3, h, w] in [-1, 1] -> [b, 3, h, w]. Grey is repeated, so that the first convolution stays as trained.
    The numbers are buffers, so that a saved network carries the form of its input.
    """

    def __init__(self, mean: Iterable[float] = IMAGENET_MEAN, std: Iterable[float] = IMAGENET_STD):
        super().__init__()
        mean, std = torch.tensor((tuple(mean), tuple(std)), dtype=torch.float64).reshape(2, 1, 3, 1, 1)
        self.register_buffer("mean", (2 * mean - 1).float())
        self.register_buffer("std", (2 * std).float())

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def read_weights(network: str, weights: str, image_size: int) -> State | None:
    """Read the state dict named by `weights`, under its own names; None for "none", a start from scratch.

    weights: "none", "imagenet" (the library's own, whatever timm's were trained on; downloaded once a machine, into
        torch.hub's or Hugging Face's folder), or a file's path, in which ~ is one's home and which every machine that
        trains must see.
    Raises ValueError for "imagenet" with other networks, for a URI and for a file that is not a state dict, OSError for
    an absent file and for weights that cannot be downloaded.
    """
    if weights == "none":
        return None
    if weights != "imagenet":
        return _file(weights)
    return _timms(network, image_size) if network.startswith("timm:") else _imagenet(network)


def standardisation(network: str, state: State) -> Standardise | None:
    """The form of the input that these weights were trained on; None for images in [-1, 1].

    A plain state dict for a network of `IMAGENET` or a library's is the library's; one of ours says it itself.
    """
    if _is_ours(state):
        return Standardise() if any(name.endswith("standardise.mean") for name in state) else None
    if is_librarys(network):
        return Standardise(*statistics(network))
    return Standardise() if network in IMAGENET else None


def _is_ours(state: State) -> bool:
    return any(re.match(r"((module|_orig_mod|model)\.)*trunk\.", name) for name in state)


def load_tensors(file: str | Path | BinaryIO) -> Any:
    """Read a torch.save of tensors and plain types; runs no code. Raises OSError, and ValueError for other content."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # wrong bytes may make the unpickler raise anything; EINVAL where the end is missing
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ValueError(f"torch.load(weights_only=True) refuses it with {type(error).__name__}") from error


def load_weights(model: nn.Module, state: State, source: str, may_miss: tuple[str, ...] = ()) -> None:
    """Load `state` into an `Embedder`, all of it or nothing.

    may_miss: name prefixes of layers that were added to the network; they keep their values if `state` has none of
    their names. A head or a classifier that the network lacks is left out. BatchNorm's counters may be absent, as in
    old files. Raises ValueError naming `source`, how many names do not fit, and the first of them.
    """
    here = model.state_dict()
    if _is_ours(state):
        state = unwrapped(state, here, source)
    else:
        trunk = [name.removeprefix("trunk.") for name in here if name.startswith("trunk.")]
        state = {f"trunk.{name}": tensor for name, tensor in unwrapped(state, trunk, source).items()}
    absent = tuple(start for start in may_miss if not any(name.startswith(start) and name in here for name in state))
    missing = [name for name in here if name not in state and not name.startswith(absent)]
    missing = [name for name in missing if not name.endswith(".num_batches_tracked")]
    unknown = [name for name in state if name not in here and not name.startswith(CLASSIFIERS)]
    both = [name for name in here if name in state]
    unfit = [name for name in both if here[name].shape != state[name].shape]
    if missing or unknown or unfit:
        shapes = f": {list(state[unfit[0]].shape)}, here {list(here[unfit[0]].shape)}" if unfit else ""
        raise ValueError(
            f"weights {source!r} are another network's: of {len(here)} names {len(both) - len(unfit)} fit, "
            f"{_count(missing)} missing, {_count(unfit, shapes)} of another shape, and {_count(unknown)} unknown here"
        )
    model.load_state_dict({name: state[name] for name in both}, strict=False)


def unwrapped(state: State, names: Iterable[str], source: str) -> State:
    """The state without the beginning that wrappers have put before the names of the network, and what else is there.

    It is the beginning behind which most of `names` follow, if at least half of them do; of several the first in the
    file, which is MoCo's trained encoder. `_orig_mod.`, torch.compile's, may be anywhere.
    """
    state = {name.replace("_orig_mod.", ""): tensor for name, tensor in state.items()}
    wanted = set(names)
    found = Counter(
        name[:start] for name in state for start in (0, *(dot.end() for dot in re.finditer(r"\.", name)))
        if name[start:] in wanted
    )  # fmt: skip
    beginning = max(found, key=found.__getitem__, default="")
    if not beginning or 2 * found[beginning] < len(wanted):
        return state
    log.info("weights %s: those below %r are loaded", source, beginning)
    return {name.removeprefix(beginning): state[name] for name in state if name.startswith(beginning)}


def _count(names: list[str], more: str = "") -> str:
    return f"{len(names)} ({names[0]}{more}{', ...' * (len(names) > 1)}) are" if names else "0 are"


@lru_cache(maxsize=1)  # each training of a process begins with them, and timm asks a server
def _timms(network: str, image_size: int) -> State:
    try:
        with torch.random.fork_rng(devices=[]):
            return library_network(network, 3, image_size, pretrained=True).state_dict()
    except ValueError as error:
        if isinstance(error.__cause__, OSError):  # no connection, and no copy
            hint = "HF_HOME names the folder of its copies; or use `--weights none`, or `--weights FILE`"
            raise OSError(f"weights 'imagenet': {error}; {hint}") from error
        raise


def _imagenet(network: str) -> State:
    """torchvision's first version for our networks, its own choice for "torchvision:NAME"."""
    from torchvision import models  # takes seconds, which other networks' trials need not spend

    if network in IMAGENET:
        weights = getattr(models, IMAGENET[network]).IMAGENET1K_V1
    elif is_librarys(network):
        weights = models.get_model_weights(network.partition(":")[2]).DEFAULT
    else:
        known = f"{sorted(IMAGENET)}, timm: and torchvision: networks"
        raise ValueError(f"weights 'imagenet' exist for {known}, not for network {network!r}")
    try:
        return weights.get_state_dict(progress=False, check_hash=True, map_location="cpu", weights_only=True)
    except Exception as error:  # no connection, an error page, a wrong checksum, a damaged copy
        cached = os.path.join(torch.hub.get_dir(), "checkpoints", os.path.basename(urlparse(weights.url).path))
        raise OSError(
            f"weights 'imagenet': {weights.url} or its copy {cached} cannot be read ({type(error).__name__}: {error}); "
            "remove a damaged copy, or put the file there (TORCH_HOME leads to it), or use `--weights none`, or "
            "`--weights FILE`"
        ) from error


def _file(weights: str) -> State:
    path = local_path(weights, "weights")
    if not path.is_file():
        raise FileNotFoundError(
            f"weights {weights!r}: no such file in {Path.cwd()}; allowed are none, imagenet and a file"
        )
    hint = "save one with torch.save(model.state_dict(), FILE)"
    try:
        state = load_tensors(path)
    except ValueError as error:
        raise ValueError(f"weights {weights!r}: not a state dict, {error}; {hint}") from error
    while isinstance(state, dict) and (key := next((k for k in WRAPPED if isinstance(state.get(k), dict)), None)):
        state = state[key]
    odd = {type(state).__name__}
    if isinstance(state, dict) and state:
        wrong = ((k, v) for k, v in state.items() if not isinstance(k, str) or not isinstance(v, Tensor))
        odd = {f"{name!r}: {type(value).__name__}" for name, value in wrong}
    if odd:
        raise ValueError(f"weights {weights!r}: not a state dict of names and tensors, it has {min(odd)}; {hint}")
    return state
