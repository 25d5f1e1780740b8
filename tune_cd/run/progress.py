"""One clear line a trial: where it lies, what it scored, the best so far."""

import math

from ray.tune import Callback

from tune_cd.run.options import ORIGIN


class Progress(Callback):
    """Prints a line whenever a trial ends. `total`: trials of this search; `done`: those of an earlier run."""

    def __init__(self, search: str, total: int, done: int, best: float | None, metric: str):
        self._search, self._total, self._done, self._metric = search, total, done, metric
        self._best = -math.inf if best is None else best

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        result = trial.last_result
        score = result.get("val_score", math.nan)
        better = score > self._best
        self._best = max(self._best, score) if not math.isnan(score) else self._best
        said = f"{self._metric} {score:.4f}" if not math.isnan(score) else f"{result.get('status', 'no score')}"
        self._line(trial, f"{said:<20} best {self._best:.4f}{' *' if better else '  '}  {result.get('time_total_s', 0):6.1f} s")

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._line(trial, f"failed, see {trial.error_file}")

    def _line(self, trial, outcome: str) -> None:
        self._done += 1
        config, origin = trial.config, trial.config[ORIGIN]
        place = "start" if origin["direction"] == "start" else f"{origin['direction']} {origin['line_position']:+.2f}"
        h = f"Lambda_p={config['Lambda_p']:<9.4g} Lambda_e={config['Lambda_e']:<9.4g} b={config['batch_size']}"
        print(f"[{self._search} {self._done:>2}/{self._total}]  {place:<16} {h}  {outcome}", flush=True)
