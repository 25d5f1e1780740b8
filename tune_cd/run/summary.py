"""The summary of a study: text and one picture."""

import io
from collections.abc import Sequence
from math import isnan
from pathlib import Path

import pandas as pd

from tune_cd import results
from tune_cd.analysis import best_trial, means_over_seeds
from tune_cd.analysis.runs import counted, runs_of
from tune_cd.analysis.scores import parameter_of, searching
from tune_cd.analysis.tables import markdown, memory, memory_modes
from tune_cd.report.findings import Findings, findings, grown, is_known
from tune_cd.report.words import edges, fresh_score, interval, letters, recipe_words, tuned
from tune_cd.results.study_files import DIGITS, Networks, score_of
from tune_cd.run.screen import fold
from tune_cd.run.searches import averages_of
from tune_cd.run.study import Study


def summarise(study: Study) -> str:
    """The best balance beside the baselines, and the paths of table and network."""
    table, where = results.read(study.results, study.name), study.store.where(f"trials/{study.name}")
    if best_trial(table) is None:
        return f"no trial of study {study.name} has completed; table: {where}"
    lines = _memory_table(table) if study.config.experiment == "xbm" else _balance_table(table, study)
    metric, test_metric, replicates = study.setup.metric, study.setup.test_metric, study.config.replicates
    scores = metric if test_metric == metric else f"{metric} (validation) and {test_metric} (test)"
    over = f", means over {replicates} seeds" if replicates > 1 else ""
    lines += ["", f"scores are {scores}{over}", counted_by_status(table)]
    lines = [line if "  " in line else fold(line) for line in lines]
    return "\n".join([*lines, f"table:   {where}", *_network(table, study)])


def counted_by_status(table: pd.DataFrame) -> str:
    """How many trainings there are, and how each of them ended."""
    counts = table["status"].replace("stopped", "paused").value_counts()
    trainings = f"{len(table)} training{'s' * (len(table) != 1)}"
    return f"{trainings}: {', '.join(f'{number} {status}' for status, number in counts.items())}"


def _balance_table(trials: pd.DataFrame, study: Study) -> list[str]:
    """Lines with the best h and score of the requested search and of each baseline, then how well each learning rate
    was tuned."""
    found, names = findings(trials, _box(study)), study.config.weighted.weights
    best = found.best if found.best["search"] == study.config.search else None
    recipes = {recipe.average: recipe for recipe in found.recipes}
    head = "".join(f"{name:>{_width(name)}}" for name in names)
    lines = ["", f"{'':<28}{head}{'b':>5}{'validation':>12}{'test':>8}", _line("best balance found", best, names)]
    for average in averages_of(study.setup):
        reached = recipes[average].best if average in recipes else None
        lines.append(_line(f"best with {recipe_words(average)}", reached, names))
    lines += ["", *(_fresh(found) if best is not None else [])]
    lines += [f"{recipe_words(average)}: {tuned(recipe)}" for average, recipe in recipes.items()]
    lines += _growth(trials, study)
    if found.edges and best is not None:
        lines.append(f"best balance: {edges(found)}; a wider --range may hold better.")
    return lines


def _box(study: Study) -> dict[str, tuple[float, float]]:
    """The range of each weight at the study's start."""
    return dict.fromkeys(study.config.weighted.weights, study.config.range)


def _growth(trials: pd.DataFrame, study: Study) -> list[str]:
    """A line on the weights whose range has grown, and how far; none if no range has."""
    (low, high), inside, said = study.config.range, 1 + 1e-6, []  # rounding apart
    for name, (least, most) in grown(_box(study), trials).items():
        ends = [f"down to {least:.3g}"] if inside * least < low else []
        ends += [f"up to {most:.3g}"] if most > inside * high else []
        said += [f"{letters(name)} {' and '.join(ends)}"] if ends else []
    return [f"the range {low:g} to {high:g} has grown: {', '.join(said)}."] if said else []


def _fresh(found: Findings) -> list[str]:
    """Lines with the scores of the chosen configurations over fresh seeds, and the search's gain over each recipe."""
    if found.fresh is None:
        return []
    lines = [f"with fresh seeds, the best balance: {fresh_score(found.fresh)}"]
    for recipe in found.recipes:
        if recipe.fresh is not None:
            gain = f"gain {recipe.gain:+.4f}"
            gain += f" ({interval(recipe.low, recipe.high, '+')})" if is_known(recipe.low) else ""
            lines.append(f"with fresh seeds, {recipe_words(recipe.average)}: {fresh_score(recipe.fresh)}; {gain}")
    return lines


def _memory_table(table: pd.DataFrame) -> list[str]:
    """Lines with each balance mode's best by validation and its recall at 1 on the test split, then all of
    `table:xbm`."""
    lines = ["", f"{'':<40}{'Lambda_p':>10}{'Lambda_e':>10}{'validation':>12}{'test':>8}{'R@1':>8}{'best at':>12}"]
    for label, best in memory_modes(table).iterrows():
        if isnan(best["val_score"]):
            lines.append(f"{label:<40}{'no completed trial':>40}")
            continue
        h = f"{best['Lambda_p']:>10.4g}{best['Lambda_e']:>10.4g}"
        recall = "-" if isnan(best["recall_at_1"]) else f"{best['recall_at_1']:.4f}"  # as of revisited Oxford and Paris
        when = "-" if isnan(best["iterations"]) else f"{best['iterations']:,.0f}"
        lines.append(f"{label:<40}{h}{best['val_score']:>12.4f}{best['test_score']:>8.4f}{recall:>8}{when:>12}")
    lines += ["", "R@1 without / with learning rate decay; then iterations until the best score on validation (≥: the "
              "last look)", ""]  # fmt: skip
    return lines + markdown(memory(table)).splitlines()


def _network(table: pd.DataFrame, study: Study) -> list[str]:
    """The line of the search's best network, as a list; it says so if that is not the best training's."""
    network = Networks(study.results, study.name).best().get(study.config.search)
    scores = table[(table["search"] == study.config.search) & (table["status"] == "completed")]["val_score"]
    where = None if network is None else study.store.where(network)
    if scores.empty or (network is not None and score_of(network) >= round(scores.max(), DIGITS)):
        return [f"network: {where}"] if where else []
    return [f"network: that of the best training was not kept; {f'the best kept is {where}' if where else 'none was'}"]


def draw(study: Study, table: pd.DataFrame) -> Path | str:
    """Draw the study's picture beside its options; returns the place of the PNG."""
    from tune_cd.plots import search_figure, standard  # the summary does not depend on matplotlib

    rows = searching(table)
    settings = means_over_seeds(counted(runs_of(rows)).iloc[: len(rows)])
    averages, weights = averages_of(study.setup), study.config.weighted.weights
    lows, highs = zip(*grown(_box(study), rows).values(), strict=True)
    box, size, picture = (min(lows), max(highs)), study.config.batch_size, io.BytesIO()
    with standard():
        figure = search_figure(settings, averages, size, study.setup.k, box, runs=rows, weights=weights)
        figure.savefig(picture, format="png", dpi=150)
    study.store.write(study.file("search.png"), picture.getvalue())
    return study.store.where(study.file("search.png"))


def _width(name: str) -> int:
    """Width of a weight's column, in characters."""
    return max(10, len(name) + 2)


def _line(label: str, trial: pd.Series | None, names: Sequence[str]) -> str:
    if trial is None:
        return f"{label:<28}{'no completed trial':>{25 + sum(map(_width, names))}}"
    h = "".join(f"{parameter_of(trial, name):>{_width(name)}.4g}" for name in names) + f"{trial['batch_size']:>5}"
    spread = f" ±{trial['test_std']:.4f}" if trial["seeds"] > 1 else ""
    return f"{label:<28}{h}{trial['val_score']:>12.4f}{trial['test_score']:>8.4f}{spread}"
