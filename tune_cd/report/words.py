"""Findings in sentences: how a gain was compared, how sure the result is, what failed, and next steps."""

from collections.abc import Mapping
from math import isinf
from typing import Any

import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import Axis, written
from tune_cd.analysis.confirmation import Mean
from tune_cd.analysis.intervals import student
from tune_cd.analysis.means import ALIKE
from tune_cd.analysis.recipes import Recipe
from tune_cd.analysis.scores import SPLITS, judged_by, parameter_of
from tune_cd.balance import WEIGHT
from tune_cd.report.findings import Findings, is_known
from tune_cd.results.attempts import to_retry
from tune_cd.results.redaction import redact
from tune_cd.results.rows import choices_in

LETTERS = {"Lambda_p": "Λp", "Lambda_e": "Λe", "batch_size": "b"}

GLOSSARY = {
    "Λp": "weight of the positive term (one class attracts) × learning rate",
    "Λe": "weight of the entropy term (others repel) × learning rate",
    "b": "batch size",
    "separate average": "each term a mean over its own pairs, of equal weight",
    "global average": "one mean over all pairs, so terms weigh as their numbers",
    "published weights": "the coefficients that the loss's authors give",
    "octave": "a factor of 2",
    "cd": "coordinate descent, the search",
    "confirm": "trainings of the chosen settings with fresh seeds",
    "fresh seed": "another random start, not used for choosing",
    "paused": "left at a share of its length, since others promised more; it can be resumed",
    "cut off": "ended with the study, by Ctrl-C or a time budget; it is run again where the study goes on",
    "stopped early": "ended short of its full length, by a scheduler or itself; not compared with whole trainings",
    "r_map": "R-mAP, precision among an image's R nearest, of which R could show its class",
    "map_at_r": "MAP@R, mean average precision among the R nearest images",
    "precision_at_1": "share of images whose nearest neighbour shows the same class",
    "probe_accuracy": "accuracy of a linear classifier on the frozen network",
    "view_retrieval": "share of images whose other random view is the nearest, without classes",
    "rankme": "RankMe, the effective rank of the embeddings over their dimension, without classes",
}
"""Word of the page -> its meaning, which stands below whatever uses it first."""

Sentences = dict[str, tuple[str, str]]
"""Head -> (text, kind): result, caution, next or note."""


def values_in(found: Findings, row: pd.Series) -> dict[str, Any]:
    """The parameters that a row has: numbers, or a category's text."""
    chosen = choices_in(row)
    values = {axis.name: chosen.get(axis.name, parameter_of(row, axis.name)) for axis in found.axes}
    return {name: value for name, value in values.items() if isinstance(value, str) or is_known(value)}


def setting(found: Findings, row: pd.Series, between: str = " = ") -> list[str]:
    """A row's parameters in writing: Λp = 0.7113, Λe = 17, b = 64."""
    return [f"{letters(name)}{between}{written(value)}" for name, value in values_in(found, row).items()]


def letters(name: str) -> str:
    """A parameter in writing: Λp, Λsim, b, and any other by its name."""
    return LETTERS.get(name) or (f"Λ{name.removeprefix(WEIGHT)}" if name.startswith(WEIGHT) else name)


def recipe_words(average: str) -> str:
    """A recipe in words: "separate average", "published weights"."""
    return f"{average} {'weights' if average == balance.PUBLISHED else 'average'}"


def counted(number: int, noun: str) -> str:
    """3 seeds, 1 seed."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def interval(low: float, high: float, sign: str = "") -> str:
    """The 95 % interval of a score; with the sign "+" that of a difference."""
    return f"95 % interval {low:{sign}.4f} to {high:{sign}.4f}"


def fresh_score(fresh: Mean) -> str:
    """A setting's score over fresh seeds: "test 0.8867 (95 % interval 0.8700 to 0.9034, 3 seeds)"."""
    sure = f"{interval(fresh.low, fresh.high)}, " if is_known(fresh.low) else ""
    return f"{SPLITS[fresh.score]} {fresh.value:.4f} ({sure}{counted(fresh.seeds, 'seed')})"


def tuned(recipe: Recipe) -> str:
    """How closely a recipe's learning rate was tuned."""
    if recipe.learning_rate is None:
        return (
            f"{counted(recipe.tried, 'setting')} trained; under Adam the scale of the weights has no effect, and "
            "Adam's own rate was the same for all."
        )
    if isinf(recipe.gap):
        near = "on one side of the best none was tried, which is too few to know it."
    else:
        near = f"the best is bracketed within {max(recipe.gap, 0.005):.2g} octaves."
    wider = f" It is at the {recipe.end} end of the range: a wider one may hold better." if recipe.end else ""
    return f"{counted(recipe.tried, 'learning rate')} trained: {near}{wider}"


def wider(found: Findings) -> list[str]:
    """The options that widen the ranges at whose end the best setting is."""
    return sorted({"--batch-sizes" if name == "batch_size" else "--range" for name in found.edges})


def edges(found: Findings) -> str:
    """The parameters of the best setting that are at an end of their range, in words."""
    return " and ".join(f"{letters(name)} is at the {end} end of its range" for name, end in found.edges.items())


# How sure, and what next ------------------------------------------------------------------------------------------


def summarise(found: Findings, command: str | None = None, images: Mapping[str, int] | None = None) -> Sentences:
    """The cautions about a study and its next steps, in reading order.

    command: the command that runs it again, such as `python -m tune_cd.run --study S`; None if `tune_cd.run` did not
    run it. images: score of a split -> the number of its images, where that is known.
    """
    said: Sentences = {}
    if found.best is not None:
        said = _ahead(found) | _one_image(found, images or {}) | _certainty(found)
    said |= _failures(found, command)
    return said | _next(found, command) if found.best is not None else said


def _ahead(found: Findings) -> Sentences:
    """A caution if another setting was better by validation than the best of the study's own search."""
    if (row := found.ahead) is None:
        return {}
    test = f", test {row['test_score']:.4f}" if is_known(row["test_score"]) else ""
    text = f"{', '.join(setting(found, row))}. Validation {row['metric_name']} {row['val_score']:.4f}{test}, found by "
    text += f"{row['search']} as trial {row['trial_id']}. All gains are those of the best setting above."
    return {"Better by validation": (text, "caution")}


def _one_image(found: Findings, images: Mapping[str, int]) -> Sentences:
    """A caution where a single image outweighs a difference that is shown."""
    shown = "test_score" if is_known(found.best["test_score"]) else "val_score"
    others = [recipe.gain for recipe in found.recipes if recipe.best["setting"] != found.best["setting"]]
    others += [found.first_gain] * (found.first_gain is not None)
    told = [("val_score", "validate", "the next", found.ahead_by)]
    told += [(shown, "test" if shown == "test_score" else "validate", "one above", gain.value) for gain in others]
    for score, verb, other, difference in told:
        count = images.get(score)
        if count is not None and is_known(difference) and abs(difference) <= 1 / count:
            worth = f"{count:,} images {verb}, so one is worth {1 / count:.2g} of the score"
            text = f"{worth}: as much as the best setting is ahead of {other}."
            return {"Few images": (text, "caution")}
    return {}


def _certainty(found: Findings) -> Sentences:
    said, (noise, freedom), best = [], found.noise, found.best
    if is_known(noise):
        most = student(freedom) * 2**0.5 * noise  # the difference has twice the variance of one score
        said.append(
            f"The {SPLITS[judged_by(found.trials)]} scores of two trainings of one setting with different seeds "
            f"differ by less than {most:.4f} in 95 of 100 cases; so may any two by chance."
        )
    else:
        said.append("No setting was trained with two known seeds: how much of a difference is chance is not known.")
    if is_known(best["test_score"]):
        said.append("The best was chosen by its validation score; the test split had no part in that.")
    else:
        said.append("There is no test score. The best of many validation scores is too good by the choice.")
    if len(found.alike) > 1:
        spans = ", ".join(filter(None, (_span(axis, found.alike) for axis in found.axes)))
        said.append(f"{len(found.alike)} settings are within {100 * ALIKE:.0f} % of the best ({spans}).")
    if best["trained"] > best["seeds"]:
        said.append(
            f"Of the best setting's {best['trained']} trainings only {best['seeds']} completed: its score is of those."
        )
    sure = is_known(noise) and best["trained"] == best["seeds"]
    return {"How sure": (" ".join(said), "note" if sure else "caution")}


def _span(axis: Axis, rows: pd.DataFrame) -> str:
    """The values of a parameter in some settings, "lr 0.001 to 0.1" or "optimizer adam or sgd"; "" for a single one."""
    values = sorted({value for value in axis.values_of(rows) if value is not None and value == value})
    told = " or ".join(values) if axis.kind == "category" else " to ".join(map(written, [*values[:1], *values[-1:]]))
    return f"{letters(axis.name)} {told}" * (len(values) > 1)


def _failures(found: Findings, command: str | None) -> Sentences:
    """Counts of the trials that did not complete, with their most frequent reasons; how to run lost ones again."""
    status = found.trials["status"]
    counts = [f"{counted(int(number), 'trial')} {word}" for word, number in status.value_counts().items()
              if word in ("diverged", "failed")]  # fmt: skip
    if not counts:
        return {}
    failed = found.trials[found.trials["error"].notna() & (status == "failed")]
    reasons = failed["error"].map(_reason).value_counts().head(2)
    text = ", ".join(counts) + "." + "".join(f" {number} x: {reason}." for reason, number in reasons.items())
    if command and (lost := int(to_retry(failed).sum())):
        text += f" {lost} gave out with their machine: `{command} --resume` runs them again."
    return {"Trials that did not complete": (text, "caution")}


def _reason(error: str) -> str:
    """An error in one line: its first line, or a traceback's last."""
    lines = [line.strip() for line in redact(str(error)).splitlines() if line.strip()] or ["no reason given"]
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0])[:160].rstrip(".")


def _next(found: Findings, command: str | None) -> Sentences:
    ideas = []
    if found.edges:
        options = " and ".join(f"`{option}`" for option in wider(found)).replace("--range", "--range LO,HI")
        how = f" ({options} in a new study)." if command else "."
        ideas.append(f"In the best setting {edges(found)}: search further on{how}")
    if not is_known(found.noise[0]):
        how = f": `{command} --resume --confirm 3`." if command else "."
        ideas.append(f"Train the best settings with fresh seeds before relying on a small difference{how}")
    return {"What to try next": (" ".join(ideas), "next")} if ideas else {}
