"""Conventional recipes and the balance they amount to (`ssec:ctrm_norm`).

A recipe is a learning rate α and a way to average pairs in the loss, λ_p and λ_e. The small λ occur here only;
everywhere else the weights are Lambda = α·λ, already multiplied by the learning rate (`eq:contrastive_decomposition_update`).
"""

from math import isfinite, log2

AVERAGES = ("separate", "global")


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


def from_recipe(learning_rate: float, average: str, batch_size: int, k: int = 2) -> dict[str, float]:
    """{"Lambda_p", "Lambda_e"} of a recipe. Raises ValueError as `average_weights`, or for a learning rate <= 0."""
    if not (isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning rate {learning_rate}: a finite number > 0 is required")
    positive, entropy = average_weights(average, batch_size, k)
    return {"Lambda_p": learning_rate * positive, "Lambda_e": learning_rate * entropy}


def off_diagonal(h: dict, average: str, batch_size: int, k: int = 2) -> float:
    """How far h lies from what a recipe with this average can reach by its learning rate alone, in octaves.

    0: on the diagonal; positive: more weight on the entropy term than the recipe gives.
    """
    positive, entropy = average_weights(average, batch_size, k)
    return log2(h["Lambda_e"] / h["Lambda_p"]) - log2(entropy / positive)
