"""The trials of an experiment: which configuration each of them trains, how far it is, and what that tells the search.

A searcher cannot pause a trial, and a scheduler cannot ask for a new one. So the two share these trials and the next
step: if it is a new configuration, the searcher suggests it; if it is a paused trial, the scheduler resumes it.

A trial goes from top to bottom through this class: `begin`, `report`, `end`. The rest is about restored experiments.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.utils import flatten_dict

from tune_cd.search.protocol import has_free_worker
from tune_cd.search.search import ROUNDING, CoordinateDescent
from tune_cd.search.space import Configuration, Key
from tune_cd.search.training import Proposal, Training
from tune_cd.tune.reports import Reports

log = logging.getLogger(__name__)


class Trials:
    """Trials by their ids, over a search and what they have reported.

    configurations: trial id -> h. ended: ids of trials that Tune has ended. step: the next configuration to train,
    decided but not yet started. scheduled: whether our scheduler has passed on a report.
    """

    def __init__(self, search: CoordinateDescent, reports: Reports):
        self.search, self.reports = search, reports
        self.configurations: dict[str, Configuration] = {}
        self.ended: set[str] = set()
        self.step: Configuration | None = None
        self.scheduled = False
        self.restored = False  # until it has been compared with Tune's trials
        self._said: set[str] = set()  # what the user was told

    def state(self) -> dict[str, Any]:
        """What is known of the trials, as plain JSON types; `from_state` inverts it."""
        return {
            "search": self.search.state(),
            "configurations": self.configurations,
            "ended": sorted(self.ended),
            "full_length": self.reports.full_length,
            "use_result": self.reports.use_result,
            "seen": self.reports.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Trials":
        """Trials where `state` was taken. Raises ValueError for a search's state of an unknown version."""
        reports = Reports(state["full_length"], state["use_result"])
        reports.restore(state["seen"])
        trials = cls(CoordinateDescent.from_state(state["search"]), reports)
        trials.configurations, trials.ended, trials.restored = dict(state["configurations"]), set(state["ended"]), True
        return trials

    @property
    def pauses(self) -> bool:
        return len(self.search.lengths) > 1

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train: the search has stopped by itself."""
        return self.step is None and self.search.finished

    def best(self, whole: bool) -> Training | None:
        """The training with the best last value among those that are whole, or among the others; None without one."""
        told = [one for one in self.search.trainings if one.curve and not one.failed and (one.share == 1) == whole]
        return max(told, key=lambda one: one.last, default=None)

    def origin_of(self, trial_id: str) -> dict[str, Any]:
        """direction, line_position and trial_index of a trial; {} for one that the search did not ask for."""
        try:
            return self.search.annotation(self.configurations[trial_id])
        except KeyError:
            return {}

    def next(self) -> Configuration | None:
        """The next configuration to train, new or paused; the same one until its training starts. Configurations that
        lost their trial come first."""
        if self.step is None and (lost := self.lost):
            free = has_free_worker(self.search.workers, len(self.search.live) - len(lost))
            self.step = lost[0] if free else None
        elif self.step is None:
            self.step = self.search.ask()
        return self.step

    def begin(self, trial_id: str) -> Configuration | None:
        """The configuration of a new trial; None if there is none for now, or if a paused trial is to go on."""
        h = self.configurations.get(trial_id)
        if h is None:
            h = self.next()
            if h is None or self.of(h) is not None:
                return None
            self.configurations[trial_id], self.step = h, None
        return h

    def report(self, trial_id: str, result: Mapping[str, Any]) -> str:
        """Take a report of a trial that may pause, tell its value if a length is reached, and return
        TrialScheduler.CONTINUE, PAUSE or STOP. Raises ValueError as `Reports.observe`."""
        self.scheduled, h = True, self.configurations.get(trial_id)
        if h is None:
            return TrialScheduler.CONTINUE
        result = flatten_dict(dict(result))
        seen = self.reports.observe(trial_id, result)
        share = self.reports.share(seen)
        if share is None:
            return TrialScheduler.CONTINUE
        if not self.is_under_way(h):  # e.g. if Tune started it again after a restart
            return TrialScheduler.PAUSE
        ended, reached = share == 1, share >= self.search.until(h) - ROUNDING
        diverged = seen.diverged and self.reports.metric in result
        diverged &= reached or seen.best is not None  # a first value may come later, as of a mean over several epochs
        if diverged or (seen.best is None and ended):
            self.search.tell(h, None, share)
            return TrialScheduler.STOP
        if seen.best is None:  # no value yet: training continues until there is one
            return TrialScheduler.CONTINUE
        if ended and not self.search.training(h).curve:
            late = f"the first value of a trial came at full_length {self.reports.full_length}, too late to pause"
            self.say_once(f"{late}; several at a time may exceed the budget: report earlier, or leave out lengths")
        length = self._length_at(share)
        if reached or length > self.search.training(h).share:  # a report may come late, even beyond several lengths
            self.search.tell(h, seen.best, max(length, share))
        if not reached:
            return TrialScheduler.CONTINUE
        return TrialScheduler.STOP if ended else TrialScheduler.PAUSE

    def end(self, trial_id: str, result: Mapping[str, Any] | None, error: bool) -> None:
        """Tell the end of a trial. result: its last report; None: Tune does not say, and what was reported counts.

        A trial that ended below its full length, by itself or not, has its value there, and cannot go on.
        """
        known = self.configurations.get(trial_id)
        h = known or self._adopt(trial_id, _config_in(result or {}))
        self.ended.add(trial_id)
        if h is None:
            return
        seen, under_way = self.reports.end(trial_id, result, cut=error), self.is_under_way(h)
        value = None if error else self.reports.value(seen)
        if self.pauses and known is not None and not under_way:
            share = self.search.training(h).share
            if error and share < 1:  # it failed as it was saved, after it had been told to pause: it cannot resume
                self.search.tell(h, None, share)
            return
        share = self.reports.share(seen) if value is not None else self.search.until(h) if under_way else None
        self.search.tell(h, value, share or 1.0, left=True, external=known is None)

    def of(self, h: Configuration) -> str | None:
        """The id of a configuration's trial that has not ended; None if there is none."""
        return self._open.get(self.search.space.key(h))

    @property
    def lost(self) -> list[Configuration]:
        """Configurations that the search counts as running, but that no trial trains."""
        there, key = self._open, self.search.space.key
        return [h for h in self.search.live if key(h) not in there]

    @property
    def _open(self) -> dict[Key, str]:
        """Key of a configuration -> its trial that has not ended."""
        key = self.search.space.key
        return {key(h): trial for trial, h in self.configurations.items() if trial not in self.ended}

    def is_under_way(self, h: Configuration) -> bool:
        """Whether the search counts a configuration as running."""
        known = self.search.training(h)
        return known is not None and known.until is not None

    # What the user is told ------------------------------------------------------------------------------------

    def warn_of_waiting(self) -> None:
        """Warn if a restored search waits for trials that Tune may not have, as no scheduler or callback of ours tells
        which it has."""
        if self.restored and not self.pauses:
            self.say_once(
                f"the restored search waits for {len(self.search.live)} trials that ran before. If Tune shows none of "
                "them, run a new Tuner with a search after restore_from_dir(FOLDER)"
            )

    def warn_of_paused(self) -> None:
        """Warn, once of each, if a training that is not whole has a better value than every whole one, or where nothing
        pauses if none is whole."""
        whole, ended, sign = self.best(whole=True), self.best(whole=False), self.reports.sign
        if ended is not None and (whole is None or (self.pauses and whole.last < ended.last)):
            said = "none is whole" if whole is None else f"the best whole training has {sign * whole.last:.6g}"
            more = "a larger budget or time_budget_s would finish it, unless it was stopped there"
            more = "full_length may be too large" if whole is None and (ended.left or not self.pauses) else more
            self.say_once(
                f"the best known is {ended.h}, trained to {ended.share:.3g} of full_length {self.reports.full_length} "
                f"with {sign * ended.last:.6g}, and {said}; {more}"
            )

    def say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            log.warning("%s", message)

    # Restored experiments -------------------------------------------------------------------------------------

    def agree(self, trials: Sequence[Trial]) -> list[Trial]:
        """End the trials that Tune has ended without saying so, as where an actor cannot be reused, and return them.

        Once, bring a restored state up to date with the trials that Tune has restored, since it copies its own snapshot
        and the searcher's one after the other: end those that have ended since, and suggest again what no trial trains.
        Those that ended before their first report, as by time_budget_s, are suggested again as well.
        """
        if not self.restored:
            known, failed = self.configurations, [one for one in trials if one.status == Trial.ERROR]
            failed = [one for one in failed if one.trial_id in known and one.trial_id not in self.ended]
            for trial in failed:
                self.end(trial.trial_id, None, error=True)
            return failed
        self.restored = False
        cut = {one.trial_id for one in trials if one.status == Trial.TERMINATED and not one.has_reported_at_least_once}
        for gone in self.configurations.keys() - ({one.trial_id for one in trials} - cut):
            del self.configurations[gone]
        for trial in trials:
            if trial.trial_id in cut or trial.trial_id in self.ended:
                continue
            if trial.trial_id not in self.configurations:
                self.must_wait(trial.trial_id, trial.evaluated_params)
            if trial.is_finished():
                self.end(trial.trial_id, trial.last_result, trial.status == Trial.ERROR)
        return []

    def must_wait(self, trial_id: str, params: Mapping[str, Any]) -> bool:
        """Register a trial that Tune adds, new or restored; return whether it stays paused.

        Tune may run a trial that the search did not ask for: it failed, its end is missing in Tune's snapshot, or the
        search does not know it. Such a trial is trained to the length that it had reached.
        """
        h = self.configurations.get(trial_id) or self._adopt(trial_id, params)
        if h is None:
            return False
        self.ended.discard(trial_id)
        known, key = self.search.training(h), self.search.space.key
        if known is None or (known.until is None and (not known.curve or known.share == 1)):
            share = max(known.curve, default=0.0) if known is not None else 0.0
            self.search.begin(Proposal(h, "resumed", 0.0), self._length_at(share) or self.search.lengths[0])
        if not self.is_under_way(h):
            return True
        if self.step is not None and key(self.step) == key(h):
            self.step = None
        return False

    def stop_new(self) -> None:
        """Only resume paused trials from now on, since Tune has started num_samples trials.

        Configurations without a trial, e.g. of an earlier study, cannot resume.
        """
        for h in self.lost:
            self.search.withdraw(h)
        if self.step is not None and self.of(self.step) is None:
            self.step = None
        self.search.grows = False
        self.search.abandon(one.h for one in self.search.trainings if self.of(one.h) is None)

    def forget(self) -> None:
        """Forget all trials: in another experiment even paused ones start over, since Tune does not have them."""
        self.configurations, self.ended, self.step, self.restored = {}, set(), None, False
        self.reports.restore({})
        self.search.grows = True
        if self.pauses:
            self.search.abandon([])

    def _adopt(self, trial_id: str, config: Mapping[str, Any]) -> Configuration | None:
        """The configuration of a trial that was never suggested, if it has one inside the space. config: flat or
        nested."""
        try:
            self.configurations[trial_id] = self.search.space.check(flatten_dict(dict(config)))
        except ValueError:
            return None
        return self.configurations[trial_id]

    def _length_at(self, share: float) -> float:
        """The greatest length that this share has reached; 0 without one."""
        return max((length for length in self.search.lengths if length <= share + ROUNDING), default=0.0)


def _config_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration in a result, nested or with keys such as config/lr."""
    flat = {key.removeprefix("config/"): value for key, value in result.items() if key.startswith("config/")}
    return flatten_dict(result.get("config") or {}) | flat
