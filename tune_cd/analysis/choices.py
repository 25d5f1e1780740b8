"""Categories in a table: searched parameters without an order, the column `choices`; and which scores are better."""

import numpy as np
import pandas as pd

from tune_cd.results.rows import choices_in, sign_of
from tune_cd.search.space import Array


def signs(trials: pd.DataFrame) -> Array:
    """1 for every trial of which a larger score is better, -1 where a smaller one is (`mode`), [n_trials].

    Scores are kept as they were reported; a score times this is larger for the better one.
    """
    if "mode" not in trials:
        return np.ones(len(trials))
    return np.array([sign_of(mode) for mode in trials["mode"]], dtype=float)


def choices_of(trials: pd.DataFrame) -> list[dict[str, str]]:
    """The categories of every trial as texts, as a row has them."""
    if "choices" not in trials:
        return [{}] * len(trials)
    return [choices_in({"choices": given}) for given in trials["choices"]]


def choice_names(trials: pd.DataFrame) -> list[str]:
    """The categories that some trial has, in alphabetical order."""
    return sorted({name for choices in choices_of(trials) for name in choices})


def choice(trials: pd.DataFrame, name: str) -> np.ndarray:
    """The text of a category of every trial [n_trials], None where a trial does not have it."""
    return np.array([choices.get(name) for choices in choices_of(trials)], dtype=object)


def texts_of(trials: pd.DataFrame, name: str) -> list[str]:
    """The texts of a category that some trial has, in alphabetical order."""
    return sorted({text for text in choice(trials, name) if text is not None})


def codes(trials: pd.DataFrame, name: str) -> Array:
    """A category of every trial as a number [n_trials], the place of its text in `texts_of`; NaN for trials without."""
    places = {text: float(at) for at, text in enumerate(texts_of(trials, name))}
    return np.array([places.get(text, np.nan) for text in choice(trials, name)], dtype=float)
