"""The parts of a training: sampler, optimiser, memory, loss and schedule, as its set-up names them."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from trainables.data.augmentation import centre, crop_views, normalise, simclr_views
from trainables.data.resident import DeviceData, take
from trainables.data.sampling import KPerClass, ViewsPerImage
from trainables.losses import find_loss
from trainables.losses.memory import CrossBatchMemory, memory_terms, memory_weights
from trainables.models.networks import Embedder, build_network
from trainables.models.weights import State
from trainables.training.setup import Setup

REDUCTION, PATIENCE, THRESHOLD, COOLDOWN = 0.1, 4, 1e-3, 2  # torch's default; research-xbm, solver/build.py
LEAST = 1 / (10 * 2)  # min_lr = BASE_LR / (10 * STEPS) there, with STEPS: 2 in configs/sample_config.yaml


def loss_terms(z: Tensor, labels: Tensor, setup: Setup) -> tuple[Tensor, ...]:
    """The terms of the set-up's loss in their order, unweighted scalars.

    Raises ValueError if the user's own loss returns other terms for this batch than it did when it was tried.
    """
    loss = find_loss(setup.loss)
    terms = loss.compute(z, labels, setup)
    if tuple(terms) != loss.terms:
        raise ValueError(f"loss {loss.name!r} returned the terms {list(terms)}, and {list(loss.terms)} at first")
    return tuple(terms.values())


def view_of(images: Tensor, setup: Setup, generator: torch.Generator) -> Tensor:
    """The network's input in training: a random view of each image, uint8 [n, c, h, w], as the set-up augments."""
    if setup.views == "simclr":
        images = simclr_views(images, generator)
    elif setup.views == "crop":
        images = crop_views(images, generator, setup.input_size, (setup.crop_scale, 1.0))
    return normalise(images)


def full_rate(setup: Setup) -> float:
    """The learning rate without a schedule."""
    return setup.learning_rate if setup.optimizer == "adam" else 1.0


def decay(schedule: str, done: float) -> float:
    """The factor of the learning rate after the share `done` of the training, 0 <= done < 1."""
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1.0 if schedule == "constant" or done < 0.6 else 0.1 if done < 0.8 else 0.01


def plateau(scores: Sequence[float]) -> float:
    """The factor of the learning rate after these validation scores ("with decay" in `table:xbm`).

    As in the XBM authors' code (research-xbm, solver/build.py), which is torch's ReduceLROnPlateau. The factor falls to
    a tenth after more than PATIENCE evaluations in a row that do not improve the best by THRESHOLD of it. Evaluations
    within COOLDOWN of a reduction do not count. The factor stays at least LEAST. It depends on the scores alone, so a
    resumed training needs no other state.
    """
    factor, best, bad, cooldown = 1.0, -math.inf, 0, 0
    for score in scores:
        best, bad = (score, 0) if score > best * (1 + THRESHOLD) else (best, bad + 1)
        if cooldown:
            cooldown, bad = cooldown - 1, 0
        if bad > PATIENCE:
            factor, cooldown, bad = max(LEAST, REDUCTION * factor), COOLDOWN, 0
    return factor


def next_evaluation(iteration: int, iterations: int, evaluations: int) -> int:
    """The iteration of the next validation evaluation; they are evenly spaced, the last at the very end."""
    return -(-iterations * (iteration * evaluations // iterations + 1) // evaluations)


def remember_and_compare(memory: CrossBatchMemory, z: Tensor, labels: Tensor, setup: Setup) -> tuple[Tensor, Tensor]:
    """Enqueue a batch, then compute its two terms with the memory (`sec:xbm`), to be weighted as the batch's terms."""
    slots = memory.enqueue(z, labels)
    positive, entropy, positive_pairs, negative_pairs = memory_terms(
        z, labels, slots, memory, loss=setup.loss, margin=setup.margin, temperature=setup.temperature,
        distance=setup.loss_distance, q=setup.q,
    )  # fmt: skip
    factor_p, factor_e = memory_weights(setup.memory, positive_pairs, negative_pairs, len(z), setup.k)
    return factor_p * positive, factor_e * entropy


def build_model(
    setup: Setup, channels: int, seed: int, weights: str | State | None = None, normalised: bool | None = None
) -> Embedder:
    """The set-up's network for images of so many channels, on the CPU. weights, normalised: see `build_network`; None:
    as the set-up and its loss have it."""
    return build_network(
        setup.network, channels=channels, image_size=setup.input_size, projection=setup.task == "ssl", seed=seed,
        embedding=setup.embedding, weights=setup.weights if weights is None else weights, activation=setup.projection,
        normalised=find_loss(setup.loss).normalised if normalised is None else normalised,
        projector=[int(width) for width in setup.projector.split("-") if width],
    )  # fmt: skip


class BareSGD:
    """parameters -= rate * gradients, by the kernels of torch.optim.SGD and with what a training uses of its interface.

    The classes of torch.optim import torch's compiler when the first of them is made, which takes a second and 150 MB
    of every process. lr: a number or a tensor.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float | Tensor):
        self.param_groups = [{"params": list(parameters), "lr": lr}]
        self.state: dict[Tensor, dict] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in moved]
            sgd(
                moved, gradients, [None] * len(moved), fused=True, lr=group["lr"], weight_decay=0, momentum=0,
                dampening=0, nesterov=False, maximize=False,
            )  # fmt: skip

    def state_dict(self) -> dict:
        """Nothing: a scheduled rate is set before each step."""
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


def build_optimiser(model: torch.nn.Module, setup: Setup, device: torch.device) -> BareSGD | torch.optim.Adam:
    """Bare SGD with learning rate 1, or Adam. A scheduled rate is a tensor, which a recorded step reads."""
    rate = full_rate(setup)
    lr = rate if setup.schedule == "constant" else torch.tensor(rate, device=device)
    if setup.optimizer == "sgd":
        return BareSGD(model.parameters(), lr)
    return torch.optim.Adam(
        model.parameters(), lr=lr, weight_decay=setup.weight_decay, fused=True, capturable=device.type == "cuda"
    )


@torch.no_grad()
def build_memory(
    model: torch.nn.Module, setup: Setup, data: DeviceData, device: torch.device
) -> CrossBatchMemory | None:
    """An empty memory for embeddings of the model's dimension; None if the set-up has none."""
    if setup.memory == "none":
        return None
    images = centre(take(data.train[0], torch.arange(2, device=device)), setup.input_size)
    return CrossBatchMemory(setup.memory_size, model.eval()(normalise(images)).shape[1]).to(device)


def build_sampler(setup: Setup, data: DeviceData, batch_size: int, device: torch.device) -> KPerClass | ViewsPerImage:
    """The sampler: k per class for dml, views for ssl. Raises ValueError if such a batch cannot be drawn."""
    images, labels = data.train
    if setup.task == "ssl":
        return ViewsPerImage(len(images), batch_size, setup.k, device)
    return KPerClass(labels, batch_size, setup.k, device)
