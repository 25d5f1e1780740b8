"""Scores on revisited Oxford and Paris: descriptors of whole photographs at several scales, then `revisited_map`."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.data.augmentation import normalise
from trainables.datasets.revisited import Benchmark
from trainables.metrics.retrieval import revisited_map

SCALES = (1.0, 2**-0.5, 0.5)  # cnnimageretrieval-pytorch, README; averaged, where its test.py takes GeM's mean

Embed = Callable[[Tensor], Tensor]  # float32 [1, 3, h, w] in [-1, 1] -> unit rows [1, d]


def evaluate_benchmark(embed: Embed, benchmark: Benchmark, *, device: torch.device | str = "cpu") -> dict[str, float]:
    """Score a network: {"<benchmark>_easy_map", "<benchmark>_medium_map", "<benchmark>_hard_map"}, each in [0, 1].

    embed: a network on the device, in evaluation mode, that takes images of any size.
    Returns {} if a descriptor is not finite. Only one image at a time is on the device; memory also holds one
    descriptor per image.
    """
    database, queries = (
        descriptors(embed, images, device=device) for images in (benchmark.database, benchmark.queries)
    )
    if not bool(database.isfinite().all() & queries.isfinite().all()):
        return {}
    scores = revisited_map(queries.double() @ database.double().T, benchmark.relevant)
    return {f"{benchmark.name}_{score}": value for score, value in scores.items()}


@torch.no_grad()
def descriptors(embed: Embed, images: Sequence[np.ndarray], *, device: torch.device | str = "cpu") -> Tensor:
    """Descriptors as unit rows [n, d] in float32 on the CPU: the mean of an image's embeddings at SCALES, normalised
    again. images: uint8 [3, h, w] each."""
    rows = []
    for index in range(len(images)):
        # copied: the memory map is read-only
        image = normalise(torch.from_numpy(np.array(images[index])).to(device)[None])  # [1, 3, h, w]
        total = torch.zeros((), device=device)
        for scale in SCALES:
            size = [max(1, round(side * scale)) for side in image.shape[2:]]
            resized = image
            if size != list(image.shape[2:]):
                resized = F.interpolate(image, size=size, mode="bilinear", antialias=True, align_corners=False)
            total = total + embed(resized).float()
        rows.append(F.normalize(total / len(SCALES), dim=1)[0].cpu())
    return torch.stack(rows)
