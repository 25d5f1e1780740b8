"""What the watch wants and reports. No Ray runs."""

from tune_cd.cluster.autoscaler import Scaling
from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.cluster.spot import Snapshot
from tune_cd.cluster.watch import ClusterWatch, Shortage, report

SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)


NOTHING = Scaling()


def said(looks, scaling=NOTHING, unit="GPU", amount=1.0):
    """The lines of looks (seconds, wanted, here, running)."""
    shortage, lines = Shortage(), []
    for at, wanted, here, running in looks:
        shortage, line = report(shortage, Snapshot(at, wanted, here), running, scaling, unit, amount)
        lines.append(line)
    return lines


def test_waiting_is_said_at_once_and_every_half_minute_and_its_end():
    lines = said([(5.0 * n, 8, 0, 0) for n in range(13)] + [(200, 8, 8, 0), (205, 8, 8, 8)])
    waiting = "waiting for a GPU: 0 of 8 there"
    assert [at for at, line in enumerate(lines) if line == waiting] == [0, 6, 12]
    assert lines[13:] == ["8 of 8 GPUs after 3 min 20 s", None]


def test_why_is_said():
    scaling = Scaling({"gpu-spot": 2, "gpu-ondemand": 1}, "InsufficientInstanceCapacity gpu-spot (us-west-2a)")
    line = "waiting for a GPU: 0 of 8 there; 1 gpu-ondemand, 2 gpu-spot starting; last refusal: "
    line += "InsufficientInstanceCapacity gpu-spot (us-west-2a)"
    assert said([(0, 8, 0, 0)], scaling) == [line]
    assert (
        report(Shortage(), Snapshot(0, 4, 0), 0, NOTHING, "GPU", 1.0, 8)[1]
        == "waiting for a GPU: 0 of 4 there; other studies want 8"
    )


def test_some_missing_is_said_when_it_changes_and_not_too_often():
    lines = said(
        [
            (0, 8, 8, 8),
            (5, 8, 6, 6),
            (10, 8, 6, 6),
            (40, 8, 6, 6),
            (45, 8, 5, 5),
            (50, 8, 6, 6),
            (60, 8, 5, 5),
            (90, 8, 8, 5),
        ]
    )
    assert lines == [
        None,
        "6 of 8 GPUs there",
        None,
        None,
        "5 of 8 GPUs there",
        None,
        None,
        "8 of 8 GPUs after 1 min 25 s",
    ]


def test_the_end_of_a_search_is_not_said_to_be_the_end_of_a_shortage():
    assert said([(0, 8, 6, 6), (5, 3, 6, 3)]) == ["6 of 8 GPUs there", None]


def test_processes_are_told_as_gpus_and_cpus():
    assert said([(0, 8, 0, 0)], amount=0.25) == ["waiting for a GPU: 0 of 2 there"]
    assert said([(0, 8, 4, 4)], amount=0.25) == ["1 of 2 GPUs there"]
    assert said([(0, 3, 1, 1)], unit="CPU", amount=4.0) == ["4 of 12 CPUs there"]
    assert said([(0, 3, 0, 0)], amount=2.0) == ["waiting for a GPU: 0 of 6 there"]


def test_what_is_wanted_is_what_waits_or_runs():
    """The baselines at a study's end go one by one: nodes for the trials they will ask for later are not wanted yet."""
    watch = ClusterWatch(GPU_YAML, 1, 1.0, 4, 60.0)
    assert watch.wanted() == 4, "before the first trial is known"
    watch.load.running, watch.load.live = 1, 2
    assert watch.wanted() == 2


def test_spot_nodes_on_their_way_are_counted_and_on_demand_ones_are_not():
    watch = ClusterWatch(GPU_YAML, 1, 0.5, 4, 60.0)
    assert watch._coming(Scaling({"gpu-spot": 3}, None, {"gpu-spot": 2, "gpu-ondemand": 1, "other": 5})) == 4
