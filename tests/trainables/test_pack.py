"""Trainings in one process: each comes out as it would alone, whatever happens beside it."""

import math
from dataclasses import replace

import pytest
import torch
from trainings import CPU, DATA, KINDS, SETUP, alone, begun, configuration, told, trained

from trainables.training import parallel, side_by_side
from trainables.training.loop import DIVERGENCE_CHECK, Training
from trainables.training.parallel import Pack

SETTINGS = [(0.3, 2.0, 32, 0), (0.1, 0.1, 16, 0), (0.5, 1.0, 32, 5)]
SHORT = replace(SETUP, images_seen=64, evaluations=1)


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("margin", "self-supervised"))) for kind in KINDS
])  # fmt: skip
def test_packed_equals_alone(kind):
    """To the bit on a CPU: other balances, seeds, batch sizes beside it, and networks used before, change nothing."""
    setup, data = replace(KINDS[kind][0], images_seen=192, evaluations=2), KINDS[kind][1]
    outcomes = trained(Pack(setup, data, CPU, at_once=2), [configuration(*values) for values in SETTINGS])
    for index, values in enumerate(SETTINGS):
        assert told(outcomes[index]) == alone(setup, data, *values), values


def test_a_diverged_one_stops_and_the_other_does_not_notice():
    lost, kept = (math.inf, 1.0, 32, 0), (0.3, 2.0, 32, 0)
    setup = replace(SETUP, images_seen=1664, evaluations=2)
    pack = Pack(setup, DATA, CPU, at_once=2)
    pack.begin([configuration(*lost), configuration(*kept)])
    pack.advance()
    training = pack.running[0]
    assert training.done and training.iteration == DIVERGENCE_CHECK < training.iterations and not pack.running[1].done
    assert pack.finish(0).status == "diverged"
    pack.advance()
    assert told(pack.finish(1)) == alone(setup, DATA, *kept)


def test_networks_are_used_again_within_a_batch_size(monkeypatch):
    built = []

    class Noted(Training):
        def __init__(self, setup, data, h, **how):
            built.append(h["batch_size"])
            super().__init__(setup, data, h, **how)

    monkeypatch.setattr(parallel, "Training", Noted)
    pack = Pack(SHORT, DATA, CPU, at_once=2)
    trained(pack, [configuration(0.1 * n, 1.0, 32, n) for n in range(1, 6)])
    assert built == [32, 32]
    trained(pack, [configuration(0.1, 1.0, 16, 0), configuration(0.1, 1.0, 32, 0)])
    assert built == [32, 32, 16]
    built.clear()
    trained(Pack(SHORT, DATA, CPU), [configuration(0.1, 1.0, b, 0) for b in (16, 32, 16)])
    assert built == [16, 32, 16], "one at a time on a CPU, and no network is kept that does not fit"


def failing(monkeypatch, error_of):
    """Steps of a training raise error_of(training), if that is an error."""
    step = Training.step

    def limited(self):
        if error := error_of(self):
            raise error
        step(self)

    monkeypatch.setattr(Training, "step", limited)


def driven(pack, settings):
    """Train all, without those that fail alone; returns how many ran whenever one had ended."""
    at_once = []
    pack.begin([configuration(*values) for values in settings])
    while not pack.done:
        try:
            pack.advance()
        except (torch.OutOfMemoryError, ValueError):
            assert pack.configurations[pack.culprit]["batch_size"] == 16
            pack.drop(pack.culprit)
        for index in [index for index, training in pack.running.items() if training.done]:
            at_once.append(len(pack.running))
            pack.finish(index)
    return at_once


NO_MEMORY, OWN = torch.OutOfMemoryError("CUDA out of memory"), ValueError("a fault of its own")


def test_out_of_memory_goes_on_with_half_as_many(monkeypatch, caplog):
    """Those that ran start over; none is lost, none comes out otherwise; a single one that does not fit is an error."""
    setup, room = replace(SETUP, images_seen=256), 2
    pack = Pack(setup, DATA, CPU, at_once=4)
    failing(monkeypatch, lambda training: len(pack.running) > room and training.iteration == 7 and NO_MEMORY)
    settings = [(0.3, 2.0, 32, seed) for seed in range(4)]
    outcomes = trained(pack, [configuration(*values) for values in settings])
    assert pack.at_once == 2 and "of 4 trainings at a time 2 go on" in caplog.text
    for index, values in enumerate(settings):
        assert told(outcomes[index]) == alone(setup, DATA, *values)
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        trained(pack, [configuration(*SETTINGS[0])])


@pytest.mark.parametrize("error", [NO_MEMORY, OWN])
def test_when_one_has_failed_alone_the_others_are_as_many_as_before(monkeypatch, error):
    """In the same list, and in the next."""
    failing(monkeypatch, lambda training: training.batch_size == 16 and error)
    pack = Pack(SHORT, DATA, CPU, at_once=4)
    assert driven(pack, [(0.3, 2.0, b, seed) for seed, b in enumerate((16, 32, 32, 32, 32))]) == [4, 3, 2, 1]
    assert driven(pack, [(0.3, 2.0, 32, 0)] * 4) == [4, 3, 2, 1] and pack.at_once == 4


def test_time_is_shared_not_summed(monkeypatch):
    """By a clock that each step moves by a second."""
    clock = [0.0]
    monkeypatch.setattr(side_by_side.time, "perf_counter", lambda: clock[0])
    failing(monkeypatch, lambda training: clock.__setitem__(0, clock[0] + 1))
    looks = side_by_side.advance([begun(seed=seed) for seed in range(3)])
    assert [look.train_seconds for look in looks] == [3 * looks[0].images_seen / 32] * 3
