"""Findings in sentences: the best setting, its gains, their uncertainty, and next steps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import written
from tune_cd.analysis.intervals import student
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import SPLITS, maps_of, parameter_of, weights_of
from tune_cd.analysis.tables import ALIKE
from tune_cd.balance import WEIGHT
from tune_cd.report.findings import BASELINES, Findings, Mean, Recipe, is_known
from tune_cd.results.attempts import to_retry
from tune_cd.results.redaction import redact
from tune_cd.results.rows import choices_in

FEW_IMAGES = 1000
"""So many validation images are too few to choose by a difference that one of them makes."""

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
    "n-95": "trials until 95 % of the best score that any search reached",
    "AUC@": "mean of the best score so far over the first so many trials",
    "r_map": "R-mAP, precision among an image's R nearest, of which R could show its class",
    "map_at_r": "MAP@R, mean average precision among the R nearest images",
    "precision_at_1": "share of images whose nearest neighbour shows the same class",
    "probe_accuracy": "accuracy of a linear classifier on the frozen network",
    "view_retrieval": "share of images whose other random view is the nearest, without classes",
    "rankme": "RankMe, the effective rank of the embeddings over their dimension, without classes",
}
"""Word of the page -> its meaning, which stands below whatever uses it."""


@dataclass(frozen=True)
class Sentence:
    """One paragraph of the summary. kind: result, caution, next or note."""

    head: str
    text: str
    kind: str


@dataclass(frozen=True)
class Images:
    """How many images validate and how many test; None where that is not known."""

    val: int | None = None
    test: int | None = None


def summarise(
    found: Findings,
    command: str | None = None,
    images: Images = Images(),
) -> list[Sentence]:
    """The summary of a study, in reading order.

    command: the command that runs it again, such as `python -m tune_cd.run --study S`; None if `tune_cd.run` did not
    run it. images: the sizes of the splits.
    """
    if found.best is None:
        return [_nothing(found), *_failures(found, command)]
    return [
        *_best(found),
        *_ahead(found),
        *_gains(found),
        *_one_image(found, images),
        *_certainty(found),
        *_failures(found, command),
        *_next(found, command),
    ]


def setting(row: pd.Series, names: Iterable[str]) -> str:
    """A row's parameters in writing: Λp = 0.7113, Λe = 17, b = 64."""
    values = ((name, value_of(row, name)) for name in names)
    return ", ".join(f"{letters(name)} = {written(value)}" for name, value in values if value is not None)


def value_of(row: pd.Series, name: str) -> Any:
    """A parameter of a row: a number, a category's text, or None."""
    found = choices_in(row).get(name)
    number = parameter_of(row, name) if found is None else np.nan
    return found if found is not None else number if np.isfinite(number) else None


def letters(name: str) -> str:
    """A parameter in writing: Λp, Λsim, b, and any other by its name."""
    return LETTERS.get(name) or (f"Λ{name.removeprefix(WEIGHT)}" if name.startswith(WEIGHT) else name)


def recipe_words(average: str) -> str:
    """A recipe in words: "separate average", "published weights"."""
    return f"{average} {'weights' if average == balance.PUBLISHED else 'average'}"


def _nothing(found: Findings) -> Sentence:
    ended = ", ".join(f"{number} {status}" for status, number in found.status.items()) or "none yet"
    return Sentence(
        "No result", f"No trial of this study has completed ({ended}), so there is no best setting.", "caution"
    )


def _best(found: Findings) -> list[Sentence]:
    best = found.best
    seeds = f", means over {found.seeds} seeds" if found.seeds > 1 else ""
    completed = found.status.get("completed", 0)
    trials = f"{completed} trial{'s' * (completed != 1)} completed"
    return [
        Sentence("Best setting", setting(best, parameters_of(found)) or f"that of trial {best['trial_id']}", "result"),
        Sentence(
            "Its score",
            f"{_scores(best)}{seeds}. Found by {best['search']} as trial {best['trial_id']}; {trials}.",
            "result",
        ),
        *([Sentence("With fresh seeds", f"{fresh_score(found.fresh)}.", "result")] if found.fresh is not None else []),
    ]


def _ahead(found: Findings) -> list[Sentence]:
    """A caution if another setting was better by validation than the best of the study's own search."""
    row = found.ahead
    if row is None:
        return []
    fresh = f" With fresh seeds: {fresh_score(found.ahead_fresh)}." if found.ahead_fresh is not None else ""
    at = setting(row, parameters_of(found)) or f"that of trial {row['trial_id']}"
    text = f"{at}. {_scores(row)}. Found by {row['search']} as trial {row['trial_id']}.{fresh}"
    return [Sentence("Better by validation", f"{text} All gains are those of the best setting above.", "caution")]


def _scores(row: pd.Series) -> str:
    test = f", test {row['test_score']:.4f}" if is_known(row["test_score"]) else ""
    return f"Validation {row['metric_name']} {row['val_score']:.4f}{test}"


def interval(low: float, high: float, sign: str = "") -> str:
    """The 95 % interval of a score; with the sign "+" that of a difference."""
    return f"95 % interval {low:{sign}.4f} to {high:{sign}.4f}"


def fresh_score(fresh: Mean) -> str:
    """A setting's score over fresh seeds: "test 0.8867 (95 % interval 0.8700 to 0.9034, 3 seeds)"."""
    sure = f"{interval(fresh.low, fresh.high)}, " if is_known(fresh.low) else ""
    return f"{SPLITS[fresh.score]} {fresh.value:.4f} ({sure}{fresh.seeds} seed{'s' * (fresh.seeds > 1)})"


def parameters_of(found: Findings) -> list[str]:
    """The parameters of the best setting to print: those of the balance first, then all that were searched."""
    balanced = list(LETTERS) if found.trials["Lambda_p"].notna().any() else weights_of(found.trials)
    named = [*dict(found.best["params"]), *choices_in(found.best)]
    return list(dict.fromkeys([*balanced, *sorted(named)]))


def _gains(found: Findings) -> list[Sentence]:
    sentences = [_gain(found, recipe) for recipe in found.recipes]
    if found.missing:
        which = " or the ".join(map(recipe_words, found.missing))
        text = f"No completed trial is within reach of the {which}, so the gain of tuning over that is not known."
        sentences.append(Sentence("Without balancing", text, "note"))
    if found.first is not None:
        gain = found.first_gain
        sure = f" ({interval(gain.low, gain.high, '+')})" if is_known(gain.low) else ""
        at = setting(found.first, parameters_of(found))
        text = f"{gain.value:+.4g}{sure} on the {SPLITS[gain.score]} split, over {at}."
        sentences.append(Sentence("Over the first setting tried", text, "result"))
    return sentences


def _one_image(found: Findings, images: Images) -> list[Sentence]:
    """A caution where a single image outweighs a difference that is shown."""
    counts = {"test": images.test, "validation": images.val}
    told = "test_score" if is_known(found.best["test_score"]) else "val_score"
    count = counts[SPLITS[told]]
    gains = [recipe.gain for recipe in found.recipes] or [gain.value for gain in [found.first_gain] if gain is not None]
    small = [gain for gain in gains if count is not None and gain != 0 and abs(gain) <= 1 / count]
    if images.val is not None and is_known(found.ahead_by) and found.ahead_by <= 1 / images.val:
        text = (
            f"{images.val:,} images validate, so one is worth {1 / images.val:.2g} of the score; the best setting is "
            f"{found.ahead_by:.2g} ahead of the next. One image decides between them."
        )
        return [Sentence("Few images", text, "caution")] if images.val < FEW_IMAGES or small else []
    if not small:
        return []
    text = f"{count:,} images test, so one is worth {1 / count:.2g} of the score: as much as a difference shown above."
    return [Sentence("Few images", text, "caution")]


def _gain(found: Findings, recipe: Recipe) -> Sentence:
    split = "test" if is_known(found.best["test_score"]) and is_known(recipe.best["test_score"]) else "validation"
    name = "test_score" if split == "test" else "val_score"
    seeds = f"{recipe.pairs}{' fresh' * (recipe.fresh is not None)} seeds in pairs"
    sure = f" ({interval(recipe.low, recipe.high, '+')}, {seeds})" if is_known(recipe.low) else ""
    size = f", b = {recipe.best['batch_size']:.0f}" if is_known(recipe.best["batch_size"]) else ""
    rate = f", at a learning rate of {recipe.learning_rate:.3g}" if recipe.learning_rate is not None else ""
    own = f"{recipe.best[name]:.4f}{rate}{size}"
    words = recipe_words(recipe.average)
    head, verb = f"Over the {words}", "reach" if recipe.average == balance.PUBLISHED else "reaches"
    if recipe.best["setting"] == found.best["setting"]:
        alone = " by the learning rate alone" if rate else ""
        text = f"Nothing: the {words} {verb} the best setting{alone} ({own})."
        return Sentence(head, f"{text} {tuned(recipe)}", "result")
    relative = f", {100 * recipe.gain / abs(recipe.best[name]):+.1f} %" if recipe.best[name] else ""
    noise = " This is within the noise of its seeds." if is_known(recipe.low) and recipe.low <= 0 <= recipe.high else ""
    text = f"{recipe.gain:+.4f} on the {split} split{relative}{sure}.{noise}"
    text += f" {'Tuning the learning rate alone, the' if rate else 'The'} {words} reached {own}. {tuned(recipe)}"
    known = recipe.rates.exhausted or recipe.grid_step or not rate
    return Sentence(head, text, "result" if known else "caution")


def tuned(recipe: Recipe) -> str:
    """How closely a baseline's learning rate was tuned, in one or two sentences."""
    rates = recipe.rates
    if recipe.learning_rate is None:
        trained = f"{rates.settings} of its settings trained" if rates.settings != 1 else "One of its settings trained"
        return (
            f"{trained}; under Adam the scale of the weights has no effect, and Adam's own rate was the same for all."
        )
    trained = f"{rates.settings} learning rate{'s' * (rates.settings != 1)} trained"
    if recipe.grid_step is not None:
        said = f"{trained}, {recipe.grid_step:.2g} octaves apart, as the grid has them."
    elif rates.exhausted:
        said = f"{trained}: the best is bracketed within {max(rates.gap, 0.005):.2f} octaves."
    else:
        gaps = [
            f"no {side} one was tried" if np.isinf(gap) else f"the next {side} one is {gap:.2g} octaves away"
            for gap, side in ((rates.below, "lower"), (rates.above, "higher"))
        ]
        said = f"{trained}, which is too few to know the best: {' and '.join(gaps)}."
    if rates.end is not None:
        said += f" It is at the {rates.end} end of the range: a wider one may hold better."
    return said


def _certainty(found: Findings) -> list[Sentence]:
    said = []
    if is_known(found.noise):
        most = student(found.freedom) * 2**0.5 * found.noise  # the difference has twice the variance of one score
        said.append(
            f"Two trainings of one setting with different seeds differ by less than {most:.4f} in 95 of 100 cases; "
            "so may any two by chance."
        )
    else:
        several = found.trials.loc[found.trials["seed"].isna(), "setting"].duplicated().any()
        trained = "No setting was trained with two known seeds" if several else "Every setting was trained once"
        said.append(f"{trained}: how much of a difference is chance cannot be told from this table.")
    if is_known(found.best["test_score"]):
        lucky = found.seeds <= 1 and found.fresh is None
        luck = ", but the luck of its one training is in both: fresh seeds may give less" if lucky else ""
        said.append(f"The best was chosen by its validation score; the test split had no part in that{luck}.")
    else:
        said.append("There is no test score. The best of many validation scores is biased upwards by the choice.")
    if found.alike > 1:
        spans = {
            name: f"{low:.3g} to {high:.3g}" if low < high else f"{low:.4g}"
            for name, (low, high) in found.alike_ranges.items()
        }
        ranges = ", ".join(f"{letters(name)} {span}" for name, span in spans.items())
        said.append(
            f"{found.alike} settings are within {100 * ALIKE:.0f} % of the best ({ranges}): "
            "there is little to choose between them."
        )
    if found.unfinished:
        trained = found.seeds + found.unfinished
        said.append(
            f"Of the best setting's {trained} trainings only {found.seeds} completed: its score is of those alone."
        )
    return [
        Sentence("How sure", " ".join(said), "note" if is_known(found.noise) and not found.unfinished else "caution")
    ]


def _failures(found: Findings, command: str | None) -> list[Sentence]:
    sentences = []
    unfinished = {status: number for status, number in found.status.items() if status in ("diverged", "failed")}
    if unfinished:
        text = ", ".join(f"{number} trial{'s' * (number > 1)} {status}" for status, number in unfinished.items()) + "."
        failed = found.trials[found.trials["error"].notna() & (found.trials["status"] == "failed")]
        reasons = failed["error"].map(lambda error: _reason(redact(str(error))))
        text += "".join(
            f" {number} x: {reason.rstrip('.')}." for reason, number in reasons.value_counts().head(2).items()
        )
        lost = int(to_retry(failed).sum())
        if lost and command:
            text += f" {lost} gave out with their machine: `{command} --resume` runs them again."
        sentences.append(Sentence("Trials that did not complete", text, "caution"))
    runs = runs_of(found.trials)
    last = runs[: len(found.trials)]
    if last["paused"].any():
        sentences.append(_pauses(last, runs))
    stopped = int(((runs["status"] == "stopped") & ~runs["pauses"]).sum())
    if stopped:
        trials = f"{stopped} trial{'s were' if stopped > 1 else ' was'}"
        text = f"{trials} ended by a scheduler; such scores are not compared with those of whole trainings."
        sentences.append(Sentence("Stopped early", text, "note"))
    return sentences


def _pauses(trials: pd.DataFrame, runs: pd.DataFrame) -> Sentence:
    """What pausing saved. trials: the last run of each."""
    last, worth = trials[trials["pauses"]], runs.loc[runs["pauses"], "share"].sum()
    paused = int(last["paused"].sum())
    text = f"{len(last)} trainings took as much as {worth:.3g} whole ones: {paused} {'are' if paused != 1 else 'is'} "
    text += f"paused, since the others were worth more; whole, all would have taken {len(last) / worth:.2g} times that."
    return Sentence("Trained short first", text, "note")


def _reason(error: str) -> str:
    """An error in one line: its first line, or a traceback's last."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or ["no reason given"]
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0])[:160]


def edges(found: Findings) -> str:
    """The parameters of the best setting that are at an end of their range, in words."""
    return " and ".join(f"{letters(name)} is at the {end} end of its range" for name, end in found.edges.items())


def _next(found: Findings, command: str | None) -> list[Sentence]:
    ideas = []
    if found.edges:
        where = edges(found)
        wider = " and ".join(
            ["`--range LO,HI`"] * (set(found.edges) != {"batch_size"})
            + ["`--batch-sizes`"] * ("batch_size" in found.edges)
        )
        ideas.append(
            f"In the best setting {where}: search further on" + (f" ({wider} in a new study)." if command else ".")
        )
    if found.late and found.best["search"] not in BASELINES:
        further = f", `{command} --resume --num-samples {found.spent + 10}`." if command else "."
        ideas.append(f"The best was among the last trials: more may find better{further}")
    if not is_known(found.noise):
        how = f": `{command} --resume --confirm 3`." if command else "."
        ideas.append(f"Train the best settings with fresh seeds before relying on a small difference{how}")
    searched = {name for params in maps_of(found.trials, "params") for name in params}
    if command and "batch_size" not in searched and found.trials["batch_size"].notna().any():
        ideas.append("The batch size was fixed: `--tune-batch-size` searches it as well.")
    if not ideas:
        return []
    return [Sentence("What to try next", " ".join(ideas), "next")]
