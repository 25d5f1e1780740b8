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


def categories(trials: pd.DataFrame) -> dict[str, np.ndarray]:
    """Category that some trial has, in alphabetical order -> its text in every trial [n_trials], or None."""
    chosen = [choices_in({"choices": given}) for given in trials.get("choices", ())]
    names = sorted({name for choices in chosen for name in choices})
    return {name: np.array([choices.get(name) for choices in chosen], dtype=object) for name in names}


def coded(texts: np.ndarray) -> tuple[list[str], Array]:
    """(the texts of a category in alphabetical order, the place there of every trial's [n_trials], NaN for None)."""
    listed = sorted({text for text in texts if text is not None})
    places = {text: float(at) for at, text in enumerate(listed)}
    return listed, np.array([places.get(text, np.nan) for text in texts], dtype=float)
