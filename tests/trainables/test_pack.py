"""Trainings in one process: each comes out as it would alone, whatever happens beside it."""

import gc
import math
import weakref
from dataclasses import replace

import pytest
import torch
from trainings import CPU, DATA, KINDS, SETUP, H, advance_one, alone, configuration, finished, told, trained

from trainables import train
from trainables.training.loop import DIVERGENCE_CHECK, Training
from trainables.training.parallel import Pack
from trainables.training.side_by_side import advance

SETTINGS = [(0.3, 2.0, 32, 0), (0.1, 0.1, 32, 0), (0.3, 2.0, 32, 1), (1.0, 4.0, 16, 0), (0.5, 1.0, 32, 5)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_packed_equals_alone(kind, at_once):
    """To the bit on a CPU: other balances, seeds, batch sizes beside it, and networks used before, change nothing."""
    setup, data = replace(KINDS[kind][0], images_seen=192, evaluations=2), KINDS[kind][1]
    outcomes = trained(Pack(setup, data, CPU, at_once=at_once), [configuration(*values) for values in SETTINGS])
    for index, values in enumerate(SETTINGS):
        assert told(outcomes[index]) == alone(setup, data, *values), values


def test_a_training_begun_again_is_as_a_new_one_to_the_bit():
    used = finished()
    used.begin({"Lambda_p": 0.7, "Lambda_e": 0.5, "batch_size": 32}, seed=4)
    new = Training(SETUP, DATA, {"Lambda_p": 0.7, "Lambda_e": 0.5, "batch_size": 32}, seed=4, device=CPU)
    for _ in range(2):
        advance_one(used), advance_one(new)
    assert all(
        torch.equal(a, b)
        for a, b in zip(used.model.state_dict().values(), new.model.state_dict().values(), strict=True)
    )
    with pytest.raises(ValueError, match="batch_size 16.*32"):
        used.begin(H | {"batch_size": 16}, seed=0)


def test_a_diverged_one_stops_and_the_others_do_not_notice():
    settings = [(0.3, 2.0, 32, 0), (math.inf, 1.0, 32, 0), (0.5, 1.0, 32, 5)]
    setup = replace(SETUP, images_seen=1600, evaluations=2)
    pack = Pack(setup, DATA, CPU, at_once=3)
    pack.begin([configuration(*values) for values in settings])
    pack.advance()
    lost = pack.running[1]
    assert lost.done and lost.iteration == DIVERGENCE_CHECK < lost.iterations and not pack.running[0].done
    outcomes = trained(pack, pack.configurations)
    assert outcomes[1].status == "diverged"
    for index in (0, 2):
        assert told(outcomes[index]) == alone(setup, DATA, *settings[index])


def test_networks_are_used_again_within_a_batch_size(monkeypatch):
    built = []
    init = Training.__init__
    monkeypatch.setattr(
        Training,
        "__init__",
        lambda self, *args, **kwargs: (built.append(args[2]["batch_size"]), init(self, *args, **kwargs))[1],
    )
    short = replace(SETUP, images_seen=64, evaluations=1)
    pack = Pack(short, DATA, CPU, at_once=2)
    trained(pack, [configuration(0.1 * n, 1.0, 32, n) for n in range(1, 6)])
    assert built == [32, 32]
    trained(pack, [configuration(0.1, 1.0, 16, 0), configuration(0.1, 1.0, 32, 0)])
    assert built == [32, 32, 16]
    built.clear()
    trained(Pack(short, DATA, CPU), [configuration(0.1, 1.0, b, 0) for b in (16, 32, 16)])
    assert built == [16, 32, 16], "one at a time on a CPU, and no network is kept that does not fit"


def test_out_of_memory_goes_on_with_half_as_many(monkeypatch, caplog):
    """Those that ran start over; none is lost, none comes out otherwise; a single one that does not fit is an error."""
    step, room = Training.step, 2
    pack = Pack(SETUP, DATA, CPU, at_once=4)

    def limited(self):
        if len(pack.running) > room and self.iteration == 7:
            raise torch.OutOfMemoryError("CUDA out of memory")
        step(self)

    monkeypatch.setattr(Training, "step", limited)
    settings = [values for values in SETTINGS if values[2] == 32]
    outcomes = trained(pack, [configuration(*values) for values in settings])
    assert pack.at_once == 2 and "of 4 trainings at a time 2 go on" in caplog.text
    for index, values in enumerate(settings):
        assert told(outcomes[index]) == alone(SETUP, DATA, *values)
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        trained(pack, [configuration(*SETTINGS[0])])


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), ValueError("a fault of its own")])
def test_when_one_has_failed_alone_the_others_are_as_many_as_before(monkeypatch, error):
    """In the same list, and in the next."""
    step, at_once = Training.step, []
    pack = Pack(SETUP, DATA, CPU, at_once=4)

    def limited(self):
        if self.batch_size == 16:
            raise error
        step(self)

    monkeypatch.setattr(Training, "step", limited)
    for settings in ([(0.3, 2.0, b, seed) for seed, b in enumerate((16, 32, 32, 32, 32))], [(0.3, 2.0, 32, 0)] * 4):
        pack.begin([configuration(*values) for values in settings])
        while not pack.done:
            try:
                pack.advance()
            except type(error):
                assert pack.configurations[pack.culprit]["batch_size"] == 16
                pack.drop(pack.culprit)
            for index in [index for index, training in pack.running.items() if training.done]:
                at_once.append(len(pack.running))
                pack.finish(index)
    assert at_once == [4, 3, 2, 1] * 2 and pack.at_once == 4


def test_a_culprit_of_another_kind_does_not_undo_what_the_memory_holds(monkeypatch):
    step = Training.step
    pack = Pack(SETUP, DATA, CPU, at_once=4)

    def limited(self):
        if len(pack.running) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.batch_size == 16:
            raise ValueError("a fault of its own")
        step(self)

    monkeypatch.setattr(Training, "step", limited)
    pack.begin([configuration(0.3, 2.0, b, seed) for seed, b in enumerate((32, 32, 32, 16, 32, 32, 32))])
    while not pack.done:
        try:
            pack.advance()
        except ValueError:
            pack.drop(pack.culprit)
        for index in [index for index, training in pack.running.items() if training.done]:
            pack.finish(index)
    assert pack.at_once == 2


def test_a_training_that_is_dropped_is_gone_at_once():
    """No circle of references holds its memory until the collector comes by."""
    training = finished()
    gone = weakref.ref(training)
    gc.disable()
    try:
        del training
        assert gone() is None
    finally:
        gc.enable()


def test_time_is_shared_not_summed():
    trainings = [Training(SETUP, DATA, H, seed=seed, device=CPU) for seed in range(3)]
    looks = advance(trainings)
    longest = max(look.train_seconds for look in looks)
    assert all(0.5 * longest < look.train_seconds <= longest for look in looks)


@pytest.mark.slow
def test_the_command_trains_all_combinations(capsys):
    command = [
        "--set",
        "images_seen=128",
        "evaluations=1",
        "--device",
        "cpu",
        "--Lambda_p",
        "0.1",
        "0.5",
        "--Lambda_e",
        "2",
        "--seed",
        "0",
        "1",
        "--at-once",
        "4",
    ]
    assert train.main(command) == 0
    said = capsys.readouterr().out
    assert (
        said.count('"status": "completed"') == 4
        and said.count("validation r_map") == 4
        and '"Lambda_p": 0.5, "Lambda_e": 2.0, "batch_size": 64, "seed": 1' in said
    )
    assert train.main([*command, "--checkpoint", "x.pt"]) == 2 and "4 are asked for" in capsys.readouterr().err
    assert train.main([*command[:-1], "0"]) == 2 and "--at-once 0" in capsys.readouterr().err
