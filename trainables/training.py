"""One training in steps: SGD with learning rate 1 on Lambda_p * positive + Lambda_e * entropy (`eq:contrastive_decomposition_update`).

`advance()` trains up to the next look at the validation split, `outcome()` tests the weights that were best there. In
between, whoever drives it may report, stop, or keep `state()`, from which another process goes on to the same end. No
Ray, no search.

Equal seeds give equal bits on the CPU, for an equal number of threads. On a GPU they give the same batches, views and
first weights; sums on the device are not ordered, and runs differ by rounding.
"""

import copy
import math
import time
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from trainables.data import DeviceData, take
from trainables.evaluation import COLLAPSED, Diverged, evaluate
from trainables.losses import infonce_terms, margin_terms, pair_statistics
from trainables.memory import CrossBatchMemory, check_memory, memory_terms, memory_weights
from trainables.models import build_network
from trainables.revisited import evaluate_benchmark
from trainables.sampling import KPerClass, Views
from trainables.tasks import Setup
from trainables.views import crop_views, normalise, simclr_views

DIVERGENCE_CHECK = 25  # iterations between two looks at the loss: each look waits for the device
TERM_BATCHES = 16  # batches over which the terms are averaged after training


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
        self.setup, self.data, self.seed = setup, data, seed
        self.Lambda_p, self.Lambda_e, self.batch_size = h["Lambda_p"], h["Lambda_e"], int(h["batch_size"])
        self.generator = torch.Generator(device).manual_seed(seed)
        self.sampler = _sampler(setup, data, self.batch_size, device)
        network = build_network(
            setup.network, channels=data.train[0].shape[1], image_size=setup.image_size, projection=setup.task == "ssl",
            seed=seed, embedding=setup.embedding, weights=setup.weights,
        )  # fmt: skip
        self.model = network.to(device, memory_format=torch.channels_last)
        self.optimiser = _optimiser(self.model, setup)
        self.memory = _memory(self.model, setup, data, self.batch_size, device)
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
        target, began = self._next_evaluation(), self.iteration
        started = time.perf_counter()
        self.model.train()
        total = torch.zeros(2, device=self.generator.device)
        while self.iteration < target and not self.diverged:
            terms, z, labels = self._step()
            total += terms
            self.iteration += 1
            if self.iteration % DIVERGENCE_CHECK == 0 or self.iteration == target:
                self.diverged = not bool(torch.isfinite(terms).all())
        logged = {"train_positive_term": total[0], "train_entropy_term": total[1]}
        logged = {name: float(value) / (self.iteration - began) for name, value in logged.items()}
        logged |= {f"train_{name}": float(value) for name, value in pair_statistics(z, labels).items()}
        self.train_seconds += time.perf_counter() - started
        evaluation = self._evaluate(logged)
        if not self.diverged and evaluation.val_score > self.best_score:
            self.best = copy.deepcopy(self.model.state_dict())
        self.curve.append(evaluation)
        return evaluation

    def outcome(self) -> Outcome:
        """Test the weights that were best on validation (`sec:exps`, "Networks and training")."""
        seen = self.iteration * self.batch_size
        if self.diverged:  # the scores of its last weights are kept to be looked at; they select nothing
            scores = _named(self.curve[-1].scores, self._scores(self.data.test) if self.data.test else {})
            return Outcome("diverged", None, None, scores, None, None, seen, None, self.train_seconds, self.curve)
        best = max(self.curve, key=lambda evaluation: evaluation.val_score)
        self.model.load_state_dict(self.best)
        try:
            test = self._test()
        except Diverged:  # finite on validation, and not here
            self.diverged = True
            return self.outcome()
        terms = self._terms_after_training()
        return Outcome(
            "completed", best.val_score, test[self._test_metric], _named(best.scores, test) | terms, terms["positive_term"],
            terms["entropy_term"], seen, best.images_seen, self.train_seconds, self.curve,
        )  # fmt: skip

    @property
    def _test_metric(self) -> str:
        """The set-up's `test_metric`, by the name of the benchmark that is really there (a part of one is named so)."""
        return self.setup.metric if self.data.benchmark is None else f"{self.data.benchmark.name}_medium_map"

    def state(self) -> dict:
        """Everything needed to go on to the same end: tensors and plain types (`torch.save`, `torch.load(weights_only=True)`)."""
        return {
            **self._identity(),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "memory": self.memory and self.memory.state_dict(),
            "generator": self.generator.get_state(),
            "iteration": self.iteration,
            "diverged": self.diverged,
            "train_seconds": self.train_seconds,
            "curve": [asdict(evaluation) for evaluation in self.curve],
            "best": self.best,
        }

    def load_state(self, state: dict) -> None:
        """The inverse of `state`. Raises ValueError for the state of another training, naming what differs."""
        identity = self._identity()
        differs = [name for name in identity if state.get(name) != identity[name]]
        if differs:
            raise ValueError(f"the state of another training: {', '.join(f'{name} {state.get(name)!r}, not {identity[name]!r}' for name in differs)}")
        self.generator.set_state(state["generator"].cpu())  # first: a GPU's and a CPU's do not fit each other
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.memory is not None:
            self.memory.load_state_dict(state["memory"])
        self.iteration, self.diverged, self.train_seconds = state["iteration"], state["diverged"], state["train_seconds"]
        self.curve = [Evaluation(**evaluation) for evaluation in state["curve"]]
        self.best = copy.deepcopy(state["best"])

    def _identity(self) -> dict:
        h = {"Lambda_p": self.Lambda_p, "Lambda_e": self.Lambda_e, "batch_size": self.batch_size}
        return {"setup": asdict(self.setup), "data": self.data.name, "h": h, "seed": self.seed}

    def _step(self) -> tuple[Tensor, Tensor, Tensor]:
        """One iteration; returns the two terms [2], embeddings [b, d] and labels [b], without waiting for the device."""
        images, labels = self._batch()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=_precision(self.setup, images.device) == "bfloat16"):
            z = self.model(images)
        positive, entropy = loss_terms(z, labels, self.setup)
        loss = self.Lambda_p * positive + self.Lambda_e * entropy
        if self.memory is not None and self.iteration >= self.setup.memory_start:
            loss = loss + self._memory_loss(z, labels)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.setup.schedule != "constant":
            for group in self.optimiser.param_groups:
                group["lr"] = group["initial_lr"] * decay(self.setup.schedule, self.iteration / self.iterations)
        self.optimiser.step()
        return torch.stack((positive, entropy)).detach(), z.detach(), labels

    def _memory_loss(self, z: Tensor, labels: Tensor) -> Tensor:
        """The batch joins the memory, then is compared with it (`sec:xbm`)."""
        setup = self.setup
        slots = self.memory.enqueue(z, labels)
        positive, entropy, positive_pairs, negative_pairs = memory_terms(
            z, labels, slots, self.memory, loss=setup.loss, margin=setup.margin, temperature=setup.temperature,
            distance=setup.loss_distance, q=setup.q,
        )  # fmt: skip
        factor_p, factor_e = memory_weights(setup.memory, positive_pairs, negative_pairs, self.batch_size, setup.k)
        return self.Lambda_p * factor_p * positive + self.Lambda_e * factor_e * entropy

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Images [b, c, h, w] ready for the network and their labels [b]."""
        indices, labels = self.sampler.draw(self.generator)
        images = take(self.data.train[0], indices)
        if self.setup.views != "none":
            images = {"simclr": simclr_views, "crop": crop_views}[self.setup.views](images, self.generator)
        return normalise(images).contiguous(memory_format=torch.channels_last), labels

    def _next_evaluation(self) -> int:
        """The iteration of the next of `evaluations` evenly spaced looks, the last at the very end."""
        n, total = self.setup.evaluations, self.iterations
        return next(math.ceil(total * i / n) for i in range(1, n + 1) if math.ceil(total * i / n) > self.iteration)

    def _evaluate(self, logged: dict[str, float]) -> Evaluation:
        """Validate; a loss or output that is not finite, or embeddings that all coincide, end the training here."""
        scores = self._scores(self.data.validation)
        self.diverged = self.diverged or scores.get("spread", 0.0) < COLLAPSED
        val_score = math.nan if self.diverged else scores[self.setup.metric]
        return Evaluation(self.iteration * self.batch_size, self.train_seconds, val_score, scores | logged)

    def _scores(self, split: tuple[Tensor, Tensor]) -> dict[str, float]:
        """The present weights' scores on a split; none where the output is not finite."""
        try:
            return evaluate(self.model, self.setup, self.data.train, split)
        except Diverged:
            return {}

    def _test(self) -> dict[str, float]:
        if self.setup.test == "split":
            return evaluate(self.model, self.setup, self.data.train, self.data.test, whole=True)
        self.model.eval()
        return evaluate_benchmark(self.model, self.data.benchmark, device=self.generator.device)

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


def decay(schedule: str, done: float) -> float:
    """What the learning rate is multiplied by when this share of the training is done, 0 <= done < 1 ("with decay" in `table:xbm`)."""
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1.0 if schedule == "constant" or done < 0.6 else 0.1 if done < 0.8 else 0.01


def _named(validation: dict[str, float], test: dict[str, float]) -> dict[str, float]:
    """Both splits' scores in one map, as the results table holds them."""
    named = {name if name.startswith("train_") else f"val_{name}": value for name, value in validation.items()}
    return named | {f"test_{name}": value for name, value in test.items()}


def _precision(setup: Setup, device: torch.device) -> str:
    return setup.precision or ("bfloat16" if device.type == "cuda" else "float32")


def _optimiser(model: torch.nn.Module, setup: Setup) -> torch.optim.Optimizer:
    if setup.optimizer == "adam":
        optimiser = torch.optim.Adam(model.parameters(), lr=setup.learning_rate, fused=True)
    else:
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0, fused=True)
    for group in optimiser.param_groups:
        group["initial_lr"] = group["lr"]
    return optimiser


@torch.no_grad()
def _memory(model: torch.nn.Module, setup: Setup, data: DeviceData, batch_size: int, device: torch.device) -> CrossBatchMemory | None:
    if setup.memory == "none":
        return None
    check_memory(setup.memory, setup.memory_size, batch_size, setup.k)
    images = take(data.train[0], torch.arange(2, device=device))
    return CrossBatchMemory(setup.memory_size, model.eval()(normalise(images)).shape[1]).to(device)


def _sampler(setup: Setup, data: DeviceData, batch_size: int, device: torch.device) -> KPerClass | Views:
    images, labels = data.train
    if setup.task == "ssl":
        return Views(len(images), batch_size, setup.k, device)
    return KPerClass(labels, batch_size, setup.k, device)
