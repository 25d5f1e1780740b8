"""Losses of two views of n images as named unweighted terms: the caller weighs them and adds them up.

As in `trainables.losses.terms`, no shape depends on values and nothing waits for the device. Half precision is computed
in float32, in autocast too.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.losses.terms import check_tensors, products

BATCH_NORM_EPSILON = 1e-5  # torch.nn.BatchNorm1d's default, in the authors' code of Barlow Twins
VARIANCE_EPSILON = 1e-4  # VICReg, sec. 4.1
TARGET_DEVIATION = 1.0  # gamma of VICReg, sec. 4.1


def two_views(z: Tensor) -> tuple[Tensor, Tensor]:
    """Split a batch z [b, d], with two views of each image side by side, into its two views [b/2, d]."""
    one, other = z.unflatten(0, (-1, 2)).unbind(1)
    return one, other


def alignment_uniformity_terms(z: Tensor, other: Tensor) -> dict[str, Tensor]:
    """Alignment and uniformity (Wang and Isola, ICML 2020, sec. 4; published coefficients 1 and 1).

    The authors' code averages exp over the pairs i < j of different images, as here; the paper's expectation is over
    independent draws. Both exponents, alpha and t, are 2, as in the authors' code.
    z, other: [n, d] floating point, n >= 2, rows L2-normalised by the caller; row i of both is of image i. Returns
    scalars, "align": mean |z_i - z'_i|^2, "uniform": log mean exp(-2 |z_i - z_j|^2), averaged over both views. Raises
    ValueError for other shapes or kinds."""
    z, other = _checked(z, other)
    align = (z - other).square().sum(1).mean()
    return {"align": align, "uniform": (_uniform(z) + _uniform(other)) / 2}


def barlow_twins_terms(z: Tensor, other: Tensor) -> dict[str, Tensor]:
    """Barlow Twins' two terms (Zbontar et al., ICML 2021, eq. 1; published coefficients 1 and 0.0051 at d = 8192).

    C is the cross-correlation of the two views over the batch. As in the authors' code each dimension is standardised
    by batch normalisation, with its epsilon of 1e-5 in the variance, which eq. 2 does not have. Earlier versions of
    that code multiply the whole loss by 0.024 or 1/32 (--scale-loss); the present one has other learning rates instead.
    z, other: [n, d] floating point, n >= 2, the projector's output; row i of both is of image i. Returns scalars, "on":
    sum_i (1 - C_ii)^2, "off": sum_{i != j} C_ij^2. Raises ValueError for other shapes or kinds."""
    z, other = _checked(z, other)
    correlations = products(_standardised(z).T, _standardised(other).T) / len(z)  # [d, d]
    return {"on": (1 - correlations.diagonal()).square().sum(), "off": _off_diagonal(correlations)}


def vicreg_terms(z: Tensor, other: Tensor) -> dict[str, Tensor]:
    """VICReg's three terms (Bardes et al., ICLR 2022, sec. 4.1; published coefficients 25, 25 and 1).

    The coefficients belong to the terms of the authors' code, which are used here: "sim" is the mean over n and d,
    where the paper sums over d, and "std" the mean over both views, where the paper sums them (vicreg, issue 26).
    z, other: [n, d] floating point, n >= 2, the projector's output; row i of both is of image i. Returns scalars,
    "sim": mean squared difference, "std": mean over both views and d of max(0, 1 - sqrt(variance + 1e-4)), "cov": sum
    over both views of the squared covariances off the diagonal, divided by d; (co)variances are divided by n - 1.
    Raises ValueError for other shapes or kinds."""
    z, other = _checked(z, other)
    centred = [view - view.mean(0) for view in (z, other)]
    variances = [view.square().sum(0) / (len(z) - 1) for view in centred]  # [d] each
    hinges = [torch.relu(TARGET_DEVIATION - (variance + VARIANCE_EPSILON).sqrt()).mean() for variance in variances]
    covariances = [products(view.T, view.T) / (len(z) - 1) for view in centred]  # [d, d] each
    return {
        "sim": (z - other).square().mean(),
        "std": sum(hinges) / 2,
        "cov": sum(map(_off_diagonal, covariances)) / z.shape[1],
    }


def siglip_terms(z: Tensor, other: Tensor, t: float = 10.0, beta: float = -10.0) -> dict[str, Tensor]:
    """The sigmoid loss of SigLIP in two parts (Zhai et al., ICCV 2023, algorithm 1; published coefficients 1 and 1).

    s_ij is the cosine of z_i and z'_j. The signs are those of algorithm 1 and of the authors' code (big_vision); eq. 1
    of the paper has -t s_ij + b by mistake (open_clip, issue 476). In the paper t and b are learned, starting at 10 and
    -10; here they are constants.
    z, other: as in `alignment_uniformity_terms`.  t: scale of the cosines, above 0.  beta: bias of the logits, finite.
    Returns scalars, "pos": -mean_i log sigmoid(t s_ii + beta),
    "neg": -(1/n) sum_{i != j} log sigmoid(-(t s_ij + beta)). Raises ValueError for other shapes or kinds."""
    z, other = _checked(z, other)
    logits = t * products(z, other) + beta  # [n, n]
    of_different = F.logsigmoid(-logits) * _off(logits)
    return {"pos": -F.logsigmoid(logits.diagonal()).mean(), "neg": -of_different.sum() / len(z)}


def _checked(z: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both views in a common type, at least float32. Raises ValueError for other shapes or kinds."""
    check_tensors(z=z, other=other)
    for name, view in {"z": z, "other": other}.items():
        if view.ndim != 2 or not view.is_floating_point():
            raise ValueError(
                f"{name} is {view.dtype} of shape {tuple(view.shape)}; floating point of shape [n, d] is expected"
            )
    if z.shape != other.shape or len(z) < 2:
        raise ValueError(
            f"z has shape {tuple(z.shape)}, other {tuple(other.shape)}; equal shapes [n, d] of 2 images or more are "
            "expected"
        )
    kind = torch.promote_types(torch.promote_types(z.dtype, other.dtype), torch.float32)
    return z.to(kind), other.to(kind)


def _off(square: Tensor) -> Tensor:
    """1 off the diagonal and 0 on it, for a square matrix [n, n]."""
    return 1 - torch.eye(len(square), dtype=square.dtype, device=square.device)


def _off_diagonal(square: Tensor) -> Tensor:
    """Sum of the squares off the diagonal of a matrix [d, d]."""
    return (square * _off(square)).square().sum()


def _standardised(z: Tensor) -> Tensor:
    """Each column of z [n, d] with mean 0 and, up to epsilon, variance 1 (divided by n)."""
    centred = z - z.mean(0)
    return centred / (centred.square().mean(0) + BATCH_NORM_EPSILON).sqrt()


def _uniform(z: Tensor) -> Tensor:
    """log of the mean of exp(-2 |z_i - z_j|^2) over the pairs of different rows of z [n, d]."""
    potentials = torch.exp(4 * products(z, z) - 4)  # [n, n], at most 1
    return (potentials * _off(potentials)).sum().div(len(z) * (len(z) - 1)).log()
