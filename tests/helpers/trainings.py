"""Small trainings of every kind, alone and in packs, with made-up images."""

from dataclasses import replace
from functools import cache

import torch

from trainables.data.resident import DeviceData
from trainables.training.loop import Training
from trainables.training.setups import find_setup
from trainables.training.side_by_side import advance, outcomes

CPU = torch.device("cpu")
SIZE = 28 if torch.cuda.is_available() else 16  # pixels: on a CPU convolutions cost most of a training's time
SETUP = replace(find_setup("glyphs", "small"), image_size=SIZE, images_seen=640, evaluations=4)
H = {"Lambda_p": 0.3, "Lambda_e": 2.0, "batch_size": 32}


def blobs(classes, seed, per_class=6, channels=1, size=SIZE):
    """Images of a class are noisy copies of one pattern: (uint8 [n, c, h, w], labels [n])."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(classes, 1, channels, size, size, generator=generator)
    noise = 0.3 * torch.rand(classes, per_class, channels, size, size, generator=generator)
    images = ((patterns * 0.7 + noise).flatten(0, 1) * 255).to(torch.uint8)
    return images, torch.arange(classes).repeat_interleave(per_class)


DATA = DeviceData("blobs", blobs(24, 1), blobs(8, 2), blobs(8, 3))
SSL_DATA = DeviceData("blobs", *(blobs(4, 1, per_class=n, channels=3) for n in (40, 10, 10)))
SSL_SETUP = replace(
    find_setup("tinyimagenet", "small"),
    image_size=SIZE, images_seen=640, evaluations=2, probe_epochs=5, probe_steps=0,
)  # fmt: skip
VICREG = replace(SSL_SETUP, loss="vicreg", projector="24-16")
H3 = {"Lambda_sim": 2.5, "Lambda_std": 2.5, "Lambda_cov": 0.1, "batch_size": 32}


def advance_one(training):
    """Train one alone up to its next evaluation, which is returned."""
    [evaluation] = advance([training])
    return evaluation


def outcome_of(training):
    [outcome] = outcomes([training])
    return outcome


def begun(setup=SETUP, data=DATA, h=H, seed=0):
    return Training(setup, data, h, seed=seed, device=CPU)


def finished(setup=SETUP, data=DATA, h=H, seed=0):
    training = begun(setup, data, h, seed)
    while not training.done:
        advance_one(training)
    return training


KINDS = {
    "margin": (SETUP, DATA),
    "infonce with a head, crops and a cosine schedule":
        (replace(SETUP, loss="infonce", embedding=16, augmentation="crop", schedule="cosine"), DATA),
    "memory": (replace(SETUP, memory="variable", memory_size=40, memory_start=3, k=4, distance="cosine"), DATA),
    "Adam": (replace(SETUP, optimizer="adam", learning_rate=1e-3, weight_decay=5e-4, schedule="step"), DATA),
    "Adam on a plateau":
        (replace(SETUP, optimizer="adam", learning_rate=1e-3, schedule="plateau", selected_by="recall_at_1"), DATA),
    "self-supervised": (SSL_SETUP, SSL_DATA),
}  # fmt: skip


def configuration(*values):
    return dict(zip(("Lambda_p", "Lambda_e", "batch_size", "seed"), values))


def trained(pack, configurations=None):
    """{index: outcome} of a whole list, or of what has begun."""
    if configurations is not None:
        pack.begin(configurations)
    outcomes = {}
    while not pack.done:
        pack.advance()
        for index in [index for index, training in pack.running.items() if training.done]:
            outcomes[index] = pack.finish(index)
    return outcomes


def told(outcome):
    """All that an outcome says, but the time it took."""
    looks = [(look.images_seen, look.scores) for look in outcome.curve]
    return [outcome.status, outcome.val_score, outcome.test_score, outcome.scores, outcome.best_at, looks]


@cache
def alone(setup, data, Lambda_p, Lambda_e, batch_size, seed):
    """What the outcome of a training by itself says; each is trained once, for all tests that compare with it."""
    h = {"Lambda_p": Lambda_p, "Lambda_e": Lambda_e, "batch_size": batch_size}
    return told(outcome_of(finished(setup, data, h, seed)))
