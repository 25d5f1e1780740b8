"""A user's own network, tried on random images before a training: by the functions that a training calls."""

from dataclasses import replace

import torch

from trainables.data.resident import DeviceData
from trainables.losses import find_loss
from trainables.metrics.revisited import descriptors
from trainables.own import blamed, kind_of
from trainables.training import checkpoint
from trainables.training.evaluation import apply, evaluate
from trainables.training.loop import Training
from trainables.training.setup import Setup

CPU = torch.device("cpu")
LOSS_BATCH = 16  # least images of a step with a user's own loss, if batches are that large
WEIGHT = 1e-6  # of each term in the step, so that it does not diverge
UNTRAINED = {"weights": "none", "memory_start": 0, "probe_epochs": 1, "probe_steps": 0}  # fields that only take time


@torch.random.fork_rng(devices=[])
def rehearse(setup: Setup, batch_size: int, channels: int) -> None:
    """Try a user's own network: a step, an evaluation, and the state that it leaves, with at most `batch_size` images,
    fewer if the loss allows.

    Raises ValueError naming the network, and what is wrong. Other networks are not tried.
    """
    if ":" not in setup.network:
        return
    torch.default_generator.manual_seed(0)
    least = 2 * setup.k if ":" not in setup.loss else -(-LOSS_BATCH // setup.k) * setup.k
    batch_size = min(least, batch_size)
    network, size = f"network {setup.network!r}", setup.image_size
    labels = torch.arange(batch_size // setup.k).repeat_interleave(2)
    images = torch.randint(256, (len(labels), channels, size, size), dtype=torch.uint8)
    data = DeviceData("random images", (images, labels), (images[:3], labels[:3]))
    small = replace(setup, memory_size=batch_size, **UNTRAINED)
    h = dict.fromkeys(find_loss(setup.loss).weights, WEIGHT) | {"batch_size": batch_size}
    step = f"a training step on {batch_size} random images, to be mapped to [{batch_size}, features] with a gradient,"
    with blamed(f"{network} with loss {setup.loss!r}: {step}"):
        training, other = (Training(small, data, h, seed=0, device=CPU) for _ in range(2))
        training.depart()
        training.step()
    scored = training.model.trunk if setup.task == "ssl" else training.model
    if all(parameter.grad is None for parameter in scored.parameters()):
        raise ValueError(f"{network}: a training step leaves its parameters without a gradient")
    least, shape = 1 + training.loss.normalised, list(training.z.shape)  # a unit vector of one number is constant
    if len(shape) != 2 or shape[0] != batch_size or shape[1] < least:
        allowed = f"[{batch_size}, {least} or more]"
        raise ValueError(f"{network}: in training it maps {batch_size} images to {shape}, allowed is {allowed}")
    if not training.terms.isfinite().all():
        raise ValueError(
            f"{network} with loss {setup.loss!r}: on random images the terms are {training.terms.tolist()}"
        )
    with blamed(f"{network}: an evaluation of random images, to be mapped to [1, features] and [3, features],"):
        [scores] = evaluate([training.model], small, data.train, data.validation)
        alone = apply(training.model, images[:1], CPU, setup.input_size)
    if list(alone.shape) != [1, shape[1]] or not scores or not alone.isfinite().all():
        raise ValueError(f"{network}: it maps one image to {kind_of(alone)}, allowed are finite [1, features]")
    if setup.test != "split":
        width, height = 2 * size, 3 * size // 2
        photo = torch.randint(256, (3, height, width), dtype=torch.uint8).numpy()
        with blamed(f"{network}: a photo of {width} x {height} px at three scales, as test = {setup.test!r} has,"):
            descriptors(training.model, [photo])
    with blamed(f"{network}: a saved training, resumed,"):
        checkpoint.loads(other, checkpoint.dumps(training), "its state")
