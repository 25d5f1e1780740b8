"""The trainer that the usual libraries add up to, for `training.py` to compare with: what was chosen, and why.

- Images are decoded and in memory, as on the other side; an item is a PIL image made of an array and transformed one by
  one in the `Dataset`, as in torchvision's CIFAR10. So neither side is measured reading or decoding files.
- torchvision's transforms: ToTensor and Normalize to [-1, 1], and for self-supervision SimCLR's RandomResizedCrop,
  flip, ColorJitter and RandomGrayscale before them, on PIL images. No Resize: the images have their size already.
- A `DataLoader` with one worker a CPU core, 8 at most, kept from epoch to epoch, and pinned memory where there is a
  GPU.
- Metric learning draws k per class by pytorch-metric-learning's `MPerClassSampler`, an epoch being as many images as
  there are; self-supervision shuffles, each item being k views of an image.
- Losses of pytorch-metric-learning, their terms averaged over all pairs (its default, `AvgNonZeroReducer`, is another
  loss) and weighted: margin by `MultipleReducers`; InfoNCE as Lambda_e * NTXentLoss + (Lambda_p - Lambda_e) * positive
  part. They normalise the embeddings, so the network does not. (`library=False`, where it is not installed: this
  project's sampler and losses.)
- The network is the same, in float32 and torch's own memory format, GeM written the short way. On a GPU convolutions
  are in TF32 (torch's default) and cuDNN searches for the fastest (`benchmark`), since all batches have one shape.
- `torch.optim.SGD(lr=1)` with its defaults; transfers do not block; the loss is read every 50 iterations, to be logged.
"""

import os
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision import transforms

from trainables.data.sampling import KPerClass
from trainables.models.networks import GeM, build_network
from trainables.training.assembly import loss_terms
from trainables.training.setup import Setup

MOST_WORKERS = 8
LOG_EVERY = 50  # iterations


class ReferenceTrainer:
    """One training of a set-up in the usual style; `step()` is one iteration."""

    def __init__(self, setup: Setup, images, labels, h, *, seed: int, device: torch.device, workers=None, library=True):
        """images: uint8 [n, c, h, w].  labels: [n].  h: {"Lambda_p", "Lambda_e", "batch_size"}.  workers: None, one a
        core.  library: whether sampler and losses are pytorch-metric-learning's."""
        torch.manual_seed(seed)
        self.device = device
        workers = min(len(os.sched_getaffinity(0)), MOST_WORKERS) if workers is None else workers
        self.loader = build_loader(setup, images, labels, h["batch_size"], workers, device.type == "cuda", library)
        self.model = build_model(setup, images.shape[1], seed).to(device).train()
        if library:
            from reference_losses import build_loss

            self.loss = build_loss(setup, h["Lambda_p"], h["Lambda_e"])
        else:
            self.loss = partial(own_loss, setup, h)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.batches = endless(self.loader)
        self.iteration, self.logged = 0, []

    @property
    def queue(self) -> int:
        """Batches that the workers prepare ahead."""
        return self.loader.num_workers * (self.loader.prefetch_factor or 0)

    def step(self) -> None:
        images, labels = next(self.batches)
        self.update(images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True))

    def update(self, images: Tensor, labels: Tensor) -> None:
        """One step of SGD on a batch [b, c, h, w] and its labels [b]."""
        loss = self.loss(self.model(images), labels)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.iteration += 1
        if self.iteration % LOG_EVERY == 0:
            self.logged.append(loss.item())


class Images(Dataset):
    """An image and its class, or `views` random views of it and as often its number."""

    def __init__(self, images: Tensor, labels: Tensor, transform: transforms.Compose, views: int):
        self.data = np.ascontiguousarray(images.cpu().permute(0, 2, 3, 1).squeeze(3).numpy())  # [n, h, w(, 3)]
        self.labels, self.transform, self.views = labels.tolist(), transform, views

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int | Tensor]:
        image = Image.fromarray(self.data[index])
        if self.views == 1:
            return self.transform(image), self.labels[index]
        return torch.stack([self.transform(image) for _ in range(self.views)]), torch.full((self.views,), index)


def build_loader(setup: Setup, images, labels, batch_size, workers, pin_memory: bool, library: bool) -> DataLoader:
    """Batches of images [b, c, h, w], or of views [b/k, k, c, h, w], in [-1, 1], and labels of the leading shape."""
    ssl, channels = setup.task == "ssl", images.shape[1]
    dataset = Images(images, labels, build_transform(setup, channels), setup.k if ssl else 1)
    always = {"num_workers": workers, "persistent_workers": workers > 0, "pin_memory": pin_memory}
    if ssl:
        return DataLoader(dataset, batch_size=batch_size // setup.k, shuffle=True, drop_last=True, **always)
    if not library:
        return DataLoader(dataset, batch_sampler=OwnBatches(labels.cpu(), batch_size, setup.k), **always)
    from reference_losses import build_sampler

    sampler = build_sampler(dataset.labels, setup.k, batch_size)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=True, **always)


class OwnBatches(Sampler):
    """Batches of this project's sampler, as lists; an epoch is as many images as there are."""

    def __init__(self, labels: Tensor, batch_size: int, k: int):
        self.sampler, self.generator = KPerClass(labels, batch_size, k, labels.device), torch.Generator()
        self.batches = max(1, len(labels) // batch_size)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.batches):
            yield self.sampler.draw(self.generator)[0].tolist()


def endless(loader: DataLoader) -> Iterator[tuple[Tensor, Tensor]]:
    """Epoch after epoch: images [b, c, h, w] and labels [b].

    No method, so that nothing refers to itself: workers end at once with the last reference to the trainer, while those
    that the garbage collector finds take five seconds each.
    """
    while True:
        for images, labels in loader:
            yield images.flatten(0, -4), labels.flatten()  # the views of an image are items of the batch


def build_transform(setup: Setup, channels: int) -> transforms.Compose:
    """From a PIL image to a tensor in [-1, 1]. Raises ValueError for an augmentation other than none and SimCLR's."""
    if setup.views not in ("none", "simclr"):
        raise ValueError(f"augmentation {setup.views!r}: the reference has 'none' and 'simclr'")
    views = [
        transforms.RandomResizedCrop(setup.image_size, scale=(0.08, 1.0)),
        transforms.RandomHorizontalFlip(),
        transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
    ]
    usual = [transforms.ToTensor(), transforms.Normalize([0.5] * channels, [0.5] * channels)]
    return transforms.Compose(usual if setup.views == "none" else views + usual)


class ShortGeM(nn.Module):
    """avg_pool(clamp(x, 1e-6)^p)^(1/p), as cnnimageretrieval-pytorch has it: [b, c, h, w] -> [b, c]."""

    def __init__(self, p: float = 3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(p))

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x.clamp(min=1e-6).pow(self.p), x.shape[-2:]).pow(1 / self.p).flatten(1)


def build_model(setup: Setup, channels: int, seed: int) -> nn.Module:
    """Images to embeddings that are not normalised; the first weights are those of a `Training` of this seed."""
    embedder = build_network(
        setup.network, channels=channels, image_size=setup.image_size, projection=setup.task == "ssl", seed=seed,
        embedding=setup.embedding, weights=setup.weights,
    )  # fmt: skip
    if isinstance(getattr(embedder.trunk, "pool", None), GeM):
        embedder.trunk.avgpool = ShortGeM()
    return nn.Sequential(embedder.trunk, embedder.head)


def own_loss(setup: Setup, h: dict, embeddings: Tensor, labels: Tensor) -> Tensor:
    """This project's terms of embeddings [b, d] and labels [b], weighted."""
    positive, entropy = loss_terms(F.normalize(embeddings), labels, setup)
    return h["Lambda_p"] * positive + h["Lambda_e"] * entropy
