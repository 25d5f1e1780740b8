"""One training in steps: SGD with learning rate 1 on the sum of Lambda_i * term_i over the loss's terms.

(`eq:contrastive_decomposition_update`, for any number of terms.) `trainables.training.side_by_side` drives it, alone or
beside others: `advance` trains up to the next validation evaluation, `outcomes` tests the weights that were best on
validation. In between the caller may report, stop, or keep `state()`, from which another process resumes to the same
result. This module knows neither Ray nor a search.

Equal seeds give equal bits on the CPU, for an equal number of threads. On a GPU they give the same batches, views and
initial weights, but runs differ by rounding, as sums on the device are not ordered. On a GPU each training runs its
steps on a stream of its own, as a recorded graph (`trainables.training.cuda_graphs`) if the step is `recordable`.
"""

import copy
import math
import re
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.data.resident import DeviceData, take
from trainables.losses import find_loss
from trainables.losses.terms import pair_statistics
from trainables.training import assembly
from trainables.training.cuda_graphs import WARM_UP, Replayed
from trainables.training.device import aside, keep_freed_memory
from trainables.training.evaluation import COLLAPSED
from trainables.training.outcome import Evaluation
from trainables.training.setup import Setup

DIVERGENCE_CHECK = 25  # iterations between two checks of the loss: each waits for the device
CHECK_LEAD = 5  # age in iterations of the terms that a check reads: the device runs these while the host waits
PLACE = "(?<=^folder-).*-"  # in the name of a user's own images, which may move
TERM_BATCHES = 16  # batches over which the terms are averaged after training


class Training:
    """The training of one configuration, until `done`; `begin` starts it over with another one."""

    def __init__(self, setup: Setup, data: DeviceData, h: dict, *, seed: int, device: torch.device):
        """h: the weights of the loss's terms, named as in `Loss.weights`, and "batch_size"; other keys are ignored.
        Raises ValueError if the data have too few classes for a batch."""
        keep_freed_memory()
        self.setup, self.data, self.device = setup, data, device
        self.loss = find_loss(setup.loss)
        self.batch_size = int(h["batch_size"])
        self.iterations = max(1, setup.images_seen // self.batch_size)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.generator = torch.Generator(device)
        self.sampler = assembly.build_sampler(setup, data, self.batch_size, device)
        model = assembly.build_model(setup, data.channels, seed)
        self.model = model.to(device, memory_format=model.memory_format)
        self.optimiser = assembly.build_optimiser(self.model, setup, device)
        self.memory = assembly.build_memory(self.model, setup, data, device)
        # three tensors [terms], in the loss's order
        self.weights = torch.zeros(len(self.loss.terms), device=device)  # the Lambdas, read here by a recorded step
        self._sums = torch.zeros_like(self.weights)  # of the terms since the last evaluation
        self.checked = torch.zeros_like(self.weights)  # the terms CHECK_LEAD iterations before a check
        self.check_made = torch.cuda.Event() if self.stream else None
        self._replayed: dict[bool, Replayed] = {}  # with_memory -> the recorded step
        self._start(h, seed)

    def begin(self, h: dict, *, seed: int) -> None:
        """Start over with another balance and seed, as a new training would; buffers and recorded graphs are reused.

        h: of the constructor's batch size.
        """
        with aside([self]):
            self.model.load_state_dict(assembly.build_model(self.setup, self.data.channels, seed).state_dict())
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()
            if self.memory is not None:
                self.memory.forget()
        self._start(h, seed)

    def _start(self, h: dict, seed: int) -> None:
        self.seed = seed
        self.h = {name: h[name] for name in self.loss.weights} | {"batch_size": self.batch_size}
        self.generator.manual_seed(seed)
        with aside([self]):
            self.weights.copy_(torch.tensor([h[name] for name in self.loss.weights]))
        self.iteration = 0
        self.diverged = False
        self.paused = False  # set by its owner; it is not trained further
        self.train_seconds = 0.0
        self.curve: list[Evaluation] = []
        self.best: dict[str, Tensor] | None = None

    @property
    def done(self) -> bool:
        return self.diverged or self.iteration >= self.iterations

    @property
    def share(self) -> float:
        """The share of its iterations that is done."""
        return self.iteration / self.iterations

    @property
    def best_score(self) -> float:
        """Best validation score so far; -inf before the first, NaN once diverged."""
        return math.nan if self.diverged else max((one.val_score for one in self.curve), default=-math.inf)

    def rehearse(self) -> None:
        """Run and record every kind of step, so that their memory can be measured; then start over."""
        self.model.train()
        with torch.cuda.stream(self.stream):
            for with_memory in (False, True)[: 1 + (self.memory is not None)]:
                for _ in range(WARM_UP + 1):
                    self._take(with_memory)
        self.begin(self.h, seed=self.seed)
        self.wait()

    def depart(self) -> None:
        """Set `target` to the next evaluation and reset the sums of the terms."""
        self.departed_at = self.iteration
        self.target = assembly.next_evaluation(self.iteration, self.iterations, self.setup.evaluations)
        self._plateau = assembly.plateau([evaluation.val_score for evaluation in self.curve])
        self.model.train()
        with aside([self]):
            self._sums.zero_()
            self.checked.zero_()

    def step(self) -> None:
        """One iteration, without waiting for the device."""
        with_memory = self.memory is not None and self.iteration >= self.setup.memory_start
        with torch.cuda.stream(self.stream):  # None on a CPU: no effect
            if self.setup.schedule != "constant":
                for group in self.optimiser.param_groups:
                    group["lr"].fill_(self._rate())
            self._take(with_memory)
            self.iteration += 1
            if (self.iteration + CHECK_LEAD) % DIVERGENCE_CHECK == 0:
                self.checked.copy_(self.terms)
                if self.check_made:
                    self.check_made.record()

    def _rate(self) -> float:
        """The scheduled learning rate of the next step."""
        schedule, done = self.setup.schedule, self.iteration / self.iterations
        factor = self._plateau if schedule == "plateau" else assembly.decay(schedule, done)
        return assembly.full_rate(self.setup) * factor

    def _take(self, with_memory: bool) -> None:
        step = partial(self._step, with_memory)
        if self.recordable:
            if with_memory not in self._replayed:
                pool = next((other.pool for other in self._replayed.values()), None)
                self._replayed[with_memory] = Replayed(self.stream, self.generator, pool)
            step = partial(self._replayed[with_memory], step)
        self.terms, self.z, self.labels = step()

    def wait(self) -> None:
        """Wait until the device has done all steps so far."""
        if self.stream:
            self.stream.synchronize()

    def logged(self) -> dict[str, Tensor]:
        """Scalars to log: mean terms since the last evaluation, and pair statistics of the last batch."""
        means = (self._sums / (self.iteration - self.departed_at)).unbind()
        measured = dict(zip(self.loss.scores, means)) | self._pair_statistics(self.z, self.labels)
        return {f"train_{name}": value for name, value in measured.items()}

    def _pair_statistics(self, z: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return pair_statistics(z if self.loss.normalised else F.normalize(z, dim=1), labels)

    def judge(self, scores: dict[str, float], logged: dict[str, float]) -> Evaluation:
        """Append and return the evaluation with these scores, {} for an output that is not finite. The best so far
        keeps its weights. A loss or output that is not finite, or embeddings that all coincide, end the training."""
        self.diverged = self.diverged or not scores or scores["spread"] < COLLAPSED
        val_score = math.nan if self.diverged else scores[self.setup.metric]
        if val_score > self.best_score:
            self.best = copy.deepcopy(self.model.state_dict())
        evaluation = Evaluation(self.images_seen, self.train_seconds, val_score, scores | logged)
        self.curve.append(evaluation)
        return evaluation

    @property
    def images_seen(self) -> int:
        return self.iteration * self.batch_size

    @property
    def best_evaluation(self) -> Evaluation:
        return max(self.curve, key=lambda evaluation: evaluation.val_score)

    def state(self) -> dict:
        """The state from which a training resumes to the same result: only tensors and plain types."""
        return {
            "identity": self._identity(),
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
        """Resume from `state()`. Raises ValueError for the state of another training, naming what differs."""
        if not isinstance(state, dict) or "identity" not in state:
            raise ValueError("it is not the state of a training")
        told, own = state["identity"], self._identity()
        pairs = {name: (told.get(name, "absent"), own.get(name, "absent")) for name in own | told}
        if len({re.sub(PLACE, "", str(name)) for name in pairs["data"]}) == 1:
            del pairs["data"]
        if differs := [f"{name} {was!r}, not {is_now!r}" for name, (was, is_now) in pairs.items() if was != is_now]:
            raise ValueError(f"the state of another training: {', '.join(differs)}")
        self.generator.set_state(state["generator"].cpu())  # first: a GPU's and a CPU's do not fit each other
        with aside([self]):
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))  # torch keeps the tensors it is given
            for group in self.optimiser.param_groups:  # torch moves the state, but not a scheduled rate
                group["lr"] = group["lr"].to(self.device) if isinstance(group["lr"], Tensor) else group["lr"]
            if self.setup.optimizer == "adam":
                self._replayed = {}  # recorded steps use the former tensors of its state
            if self.memory is not None:
                self.memory.load_state_dict(state["memory"])
        self.iteration = state["iteration"]
        self.diverged, self.train_seconds = state["diverged"], state["train_seconds"]
        self.curve = [Evaluation(**evaluation) for evaluation in state["curve"]]
        self.best = copy.deepcopy(state["best"])

    def _identity(self) -> dict:
        return asdict(self.setup) | self.h | {"data": self.data.name, "seed": self.seed}

    @property
    def recordable(self) -> bool:
        """Whether the step runs as a recorded graph: on a GPU that holds the images, unless recording has failed. With
        a user's network or loss, only if `setup.step` is "graph"."""
        if self.stream is None or not self.data.train[0].is_cuda or any(one.plain for one in self._replayed.values()):
            return False
        own = ":" in self.setup.network + self.setup.loss
        return self.setup.step == "graph" or (self.setup.step is None and not own)

    def _step(self, with_memory: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Run one iteration without waiting; returns the terms [terms], embeddings [b, d] and labels [b]."""
        images, labels = self.batch()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.setup.precision == "bfloat16"):
            z = self.model(images)
        terms = all_terms = torch.stack(assembly.loss_terms(z, labels, self.setup))  # [terms]
        if with_memory:
            all_terms = terms + torch.stack(assembly.remember_and_compare(self.memory, z, labels, self.setup))
        loss = (self.weights * all_terms).sum()  # sum of Lambda_i * term_i
        self.model.zero_grad()
        loss.backward()
        self.optimiser.step()
        self._sums += terms.detach()
        return terms.detach(), z.detach(), labels

    def batch(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Images [b, c, h, w] ready for the network, and their labels [b]. generator None: the training's own."""
        generator = generator or self.generator
        indices, labels = self.sampler.draw(generator)
        return assembly.view_of(take(self.data.train[0], indices), self.setup, generator), labels

    @torch.no_grad()
    def terms_after_training(self) -> dict[str, Tensor]:
        """The terms and the pair statistics of the tested weights, in evaluation mode, averaged over fresh batches."""
        self.model.eval()
        generator, rows = torch.Generator(self.device), []
        generator.set_state(self.generator.get_state())  # a copy, so that a second test has equal terms
        for _ in range(TERM_BATCHES):
            images, labels = self.batch(generator)
            z = self.model(images)
            terms = dict(zip(self.loss.scores, assembly.loss_terms(z, labels, self.setup)))
            rows.append(terms | self._pair_statistics(z, labels))
        return {name: sum(row[name] for row in rows).double() / len(rows) for name in rows[0]}
