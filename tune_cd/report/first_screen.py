"""The first screen: the best setting's worth with its uncertainty, what the study took, and code to use the best."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import floor, lcm, log10
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import written
from tune_cd.analysis.confirmation import Mean, by_seed, mean_of
from tune_cd.analysis.recipes import Recipe
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import SPLITS, maps_of, optimizer_of, per_class, score_words, searching, weights_of
from tune_cd.report.findings import Findings, is_known
from tune_cd.report.numbers import plain_axis
from tune_cd.report.words import counted, recipe_words, setting, tuned, values_in
from tune_cd.results.location import is_uri
from tune_cd.results.rows import config_of, length_in, reached_in, sign_of
from tune_cd.search.category import value_in

SHARES_OF_ONE = ("precision_at_1", "accuracy")
"""Scores that are a share of the images, so they move in steps of one image."""

ENDS = {"diverged": "diverged", "failed": "failed", "stopped": "ended early"}

LARGEST_SPLIT = 50_000  # images; a larger denominator may be chance
VALUES = 4  # different values of such a score, from which the number of images is known


# Worth ------------------------------------------------------------------------------------------------------------


def worth(found: Findings) -> dict[str, Any]:
    """The best setting's score and those that it is compared with, each with the 95 % interval over its seeds.

    chosen: the validation score by which it was chosen, in writing; label: the score's; axis: its own; rows: label,
    value, low and high (None if not known), seeds in words; of what the best is compared with also gain and verdict,
    and `how` it was compared.
    """
    best = found.best
    if best is None:
        return {"label": "", "rows": []}
    score = "test_score" if is_known(best["test_score"]) else "val_score"
    rows = [_score("best setting", best, found.fresh, found, score)]
    for recipe in found.recipes:
        words = recipe_words(recipe.average)
        label = f"{words}, best rate" if recipe.learning_rate is not None else words
        row = _score(label, recipe.best, recipe.fresh, found, score) | {"how": _compared(recipe)}
        rows.append(row | _verdict(recipe.gain, words, score, best, recipe.best, row["value"]))
    for average in found.missing:
        how = "No completed trial is within its reach, so the gain over it is not known."
        rows.append(dict.fromkeys(("value", "low", "high")) | {"label": recipe_words(average), "seeds": "", "how": how})
    if found.first is not None:
        rows.append(_first(found, score))
    label, ends = score_words(found.trials, score), [row[name] for row in rows for name in ("value", "low", "high")]
    told = f"{best['val_score']:.4g}" + (f", the mean of {best['seeds']} seeds" if best["seeds"] > 1 else "")
    return {"chosen": told, "label": label, "rows": rows, "axis": plain_axis(label, ends, room=0.08)}


def _first(found: Findings, score: str) -> dict[str, Any]:
    """The row of the first setting tried. One that paused is compared at its length."""
    words, best, first = "first setting tried", found.best, found.first
    how = f"It is {', '.join(setting(found, first))}."
    if found.first_gain is not None:
        row = _score(words, first, None, found, score) | {"how": how}
        return row | _verdict(found.first_gain, words, score, best, first, row["value"])
    row = dict.fromkeys(("value", "low", "high")) | {"label": words, "seeds": ""}
    if found.short is None:
        end = ENDS.get(first["status"], "did not end")
        return row | {"how": f"{how} It has no score of a whole training: it {end}."}
    share, reached, value = found.short
    length, gain = f"{100 * share:.3g} %", Mean("val_score", reached - value, np.nan, np.nan, 1)
    both = f"At {length} of that it had {value:.4g}, and the best setting {reached:.4g}."
    row["how"] = f"{how} It was not trained to the end. {both}"
    return row | _verdict(gain, f"{words}, both at {length} of their length", score, best, first, value)


def _score(label: str, row: pd.Series, fresh: Mean | None, found: Findings, score: str) -> dict[str, Any]:
    """A score with the interval over seeds, fresh ones where there are any."""
    values = by_seed(searching(found.trials), row, score).dropna().to_numpy(dtype=float)
    anew = fresh is not None and fresh.score == score
    mean = fresh if anew else mean_of(values, score) if len(values) else Mean(score, row[score], np.nan, np.nan, 1)
    numbers = {name: getattr(mean, name) for name in ("value", "low", "high")}
    told = {name: float(value) if is_known(value) else None for name, value in numbers.items()}
    return {"label": label, **told, "seeds": counted(mean.seeds, "fresh seed" if anew else "seed")}


def _verdict(
    gain: Mean, over: str, shown: str, best: pd.Series, reached: pd.Series, value: float | None
) -> dict[str, str]:
    """The gain over something in writing, and whether chance explains it. shown: the score that the picture shows, with
    this value."""
    if reached["setting"] == best["setting"]:
        return {"gain": "Nothing", "verdict": f"over the {over}: it reaches the best setting."}
    if not is_known(gain.value):
        return {}
    largest = max(abs(value) for value in (gain.value, gain.low, gain.high) if is_known(value))
    places = min(9, max(0, 2 - floor(log10(largest)))) if largest > 0 else 3  # three digits of the largest
    base = value if value is not None and gain.score == shown else reached[gain.score]
    like = is_known(base) and base * (base + gain.value) > 0  # of two signs there is no share
    relative = f" ({100 * gain.value / abs(base):+.1f} %)" if like else ""
    said = f"{'over' if sign_of(best.get('mode')) > 0 else 'against'} the {over}"
    said += "" if gain.score == shown else f" in {SPLITS[gain.score]}, since it was not tested"
    if not is_known(gain.low):
        said += "; of one training each, so how much is chance is not known"
    else:
        chance = "within chance" if gain.low <= 0 <= gain.high else "beyond chance"
        said += f" ({gain.low:+.{places}f} to {gain.high:+.{places}f} over {counted(gain.seeds, 'pair')} of seeds): "
        said += chance
    return {"gain": f"{gain.value:+.{places}f}{relative}", "verdict": f"{said}."}


def _compared(recipe: Recipe) -> str:
    """Where a recipe reached its best, and how closely its learning rate was tuned."""
    at = [f"learning rate {recipe.learning_rate:.3g}"] if recipe.learning_rate is not None else []
    at += [f"b = {recipe.best['batch_size']:.0f}"] if is_known(recipe.best["batch_size"]) else []
    return f"Best at {', '.join(at)}. " * bool(at) + tuned(recipe)


# Lengths, cost and splits -----------------------------------------------------------------------------------------


def shares_of(trials: pd.DataFrame) -> np.ndarray:
    """The share of its full length that each training was trained [n_trials], NaN where that is not known.

    Completed ones count as whole. The configuration says the whole length: in images, or of a user's own trainings as
    `full_length`, a score and its amount.
    """
    rows = trials[["config", "images_seen", "scores"]].to_dict("records")
    reached = [reached_in(row, name) / whole for row in rows for name, whole in [length_in(row["config"])]]
    return np.where(trials["status"] == "completed", 1.0, np.clip(reached, 0, 1))


def chips(trials: pd.DataFrame, shares: np.ndarray, states: Sequence[str], images: Mapping[str, int]) -> list[str]:
    """The study in numbers: how its trainings ended, what they took, and how many images validate and test."""
    ends = ", ".join(f"{number:,} {state}" for state, number in pd.Series(states).value_counts().items())
    words, known = [f"{counted(len(trials), 'training')}: {ends}"], shares[~np.isnan(shares)]
    if (known < 1).any():
        spent = known.sum()
        words.append(f"cost: {spent:.3g} whole trainings (all to the end: {len(known) / spent:.2g} times that)")
    times = runs_of(trials)[["started_at", "ended_at"]].dropna().sort_values("started_at")
    if len(times):
        gpus = float(trials["gpus"].astype(float).max())
        where = f", with {gpus:g} GPU{'s' * (gpus != 1)} a training" if gpus > 0 else ", without a GPU" * (gpus == 0)
        begun, ended = times["started_at"], times["ended_at"].cummax()
        idle = (begun - ended.shift()).dt.total_seconds().clip(lower=0).sum()  # as between two calls
        words.append(f"took {_duration((ended.max() - begun.min()).total_seconds() - idle)}{where}")
    splits = [f"{number:,} {verb}" for name, verb in (("val_score", "validate"), ("test_score", "test"))
              if (number := images.get(name)) is not None]  # fmt: skip
    return words + [f"images: {', '.join(splits)}"] * bool(splits)


def _duration(seconds: float) -> str:
    """Seconds in writing: 71 s, 12 min, 2.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def images_of(trials: pd.DataFrame) -> dict[str, int]:
    """Score of a split -> the number of its images, where shares of them tell it.

    It is the least number of which every value of a share is a whole number; one that divides a power of ten tells
    nothing, since the scores may be rounded.
    """
    metric, found = str(trials["metric_name"].iloc[0]), {}
    for score in SPLITS:
        shares = {value for scores in maps_of(trials, "scores") for name, value in scores.items()
                  if name.startswith(score.partition("_")[0]) and name.endswith(SHARES_OF_ONE)}  # fmt: skip
        told = trials[score].dropna().astype(float) if metric.endswith(SHARES_OF_ONE) else ()
        values = {value for value in shares.union(told) if 0 < value < 1}
        near = {value: Fraction(value).limit_denominator(LARGEST_SPLIT) for value in values}
        count = lcm(*(share.denominator for share in near.values()))
        exact = all(abs(value - float(share)) <= 1e-12 for value, share in near.items())
        if exact and len(values) >= VALUES and count <= LARGEST_SPLIT and 10**6 % count:
            found[score] = count
    return found


# Use it -----------------------------------------------------------------------------------------------------------


def use_it(found: Findings, command: str | None, network: str | None) -> dict[str, str]:
    """Name -> code of each way to use the best setting; {} without one."""
    if found.best is None:
        return {}
    known = values_in(found, found.best)
    ways = _in_a_loop(found, known) if weights_of(found.trials) else _as_a_config(known)
    if network is not None:
        bucket, file = is_uri(network), repr(network)
        code = f"from pyarrow import fs\n\nfiles, path = fs.FileSystem.from_uri({file})\n" * bucket
        file = "files.open_input_file(path)" if bucket else file
        name = str(config_of(found.best["config"]).get("network"))
        own = f", network={name!r}" * (":" in name and not name.startswith(("timm:", "torchvision:")))
        code += f"from trainables import trained\nnetwork = trained.load({file}{own})\n"
        ways["its network"] = f"{code}vectors = network(images)  # [n, 3, height, width] -> [n, d]"
    if command is not None:
        ways["search on"] = f"{command} --resume --num-samples N  # a larger total than before"
    return ways


def _in_a_loop(found: Findings, known: Mapping[str, Any]) -> dict[str, str]:
    """The weights in a training loop, which multiply the terms with the learning rate."""
    weights = [name for name in weights_of(found.trials) if name in known]
    size = known.get("batch_size", found.best["batch_size"])
    k, of_balance = per_class(found.trials), set(weights) == {"Lambda_p", "Lambda_e"}
    ssl = bool((found.trials["task"] == "ssl").any())  # the views of an image count in a batch
    batch = f"batches of {size:.0f}{' views' * ssl}" if is_known(size) else "batches as in the study"
    batch = f"# no momentum, {batch}" + (f", {k} of each image" if ssl else f", {k} images a class" * of_balance)
    rest = {name: value for name, value in known.items() if name not in (*weights, "batch_size")}
    batch += "".join(f"\n# {name} = {written(value)}" for name, value in rest.items())
    if not weights or optimizer_of(found.trials) != "sgd":
        lines = [f"{name.removeprefix(balance.WEIGHT)}_weight = {known[name]:.4g}" for name in weights]
        return {"in your loop": "\n".join([*lines, batch, f"# optimizer: {optimizer_of(found.trials)}"])}
    terms, optimizer = {"p": "positive", "e": "entropy"}, "optimizer = torch.optim.SGD(model.parameters(), lr={:.4g})\n"
    first, *others = [(known[name], terms.get(short := name.removeprefix(balance.WEIGHT), short)) for name in weights]
    total = " + ".join([first[1], *(f"{weight / first[0]:.4g} * {term}" for weight, term in others)])
    mean = "  # means over each term's pairs" * of_balance
    ways = {"in your loop": f"{optimizer.format(first[0])}loss = {total}{mean}\n{batch}"}
    if of_balance and "global" in [recipe.average for recipe in found.recipes] and is_known(size):
        recipe = next(one for one in balance.recipes(known, int(size), k) if one.average == "global")
        total = f"(sum_positive + {recipe.factors['Lambda_e']:.4g} * sum_entropy) / n_pairs  # one mean over all pairs"
        ways["with a global average"] = f"{optimizer.format(recipe.learning_rate)}loss = {total}\n{batch}"
    return ways


def _as_a_config(known: Mapping[str, Any]) -> dict[str, str]:
    """The configuration, nested as it was searched; whole numbers are int, a category's text what it stands for."""
    nested: dict[str, Any] = {}
    for name, value in known.items():
        *above, own = name.split("/")
        inner = reduce(lambda outer, key: outer.setdefault(key, {}), above, nested)
        inner[own] = (value_in(value) if isinstance(value, str) else int(value) if float(value).is_integer()
                      else float(f"{value:.6g}"))  # fmt: skip
    return {"in your script": f"config = {_code(nested)}"} if known else {}


def _code(value: Any, indent: str = "") -> str:
    """A value as Python code, a dict with a line for each of its keys."""
    if not isinstance(value, dict):
        return repr(value)
    inner = f"{indent}    "
    lines = [f"{inner}{json.dumps(name, ensure_ascii=False)}: {_code(one, inner)},\n" for name, one in value.items()]
    return f"{{\n{''.join(lines)}{indent}}}"
