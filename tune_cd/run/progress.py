"""The output of a running study: a row for each training that pauses or ends, and on a terminal a bar below."""

import math
import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd
from tqdm import tqdm

from trainables.training.member import LEFT_OUT
from trainables.trial import ANEW, TROUBLES, UNKEPT, UNSAVED
from tune_cd.results.redaction import redact
from tune_cd.results.schema import CONFIRM
from tune_cd.run.failures import unusable_data
from tune_cd.run.portfolio import ORIGIN, Portfolio
from tune_cd.run.recorder import weights_in
from tune_cd.run.screen import WIDTH, fold
from tune_cd.run.study_search import Listener, not_done

SAID = {
    UNSAVED: "a state cannot be saved; a training that pauses without one goes on from an earlier state, or anew",
    UNKEPT: "a trained network was not kept",
    ANEW: "began again at image 0",
    LEFT_OUT: "not all data are used",
}
STATUS = "{bar:8} {desc}, {elapsed}, about {remaining} left"


class Progress(Listener):
    """Prints a row whenever a training pauses or ends, and on a terminal, as the last line, how much is trained.

    table: rows of earlier runs. metric: the score's name. full: images of a full training if trainings pause.
    """

    def __init__(self, portfolio: Portfolio, table: pd.DataFrame, metric: str, full: int | None = None):
        self._portfolio, self._metric, self._full = portfolio, metric, full
        self._best: dict[str, float] = table.groupby("search")["val_score"].max().dropna().to_dict()
        self._said: set[str] = set()  # kinds of trouble
        self._width = 0  # of the lines; 0: the titles are not printed yet

    def setup(self, **info) -> None:
        """Show the bar, if this is a terminal."""
        done, left = self._portfolio.done, self._portfolio.left
        self._bar = tqdm(
            desc=self._described(0), initial=done, total=done + left, bar_format=STATUS, ncols=WIDTH, leave=False,
            mininterval=1.0, smoothing=0, disable=not (sys.stdout.isatty() and sys.stderr.isatty()),
        )  # fmt: skip

    def on_step_end(self, iteration, trials, **info) -> None:
        """Bring the bar up to date; by now the searches have been told."""
        self._bar.total = self._portfolio.done + self._portfolio.left
        running = sum(trial.status == trial.RUNNING for trial in trials)
        self._bar.set_description_str(self._described(running), refresh=False)
        self._bar.update(self._portfolio.done - self._bar.n)  # draws once a second

    def on_experiment_end(self, trials, **info) -> None:
        self._bar.close()

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        if unusable_data(trial) is None:  # else the study ends
            self._say(f"{trial}: its process was lost and is begun again")

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        for config, _ in not_done(trial):
            self._row(config, 0, f"  failed, see {trial.error_file}")

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        """Print the row of a training, and what went wrong beside it: each new beginning, other troubles once."""
        for kind, reason in told.get(TROUBLES, {}).items():
            if kind == ANEW or kind not in self._said:
                self._said.add(kind)
                name = f"{config[ORIGIN]['trial_id']} " if kind == ANEW else ""
                self._say(f"warning: {name}{SAID[kind]}: {' '.join(redact(reason).split())}")
        self._row(config, told.get("images_seen", 0), self._outcome(config[ORIGIN]["search"], told, seconds))

    def _outcome(self, search: str, told: Mapping, seconds: float) -> str:
        """Score, the search's best so far and time; of a training without a score the reason."""
        score = told.get("val_score", math.nan)
        if math.isnan(score):
            return "  " + redact(f"{told.get('error') or told.get('status', 'no score')}").splitlines()[0]
        before = self._best.get(search, -math.inf)
        best = self._best[search] = max(before, score)
        return f"{score:8.4f}{best:8.4f}{'*' if score > before else ' '}{seconds:7.1f} s"

    def _row(self, config: Mapping, images: int, outcome: str) -> None:
        """Print a row, the first one below titles. Its columns are those that tell trainings apart."""
        cells = {"search   ": f"{config[ORIGIN]['search']:<9}"}
        if self._full:
            cells["length"] = f"{images / (self._full - self._full % config['batch_size']):>6.0%}"
        cells |= {name: f"{config[name]:>{max(10, len(name) + 1)}.4g}" for name in weights_in(config)}
        cells["b"] = f"{config['batch_size']:>5}"
        if len(self._portfolio.seeds) > 1 or config[ORIGIN]["search"] == CONFIRM:
            cells["seed"] = f"{config['seed']:>5}"
        if not self._width:
            titles = "".join(title.rjust(len(cell)) for title, cell in cells.items()) + "   score    best      time"
            self._width = max(WIDTH, len(titles))  # rows of many weights are not folded
            single = "single training " * (len(self._portfolio.seeds) > 1)  # a search is told means over seeds
            self._say(f"scores: {self._metric} on validation; * a new best {single}of its search")
            self._say(titles)
        self._say("".join(cells.values()) + outcome)

    def _described(self, running: int) -> str:
        done = self._portfolio.done
        return f"{done:.3g} of at most {done + self._portfolio.left:.3g} trainings, {running} running"

    def _say(self, line: str) -> None:
        """Print a line; above the bar if there is one."""
        tqdm.write(fold(line, "    ", self._width or WIDTH), file=sys.stdout)
        sys.stdout.flush()
