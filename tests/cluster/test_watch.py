"""The processes that the watch counts. No Ray runs."""

from collections import Counter

from tune_cd.cluster import watch
from tune_cd.cluster.capacity import Growth, NodeType

SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)


def test_trials_that_wait_or_run_are_wanted():
    """The baselines at a study's end go one by one: nodes for the trials they will ask for later are not wanted yet."""
    made = watch.ClusterWatch(GPU_YAML, 1, 1.0, 4, 60.0)
    assert made.wanted() == 4, "before the first trial is known"
    made.load.running, made.load.live = 1, 2
    assert made.wanted() == 2


def test_spot_nodes_on_their_way_are_counted_and_on_demand_ones_are_not(monkeypatch):
    monkeypatch.setattr(watch, "starting_nodes", lambda: Counter({"gpu-spot": 2, "gpu-ondemand": 1, "other": 5}))
    assert watch.ClusterWatch(GPU_YAML, 1, 0.5, 4, 60.0).coming() == 4
