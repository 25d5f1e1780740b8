"""Recipes of a training loop and the weights that they amount to, in both directions (`ssec:ctrm_norm`).

A recipe is a learning rate α and an average over pairs in the loss, which gives the weights λ_p and λ_e. Lower-case λ
occur only here; everywhere else the weights are Lambda = α·λ, already multiplied by the learning rate
(`eq:contrastive_decomposition_update`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp2, isfinite, log2
from typing import Any

from tune_cd.balance.directions import WEIGHT, is_positive

AVERAGES = ("separate", "global")
PUBLISHED = "published"
"""Name of the recipe for any other loss: its authors' coefficients."""
PAIR = ("p", "e")
"""Names of a positive and an entropy term."""

PAIRWISE = tuple(f"{WEIGHT}{name}" for name in PAIR)


def recipe_form(names: Sequence[str] = PAIR) -> str:
    """The form of a recipe of a loss with these terms."""
    factors = ",".join(f"lambda_{name}=..." for name in names)
    beside = f"average=separate|global, with {factors}, or with all of these" if tuple(names) == PAIR else factors
    return f"lr=... is needed with {beside}; b=... and k=... may follow"


def weights_form(names: Sequence[str] = PAIR) -> str:
    """The form of the weights of a loss with these terms."""
    return ",".join(f"{WEIGHT}{name}=..." for name in names) + "[,b=...][,k=...]"


def averages_of(loss: str, pairwise: bool) -> tuple[str, ...]:
    """Names of the recipes in use for a loss. InfoNCE has only its own balance (`subsec:infonce_loss`), a loss of other
    terms or weights its authors' coefficients. pairwise: whether its weights are Lambda_p and Lambda_e."""
    if not pairwise:
        return (PUBLISHED,)
    return AVERAGES if loss == "margin" else ("separate",)


def average_weights(average: str, batch_size: int, k: int = 2) -> tuple[float, float]:
    """(λ_p, λ_e) of a conventional average over a batch with k items per class.

    separate: each term is averaged over its own pairs, so both weigh 1. global: all pairs weigh the same, so the terms
    weigh as their pair counts |P| = b(k-1) and |E| = b(b-k); for k = 2 that is 1/(b-1) and 1 - 1/(b-1).
    Raises ValueError for an unknown average or a batch without both kinds of pairs.
    """
    if average not in AVERAGES:
        raise ValueError(f"average {average!r}: one of {list(AVERAGES)}")
    if k < 2 or batch_size <= k or batch_size % k:
        raise ValueError(f"batch_size {batch_size} with k = {k} per class: needs k >= 2 and a multiple of k above k")
    if average == "separate":
        return 1.0, 1.0
    return (k - 1) / (batch_size - 1), (batch_size - k) / (batch_size - 1)


def ratio(average: str, batch_size: float, k: int = 2) -> float:
    """λ_e / λ_p of an average; 1 for the separate average at any batch size. Raises ValueError as `average_weights`,
    and for an unknown batch size (NaN) with the global average."""
    if average == "separate":
        return 1.0
    if batch_size != batch_size:
        raise ValueError(f"average {average!r}: where it lies depends on the batch size, which is not known")
    positive, entropy = average_weights(average, int(batch_size), k)
    return entropy / positive


def from_recipe(learning_rate: float, average: str, batch_size: int, k: int = 2) -> dict[str, float]:
    """{"Lambda_p", "Lambda_e"} of a recipe. Raises ValueError as `average_weights`, and for a learning rate that is not
    finite and > 0."""
    if not (isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning rate {learning_rate}: a finite number > 0 is required")
    positive, entropy = average_weights(average, batch_size, k)
    return {"Lambda_p": learning_rate * positive, "Lambda_e": learning_rate * entropy}


def off_diagonal(h: dict, average: str, batch_size: int, k: int = 2) -> float:
    """Signed distance in octaves from h to the settings that an average reaches by its learning rate alone.

    0: on this diagonal; positive: more weight on the entropy term than the recipe gives.
    """
    average_weights(average, batch_size, k)  # raises ValueError for an invalid batch
    return log2(h["Lambda_e"] / h["Lambda_p"]) - log2(ratio(average, batch_size, k))


def parse_recipe(
    text: str, batch_size: int = 64, k: int = 2, names: Sequence[str] = PAIR, usual: Mapping[str, float] | None = None
) -> dict:
    """Parse a recipe such as "lr=0.1,average=global,b=128" into {"Lambda_p", "Lambda_e", "batch_size"}.

    names: of the loss's terms. Factors lambda_<term> of all terms multiply the weights of the average, if there is one.
    usual: the factors where the text has none. b and k (items per class) default to batch_size and k. Raises ValueError
    naming the fault and the allowed form.
    """
    recipe = {"b": batch_size, "k": k} | assignments(text, names, usual)
    weights = {f"{WEIGHT}{name}": recipe["lr"] * recipe.get(f"lambda_{name}", 1.0) for name in names}
    if "average" in recipe:
        factors = average_weights(recipe["average"], recipe["b"], recipe["k"])
        weights = {name: weight * factor for (name, weight), factor in zip(weights.items(), factors, strict=True)}
    if not all(map(is_positive, weights.values())):
        raise ValueError(f"recipe {text!r}: weights are finite numbers > 0")
    return weights | {"batch_size": recipe["b"]}


def assignments(text: str, names: Sequence[str] = PAIR, usual: Mapping[str, float] | None = None) -> dict:
    """Name -> value in the text of a recipe: the learning rate, an average, all weights (`usual` where it has none) or
    both, b and k if given. Raises ValueError as `parse_recipe`."""
    weights = {f"lambda_{name}": float for name in names}
    average = {"average": str} if tuple(names) == PAIR else {}
    given = _parsed(text, {"lr": float, **average, "b": int, "k": int, **weights})
    for name, value in given.items():
        if name in {"lr", *weights} and not is_positive(value):
            raise ValueError(f"recipe {text!r}: {name}={value:g}: a finite number > 0 is needed")
    given |= (usual or {}) if weights.keys().isdisjoint(given) else {}
    named = set(given) - {"b", "k"}
    if named not in ({"lr", "average"}, {"lr", *weights}, {"lr", "average", *weights}):
        raise ValueError(f"recipe {text!r}: {recipe_form(names)}")
    return given


def parse_h(text: str, names: Sequence[str] = PAIR) -> dict:
    """Parse weights such as "Lambda_p=0.7,Lambda_e=17,b=64" into {"Lambda_p", "Lambda_e", "batch_size", "k"}.

    b (or batch_size) defaults to 64, k to 2. Raises ValueError naming the fault and the allowed form.
    """
    weights = [f"{WEIGHT}{name}" for name in names]
    given = _parsed(text, dict.fromkeys(weights, float) | {"b": int, "k": int})
    if not {*weights} <= {*given}:
        raise ValueError(f"{text!r}: {weights_form(names)} is needed")
    if not all(is_positive(given[name]) for name in weights):
        raise ValueError(f"{text!r}: weights are finite numbers > 0")
    return {name: given[name] for name in weights} | {"batch_size": given.get("b", 64), "k": given.get("k", 2)}


def _parsed(text: str, read: Mapping[str, Callable]) -> dict:
    """Name -> value of assignments between commas, each read by its function of `read`; batch_size is b. Raises
    ValueError."""
    given: dict[str, Any] = {}
    for assignment in text.split(","):
        name, equals, value = (part.strip() for part in assignment.partition("="))
        name = "b" if name == "batch_size" else name
        if not equals or name in given or name not in read:
            raise ValueError(f"{text!r}: {assignment!r} is not one of {', '.join(f'{one}=...' for one in read)}, once")
        try:
            given[name] = read[name](value)
        except ValueError:
            raise ValueError(f"{text!r}: {name}={value!r} is not a number") from None
    return given


@dataclass(frozen=True)
class Recipe:
    """Weights as a training loop has them: SGD's learning rate, and a factor for each term of a usual loss.

    average: "separate", "global" or "published", the loss. learning_rate: that gives the first term a factor of 1.
    factors: weight -> its factor on the weight that the loss gives the term. weights: weight -> λ in the loss, factor
    included. nearest: the learning rate that comes nearest without factors, by the mean distance in octaves.
    """

    average: str
    learning_rate: float
    factors: Mapping[str, float]
    weights: Mapping[str, float]
    nearest: float

    @property
    def off(self) -> dict[str, float]:
        """The factors that differ from 1 by over 1 %: what the learning rate alone does not reach."""
        return {name: factor for name, factor in self.factors.items() if abs(factor - 1) > 0.01}

    @property
    def reached(self) -> bool:
        """Whether the loss reaches the weights by its learning rate alone."""
        return not self.off


def recipes(
    h: Mapping[str, float], batch_size: int, k: int = 2, published: Mapping[str, float] | None = None
) -> list[Recipe]:
    """The recipes for the weights of h, which all train alike under SGD without momentum: those of both averages for
    Lambda_p and Lambda_e, or the one with the `published` coefficients (weight -> coefficient).

    Raises ValueError as `average_weights`, and for weights that are not finite and > 0.
    """
    if not all(is_positive(h[name]) for name in published or PAIRWISE):
        raise ValueError(f"weights {dict(h)}: finite numbers > 0 are required")
    if published is not None:
        return [_recipe(PUBLISHED, h, published)]
    weights = {average: average_weights(average, batch_size, k) for average in AVERAGES}
    return [_recipe(average, h, dict(zip(PAIRWISE, usual))) for average, usual in weights.items()]


def _recipe(average: str, h: Mapping[str, float], usual: Mapping[str, float]) -> Recipe:
    rates = {name: h[name] / weight for name, weight in usual.items()}
    first = next(iter(rates.values()))
    factors = {name: rate / first for name, rate in rates.items()}
    nearest = exp2(sum(map(log2, rates.values())) / len(rates))
    return Recipe(average, first, factors, {name: usual[name] * factor for name, factor in factors.items()}, nearest)
