"""A Tune trial without Tune."""

from pathlib import Path
from types import SimpleNamespace

from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.utils import flatten_dict


class FakeTrial:
    """As much of Tune's Trial as searcher, scheduler and callback look at."""

    is_saving = False

    def __init__(self, number, params, result=None, origin=None, trial_id=None, status=Trial.PENDING, **config):
        suggested = params | ({"origin": origin} if origin else {})
        self.trial_id, self.experiment_tag = trial_id or f"tune{number}", f"{number}_lr=0.1"
        self.config, self.evaluated_params = {**suggested, **config}, flatten_dict(suggested)
        self.last_result = {} if result is None else {"trial_id": self.trial_id, "done": True, **result}
        self.run_metadata = SimpleNamespace(start_time=None)
        self.error_file = self.pickled_error_file = None
        self.placement_group_factory = PlacementGroupFactory([{"CPU": 1, "GPU": 0.5}])
        self.status, self.checkpoint, self.trainable, self.epoch = status, "there", None, 0

    def fail(self, folder, text, pickled=True):
        self.error_file = str(folder / f"{self.trial_id}.txt")
        Path(self.error_file).write_text(f"Failure # 1 (occurred at 2026-01-01_00-00-00)\n{text}\n")
        self.pickled_error_file = f"{folder}/error.pkl" if pickled else None
        return self

    @property
    def has_reported_at_least_once(self):
        return bool(self.last_result)

    def is_finished(self):
        return self.status in (Trial.ERROR, Trial.TERMINATED)

    def set_status(self, status):
        self.status = status

    def get_trainable_cls(self):
        return self.trainable
