"""The output of a running study: a row for each training that pauses or ends, and on a terminal a bar below."""

import math
import sys
from collections.abc import Mapping

import pandas as pd
from ray.tune import Callback
from tqdm import tqdm

from trainables.trial import ANEW, TROUBLES, UNKEPT, UNSAVED
from tune_cd.balance import WEIGHT
from tune_cd.cluster.watch import Load
from tune_cd.results.redaction import redact
from tune_cd.results.rows import trial_name
from tune_cd.results.schema import CONFIRM
from tune_cd.run.portfolio import ORIGIN, Portfolio
from tune_cd.run.screen import WIDTH, fold
from tune_cd.run.stopper import unusable_data
from tune_cd.tune.packs import members_of

SAID = {
    UNSAVED: "states of trainings cannot be saved; one that pauses unsaved and goes on in another process begins again",
    UNKEPT: "a trained network was not kept",
    ANEW: "begins again at image 0",
}
STATUS = "{bar:10} {desc}, {elapsed}, about {remaining} left"


class Progress(Callback):
    """Prints a row whenever a training pauses or ends: its search, length, weights, score, the search's best so far. On
    a terminal the last line is the status: how much is trained, at most to come, trials running, time.

    table: rows of earlier runs. metric: the score's name. full: images of a full training if trainings pause. load: is
    told how many trials run, and how many wait or run.
    """

    def __init__(
        self, portfolio: Portfolio, table: pd.DataFrame, metric: str, full: int | None = None, load: Load | None = None
    ):
        self._portfolio, self._metric, self._full = portfolio, metric, full
        seen = table["images_seen"].fillna(0)
        self._seen = dict(zip(zip(table["search"], table["trial_index"], table["seed"]), seen))
        self._best: dict[str, float] = table.groupby("search")["val_score"].max().dropna().to_dict()
        self._said: set[tuple] = set()  # (trial id, index in its pack) of ended trainings; troubles that were told
        self._status: tqdm | None = None
        self._load, self._titled = load, False

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it. The searches cannot all be pickled."""
        return {}

    def setup(self, **info) -> None:
        if sys.stdout.isatty() and sys.stderr.isatty():
            account = self._portfolio
            self._status = tqdm(
                desc=self._described(0), initial=account.done, total=account.done + account.left, bar_format=STATUS,
                ncols=WIDTH, leave=False, mininterval=1.0, smoothing=0,
            )  # fmt: skip

    def on_step_end(self, iteration, trials, **info) -> None:
        """Bring load and status up to date, when the searches have been told as well."""
        running = sum(trial.status == trial.RUNNING for trial in trials)
        if self._load is not None:
            self._load.running, self._load.live = running, sum(not trial.is_finished() for trial in trials)
        if (bar := self._status) is not None:
            bar.total = self._portfolio.done + self._portfolio.left
            bar.set_description_str(self._described(running), refresh=False)
            bar.update(self._portfolio.done - bar.n)  # draws once a second

    def on_experiment_end(self, trials, **info) -> None:
        if self._status is not None:
            self._status.close()

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        for place, (config, member) in enumerate(members_of(trial.config, result)):
            for kind, reason in member.get(TROUBLES, {}).items():
                self._warn(kind, f"{SAID[kind]}: {reason}", config[ORIGIN], (trial.trial_id, place))
            seen = self._seen.get(_training(config), 0)
            if 0 < member.get("images_seen", 0) <= seen and not member.get("done"):
                said = f"goes on before image {seen}, where it paused: its last state was not saved, or cannot be used"
                self._warn(ANEW, said, config[ORIGIN], (trial.trial_id, place))
            if member.get("done") and (trial.trial_id, place) not in self._said:
                self._said.add((trial.trial_id, place))
                self._ended(config, member, result.get("time_total_s", 0))

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self.on_trial_result(iteration, trials, trial, trial.last_result)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        for place, (config, _) in enumerate(members_of(trial.config, None)):
            if (trial.trial_id, place) not in self._said:
                self._row(config, 0, f"failed, see {trial.error_file}")

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        if unusable_data(trial) is None:  # else the run ends, with a message of its own
            self._print(f"{trial}: its process was lost and is begun again")

    def _warn(self, kind: str, said: str, origin: Mapping, training: tuple[str, int]) -> None:
        """Print a training's trouble: each new beginning, others once."""
        key = (kind, *training) if kind == ANEW else (kind,)
        if key not in self._said:
            self._said.add(key)
            name = f"{trial_name(origin['search'], origin['trial_index'])} " if kind == ANEW else ""
            self._print(f"warning: {name}{' '.join(redact(said).split())}")

    def _ended(self, config: dict, result: dict, seconds: float) -> None:
        search, images = config[ORIGIN]["search"], result.get("images_seen", 0)
        score = result.get("val_score", math.nan)
        if math.isnan(score):
            said = redact(f"{result.get('error') or result.get('status', 'no score')}")
            self._row(config, images, said.splitlines()[0])
            return
        before = self._best.get(search, -math.inf)
        best = self._best[search] = max(before, score)
        star = "*" if score > before else " "
        self._row(config, images, f"{score:8.4f}{best:8.4f}{star}{seconds:7.1f} s", scored=True)

    def _row(self, config: dict, images: int, outcome: str, scored: bool = False) -> None:
        training, origin = _training(config), config[ORIGIN]
        self._seen[training] = max(self._seen.get(training, 0), images)
        cells = self._cells(config, images)
        if not self._titled:
            self._titled = True
            titles = "".join(f"{title:>{width}}" for title, (_, width) in cells.items())
            self._print(f"scores: {self._metric} on validation; * a new best of its search")
            self._print(_fitting(f"{'search':<9}{titles}   score    best      time", "  along"))
        head = f"{origin['search']:<9}" + "".join(f"{value:>{width}}" for value, width in cells.values())
        if scored:
            self._print(_fitting(f"{head}{outcome}", f"  {origin['direction']}"))
        else:
            self._print(_fitting(head, f"  {outcome}", f"\n    {outcome}"))

    def _cells(self, config: Mapping, images: int) -> dict[str, tuple[str, int]]:
        """Title of a column -> (value, width), for the columns that tell trainings apart."""
        weights = [name for name in config if name.startswith(WEIGHT)]
        cells = {"length": (f"{images / self._full:.0%}", 6)} if self._full else {}
        cells |= {name: (f"{config[name]:.4g}", max(10, len(name) + 1)) for name in weights}
        cells["b"] = str(config["batch_size"]), 5
        if len(self._portfolio.seeds) > 1 or config[ORIGIN]["search"] == CONFIRM:
            cells["seed"] = str(config["seed"]), 5
        return cells

    def _described(self, running: int) -> str:
        done, of = self._portfolio.done, "full trainings" if self._full else "trainings"
        return f"{done:.3g} of at most {done + self._portfolio.left:.3g} {of}, {running} running"

    def _print(self, line: str) -> None:
        line = fold(redact(line), "    ")
        if self._status is None:
            print(line, flush=True)
        else:
            self._status.write(line, file=sys.stdout)


def _fitting(line: str, more: str, otherwise: str = "") -> str:
    """The line, with more if there is room for it."""
    return line + (more if len(line + more) <= WIDTH else otherwise)


def _training(config: Mapping) -> tuple[str, int, int]:
    return config[ORIGIN]["search"], config[ORIGIN]["trial_index"], config["seed"]
