"""T trainings of equal batch size as one network of stacked weights: the alternative to `trainables.training.parallel`,
measured by `training.py`.

One `torch.func.vmap` trains all members, so that a layer of T networks is one call (a convolution becomes one of T
groups), and a diverged member costs as much as the others until all have ended.
"""

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from trainables.data.augmentation import normalise, simclr_views
from trainables.data.resident import DeviceData, take
from trainables.training.assembly import build_model, build_sampler, loss_terms
from trainables.training.cuda_graphs import Replayed
from trainables.training.setup import Setup


class StackedTrainer:
    """T trainings of equal b as one: weights, buffers and batches are stacked, [T, ...], and `vmap` trains each on its
    own.

    Batches and views are drawn for all members at once, from one generator, different for each. dtype is the weights'.
    """

    def __init__(
        self,
        setup: Setup,
        data: DeviceData,
        hs: list[dict],
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ):
        """hs: {"Lambda_p", "Lambda_e", "batch_size"} of each member, the batch size being one. Member i starts from
        seed i."""
        self.setup, self.data, self.device, self.dtype = setup, data, device, dtype
        self.generator = torch.Generator(device).manual_seed(0)
        self.sampler = build_sampler(setup, data, hs[0]["batch_size"], device)
        models = [build_model(setup, data, seed).to(device, dtype) for seed in range(len(hs))]
        parameters, buffers = stack_module_state(models)
        self.parameters = {name: torch.nn.Parameter(stack.detach()) for name, stack in parameters.items()}
        self.buffers = {name: stack.detach() for name, stack in buffers.items()}
        self.model = models[0].to("meta").train()
        self.model.memory_format = torch.contiguous_format  # the only one that vmap can convert to
        self.weights = torch.tensor([(h["Lambda_p"], h["Lambda_e"]) for h in hs], device=device, dtype=dtype)  # [T, 2]
        self.optimiser = torch.optim.SGD(self.parameters.values(), lr=1.0, fused=True)
        self.iteration = 0
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream(device))  # on which all of this was built
        self._replayed = Replayed(self.stream, self.generator) if self.stream else None

    def step(self) -> None:
        """One iteration of every member, without waiting for the device."""
        with torch.cuda.stream(self.stream):  # None: no stream, nothing to do
            (self.terms,) = self._replayed(self._step) if self._replayed else self._step()
        self.iteration += 1

    def batch(self) -> tuple[Tensor, Tensor]:
        """Images [T, b, c, h, w] ready for the networks and labels [T, b]."""
        members = torch.arange(len(self.weights), device=self.device)
        indices, labels = vmap(lambda _: self.sampler.draw(self.generator), randomness="different")(members)
        images = take(self.data.train[0], indices.flatten())
        if self.setup.views == "simclr":  # each image has parameters of its own anyhow, so T batches are one large one
            images = simclr_views(images, self.generator)
        return normalise(images).to(self.dtype).unflatten(0, indices.shape), labels

    @torch.no_grad()  # outside of `grad`: no graph of the gradients themselves
    def update(self, images: Tensor, labels: Tensor) -> Tensor:
        """SGD on batches [T, b, c, h, w] with labels [T, b]; returns the terms [T, 2]."""
        train = vmap(grad_and_value(self._loss, has_aux=True))
        gradients, (_, (terms, buffers)) = train(self.parameters, self.buffers, self.weights, images, labels)
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name].contiguous()  # laid out as the parameter is, for the fused step
        self.optimiser.step()
        for name, buffer in self.buffers.items():
            buffer.copy_(buffers[name])
        return terms

    def _step(self) -> tuple[Tensor]:
        return (self.update(*self.batch()),)

    def _loss(
        self, parameters: dict, buffers: dict, weights: Tensor, images: Tensor, labels: Tensor
    ) -> tuple[Tensor, tuple]:
        """One member's loss, its terms [2], and its buffers after the batch."""
        buffers = {name: buffer.clone() for name, buffer in buffers.items()}
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.setup.precision == "bfloat16"):
            z = functional_call(self.model, (parameters, buffers), (images,))
        terms = torch.stack(loss_terms(z, labels, self.setup))
        return (weights * terms).sum(), (terms, buffers)
