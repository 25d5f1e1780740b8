"""A dataset as tensors: on the training's device where it fits, else memory-mapped on the host."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.datasets import load_dataset
from trainables.datasets.revisited import Benchmark, load_benchmark
from trainables.training.setup import Setup

RESIDENT_SHARE = 0.5  # of the device's free memory: the rest is for the network and its activations


@dataclass(frozen=True)
class DeviceData:
    """A dataset shared by all trainings of a process.

    Each split is (images uint8 [n, c, h, w], labels int64 [n] on the device). Images are on the device too, unless they
    would fill it; then, and on the CPU, they are the memory map that all processes of a machine share.
    test: None for a dataset that is tested on a benchmark.  left_out: as in `Dataset`.
    """

    name: str
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor] | None = None
    benchmark: Benchmark | None = None
    left_out: str = ""

    @property
    def channels(self) -> int:
        return self.train[0].shape[1]

    @classmethod
    def load(cls, setup: Setup, data_root: str | None, device: torch.device, download: bool = False) -> "DeviceData":
        """Load the set-up's data: decode (once a machine), memory-map, move to the device. Raises as `load_dataset` and
        `load_benchmark`."""
        data = load_dataset(
            setup.dataset, data_root, image_size=setup.image_size, task=setup.task, download=download,
            distortion=setup.distortion,
        )  # fmt: skip
        splits = {name: split for name in ("train", "validation", "test") if (split := getattr(data, name)) is not None}
        room = RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        resident = sum(split.images.nbytes for split in splits.values()) < room  # on a CPU the memory map is as good
        place = device if resident else "cpu"
        tensors = {
            name: (torch.from_numpy(split.images).to(place), torch.tensor(split.labels, device=device))
            for name, split in splits.items()
        }
        benchmark = None
        if setup.test != "split":
            benchmark = load_benchmark(setup.test, data_root, image_size=setup.test_image_size, download=download)
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # trainings read them on streams of their own
        return cls(data.name, **tensors, benchmark=benchmark, left_out=data.left_out)


def take(images: Tensor, indices: Tensor) -> Tensor:
    """images[indices] on the indices' device, wherever the images are: [b, c, h, w]."""
    return images[indices.to(images.device)].to(indices.device, non_blocking=True)
