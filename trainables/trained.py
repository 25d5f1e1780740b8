"""Saving and loading of trained networks: the weights that were best on validation, and the settings to use them.

    network = load("results/studies/mine/networks/cd~0.937200000~cd-00014.pt")
    embeddings = network(torch.stack([network.photo("a.jpg"), network.photo("b.png")]))  # [2, d]

Files hold only tensors and plain types; reading one executes no code.
"""

import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.augmentation import centre, normalise
from trainables.datasets.source import decode_image
from trainables.datasets.structure import UndecodableImage
from trainables.models.libraries import is_librarys
from trainables.models.weights import load_tensors
from trainables.training.assembly import build_model
from trainables.training.loop import Training
from trainables.training.setup import Setup

FORMAT = 1
OVERSHOT = 1.5  # resizing leaves [0, 1] by less; images from 0 to 255, or standardised, by more


class TrainedNetwork(nn.Module):
    """Maps images to embeddings as the training's evaluation did; in evaluation mode.

    setup, h, seed: the training's. data: the dataset's name. val_score: the best `setup.metric` on validation, reached
    after `images_seen` images.
    """

    def __init__(self, saved: Mapping[str, Any]):
        super().__init__()
        self.setup, self.channels = Setup(**saved["setup"]), int(saved["channels"])
        self.data, self.h, self.seed = saved["data"], dict(saved["h"]), saved["seed"]
        self.val_score, self.images_seen = saved["val_score"], saved["images_seen"]
        embedder = build_model(self.setup, self.channels, 0, saved["network"], saved["normalised"])
        self.embedder = embedder.to(memory_format=embedder.memory_format)  # as it was tested
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings [n, d] of images [n, c, h, w], uint8 or float in [0, 1]; unit vectors if the loss takes those.
        h = w = `setup.image_size`, to which the training decoded them; ValueError for other sizes. Of these the central
        `setup.input_size` px are used."""
        return self.embedder(self._prepared(images))

    def features(self, images: Tensor) -> Tensor:
        """The input of a linear probe, [n, feature_dim]: the features before the projection head, if there is one."""
        return self.embedder.features(self._prepared(images))

    def check_photos(self) -> None:
        """Raise ValueError for a network of one channel, which takes no photographs."""
        if self.channels != 3:
            said = f"images of {self.channels} channel; photographs have 3, and need a network of such"
            raise ValueError(f"the network was trained on {self.data}, {said}")

    def photo(self, file: str | Path | bytes) -> Tensor:
        """Decode an image file, path or bytes, as the training's photographs were: uint8 [3, s, s].

        Raises ValueError if it cannot be decoded, and for a network of one channel, which takes no photographs.
        """
        self.check_photos()
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        try:
            image = decode_image(data, "RGB", self.setup.image_size)
        except UndecodableImage as error:
            raise ValueError(f"{'the image' if isinstance(file, bytes) else file}: {error}") from error
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    def _prepared(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] != self.channels:
            raise ValueError(f"images {list(images.shape)}: [n, {self.channels}, height, width] is required")
        (height, width), size = images.shape[2:], self.setup.image_size
        if (height, width) != (size, size):
            said = f"the training decoded them to {size} x {size}: crop and resize them, or take network.photo(FILE)"
            raise ValueError(f"images of {height} x {width} pixels: {said}")
        if images.dtype != torch.uint8:
            unknown = torch.compiler.is_compiling()  # the values
            if not (images.is_floating_point() and (unknown or (images.abs() <= OVERSHOT).all())):
                raise ValueError(f"images {images.dtype} beyond [0, 1]: uint8, or float in [0, 1], is required")
        return normalise(centre(images, self.setup.input_size)).to(next(self.parameters()).dtype)  # after `half()` too


def dumps(training: Training) -> bytes:
    """The bytes of a file of a completed training's network, with the weights that were best on validation."""
    best = training.best_evaluation
    content = {
        "format": FORMAT, "setup": asdict(training.setup), "data": training.data.name, "h": dict(training.h),
        "seed": training.seed, "val_score": best.val_score, "images_seen": best.images_seen,
        "channels": training.data.channels, "normalised": training.loss.normalised,
        "network": {name: tensor.cpu() for name, tensor in training.best.items()},
    }  # fmt: skip
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def load(file: str | Path | BinaryIO, network: str | None = None) -> TrainedNetwork:
    """Load a network saved by `dumps`, on the CPU.

    network: if it is your own, its "module:function" again, since that is imported and called. Raises ValueError for
    another kind of file, a set-up of another release, and if `network` is not the file's; OSError if it cannot be read.
    """
    where = file if isinstance(file, (str, Path)) else getattr(file, "name", "the file")
    try:
        saved = load_tensors(file)
    except ValueError as error:
        raise ValueError(f"{where} is not a trained network: {error}") from error
    if not isinstance(saved, dict) or saved.get("format") != FORMAT or "network" not in saved:
        raise ValueError(f"{where} is not a trained network of format {FORMAT}, as `--save` of trainables.train writes")
    name = saved["setup"]["network"]
    own = name if ":" in name and not is_librarys(name) else None
    if own != network:
        hint = f"; your own is named by network={own!r} (--own-network {own})" if own else ""
        raise ValueError(f"{where}: its network is {name!r}, asked for was network={network!r}{hint}")
    try:
        return TrainedNetwork(saved)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{where}: saved by another release: {error}") from error
