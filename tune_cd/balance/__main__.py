"""`python -m tune_cd.balance`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.balance.__main__")

import sys
from collections.abc import Mapping, Sequence

from tune_cd.balance.directions import WEIGHT
from tune_cd.balance.recipes import (
    AVERAGES,
    PAIR,
    PUBLISHED,
    Recipe,
    assignments,
    off_diagonal,
    parse_h,
    parse_recipe,
    recipes,
)

HELP = """\
usage: python -m tune_cd.balance RECIPE
       python -m tune_cd.balance WEIGHTS

Convert between the recipe of a training loop and the weights of a search.

RECIPE   lr=...[,average=separate|global][,lambda_p=...,lambda_e=...]
         [,b=...][,k=...]
         lr: the learning rate. average: separate averages each term over its
         own pairs, global averages all pairs alike (not for InfoNCE).
         lambda_p, lambda_e: factors on the terms, both or none. An average,
         factors or both are needed. b: batch size (64). k: items of each
         class in a batch (2). Prints the weights, and how far the weight of
         the entropy term is from that of each average.
WEIGHTS  Lambda_p=...,Lambda_e=...[,b=...][,k=...]
         as a search reports them, times the learning rate. Prints the recipes
         that train alike, and what the learning rate alone does not reach.

The terms of other losses have their names: lambda_sim, Lambda_sim.

examples:
  python -m tune_cd.balance lr=0.1,average=global,b=128
  python -m tune_cd.balance Lambda_p=0.7,Lambda_e=17,b=64
  python -m tune_cd.balance Lambda_sim=2.5,Lambda_std=2.5,Lambda_cov=0.1
"""

OTHERS = """
With momentum m, begin with lr * (1 - m). Adam, LARS and LAMB divide gradients
by their size: keep the factors and tune lr anew.\
"""


def main(argv: list[str] | None = None) -> int:
    """Print the weights of a recipe, or the recipes for weights. Returns 0, or 2 with a message."""
    given = sys.argv[1:] if argv is None else argv
    if not given or {"-h", "--help"} & {*given}:
        print(HELP, end="")
        return 0 if given else 2
    text = ",".join(given)
    try:
        names, published = _loss_of(text)
        print("\n".join((_recipes_of if WEIGHT in text else _weights_of)(text, names, published)))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _loss_of(text: str) -> tuple[Sequence[str], Mapping[str, float] | None]:
    """(names of the terms, published coefficient of each weight) of the loss whose terms a text names; no coefficients
    for a positive and an entropy term. Raises ValueError for other terms."""
    from trainables.losses import LOSSES  # imports no torch

    named = {part.split("=")[0].strip().partition("_")[2] for part in text.split(",") if "ambda_" in part}
    if named <= {*PAIR}:
        return PAIR, None
    for loss in LOSSES.values():
        if named == {*loss.terms}:
            return loss.terms, loss.coefficients
    known = "; ".join(f"{loss.name}: {', '.join(loss.terms)}" for loss in LOSSES.values())
    raise ValueError(f"{text!r}: terms {sorted(named)} are of no built-in loss; there are {known}")


def _weights_of(text: str, names: Sequence[str], published: Mapping[str, float] | None) -> list[str]:
    h, k = parse_recipe(text, names=names), assignments(text, names).get("k", 2)
    shown = {name: value for name, value in h.items() if published is None or name != "batch_size"}
    lines = [",".join(f"{name}={value:.7g}" for name, value in shown.items())]
    if published is None:
        away = [f"{off_diagonal(h, average, h['batch_size'], k):+.2f} from {average}" for average in AVERAGES]
        lines.append(f"weight of the entropy term, in octaves: {', '.join(away)}")
    return lines


def _recipes_of(text: str, names: Sequence[str], published: Mapping[str, float] | None) -> list[str]:
    h = parse_h(text, names)
    found = recipes(h, h["batch_size"], h["k"], published)
    lines = ["Each of these trains alike, under SGD without momentum:", ""]
    for one in found:
        lines += [_as_text(one, h), f"    loss = {_loss_in_words(one, h['batch_size'])}"]
    return [*lines, "", *map(_by_rate_alone, found), OTHERS]


def _as_text(recipe: Recipe, h: Mapping[str, float]) -> str:
    """The recipe in the form that this command reads."""
    pairwise = recipe.average != PUBLISHED
    factors = recipe.factors if pairwise else recipe.weights
    given = [f"lr={recipe.learning_rate:.7g}", *[f"average={recipe.average}"] * pairwise]
    given += [f"lambda_{name.removeprefix(WEIGHT)}={factor:.7g}" for name, factor in factors.items()]
    given += [f"b={h['batch_size']}"] * pairwise + [f"k={h['k']}"] * (pairwise and h["k"] != 2)
    return ",".join(given)


def _loss_in_words(recipe: Recipe, size: int) -> str:
    if recipe.average == PUBLISHED:
        return " + ".join(f"{weight:.4g} * {name.removeprefix(WEIGHT)}" for name, weight in recipe.weights.items())
    factor = f"{recipe.factors['Lambda_e']:.4g} * entropy"
    if recipe.average == "separate":
        return f"positive.mean() + {factor}.mean(), each over its own pairs"
    return f"(positive.sum() + {factor}.sum()) / {size * (size - 1)}, over all pairs"


def _by_rate_alone(recipe: Recipe) -> str:
    loss = "published weights" if recipe.average == PUBLISHED else f"{recipe.average} average"
    if recipe.reached:
        return f"{loss}: lr alone reaches it, at {recipe.learning_rate:.4g}"
    off = [f"{factor:.3g} x in {name.removeprefix(WEIGHT)}" for name, factor in recipe.off.items()]
    return f"{loss}: lr alone is nearest at {recipe.nearest:.4g}; off by {', '.join(off)}"
