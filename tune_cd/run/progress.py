"""The output of a running study: a line for each training that ends, and on a terminal a status line below."""

import math
import sys
from collections.abc import Mapping

import pandas as pd
from ray.tune import Callback
from tqdm import tqdm

from trainables.trial import ANEW, TROUBLES, UNKEPT, UNSAVED
from tune_cd.balance import WEIGHT
from tune_cd.results.redaction import redact
from tune_cd.results.rows import trial_name
from tune_cd.results.schema import CONFIRM
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.stopper import unusable_data
from tune_cd.tune.packs import members_of

SAID = {
    UNSAVED: "states of trainings cannot be saved; one that pauses unsaved and goes on in another process begins again",
    UNKEPT: "a trained network was not kept",
    ANEW: "begins again at image 0",
}
STATUS = "{n:.3g}/{total_fmt} trials{postfix}, {elapsed} elapsed, about {remaining} left"


class Progress(Callback):
    """Prints a line whenever a training ends: its place, its score, the best so far. On a terminal the last line is the
    status: trainings done and at most, trials running, the best score, elapsed and expected time.

    totals: configurations of each search, or full trainings' worth. table: rows of earlier runs. replicates: trainings
    of a configuration. pausing: searches whose trainings pause, with the images of a full training.
    """

    def __init__(
        self,
        totals: dict[str, int],
        table: pd.DataFrame,
        metric: str,
        replicates: int = 1,
        pausing: Mapping[str, int] | None = None,
    ):
        self._totals = {name: total * replicates for name, total in totals.items()}
        self._metric, self._replicates, self._pausing = metric, replicates, dict(pausing or {})
        self._seen = {
            (row.search, row.trial_index, row.seed): 0 if pd.isna(row.images_seen) else row.images_seen
            for row in table.itertuples()
        }
        best = table.groupby("search")["val_score"].max().dropna()
        self._best = {name: float(best.get(name, -math.inf)) for name in totals}
        self._said: set[tuple] = set()  # (trial id, index in its pack) of ended trainings; troubles that were told
        self._status: tqdm | None = None

    def setup(self, **info) -> None:
        if sys.stdout.isatty() and sys.stderr.isatty():
            total = sum(self._totals.values())
            self._status = tqdm(total=total, initial=self._done(), bar_format=STATUS, leave=False, mininterval=1.0)

    def on_step_end(self, iteration, trials, **info) -> None:
        if self._status is not None:
            running = sum(trial.status == trial.RUNNING for trial in trials)
            best = max(self._best.values())
            score = f", best {self._metric} {best:.4f}" if math.isfinite(best) else ""
            self._status.set_postfix_str(f"{running} running{score}", refresh=False)
            self._status.update(self._done() - self._status.n)

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

    def _warn(self, kind: str, said: str, origin: Mapping, training: tuple[str, int]) -> None:
        """Print a training's trouble: each new beginning, others once."""
        key = (kind, *training) if kind == ANEW else (kind,)
        if key not in self._said:
            self._said.add(key)
            name = f"{trial_name(origin['search'], origin['trial_index'])} " if kind == ANEW else ""
            self._print(f"warning: {name}{' '.join(said.split())}")

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self.on_trial_result(iteration, trials, trial, trial.last_result)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        for place, (config, _) in enumerate(members_of(trial.config, None)):
            if (trial.trial_id, place) not in self._said:
                self._line(config, f"failed, see {trial.error_file}", 0)

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        if unusable_data(trial) is None:  # else the run ends, with a message of its own
            self._print(f"{trial}: its process was lost and is begun again")

    def _ended(self, config: dict, result: dict, seconds: float) -> None:
        score, search = result.get("val_score", math.nan), config[ORIGIN]["search"]
        better = score > self._best[search]
        if math.isnan(score):
            said = redact(f"{result.get('error') or result.get('status', 'no score')}").splitlines()[0]
        else:
            said = f"{self._metric} {score:.4f}"
        self._best[search] = score if better else self._best[search]
        images = result.get("images_seen", 0)
        if search in self._pausing:
            said += f" at {images / self._pausing[search]:4.0%}"
        best = f"best {self._best[search]:.4f}{' *' if better else '  '}"
        self._line(config, f"{said:<20} {best}  {seconds:6.1f} s", images)

    def _line(self, config: dict, outcome: str, images: int) -> None:
        training, origin = _training(config), config[ORIGIN]
        search = origin["search"]
        self._seen[training] = max(self._seen.get(training, 0), images)
        place = "start" if origin["direction"] == "start" else f"{origin['direction']} {origin['line_position']:+.2f}"
        seed = f" seed {config['seed']}" if self._replicates > 1 or search == CONFIRM else ""
        weights = (f"{name}={value:<9.4g}" for name, value in config.items() if name.startswith(WEIGHT))
        h = f"{' '.join(weights)} b={config['batch_size']}{seed}"
        done = f"{self._done(search):{'4.1f' if search in self._pausing else '>2.0f'}}"
        self._print(f"[{search} {done}/{self._totals[search]}]  {place:<16} {h}  {outcome}")

    def _done(self, search: str | None = None) -> float:
        """The trainings of a search, or of all, that have ended; where they pause, full trainings' worth of images."""
        return sum(
            images / self._pausing[name] if name in self._pausing else 1.0
            for (name, *_), images in self._seen.items() if search in (None, name) and name in self._totals
        )  # fmt: skip

    def _print(self, line: str) -> None:
        line = redact(line)
        if self._status is None:
            print(line, flush=True)
        else:
            self._status.write(line, file=sys.stdout)
            self._status.update(self._done() - self._status.n)


def _training(config: Mapping) -> tuple[str, int, int]:
    return config[ORIGIN]["search"], config[ORIGIN]["trial_index"], config["seed"]
