"""The summary of a study: text and one picture."""

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tune_cd import results
from tune_cd.analysis import best_trial, means_over_seeds
from tune_cd.analysis.axes import axes_of
from tune_cd.analysis.memory_table import memory_modes
from tune_cd.analysis.runs import counted, runs_of
from tune_cd.analysis.scores import parameter_of, searching
from tune_cd.analysis.tables import markdown, memory
from tune_cd.balance import PUBLISHED
from tune_cd.report.findings import Findings, is_known
from tune_cd.report.words import edges, fresh_score, interval, recipe_words, tuned, wider
from tune_cd.results.study_files import best_networks
from tune_cd.run.screen import fold
from tune_cd.run.searches import averages_of
from tune_cd.run.study import Study


def summarise(study: Study) -> str:
    """The best balance beside the baselines, and the paths of table and network."""
    table, where = results.read(study.results, study.name), study.store.where(f"trials/{study.name}")
    if best_trial(table) is None:
        return f"no trial of study {study.name} has completed; table: {where}"
    found = None if study.config.experiment == "xbm" else Findings(table)
    lines = _memory_table(table) if found is None else _balance_table(found, study)
    metric, test_metric, replicates = study.setup.metric, study.setup.test_metric, study.config.replicates
    scores = metric if test_metric == metric else f"{metric} (validation) and {test_metric} (test)"
    seeds = [] if found is None else found.means.loc[found.means["status"] == "completed", "seeds"]
    few = "up to " * any(count < replicates for count in seeds)  # where it was interrupted, or one failed
    over = f", means over {few}{replicates} seeds" if replicates > 1 else ""
    counts = table["status"].replace("stopped", "paused").value_counts()
    ended = ", ".join(f"{number} {status}" for status, number in counts.items())
    lines += ["", f"scores are {scores}{over}", f"{len(table)} training{'s' * (len(table) != 1)}: {ended}"]
    lines = [line if "  " in line else fold(line) for line in lines]
    network = (networks := best_networks(study.store, study.name)).get(study.config.search)
    kept = [f"network: {study.store.where(network)}"] if network is not None else []
    if network is not None and replicates > 1:  # another setting may have the best mean
        for params in table["params"][table["trial_id"] + ".pt" == network.rpartition("~")[2]]:
            setting = ", ".join(f"{name}={value:.4g}" for name, value in dict(params).items())
            kept.append(fold(f"  of the best single training, which has {setting}"))
    if found is not None and found.ahead is not None and (better := networks.get(found.ahead["search"])) is not None:
        kept.append(f"better by validation: {study.store.where(better)}")
    return "\n".join([*lines, f"table:   {where}", *kept])


def _balance_table(found: Findings, study: Study) -> list[str]:
    """Lines with the best h and score of the requested search and of each baseline, then how well each learning rate
    was tuned."""
    names = study.config.weighted.weights
    best = found.best if found.best["search"] == study.config.search else None
    recipes = [recipe for recipe in found.recipes if recipe.average in averages_of(study.setup)]
    rows = [("best balance found", best)]
    rows += [(f"{'best with ' * (one.average != PUBLISHED)}{recipe_words(one.average)}", one.best) for one in recipes]
    lines = _fresh(found) if best is not None else []
    lines += [f"{recipe_words(recipe.average)}: {tuned(recipe)}" for recipe in recipes]
    if found.edges and best is not None:
        lines.append(f"best balance: {edges(found)}; a wider {' or '.join(wider(found))} may hold better.")
    return ["", *_table(names, rows).splitlines(), *([""] if lines else []), *lines]


def _table(names: Sequence[str], rows: Sequence[tuple[str, pd.Series | None]]) -> str:
    """A label, the weights, b and scores of each row; None: no trial of it has completed."""
    table = {}
    for label, row in rows:
        cells = {name: "" if row is None else f"{parameter_of(row, name):.4g}" for name in names}
        if row is not None:
            spread = {"±": f"{row['test_std']:.4f}"} if row["seeds"] > 1 else {}
            scores = {"validation": f"{row['val_score']:.4f}", "test": f"{row['test_score']:.4f}"}
            cells |= {"b": f"{row['batch_size']}", **scores, **spread}
        table[label] = cells
    return pd.DataFrame.from_dict(table, orient="index").to_string(na_rep="-", col_space=9 if len(names) < 3 else None)


def _fresh(found: Findings) -> list[str]:
    """Lines with the scores of the chosen configurations over fresh seeds, and the search's gain over each recipe."""
    if found.fresh is None:
        return []
    lines = [f"with fresh seeds, the best balance: {fresh_score(found.fresh)}"]
    for recipe in found.recipes:
        if recipe.fresh is not None:
            gain = f"gain {recipe.gain.value:+.4f}"
            gain += f" ({interval(recipe.gain.low, recipe.gain.high, '+')})" if is_known(recipe.gain.low) else ""
            lines.append(f"with fresh seeds, {recipe_words(recipe.average)}: {fresh_score(recipe.fresh)}; {gain}")
    return lines


def _memory_table(table: pd.DataFrame) -> list[str]:
    """Lines with each balance mode's best by validation and its recall at 1 on the test split, then all of
    `table:xbm`."""
    modes = memory_modes(table).iloc[:, :6].to_string(na_rep="-", float_format="{:.6g}".format)
    said = "R@1 without / with decay of the learning rate; iterations until the best on validation (≥: the last look)"
    return ["", *modes.splitlines(), "", said, "", *markdown(memory(table)).splitlines()]


def draw(study: Study, table: pd.DataFrame) -> Path | str:
    """Draw the study's picture beside its options; returns the place of the PNG."""
    from tune_cd.plots import search_figure, standard  # the summary does not depend on matplotlib

    rows, weights, name = searching(table), study.config.weighted.weights, study.file("search.png")
    settings = means_over_seeds(counted(runs_of(rows)).iloc[: len(rows)])
    lows, highs = zip(*((axis.low, axis.high) for axis in axes_of(rows) if axis.name in weights), strict=True)
    of, picture = (averages_of(study.setup), study.config.batch_size, study.setup.k), io.BytesIO()
    with standard():
        figure = search_figure(settings, *of, (min(lows), max(highs)), runs=rows, weights=weights)
        figure.savefig(picture, format="png", dpi=150)
    study.store.write(name, picture.getvalue())
    return study.store.where(name)
