"""Linear classification of frozen features, the score of self-supervised networks.

The protocol is Patacchiola and Storkey's (self-supervised-relational-reasoning, NeurIPS 2020): one linear layer,
cross-entropy, Adam at 1e-3, 100 epochs of shuffled batches of 128, no weight decay, no schedule. Features are
extracted once, from images that are not augmented. With few steps it does not converge on features of small scale, and
then measures their scale; on standardised features it converges.

The update is written by hand: at this size the overhead of calls dominates a step, and autograd, the module and the
optimiser make most calls. On one core 10,000 x 64 features of 20 classes take 0.4 s for the 100 epochs, against 5 s.
For the same reason several networks' features are classified side by side: a step needs as many calls as for one.
"""

import math

import numpy as np
import torch
from torch import Tensor

from trainables.metrics.retrieval import Labels, as_numbers

ADAM_BETAS = (0.9, 0.999)  # torch.optim.Adam's defaults, which the protocol uses
ADAM_EPSILON = 1e-8
FLAT = 1e-5  # of a dimension's largest value: a smaller standard deviation is rounding


@torch.no_grad()
def linear_probe(
    train_features: Tensor | np.ndarray, train_labels: Labels, test_features: Tensor | np.ndarray, test_labels: Labels,
    *, epochs: int = 100, steps: int = 0, batch_size: int = 128, learning_rate: float = 1e-3,
    standardised: bool = False, seed: int = 0,
) -> float:  # fmt: skip
    """Accuracy in [0, 1] on the test features of a linear classifier trained on the training features.

    Everything happens on the training features' device. Equal seeds give equal results on the CPU; the global random
    state is neither used nor changed.
    train_features, test_features: [n, d] floating point (tensors or arrays), computed in float32.  train_labels,
    test_labels: [n] strings, or integers from 0 on, of which the largest in training sets the number of classes
    (tensors, arrays or lists).  epochs: passes over the training features.
    steps: the least number of steps; if `epochs` have fewer, more epochs are run.  batch_size: features per step; the
    last batch of an epoch may be smaller.  learning_rate: Adam's.  standardised: whether each dimension is first given
    mean 0 and standard deviation 1 over the training features, as MAE's probe does (He et al. 2022, appendix A); one
    without spread becomes 0.  seed: of the initial weights and of the shuffling.
    Raises ValueError for other shapes, features that are not finite, labels out of range, settings not positive.
    """
    x, x_test = torch.as_tensor(train_features), torch.as_tensor(test_features)
    y, y_test = as_numbers(train_labels, test_labels)
    _check(x, y, x_test, y_test, {"epochs": epochs, "steps": steps, "batch_size": batch_size}, learning_rate)
    y, y_test = (labels.to(x.device, torch.int64) for labels in (y, y_test))
    accuracies = linear_probes(
        x[None], y, x_test[None].to(x.device), y_test,
        epochs=epochs, steps=steps, batch_size=batch_size, learning_rate=learning_rate, standardised=standardised,
        seed=seed,
    )  # fmt: skip
    return accuracies.item()


@torch.no_grad()
def linear_probes(
    train_features: Tensor, train_labels: Tensor, test_features: Tensor, test_labels: Tensor, *, epochs: int = 100,
    steps: int = 0, batch_size: int = 128, learning_rate: float = 1e-3, standardised: bool = False, seed: int = 0,
) -> Tensor:  # fmt: skip
    """The accuracies that `linear_probe` gives for each member's features, by one stack of classifiers.

    All members start from the same weights and see the same batches, as they would alone with equal seeds. The host
    waits only for the number of classes.
    train_features, test_features: [members, n, d] floating point.  train_labels, test_labels: int64 [n].  All are on
    one device and not checked: what is not finite makes the accuracy of its member alone meaningless. The rest is as in
    `linear_probe`, the same for all members. Returns float64 [members] on the device."""
    generator = torch.Generator(device=train_features.device).manual_seed(seed)
    x, x_test = train_features.float(), test_features.float()
    if standardised:
        x, x_test = _standardised(x, x_test)
    epochs = max(epochs, math.ceil(steps / math.ceil(x.shape[1] / batch_size)))
    classes = int(train_labels.max()) + 1
    weights = fit(_with_ones(x), train_labels, classes, epochs, batch_size, learning_rate, generator)
    return (torch.bmm(_with_ones(x_test), weights).argmax(2) == test_labels).double().mean(1)


def fit(
    x: Tensor, y: Tensor, classes: int, epochs: int, batch_size: int, learning_rate: float, generator: torch.Generator
) -> Tensor:
    """Weights [members, d + 1, classes] after the epochs; x [members, n, d + 1] has the bias's column of ones last, y
    is [n]."""
    members, n, inputs = x.shape
    bound = 1 / math.sqrt(inputs - 1)  # torch.nn.Linear's initial range, for weights and bias
    start = torch.empty(inputs, classes, dtype=x.dtype, device=x.device).uniform_(-bound, bound, generator=generator)
    weights = start.repeat(members, 1, 1)
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)  # Adam's moments
    beta_1, beta_2 = ADAM_BETAS
    minus_one = torch.full((members, batch_size, 1), -1.0, dtype=x.dtype, device=x.device)
    step = 0
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator, device=x.device)
        for rows in order.split(batch_size):
            step += 1
            batch, targets = x.index_select(1, rows), y[rows, None].expand(members, -1, -1)
            slopes = torch.softmax(torch.bmm(batch, weights), dim=2)  # softmax - one-hot = d loss / d logits
            slopes.scatter_add_(2, targets, minus_one[:, : len(rows)])
            slopes.div_(len(rows))
            gradient = torch.bmm(batch.transpose(1, 2), slopes)
            first.lerp_(gradient, 1 - beta_1)
            second.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
            scale = second.sqrt().div_(math.sqrt(1 - beta_2**step)).add_(ADAM_EPSILON)
            weights.addcdiv_(first, scale, value=-learning_rate / (1 - beta_1**step))
    return weights


def _check(x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, counts: dict[str, int], learning_rate: float) -> None:
    """Raise ValueError as `linear_probe` says."""
    for name, features, labels in (("train", x, y), ("test", x_test, y_test)):
        if features.ndim != 2 or not features.is_floating_point() or 0 in features.shape:
            raise ValueError(
                f"{name}_features are {features.dtype} of shape {tuple(features.shape)}; "
                "floating point of shape [n, d], n and d from 1 on, is expected"
            )
        if lost := int((~features.isfinite()).sum()):
            raise ValueError(f"{name}_features are not finite: {lost} of {features.numel()}")
        if labels.shape != features.shape[:1] or labels.is_floating_point() or labels.is_complex():
            raise ValueError(
                f"{name}_labels are {labels.dtype} of shape {tuple(labels.shape)}; "
                f"integers of shape [{len(features)}] are expected"
            )
        if labels.min() < 0:
            raise ValueError(f"{name}_labels reach down to {int(labels.min())}; classes are numbered from 0 on")
    if x.shape[1] != x_test.shape[1]:
        raise ValueError(
            f"train_features have {x.shape[1]} dimensions, test_features {x_test.shape[1]}; they must agree"
        )
    if int(y_test.max()) > int(y.max()):
        raise ValueError(f"test_labels reach {int(y_test.max())}; the training labels reach {int(y.max())} only")
    for name, value in counts.items():
        if value < (name != "steps") or value % 1:
            raise ValueError(f"{name} is {value}; a whole number from {int(name != 'steps')} on is expected")
    if not 0 < learning_rate < math.inf:
        raise ValueError(f"learning_rate is {learning_rate}; a finite number above 0 is expected")


def _standardised(x: Tensor, x_test: Tensor) -> tuple[Tensor, Tensor]:
    """Standardise both, float32 [members, n, d], by the means and deviations of the first; flat dimensions become 0."""
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    deviation = variance.sqrt()
    flat = deviation <= FLAT * x.abs().amax(dim=1, keepdim=True)
    deviation = deviation.masked_fill(flat, math.inf)
    return (x - mean) / deviation, (x_test - mean) / deviation


def _with_ones(features: Tensor) -> Tensor:
    """Append a column of ones for the bias to features [members, n, d]: [members, n, d + 1]."""
    return torch.cat([features, features.new_ones(*features.shape[:2], 1)], dim=2)
