"""The first screen beside its sentences: gains as intervals, cost, sizes of the splits, code to use."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor, lcm, log10
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import Axis, written
from tune_cd.analysis.confirmation import Mean, mean_of
from tune_cd.analysis.runs import length_in
from tune_cd.analysis.scores import (
    maps_of,
    optimizer_of,
    per_class,
    score_words,
    searching,
    weights_of,
)
from tune_cd.report.findings import Findings, is_known
from tune_cd.report.words import Images, letters, recipe_words, value_of
from tune_cd.results.redaction import redact
from tune_cd.results.rows import sign_of
from tune_cd.search.category import value_in

SHARES_OF_ONE = ("precision_at_1", "accuracy")
"""Scores that are a share of the images, so they move in steps of one image."""

LARGEST_SPLIT = 50_000  # images; a larger denominator may be chance
VALUES = 4  # different values of such a score, from which the number of images is known


# Lengths and cost -------------------------------------------------------------------------------------------------


def shares_of(trials: pd.DataFrame) -> np.ndarray:
    """The share of its full length that each training was trained [n_trials], NaN where that is not known.

    Completed ones count as whole. The configuration says the whole length: in images, or of a user's own trainings as
    `full_length`, a score and its amount.
    """
    texts, at = np.unique(trials["config"].to_numpy(dtype=str), return_inverse=True)
    said = [length_in(json.loads(text)) for text in texts]
    images = trials["images_seen"].astype(float).to_numpy(dtype=float, na_value=np.nan)
    shares = np.full(len(trials), np.nan)
    for row, (place, scores) in enumerate(zip(at, maps_of(trials, "scores"))):
        key, whole = said[place]
        shares[row] = (images[row] if key is None else scores.get(key, np.nan)) / whole
    return np.where((trials["status"] == "completed").to_numpy(), 1.0, np.clip(shares, 0, 1))


def cost_words(trials: pd.DataFrame, shares: np.ndarray) -> list[str]:
    """What the study took, in whole trainings and in time."""
    words, known = [], shares[~np.isnan(shares)]
    if (known < 1).any():
        spent = known.sum()
        words.append(f"cost: {spent:.3g} whole trainings (all to the end: {len(known) / spent:.2g} times that)")
    begun, ended = trials["started_at"].min(), trials["ended_at"].max()
    if pd.notna(begun) and pd.notna(ended):
        gpus = float(trials["gpus"].astype(float).max())
        where = f"with {gpus:g} GPU{'s' * (gpus != 1)} a training" if gpus > 0 else "without a GPU"
        words.append(f"took {duration((ended - begun).total_seconds())}, {where}")
    return words


def duration(seconds: float) -> str:
    """Seconds in writing: 71 s, 12 min, 2.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# Sizes of the splits ----------------------------------------------------------------------------------------------


def images_of(trials: pd.DataFrame) -> Images:
    """The number of images that validate and test, from the steps in which shares of them move; None if not known."""
    return Images(*(_count(trials, split) for split in ("val", "test")))


def _count(trials: pd.DataFrame, split: str) -> int | None:
    """The least number of images of which every value of a share is a whole number."""
    metric, found = str(trials["metric_name"].iloc[0]), set()
    for scores, told in zip(maps_of(trials, "scores"), trials[f"{split}_score"]):
        found |= {value for name, value in scores.items() if name.startswith(split) and name.endswith(SHARES_OF_ONE)}
        found |= {float(told)} if metric.endswith(SHARES_OF_ONE) and pd.notna(told) else set()
    values = {value for value in found if 0 < value < 1}
    if len(values) < VALUES:
        return None
    near = {value: Fraction(value).limit_denominator(LARGEST_SPLIT) for value in values}
    if any(abs(value - float(share)) > 1e-12 for value, share in near.items()):
        return None
    count = lcm(*(share.denominator for share in near.values()))
    return count if count <= LARGEST_SPLIT else None


# Worth ------------------------------------------------------------------------------------------------------------


def worth(found: Findings) -> dict[str, Any]:
    """The best setting's score and those that it is compared with, each with the 95 % interval over its seeds."""
    best = found.best
    if best is None:
        return {"label": "", "rows": []}
    tested = is_known(best["test_score"])
    score = "test_score" if tested else "val_score"
    rows = [_row("best setting", best, found.fresh, found, score)]
    for recipe in found.recipes:
        words = recipe_words(recipe.average)
        label = f"{words}, best rate" if recipe.learning_rate is not None else words
        gain = Mean(score, recipe.gain, recipe.low, recipe.high, recipe.pairs)
        row = _row(label, recipe.best, recipe.fresh, found, score)
        if recipe.best["setting"] == best["setting"]:
            row |= {"gain": "Nothing", "verdict": f"over the {words}: its learning rate reaches the best setting."}
        rows.append(_verdict(gain, words, best) | row)
    if found.first is not None and found.first_gain is not None:
        row = _row("first setting tried", found.first, None, found, score)
        rows.append(_verdict(found.first_gain, "first setting tried", best) | row)
    return {"label": score_words(found.trials, score), "rows": rows}


def _verdict(gain: Mean, over: str, best: pd.Series) -> dict[str, str]:
    """The gain over something in writing, and whether chance explains it."""
    if not is_known(gain.value):
        return {"gain": "", "verdict": ""}
    said = f"{'over' if sign_of(best.get('mode')) > 0 else 'against'} the {over}"
    largest = max(abs(value) for value in (gain.value, gain.low, gain.high) if is_known(value))
    places = min(9, max(0, 2 - floor(log10(largest)))) if largest > 0 else 3  # three digits of the largest
    if not is_known(gain.low):
        said += "; of one training each, so how much is chance is not known"
    else:
        beyond = "within chance" if gain.low <= 0 <= gain.high else "beyond chance"
        said += f" ({gain.low:+.{places}f} to {gain.high:+.{places}f}): {beyond}"
    return {"gain": f"{gain.value:+.{places}f}", "verdict": f"{said}."}


def _row(label: str, row: pd.Series, fresh: Mean | None, found: Findings, score: str) -> dict[str, Any]:
    """One line of the picture: value, and where it is known the interval over seeds."""
    trials = searching(found.trials)
    same = trials[(trials["setting"] == row["setting"]) & (trials["status"] == "completed") & trials["seed"].notna()]
    values = same.drop_duplicates("seed")[score].dropna().to_numpy(dtype=float)
    mean = fresh if fresh is not None and fresh.score == score else mean_of(values, score) if len(values) else None
    value = float(row[score]) if mean is None else mean.value
    ends = [None, None] if mean is None or not is_known(mean.low) else [mean.low, mean.high]
    if not is_known(value):
        return {"label": label, "value": None, "low": None, "high": None, "seeds": ""}
    count = 1 if mean is None else mean.seeds
    seeds = f"{count} {'fresh ' if mean is not None and mean is fresh else ''}seed{'s' if count != 1 else ''}"
    return {"label": label, "value": value, "low": ends[0], "high": ends[1], "seeds": seeds}


# Use it -----------------------------------------------------------------------------------------------------------


def use_it(found: Findings, axes: Sequence[Axis], command: str | None, network: str | None) -> list[tuple[str, str]]:
    """(name, code) of each way to use the best setting; [] without one."""
    best = found.best
    if best is None:
        return []
    values = {axis.name: value_of(best, axis.name) for axis in axes}
    known = {name: value for name, value in values.items() if value is not None and value == value}
    ways = _in_a_loop(found, known) if weights_of(found.trials) else _as_a_config(known)
    if network is not None:
        code = f"from trainables import trained\nnetwork = trained.load({network!r})\n"
        ways.append(("its network", f"{code}vectors = network(images)  # [n, 3, height, width] -> [n, d]"))
    if command is not None:
        ways.append(("search on", f"{command} --resume --num-samples {found.spent + 10}"))
    return [(name, redact(code)) for name, code in ways]


def _in_a_loop(found: Findings, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The weights in a training loop, which multiply the terms with the learning rate."""
    weights = [name for name in weights_of(found.trials) if name in known]
    size = known.get("batch_size", found.best["batch_size"])
    k, terms = per_class(found.trials), {"p": "positive", "e": "entropy"}
    batch = f"# no momentum, batches of {size:.0f}" if is_known(size) else "# no momentum, batches as in the study"
    batch += f", {k} images a class" if set(weights) == {"Lambda_p", "Lambda_e"} else ""
    if not weights or optimizer_of(found.trials) != "sgd":
        lines = [f"{name.removeprefix(balance.WEIGHT)}_weight = {known[name]:.4g}" for name in weights]
        return [("in your loop", "\n".join([*lines, batch, f"# optimizer: {optimizer_of(found.trials)}"]))]
    first = known[weights[0]]
    named = {name: terms.get(short := name.removeprefix(balance.WEIGHT), short) for name in weights}
    total = " + ".join([named[weights[0]], *(f"{known[name] / first:.4g} * {named[name]}" for name in weights[1:])])
    code = f"optimizer = torch.optim.SGD(model.parameters(), lr={first:.4g})\nloss = {total}"
    mean = "  # means over each term's pairs" if len(weights) == 2 and set(weights) == {"Lambda_p", "Lambda_e"} else ""
    ways = [("in your loop", f"{code}{mean}\n{batch}")]
    if mean and "global" in [recipe.average for recipe in found.recipes] and is_known(size):
        recipe = next(one for one in balance.recipes(known, int(size), k) if one.average == "global")
        code = f"optimizer = torch.optim.SGD(model.parameters(), lr={recipe.learning_rate:.4g})\n"
        code += f"loss = (sum_positive + {recipe.factors['Lambda_e']:.4g} * sum_entropy) / n_pairs"
        code += f"  # one mean over all pairs\n{batch}"
        ways.append(("with a global average", code))
    return ways


def _as_a_config(known: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The configuration as Python and as JSON, and as the start of another search."""
    plain = {name: _plain(value) for name, value in known.items()}
    lines = ",\n".join(f"    {json.dumps(name, ensure_ascii=False)}: {value!r}" for name, value in plain.items())
    code = f"config = {{\n{lines},\n}}"
    start = "search = CoordinateDescentSearch(space, metric=..., mode=..., start=config)"
    listed = json.dumps(plain, indent=2, ensure_ascii=False)
    return [("Python", code), ("JSON", listed), ("search on from it", f"{code}\n{start}")] if known else []


def _plain(value: Any) -> Any:
    """A value as its user wrote it: whole numbers as int, a category's text as what it stands for, such as true."""
    if isinstance(value, str):
        return value_in(value)
    return int(value) if float(value).is_integer() else float(f"{value:.6g}")


def setting_words(axes: Sequence[Axis], row: pd.Series) -> list[list[str]]:
    """[label, value] of each parameter of a row."""
    values = [(axis, value_of(row, axis.name)) for axis in axes]
    return [[letters(axis.name), written(value)] for axis, value in values if value is not None and value == value]
