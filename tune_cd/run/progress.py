"""The output of a running study: a row for each training that pauses or ends, and on a terminal a bar below."""

import math
import sys
from collections.abc import Mapping

import pandas as pd
from ray.tune import Callback
from tqdm import tqdm

from trainables.trial import ANEW, TROUBLES, UNKEPT, UNSAVED
from tune_cd.cluster.watch import Load
from tune_cd.results.redaction import redact
from tune_cd.results.rows import trial_name
from tune_cd.results.schema import CONFIRM
from tune_cd.run.portfolio import ORIGIN, Portfolio
from tune_cd.run.recorder import weights_in
from tune_cd.run.screen import WIDTH, fold
from tune_cd.tune.packs import members_of

SAID = {
    UNSAVED: "a state cannot be saved; a training that pauses without one goes on from an earlier state, or anew",
    UNKEPT: "a trained network was not kept",
    ANEW: "begins again at image 0",
}
STATUS = "{bar:10} {desc}, {elapsed}, about {remaining} left"


class Progress(Callback):
    """Prints a row whenever a training pauses or ends, and on a terminal, as the last line, how much is trained.

    table: rows of earlier runs. metric: the score's name. full: images of a full training if trainings pause. load: is
    told how many trials run, and how many wait or run.
    """

    def __init__(
        self, portfolio: Portfolio, table: pd.DataFrame, metric: str, full: int | None = None, load: Load | None = None
    ):
        self._portfolio, self._metric, self._full, self._load = portfolio, metric, full, load or Load()
        self._best: dict[str, float] = table.groupby("search")["val_score"].max().dropna().to_dict()
        self._said: set[tuple] = set()  # (trial id, index in its pack) of ended trainings; troubles that were told
        self._bar: tqdm | None = None
        self._titled = False

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it. The searches cannot all be pickled."""
        return {}

    def setup(self, **info) -> None:
        if sys.stdout.isatty() and sys.stderr.isatty():
            done, left = self._portfolio.done, self._portfolio.left
            self._bar = tqdm(
                desc=self._described(), initial=done, total=done + left, bar_format=STATUS, ncols=WIDTH, leave=False,
                mininterval=1.0, smoothing=0,
            )  # fmt: skip

    def on_step_end(self, iteration, trials, **info) -> None:
        """Bring load and status up to date, when the searches have been told as well."""
        self._load.running = sum(trial.status == trial.RUNNING for trial in trials)
        self._load.live = sum(not trial.is_finished() for trial in trials)
        if (bar := self._bar) is not None:
            bar.total = self._portfolio.done + self._portfolio.left
            bar.set_description_str(self._described(), refresh=False)
            bar.update(self._portfolio.done - bar.n)  # draws once a second

    def on_experiment_end(self, trials, **info) -> None:
        if self._bar is not None:
            self._bar.close()

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        for place, (config, told) in enumerate(members_of(trial.config, result)):
            for kind, reason in told.get(TROUBLES, {}).items():
                self._warn(kind, reason, config[ORIGIN], (trial.trial_id, place))
            if told.get("done") and (trial.trial_id, place) not in self._said:
                self._said.add((trial.trial_id, place))
                outcome = self._outcome(config[ORIGIN]["search"], told, result.get("time_total_s", 0))
                self._row(config, told.get("images_seen", 0), outcome)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        for place, (config, _) in enumerate(members_of(trial.config, None)):
            if (trial.trial_id, place) not in self._said:
                self._row(config, 0, f"  failed, see {trial.error_file}")

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        self._print(f"{trial}: its process was lost and is begun again")

    def _warn(self, kind: str, reason: str, origin: Mapping, training: tuple[str, int]) -> None:
        """Print a training's trouble: each new beginning, others once."""
        key = (kind, *training) if kind == ANEW else (kind,)
        if key not in self._said:
            self._said.add(key)
            name = f"{trial_name(origin['search'], origin['trial_index'])} " if kind == ANEW else ""
            self._print(f"warning: {name}{SAID[kind]}: {' '.join(redact(reason).split())}")

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
        cells |= {"length": f"{images / self._full:>6.0%}"} if self._full else {}
        cells |= {name: f"{config[name]:>{max(10, len(name) + 1)}.4g}" for name in weights_in(config)}
        cells["b"] = f"{config['batch_size']:>5}"
        if len(self._portfolio.seeds) > 1 or config[ORIGIN]["search"] == CONFIRM:
            cells["seed"] = f"{config['seed']:>5}"
        if not self._titled:
            self._titled = True
            titles = "".join(title.rjust(len(cell)) for title, cell in cells.items())
            self._print(f"scores: {self._metric} on validation; * a new best of its search")
            self._print(f"{titles}   score    best      time")
        self._print("".join(cells.values()) + outcome)

    def _described(self) -> str:
        done, of = self._portfolio.done, "full trainings" if self._full else "trainings"
        return f"{done:.3g} of at most {done + self._portfolio.left:.3g} {of}, {self._load.running} running"

    def _print(self, line: str) -> None:
        """Print a line; above the bar if there is one."""
        if self._bar is None:
            print(fold(line, "    "), flush=True)
        else:
            self._bar.write(fold(line, "    "), file=sys.stdout)
