"""Conventional recipes and the balance they amount to (`ssec:ctrm_norm`).

    python -m tune_cd.balance lr=0.1,average=global,b=128        the weights of a recipe, and its place on the map
    CoordinateDescent(space, **balance.of(space))                directions and prior for the weights of a loss
    balance.terms("sim", "std", "cov", learning_rate=0.1)        space, start, directions and prior of a sum of terms

A recipe is a learning rate α and an average over pairs in the loss, which gives the weights λ_p and λ_e. Lower-case λ
occur only here; everywhere else the weights are Lambda = α·λ, already multiplied by the learning rate
(`eq:contrastive_decomposition_update`).
"""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.balance")

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, log2
from typing import Any

from tune_cd.search.number import number_of
from tune_cd.search.single_line import RATE_RESOLUTION
from tune_cd.search.space import Space

__all__ = [
    "AVERAGES", "A_O", "A_TH", "PUBLISHED", "RATE_RESOLUTION", "RECIPE", "TERM", "WEIGHT", "Terms", "assignments",
    "average_weights", "averages_of", "directions_over", "from_recipe", "of", "off_diagonal", "parse_recipe", "ratio",
    "terms", "weights_among",
]  # fmt: skip

A_O = {"balance": (-1.0, 1.0, 0.0), "joint": (1.0, 1.0, 0.0), "batch_size": (0.0, 0.0, 1.0)}
"""`eq:matrix_a`: the rows of A, directions in log (Lambda_p, Lambda_e, b)."""

SPACES = (("Lambda_p", "Lambda_e"), ("Lambda_p", "Lambda_e", "batch_size"))
"""The axes of the paper's searches."""

WEIGHT = "Lambda_"
"""Prefix of the axes that are weights of terms, already multiplied by the learning rate."""

TERM = "term_"
"""Prefix of the terms' values among a trial's scores."""

WIDE = 16.0
"""Octaves. The prior "terms" needs ranges at least this wide: its length scales are for ranges like the paper's, 24
octaves."""

AVERAGES = ("separate", "global")
PUBLISHED = "published"
"""Name of the recipe for any other loss: its authors' coefficients."""
A_TH = {"C_p": (1.0, 0.0, -1.0), "C_e": (0.0, 1.0, -2.0), "C_eq": (1.0, -1.0, 0.0)}
"""`eq:linear_system`: rows over log (Lambda_p, Lambda_e, b). Each is the combination that one constraint holds
constant: the constraint on the positive term, on the entropy term, and on the balance of both."""

RECIPE = "lr=...,average=separate|global (or lambda_p=...,lambda_e=...)[,b=...][,k=...]"


def of(space: Space) -> dict[str, Any]:
    """The arguments `directions` and `prior` of a search over the weights of a loss, and over what else the space has.

    Directions: `directions_over` the names. Prior: "balance" for (Lambda_p, Lambda_e[, batch_size]); "terms" for other
    weights, and a batch size, if every weight's range is WIDE; else "general". Weights on linear axes are searched one
    by one: an equal step is no common factor there. Raises ValueError for a space with less than two weights.
    """
    weights = [axis for axis in space.axes if axis.name.startswith(WEIGHT) and axis.name in space.numeric]
    if len(weights) < 2:
        raise ValueError(f"{space}: two weights {WEIGHT}<term> at least make a balance")
    names = space.numeric
    if names in SPACES:
        return {"directions": directions_over(names), "prior": "balance"}
    others = set(names) - {axis.name for axis in weights} - {"batch_size"}
    log = all(axis.scale == "log" for axis in weights)
    wide = log and all(axis.ends[1] - axis.ends[0] >= WIDE for axis in weights)
    directions = directions_over(names) if log else None
    return {"directions": directions, "prior": "terms" if wide and not others else "general"}


def directions_over(names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Direction -> octaves of each axis per unit of the direction, in the order in which the directions are searched.

    The weights move together, as with a learning rate, and against each other. For a positive and an entropy term these
    are the rows of `eq:matrix_a`. For other terms, each is set against all before it (Helmert's contrasts): for
    Lambda_sim, Lambda_std, Lambda_cov "sim/std", along which sim grows as std shrinks, "sim*std/cov" and "joint". These
    rows are orthogonal. Then each other axis by itself; with fewer than two weights every axis.
    """
    names = tuple(names)
    if names in SPACES:
        return {name: A_O[name][: len(names)] for name in tuple(A_O)[: len(names)]}
    weights, rows = weights_among(names), {}
    if len(weights) >= 2:
        terms = [name.removeprefix(WEIGHT) for name in weights]
        for at in range(1, len(terms)):
            contrast = dict.fromkeys(weights[:at], 1.0) | {weights[at]: -float(at)}
            rows[f"{'*'.join(terms[:at])}/{terms[at]}"] = contrast
        rows["joint"] = dict.fromkeys(weights, 1.0)
    rows |= {name: {name: 1.0} for name in names if len(weights) < 2 or name not in weights}
    return {label: tuple(row.get(name, 0.0) for name in names) for label, row in rows.items()}


def weights_among(names: Sequence[str]) -> list[str]:
    """The axes that are weights of terms, in order."""
    return [name for name in names if name.startswith(WEIGHT)]


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


def parse_recipe(text: str, batch_size: int = 64, k: int = 2) -> dict:
    """Parse a recipe such as "lr=0.1,average=global,b=128" into {"Lambda_p", "Lambda_e", "batch_size"}.

    The average may be replaced by the weights of both terms, lambda_p=...,lambda_e=...; b and k (items per class)
    default to batch_size and k. Raises ValueError naming the fault and the allowed form.
    """
    recipe = {"b": batch_size, "k": k} | assignments(text)
    if "average" in recipe:
        h = from_recipe(recipe["lr"], recipe["average"], recipe["b"], recipe["k"])
    else:
        h = {"Lambda_p": recipe["lr"] * recipe["lambda_p"], "Lambda_e": recipe["lr"] * recipe["lambda_e"]}
    given = [recipe[name] for name in ("lr", "lambda_p", "lambda_e") if name in recipe]
    if not all(isfinite(value) and value > 0 for value in (*given, *h.values())):
        raise ValueError(f"recipe {text!r}: learning rate and weights are finite numbers > 0")
    return h | {"batch_size": recipe["b"]}


READ = {"lr": float, "average": str, "lambda_p": float, "lambda_e": float, "b": int, "k": int}


def assignments(text: str) -> dict:
    """Name -> value in the text of a recipe: the learning rate, an average or both weights, b and k if given. Raises
    ValueError as `parse_recipe`."""
    given = {}
    for assignment in text.split(","):
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals or name in given or name not in READ:
            raise ValueError(f"recipe {text!r}: {assignment!r} does not fit {RECIPE}")
        try:
            given[name] = READ[name](value)
        except ValueError:
            raise ValueError(f"recipe {text!r}: {value!r} is not a number; {RECIPE}") from None
    if set(given) - {"b", "k"} not in ({"lr", "average"}, {"lr", "lambda_p", "lambda_e"}):
        raise ValueError(f"recipe {text!r}: {RECIPE}")
    return given


RATIO = "ratio_"
"""Prefix of the names of ratios: ratio_std is the weight of std divided by the weight of the first term."""

MULTIPLIED = ("sgd",)
SCALE_FREE = ("adam", "adamw", "lars", "lamb")
"""Optimisers whose steps are proportional to the gradient, and optimisers that divide it by its size."""

WEIGHT_FACTOR, RATE_FACTOR = 1000.0, 64.0
"""Default ranges of weights and ratios, and of learning rates: the start divided by the factor, to the start times the
factor. Published weights need not carry over to another network: Barlow Twins' 0.0051 is for 8192 outputs. A rule of
thumb for d outputs, 196/d, is 3 at d = 64, 600 times as much."""


@dataclass(frozen=True)
class Terms:
    """Space, start and directions of n weighted terms; `terms` builds it.

    names [n]: of the terms. published [n]: the weights in use today. learning_rate: the one in use today. scale_free:
    whether the optimiser divides gradients by their size. rate_name: name of the learning rate's axis, if scale_free.
    ranges: axis -> (lowest, highest), where it is not the default.
    """

    names: tuple[str, ...]
    published: tuple[float, ...]
    learning_rate: float
    scale_free: bool = False
    rate_name: str = "lr"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def start(self) -> dict[str, float]:
        """The configuration in use today."""
        if not self.scale_free:
            return {f"{WEIGHT}{name}": self.learning_rate * weight for name, weight in self._today.items()}
        first, *others = self._today
        ratios = {f"{RATIO}{name}": self._today[name] / self._today[first] for name in others}
        return {self.rate_name: self.learning_rate, **ratios}

    @cached_property
    def space(self) -> Space:
        """The searched box. Raises ValueError for an empty range, and for one that reaches 0 or below."""
        axes = {}
        for name, value in self.start.items():
            factor = RATE_FACTOR if self.scale_free and name == self.rate_name else WEIGHT_FACTOR
            axes[name] = self.ranges.get(name, (value / factor, value * factor))
        return Space(**axes)

    @property
    def search(self) -> dict[str, Any]:
        """The arguments of a search: CoordinateDescent(**vicreg.search) or CoordinateDescentSearch(**vicreg.search)."""
        return {"space": self.space, "start": self.start, **({} if self.scale_free else of(self.space))}

    def weights(self, h: Mapping[str, Any]) -> dict[str, float]:
        """Term -> its weight in the sum, for a configuration or a trial's config. At `start`: the weights in use today.

        Raises ValueError for a configuration that lacks an axis.
        """
        h = self._of(h)
        if not self.scale_free:
            return {name: h[f"{WEIGHT}{name}"] / self.learning_rate for name in self.names}
        first = self.published[0]
        return {name: first * h.get(f"{RATIO}{name}", 1.0) for name in self.names}

    def rate(self, h: Mapping[str, Any]) -> float:
        """The optimiser's learning rate for a configuration. Under SGD it is today's, so that warm-up, schedule and
        weight decay stay as they are; the weights carry the factor. Raises ValueError as `weights`."""
        h = self._of(h)
        return float(h[self.rate_name]) if self.scale_free else self.learning_rate

    @property
    def _today(self) -> dict[str, float]:
        return dict(zip(self.names, self.published, strict=True))

    def _of(self, h: Mapping[str, Any]) -> dict[str, float]:
        missing = [name for name in self.start if name not in h]
        if missing:
            raise ValueError(f"configuration {dict(h)!r} lacks {missing}; the axes are {list(self.start)}")
        return {name: float(h[name]) for name in self.start}


def terms(
    *names: str,
    learning_rate: float,
    weights: Sequence[float] | None = None,
    optimizer: str = "sgd",
    rate: str = "lr",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Terms:
    """Build the search space of a loss that is the weighted sum of the named terms.

    learning_rate, weights [n]: those in use today, or published; weights None: all 1. optimizer: one of MULTIPLIED
    (with momentum or without) or SCALE_FREE. rate: name of the learning rate's axis if SCALE_FREE. ranges: axis ->
    (lowest, highest), where the default (WEIGHT_FACTOR and RATE_FACTOR around the start) does not fit. Raises
    ValueError for fewer than two terms, names that are not identifiers or not all different, numbers that are not
    finite and > 0, another optimiser, a range of an unknown axis, and a start outside its range.
    """
    if len(names) < 2 or len({*names}) < len(names) or not all(map(str.isidentifier, names)):
        raise ValueError(
            f"terms {list(names)}: two or more names are required, all different, each a Python identifier"
        )
    given = (1.0,) * len(names) if weights is None else tuple(weights)
    if len(given) != len(names) or not all(map(_positive, given)):
        raise ValueError(
            f"weights {list(given)}: {len(names)} finite numbers > 0 are required, one for each of {names}"
        )
    if not _positive(learning_rate):
        raise ValueError(f"learning_rate {learning_rate!r}: a finite number > 0 is required")
    if optimizer not in MULTIPLIED + SCALE_FREE:
        raise ValueError(f"optimizer {optimizer!r}: one of {list(MULTIPLIED + SCALE_FREE)}")
    if not rate.isidentifier() or rate.startswith(RATIO):
        raise ValueError(f"rate {rate!r}: a Python identifier that does not begin with {RATIO!r} is required")
    built = Terms(
        names, tuple(map(float, given)), float(learning_rate), optimizer in SCALE_FREE, rate, dict(ranges or {})
    )
    unknown = [name for name in built.ranges if name not in built.start]
    if unknown:
        raise ValueError(f"ranges of {unknown}: the axes are {list(built.start)}")
    built.space.check(built.start)
    return built


def main(argv: list[str] | None = None) -> int:
    """Print a recipe's weights, and its octaves from the diagonal of each average. Returns 0, or 2 with a message."""
    text = ",".join(sys.argv[1:] if argv is None else argv)
    try:
        h, k = parse_recipe(text), assignments(text).get("k", 2)
        away = [f"{off_diagonal(h, average, h['batch_size'], k):+.2f} from {average}" for average in AVERAGES]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Lambda_p={h['Lambda_p']:.4g},Lambda_e={h['Lambda_e']:.4g},batch_size={h['batch_size']}")
    print(f"weight of the entropy term, in octaves: {', '.join(away)}")
    return 0


def _positive(value: object) -> bool:
    return 0 < (number_of(value) or 0) < inf
