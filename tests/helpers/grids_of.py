"""Measured landscapes made up from a formula: rows of both results tables, and the landscape that they make."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from studies import row, table

from trainables.losses import find_loss
from trainables.training.setups import find_setup
from tune_cd.landscapes.measured import Measured, load, write

TICKS = [1e-6 * 4.0**i for i in range(13)]  # the whole range in steps of two octaves
LOOKS = 4
Formula = Callable[[np.ndarray], float | None]
"""(log2 Lambda_p, log2 Lambda_e, log2 b) -> score; None: it diverges."""


def made_tables(
    formula: Formula, *, ticks=TICKS, batch_sizes=(64,), seeds=(0, 1), noise=0.01, dataset="glyphs", task="dml",
    loss="margin", terms=lambda x: (1.0, 1.0),
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Trials and curves. noise: what the seeds differ by from their mean, in turn up and down, so that it is known.
    terms: x -> both sub-losses."""
    summed = find_loss(loss)
    setup = asdict(replace(find_setup("glyphs", "small", loss=loss), evaluations=LOOKS))
    if not summed.pairwise:
        setup["published"] = summed.coefficients
    trials, curves = [], []
    for index, (b, seed, p, e) in enumerate(product(batch_sizes, seeds, ticks, ticks)):
        x = np.log2([p, e, b])
        score, h = formula(x), dict(zip(summed.weights, (p, e))) | {"batch_size": b}
        value = None if score is None else score + noise * (1 if seed % 2 else -1)
        name = f"{index}-{seed}"
        values = dict(zip(summed.scores, terms(x)))
        own, others = (values, {}) if summed.pairwise else ({}, values)
        trials.append(row(
            index, "completed" if value is not None else "diverged", value, test_score=value, params=h, seed=seed,
            trial_id=name, times=(10.0 * index, 10.0 * index + 8), config=setup | h, **own, scores=others,
            best_at=6400, images_seen=25600, dataset=dataset, task=task, loss=loss,
            git_commit="c0ffee", device="cpu", software='{"torch": "2"}', hostname="h",
        ))  # fmt: skip
        looks = LOOKS if value is not None else 2
        for look in range(1, looks + 1):
            at = np.nan if value is None and look == looks else (value or 0.2) - 0.1 * (LOOKS - look)
            first, second = summed.scores
            by_look = {first: values[first] + look, second: values[second]}
            logged = {} if summed.pairwise else {f"train_{term}": value for term, value in by_look.items()}
            curves.append({
                "trial_id": name, "images_seen": 6400 * look, "val_score": at, "scores": logged,
                **(by_look if summed.pairwise else {}),
            })  # fmt: skip
    return table(trials), pd.DataFrame(curves)


def made(folder: Path, formula: Formula, name: str = "made", **how) -> Measured:
    """A landscape, written and loaded again."""
    write(folder / f"{name}.parquet", *made_tables(formula, **how), {"command": "make it"})
    return load(name, folder)


def hill(centre: Sequence[float], across: float = 3.0, along: float = 6.0, high: float = 0.8, angle: float = 0.0):
    """A Gaussian ridge around log2 weights, long along the joint direction turned by `angle` degrees towards
    Lambda_e."""
    at = np.radians(45 + angle)
    u, v = np.array([np.cos(at), np.sin(at)]), np.array([-np.sin(at), np.cos(at)])
    return lambda x: float(high * np.exp(-(((x[:2] - centre) @ u / along) ** 2) - ((x[:2] - centre) @ v / across) ** 2))
