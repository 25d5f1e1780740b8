"""A trial as Tune has it after it has restored an experiment."""

from types import SimpleNamespace

from ray.tune.experiment import Trial


class RestoredTrial(SimpleNamespace):
    """As much of Tune's Trial as a restored searcher looks at."""

    @property
    def has_reported_at_least_once(self):
        return bool(self.last_result)

    def is_finished(self):
        return self.status in (Trial.ERROR, Trial.TERMINATED)


def tunes(trials):
    """trials: (id, h, status, last result), in the order of asking."""
    names = ("trial_id", "evaluated_params", "status", "last_result")
    return [RestoredTrial(**dict(zip(names, (*one[:3], one[3] or {})))) for one in trials]
