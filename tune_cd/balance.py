"""Conventional recipes and the balance they amount to (`ssec:ctrm_norm`).

    python -m tune_cd.balance lr=0.1,average=global,b=128        the weights of a recipe, and its place on the map
    balance.terms("sim", "std", "cov", learning_rate=0.1)        any other sum of terms (`tune_cd.terms`)

A recipe is a learning rate α and an average over pairs in the loss, which gives the weights λ_p and λ_e. Lower-case λ
occur only here; everywhere else the weights are Lambda = α·λ, already multiplied by the learning rate
(`eq:contrastive_decomposition_update`).
"""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.balance")

import sys
from math import isfinite, log2

from tune_cd.search.directions import A_O
from tune_cd.search.pausing_line import RATE_RESOLUTION
from tune_cd.terms import Terms, terms

__all__ = [
    "AVERAGES", "A_O", "A_TH", "PUBLISHED", "RATE_RESOLUTION", "RECIPE", "Terms", "assignments", "average_weights",
    "averages_of", "from_recipe", "off_diagonal", "parse_recipe", "ratio", "terms",
]  # fmt: skip

AVERAGES = ("separate", "global")
PUBLISHED = "published"
"""Name of the recipe for any other loss: its authors' coefficients."""
A_TH = {"C_p": (1.0, 0.0, -1.0), "C_e": (0.0, 1.0, -2.0), "C_eq": (1.0, -1.0, 0.0)}
"""`eq:linear_system`: rows over log (Lambda_p, Lambda_e, b). Each is the combination that one constraint holds
constant: the constraint on the positive term, on the entropy term, and on the balance of both."""

RECIPE = "lr=...,average=separate|global (or lambda_p=...,lambda_e=...)[,b=...][,k=...]"


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
