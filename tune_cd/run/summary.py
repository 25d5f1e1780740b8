"""What a study found, in words and one picture."""

from pathlib import Path

import pandas as pd

from tune_cd import balance, results
from tune_cd.analysis import best_trial
from tune_cd.plots import search_figure
from tune_cd.run.options import averages_of
from tune_cd.run.preflight import Study

ON_DIAGONAL = 1e-6  # octaves


def summarise(study: Study) -> str:
    """The best h, its test score beside each baseline's, and where table and picture are (the picture is drawn here)."""
    table = results.read(study.results, study.name)
    best = best_trial(table)
    if best is None:
        return f"no trial of study {study.name} has completed; table: {table_path(study)}"
    baselines = {average: on_diagonal(table, average, study) for average in averages_of(study.setup)}
    lines = ["", f"{'':<28}{'Lambda_p':>10}{'Lambda_e':>10}{'b':>5}{'validation':>12}{'test':>8}"]
    lines.append(_line("best balance found", best_trial(table[table["search"] == study.options.search])))
    for average, trial in baselines.items():
        lines.append(_line(f"best with {average} average", trial))
    lines.append(f"\nscores are {study.setup.metric}; {_counts(table)}")
    lines.append(f"table:   {table_path(study)}")
    lines.append(f"picture: {draw(study, table)}")
    return "\n".join(lines)


def on_diagonal(table: pd.DataFrame, average: str, study: Study) -> pd.Series | None:
    """The best trial that a recipe with this average can reach by its learning rate alone, whoever asked for it."""
    k = study.setup.k
    reachable = [abs(balance.off_diagonal(row, average, row["batch_size"], k)) < ON_DIAGONAL for _, row in table.iterrows()]
    return best_trial(table[reachable])


def draw(study: Study, table: pd.DataFrame) -> Path:
    """Draw the study's picture beside its state; returns the PNG's path."""
    figure = search_figure(
        table, averages_of(study.setup), study.options.batch_size, study.setup.k, tuple(study.options.range)
    )
    path = study.folder / "search.png"
    figure.savefig(path, dpi=150)
    return path


def table_path(study: Study) -> Path:
    return study.results / "trials" / study.name


def _line(label: str, trial: pd.Series | None) -> str:
    if trial is None:
        return f"{label:<28}{'no completed trial':>45}"
    h = f"{trial['Lambda_p']:>10.4g}{trial['Lambda_e']:>10.4g}{trial['batch_size']:>5}"
    return f"{label:<28}{h}{trial['val_score']:>12.4f}{trial['test_score']:>8.4f}"


def _counts(table: pd.DataFrame) -> str:
    counts = table["status"].value_counts()
    return f"{len(table)} trials: " + ", ".join(f"{number} {status}" for status, number in counts.items())
