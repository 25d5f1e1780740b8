"""One training in steps: SGD with learning rate 1 on Lambda_p * positive + Lambda_e * entropy (`eq:contrastive_decomposition_update`).

`advance()` trains up to the next look at the validation split, `outcome()` tests the weights that were best there. In
between, whoever drives it may report, stop or checkpoint. No Ray, no search.
"""

import copy
import math
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainables.datasets import Split, load_dataset
from trainables.evaluation import COLLAPSED, Diverged, evaluate
from trainables.losses import infonce_terms, margin_terms, pair_statistics
from trainables.models import build_network
from trainables.sampling import KPerClass, Views
from trainables.tasks import Setup
from trainables.views import normalise, simclr_views

DIVERGENCE_CHECK = 25  # iterations between two looks at the loss: each look waits for the device
TERM_BATCHES = 16  # batches over which the terms are averaged after training


@dataclass(frozen=True)
class DeviceData:
    """A dataset resident on the device, shared by all trainings of a process.

    Each split is (images uint8 [n, c, h, w], labels int64 [n]).
    """

    name: str
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @classmethod
    def load(cls, setup: Setup, data_root: str | None, device: torch.device) -> "DeviceData":
        data = load_dataset(setup.dataset, data_root, image_size=setup.image_size)
        splits = {name: _to_device(getattr(data, name), device) for name in ("train", "validation", "test")}
        return cls(data.name, **splits)


@dataclass
class Evaluation:
    """What one look at the validation split says. `scores` holds every number measured; `val_score` drives everything."""

    images_seen: int
    train_seconds: float
    val_score: float
    scores: dict[str, float] = field(default_factory=dict)


@dataclass
class Outcome:
    """The end of a training: what the results table wants to know about it."""

    status: str  # completed | diverged
    val_score: float | None
    test_score: float | None
    scores: dict[str, float]
    positive_term: float | None
    entropy_term: float | None
    images_seen: int
    best_at: int | None
    train_seconds: float
    curve: list[Evaluation]


class Training:
    """One configuration being trained. `advance()` until `done`, then `outcome()`."""

    def __init__(self, setup: Setup, data: DeviceData, h: dict, *, seed: int, device: torch.device):
        """h: {"Lambda_p", "Lambda_e", "batch_size"}. Raises ValueError where the batch cannot be drawn from the data."""
        self.setup, self.data = setup, data
        self.Lambda_p, self.Lambda_e, self.batch_size = h["Lambda_p"], h["Lambda_e"], int(h["batch_size"])
        self.generator = torch.Generator(device).manual_seed(seed)
        self.sampler = _sampler(setup, data, self.batch_size, device)
        channels = data.train[0].shape[1]
        network = build_network(
            setup.network, channels=channels, image_size=setup.image_size, projection=setup.task == "ssl", seed=seed
        )
        self.model = network.to(device, memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1.0, fused=True)
        self.iterations = max(1, setup.images_seen // self.batch_size)
        self.iteration = 0
        self.diverged = False
        self.train_seconds = 0.0
        self.curve: list[Evaluation] = []
        self.best: dict[str, Tensor] | None = None

    @property
    def done(self) -> bool:
        return self.diverged or self.iteration >= self.iterations

    @property
    def best_score(self) -> float:
        """Best validation score so far; -inf before the first, NaN once diverged."""
        return math.nan if self.diverged else max((evaluation.val_score for evaluation in self.curve), default=-math.inf)

    def advance(self) -> Evaluation:
        """Train up to the next validation evaluation, and do it. A diverged training scores NaN and is done."""
        target = self._next_evaluation()
        started = time.perf_counter()
        self.model.train()
        while self.iteration < target and not self.diverged:
            terms = self._step()
            self.iteration += 1
            if self.iteration % DIVERGENCE_CHECK == 0 or self.iteration == target:
                self.diverged = not bool(torch.isfinite(terms).all())
        self.train_seconds += time.perf_counter() - started
        evaluation = self._evaluate()
        if not self.diverged and evaluation.val_score > self.best_score:
            self.best = copy.deepcopy(self.model.state_dict())
        self.curve.append(evaluation)
        return evaluation

    def outcome(self) -> Outcome:
        """Test the weights that were best on validation (`sec:exps`, "Networks and training")."""
        seen = self.iteration * self.batch_size
        if self.diverged:  # the scores of its last weights are kept to be looked at; they select nothing
            scores = _named(self.curve[-1].scores, self._scores(self.data.test))
            return Outcome("diverged", None, None, scores, None, None, seen, None, self.train_seconds, self.curve)
        best = max(self.curve, key=lambda evaluation: evaluation.val_score)
        self.model.load_state_dict(self.best)
        test = evaluate(self.model, self.setup, self.data.train, self.data.test)
        terms = self._terms_after_training()
        scores = _named(best.scores, test) | terms
        return Outcome(
            "completed", best.val_score, test[self.setup.metric], scores, terms["positive_term"], terms["entropy_term"],
            seen, best.images_seen, self.train_seconds, self.curve,
        )  # fmt: skip

    def _step(self) -> Tensor:
        """One iteration; returns the two terms [2], detached, without waiting for the device."""
        images, labels = self._batch()
        positive, entropy = loss_terms(self.model(images), labels, self.setup)
        loss = self.Lambda_p * positive + self.Lambda_e * entropy
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return torch.stack((positive, entropy)).detach()

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Images [b, c, h, w] ready for the network and their labels [b]."""
        indices, labels = self.sampler.draw(self.generator)
        images = self.data.train[0][indices]
        if self.setup.task == "ssl":
            images = simclr_views(images, self.generator)
        return normalise(images).contiguous(memory_format=torch.channels_last), labels

    def _next_evaluation(self) -> int:
        """The iteration of the next of `evaluations` evenly spaced looks, the last at the very end."""
        n, total = self.setup.evaluations, self.iterations
        return next(math.ceil(total * i / n) for i in range(1, n + 1) if math.ceil(total * i / n) > self.iteration)

    def _evaluate(self) -> Evaluation:
        """Validate; a loss or output that is not finite, or embeddings that all coincide, end the training here."""
        scores = self._scores(self.data.validation)
        self.diverged = self.diverged or scores.get("spread", 0.0) < COLLAPSED
        val_score = math.nan if self.diverged else scores[self.setup.metric]
        return Evaluation(self.iteration * self.batch_size, self.train_seconds, val_score, scores)

    def _scores(self, split: tuple[Tensor, Tensor]) -> dict[str, float]:
        """The present weights' scores on a split; none where the output is not finite."""
        try:
            return evaluate(self.model, self.setup, self.data.train, split)
        except Diverged:
            return {}

    @torch.no_grad()
    def _terms_after_training(self) -> dict[str, float]:
        """Both terms and the pair statistics of the tested weights, in evaluation mode, averaged over fresh batches."""
        self.model.eval()
        rows = []
        for _ in range(TERM_BATCHES):
            images, labels = self._batch()
            z = self.model(images)
            positive, entropy = loss_terms(z, labels, self.setup)
            rows.append({"positive_term": positive, "entropy_term": entropy} | pair_statistics(z, labels))
        return {name: float(sum(row[name] for row in rows)) / len(rows) for name in rows[0]}


def loss_terms(z: Tensor, labels: Tensor, setup: Setup) -> tuple[Tensor, Tensor]:
    """(positive, entropy) of the set-up's loss, unweighted."""
    if setup.loss == "margin":
        return margin_terms(z, labels, margin=setup.margin, distance=setup.loss_distance, q=setup.q)
    return infonce_terms(z, labels, temperature=setup.temperature, distance=setup.loss_distance)


def _named(validation: dict[str, float], test: dict[str, float]) -> dict[str, float]:
    """Both splits' scores in one map, as the results table holds them."""
    return {f"val_{name}": value for name, value in validation.items()} | {f"test_{name}": value for name, value in test.items()}


def _sampler(setup: Setup, data: DeviceData, batch_size: int, device: torch.device) -> KPerClass | Views:
    images, labels = data.train
    if setup.task == "ssl":
        return Views(len(images), batch_size, setup.k, device)
    return KPerClass(labels, batch_size, setup.k, device)


def _to_device(split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.tensor(split.images, device=device), torch.tensor(split.labels, device=device)
