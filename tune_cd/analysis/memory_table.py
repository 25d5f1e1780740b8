"""`table:xbm` from results tables: the gain of cross-batch memory at each balance, with and without rate decay.

A cell's two numbers are trainings of one setting: the one chosen without decay, and the same repeated with decay.
"""

from math import isclose, isnan, nan

import pandas as pd

from tune_cd.analysis import best_trial, comparable, means_over_seeds
from tune_cd.analysis.scores import maps_of
from tune_cd.results.schema import DECAY

MEMORY_MODES = {
    "without memory, default balance": ("without",),
    "without memory, tuned balance": ("without", "without-tuned"),
    "with memory, S1: variable": ("S1",),
    "with memory, S1: variable, tuned": ("S1", "S1-tuned"),
    "with memory, S2: fixed, default": ("S2",),
    "with memory, S3: fixed, tuned": ("S2", "S3"),
}
"""Balance mode -> the searches among whose trials its best is chosen; a tuned balance may be the default's."""

MEMORY_TABLE = {
    "(S1) Original": ("without memory, default balance", "with memory, S1: variable"),
    "(S1) tuned": ("without memory, tuned balance", "with memory, S1: variable, tuned"),
    "(S2) Fixed to initial default balance": ("without memory, default balance", "with memory, S2: fixed, default"),
    "(S3) Fixed and tuned": ("without memory, tuned balance", "with memory, S3: fixed, tuned"),
}
"""The rows of `table:xbm`: modes without and with memory. S1 tuned is in the text of `sec:xbm`, without numbers."""

MEMORY_FIELDS = ("memory", "schedule")
"""The fields in which the set-ups of one experiment differ."""

SUFFIX = ", decay"
COLUMNS = ["Lambda_p", "Lambda_e", "val_score", "test_score", "recall_at_1", "iterations"]
NUMBERS = ("without XBM", "with XBM")


def memory_modes(trials: pd.DataFrame) -> pd.DataFrame:
    """The best setting of each balance mode in the experiment of `sec:xbm`, by validation, means over seeds.

    Indexed by MEMORY_MODES, and by the same names with SUFFIX if there are trainings with learning rate decay. Columns:
    Lambda_p, Lambda_e, val_score, test_score, recall_at_1 on the test split, and iterations until the best validation
    score (the paper needs 1.5 to 2 times as many at a fixed balance). NaN if no trial completed or the number was not
    measured. Raises ValueError for trials of several datasets or set-ups; `parts_of` separates them.
    """
    asked = {f"{name}{end}" for names in MEMORY_MODES.values() for name in names for end in ("", DECAY)}
    parts = list(comparable(trials[trials["search"].isin(asked)], but=MEMORY_FIELDS))
    if len(parts) > 1:
        raise ValueError(f"trials of more than one experiment: {[part.words for part in parts]}; select one")
    own = parts[0].trials if parts else trials.iloc[:0]
    rows = {label: _best(own[own["search"].isin(searches)]) for label, searches in MEMORY_MODES.items()}
    repeats = own[own["search"].str.endswith(DECAY)]
    if len(repeats):
        for label, searches in MEMORY_MODES.items():
            among = repeats[repeats["search"].str.removesuffix(DECAY).isin(searches)]
            rows[f"{label}{SUFFIX}"] = _best(_of_choice(among, rows[label]))
    return pd.DataFrame(list(rows.values()), index=list(rows), columns=COLUMNS).astype(float)


def memory(trials: pd.DataFrame) -> pd.DataFrame:
    """`table:xbm`: R@1 without and with memory, each without / with learning rate decay, "-" if it was not run.

    trials: rows of the experiment's searches count, with decay named by DECAY. Errors: as `memory_modes`.
    """
    recalls = memory_modes(trials)["recall_at_1"].to_dict()

    def cell(label: str) -> str:
        pair = [recalls.get(name, nan) for name in (label, f"{label}{SUFFIX}")]
        return " / ".join("-" if isnan(recall) else f"{recall:.2f}" for recall in pair)

    rows = {name: [cell(label) for label in labels] for name, labels in MEMORY_TABLE.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=NUMBERS).rename_axis("Balance")


def _of_choice(decayed: pd.DataFrame, chosen: dict[str, float]) -> pd.DataFrame:
    """The decayed rows of the chosen setting."""
    pairs = zip(decayed["Lambda_p"], decayed["Lambda_e"])
    same = [bool(chosen) and isclose(p, chosen["Lambda_p"]) and isclose(e, chosen["Lambda_e"]) for p, e in pairs]
    return decayed[pd.Series(same, index=decayed.index, dtype=bool)]


def _best(trials: pd.DataFrame) -> dict[str, float]:
    """The best setting's numbers by COLUMNS, means over seeds; empty if no trial completed."""
    seen = trials["best_at"].astype(float) / trials["batch_size"].astype(float)
    scores = [own | {"iterations": best} for own, best in zip(maps_of(trials, "scores"), seen)]
    best = best_trial(means_over_seeds(trials.assign(scores=pd.Series(scores, index=trials.index, dtype=object))))
    if best is None:
        return {}
    measured = {"recall_at_1": "test_precision_at_1", "iterations": "iterations"}
    return {name: best[name] for name in COLUMNS[:4]} | {
        name: best["scores"].get(its, nan) for name, its in measured.items()
    }
