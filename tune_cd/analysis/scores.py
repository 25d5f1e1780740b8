"""Access to a table's scores and parameters by name, and parameters in octaves."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.balance import PUBLISHED, WEIGHT
from tune_cd.results.rows import choices_in, config_of, sign_of
from tune_cd.results.schema import CONFIRM
from tune_cd.search.number import is_number
from tune_cd.search.space import KEY_DIGITS, Array

BALANCE = ("Lambda_p", "Lambda_e", "batch_size")
"""The axes of `fig:hp_omniglot`."""


def searching(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that a search asked for: all except trainings of chosen settings with fresh seeds."""
    return trials[trials["search"] != CONFIRM] if "search" in trials else trials


def confirming(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with fresh seeds, of settings that were chosen without them; see `tune_cd.run`'s `--confirm`."""
    return trials[trials["search"] == CONFIRM]


OWN = ("val_score", "test_score", "positive_term", "entropy_term")
"""The table's columns of scores. Others, such as `loss`, are none, but a user's trainable may report one so named."""


def score_column(trials: pd.DataFrame, name: str) -> pd.Series:
    """A score of every trial as floats, NaN if it was not measured.

    name: in the table's `scores` map, or a column, first those of OWN. Raises ValueError naming the known ones if no
    trial has it.
    """
    own = name in OWN and name in trials and trials[name].notna().any()
    measured = not own and "scores" in trials and name in names_in(trials, "scores")
    if name in trials and not measured:
        values = pd.to_numeric(trials[name], errors="coerce").astype(float)  # some readers give numbers as objects
        if (values.notna() == trials[name].notna()).all():
            return values
    if not measured:
        raise ValueError(f"score {name!r}: one of {score_names(trials)}")
    of_maps = [scores.get(name, np.nan) for scores in maps_of(trials, "scores")]
    return pd.Series(of_maps, index=trials.index, dtype=float)


def score_names(trials: pd.DataFrame) -> list[str]:
    """The scores that some trial has: the table's own, then those of the `scores` map in alphabetical order."""
    own = [name for name in OWN if trials[name].notna().any()]
    return own + sorted(names_in(trials, "scores").difference(own))


SPLITS = {"val_score": "validation", "test_score": "test"}
"""A split's score -> its name in words."""


def judged_by(trials: pd.DataFrame) -> str:
    """The score by which settings are judged: the test split's, or the validation split's if none was tested."""
    return "test_score" if trials["test_score"].notna().any() else "val_score"


def signs(trials: pd.DataFrame) -> Array:
    """1 for every trial of which a larger score is better, -1 where a smaller one is (`mode`), [n_trials].

    Scores are kept as they were reported; a score times this is larger for the better one.
    """
    if "mode" not in trials:
        return np.ones(len(trials))
    return np.array([sign_of(mode) for mode in trials["mode"]], dtype=float)


def sign_of_score(trials: pd.DataFrame, score: str) -> float:
    """-1 where a smaller score is better, else 1: of the searched score by `mode`, of others by the name."""
    if len(trials) and score in (*SPLITS, *trials.get("metric_name", ())):
        return float(signs(trials)[0])
    return -1.0 if any(word in score.lower() for word in ("loss", "error", "term")) else 1.0


def score_words(trials: pd.DataFrame, score: str) -> str:
    """A score's label on an axis, such as "validation r_map" or "test r_map".

    On a revisited benchmark the test has another metric. Trials with several metrics give "score" in its place; scores
    other than these two keep their own name.
    """
    split = SPLITS.get(score)
    if split is None or trials.empty:
        return score if split is None else f"{split} score"
    metrics = trials["metric_name"].unique()
    said = _said(trials, "test") if score == "test_score" else ()
    benchmark = next((test for test in said if isinstance(test, str)), "split")
    metric = metrics[0] if benchmark == "split" else f"{benchmark} medium mAP"
    return f"{split} {metric if len(metrics) == 1 else 'score'}"


def per_class(trials: pd.DataFrame) -> int:
    """k, the items per class in a batch, from the trials' configurations; 2 if they do not say."""
    return next((k for k in _said(trials, "k") if type(k) is int and k > 1), 2)


def optimizer_of(trials: pd.DataFrame) -> str:
    """The optimizer named in the trials' configurations; plain SGD if they do not say."""
    return next((name for name in _said(trials, "optimizer") if isinstance(name, str)), "sgd")


def published_of(trials: pd.DataFrame) -> dict[str, float]:
    """Weight Lambda_<term> -> its published coefficient, from the trials' configurations; {} if they have none."""
    return next((dict(one) for one in _said(trials, PUBLISHED) if isinstance(one, dict) and _are_weights(one)), {})


def _are_weights(published: dict[str, Any]) -> bool:
    """Whether these are coefficients of terms, and not a user's own field of that name."""
    return all(name.startswith(WEIGHT) and is_number(x) and 0 < x < np.inf for name, x in published.items())


def _said(trials: pd.DataFrame, field: str) -> Iterator[Any]:
    """A field's value in each distinct configuration; None for rows of lost trainings."""
    texts = trials["config"].unique() if "config" in trials else ()
    return (config_of(text).get(field) for text in texts)


def weights_of(trials: pd.DataFrame) -> list[str]:
    """The searched weights Lambda_<term>, in the terms' order if it is known; [] for fewer than two."""
    searched = names_in(trials, "params") if "params" in trials else ()
    named = sorted(name for name in searched if name.startswith(WEIGHT))
    if set(named) == set(BALANCE[:2]):
        return list(BALANCE[:2])
    known = [name for name in published_of(trials) if name in named]
    return (known if len(known) == len(named) else named) if len(named) > 1 else []


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


def parameter(trials: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a parameter [n_trials], NaN for trials without it. Those of a category are `coded`."""
    if (texts := categories(trials).get(name)) is not None:
        return coded(texts)[1]
    if name in BALANCE and name in trials and (trials[name].notna().any() or "params" not in trials):
        return trials[name].to_numpy(dtype=float, na_value=np.nan)
    return np.array([params.get(name, np.nan) for params in maps_of(trials, "params")], dtype=float)


def parameter_of(trial: pd.Series, name: str) -> float:
    """A number among the parameters of one row; NaN if the row does not have it."""
    value = trial[name] if name in BALANCE else dict(trial["params"]).get(name)
    return float(value) if pd.notna(value) else np.nan


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """The balance's parameters if trials have them, else every searched number, weights first; then the categories."""
    chosen = categories(trials)
    if len(trials) and trials["Lambda_p"].notna().any():
        return [*BALANCE, *chosen]
    weights = weights_of(trials)
    others = names_in(trials, "params").difference(weights, chosen)
    return [*weights, *sorted(others), *chosen] or list(BALANCE)


def present(trials: pd.DataFrame) -> list[str]:
    """The names of `parameter_names` for which some trial has a value."""
    return [name for name in parameter_names(trials) if name not in BALANCE or trials[name].notna().any()]


def varied(trials: pd.DataFrame) -> tuple[str, ...]:
    """The names of `present` that took several values."""
    columns = {name: parameter(trials, name) for name in present(trials)}
    return tuple(name for name, values in columns.items() if len(np.unique(values[~np.isnan(values)])) > 1)


def settings(trials: pd.DataFrame) -> pd.DataFrame:
    """Every parameter of every trial, the searched ones and the balance's three, as `places`.

    Equal rows are equal settings.
    """
    table = pd.DataFrame(maps_of(trials, "params"), index=trials.index, dtype=float)
    for name in filter(trials.columns.__contains__, BALANCE):
        given = trials[name].astype(float)
        table[name] = given.fillna(table[name]) if name in table else given
    found = pd.DataFrame(places(table.to_numpy(dtype=float)), index=trials.index, columns=table.columns)
    return found.assign(**{name: coded(texts)[1] for name, texts in categories(trials).items()})


NOT_POSITIVE = -1e4
"""Added to values of 0 or less among octaves, which lie between -1075 and 1024: so no two values share a place."""


def places(values: Array) -> Array:
    """Parameter values in octaves, rounded so that equal ones are equal, in ascending order; see NOT_POSITIVE."""
    with np.errstate(invalid="ignore"):
        logs = np.log2(values, out=values + NOT_POSITIVE, where=values > 0)
    return np.asarray(np.round(logs, KEY_DIGITS), dtype=np.float64)


def maps_of(trials: pd.DataFrame, field: str) -> list[dict[str, float]]:
    """A map column as dicts; plain readers of Parquet give it as lists of pairs. ValueError for anything else."""
    try:
        return [entries if isinstance(entries, dict) else dict(entries) for entries in trials[field]]
    except (TypeError, ValueError):
        said = f"column {field!r}: maps are required, as results.read and pandas.read_parquet give them; a CSV has text"
        raise ValueError(said) from None


def names_in(trials: pd.DataFrame, field: str) -> set[str]:
    """The names in a map column. Raises ValueError as `maps_of`."""
    return {name for entries in maps_of(trials, field) for name in entries}
