"""TrainTrial as Tune drives it, without Ray: reports, outcomes, failures, what it finds of an earlier process."""

import io
import math
import time
from dataclasses import asdict, replace
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from forked import Forked
from trainings import DATA, alone, configuration, told
from trainings import SETUP as USUAL

from trainables import trained
from trainables import trial as module
from trainables.training.loop import Training
from trainables.training.member import LEFT_OUT
from trainables.training.watchdog import OVERDUE
from trainables.trial import ANEW, PACK, TROUBLES, UNKEPT, UNSAVED, UNSTORED, TrainTrial

SETUP = replace(USUAL, images_seen=256)  # four looks, two iterations of 32 before each
SETTINGS = [configuration(0.3, 2.0, 32, 0), configuration(0.1, 0.1, 32, 1), configuration(0.5, 1.0, 16, 0)]


class InMemory:
    """What `trainables.trial.Recorder` asks for, without a results folder. `ended`: (config, outcome, where) in order;
    `states`: by training, latest first; `networks`: (config, score, file) in order."""

    def __init__(self, unstored=None):
        self.ended, self.networks, self.states, self.known, self.unstored = [], [], {}, {}, unstored

    def key(self, config):
        weights = [value for name, value in config.items() if name.startswith("Lambda_")]
        return (*weights, config["batch_size"], config["seed"])

    def recorded(self, config):
        return self.known.get(self.key(config))

    def record(self, config, outcome, where):
        self.ended.append((config, outcome, where))
        return self.unstored

    def saved(self, config):
        return self.states.get(self.key(config), [])

    def save(self, config, images_seen, state):
        self.states.setdefault(self.key(config), []).insert(0, (f"at-{images_seen}", state))

    def keep(self, config, val_score, network):
        self.networks.append((config, val_score, network()))


@pytest.fixture
def make(monkeypatch):
    """A trial of these configurations that keeps its outcomes with `recorder`."""
    monkeypatch.setattr(module.DeviceData, "load", classmethod(lambda cls, *args: DATA))

    def made(config, recorder, **parameters):
        class Bound(TrainTrial):
            def setup(self, config):
                super().setup(config, asdict(SETUP), None, 1, recorder, **parameters)

        return Bound(config)

    return made


def driven(trial):
    reports = []
    while not (reports and reports[-1]["done"]):
        reports.append(trial.train())
    return reports


class Clock:
    """The time in s that trials see."""

    def __init__(self, monkeypatch):
        self.now, self.replace = 0.0, monkeypatch.setattr
        self.replace(module.time, "monotonic", lambda: self.now)

    def takes(self, owner, name, seconds):
        """A call of the owner's function takes `seconds` of its arguments."""
        function = getattr(owner, name)

        def timed(*arguments):
            self.now += seconds(*arguments)
            return function(*arguments)

        self.replace(owner, name, timed)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def told_of(recorder):
    """What the outcomes on record say, in order."""
    return [told(outcome) for _, outcome, _ in recorder.ended]


def expected(*configurations):
    """What they say of trainings alone that nothing has disturbed."""
    return [alone(SETUP, DATA, *configuration.values()) for configuration in configurations]


def test_a_pack_reports_each_of_its_members_and_records_it_before(make):
    recorder = InMemory()
    reports = driven(make({"extra": 7, PACK: SETTINGS}, recorder, at_once=2))
    configs, outcomes, places = zip(*recorder.ended, strict=True)
    assert [(config["batch_size"], config["extra"]) for config in configs] == [(32, 7), (32, 7), (16, 7)]
    assert {where["share"] for where in places} == {0.5}
    first, second, third = (where["started_at"] for where in places)
    assert first <= second < third, "the third waits for a place, which costs nothing"
    last = [reports[-1][PACK][str(place)] for place in range(3)]
    assert [(one["status"], one["done"]) for one in last] == [("completed", True)] * 3
    assert {one["val_score"] for one in last} == {outcome.val_score for outcome in outcomes}
    assert reports[-1]["val_score"] == max(outcome.val_score for outcome in outcomes)
    assert "2" not in reports[0][PACK] and not any(report["done"] for report in reports[:-1])


@pytest.mark.parametrize("unstored", [None, {"row": {"trial_id": "t0"}, "curve": []}])
def test_one_configuration_reports_as_itself_with_what_could_not_be_stored(make, unstored):
    recorder = InMemory(unstored=unstored)
    reports = driven(make(SETTINGS[0], recorder))
    assert [where["share"] for _, _, where in recorder.ended] == [1] and PACK not in reports[-1]
    assert "train_positive_term" in reports[0]
    assert reports[-1]["status"] == "completed" and len(reports) == SETUP.evaluations
    assert reports[-1].get(UNSTORED) == unstored, "the driver keeps it"


def paused(config, share):
    return config | {"until": share}


def test_a_training_pauses_where_it_is_told_to_and_goes_on_in_another_trial(make):
    """To the same end as if it had never paused, in whatever process; nothing is trained twice."""
    recorder, steps = InMemory(), 0
    for share, looks, status in ((0.25, 1, "stopped"), (0.75, 3, "stopped"), (1.0, 4, "completed")):
        reports = driven(make(paused(SETTINGS[0], share), recorder))
        steps += len(reports)
        assert (reports[-1]["status"], len(reports[-1]["looks"])) == (status, looks)
        outcome, images = recorder.ended[-1][1], share * SETUP.images_seen
        assert outcome.status == status and outcome.images_seen == reports[-1]["images_seen"] == images
        assert (outcome.test_score is None) == (status == "stopped")
    assert steps == SETUP.evaluations and told_of(recorder)[-1:] == expected(SETTINGS[0])


def test_a_pause_whose_state_cannot_be_kept_costs_images_and_nothing_else(make):
    recorder = InMemory()
    recorder.save = Mock(side_effect=OSError("full"))
    first = driven(make(paused(SETTINGS[0], 0.5), recorder, checkpoint_seconds=0))
    assert all(report[TROUBLES] == {UNSAVED: "full"} for report in first), "the driver is told at once"
    assert first[-1]["status"] == "stopped" and first[-1]["images_seen"] == 128
    assert recorder.ended[0][1].error == "its state could not be saved: full"
    reports = driven(make(SETTINGS[0], recorder))
    assert len(reports) == SETUP.evaluations and told_of(recorder)[-1:] == expected(SETTINGS[0])


def test_a_state_that_the_store_refuses_is_saved_at_the_next_evaluation(make, clock):
    """Not after the time between two states; then nothing more is said."""
    recorder = InMemory()
    recorder.save = Mock(wraps=recorder.save, side_effect=[OSError("full"), DEFAULT])
    clock.takes(Training, "judge", lambda *_: 60)
    reports = driven(make({PACK: [SETTINGS[0]]}, recorder, checkpoint_seconds=100))
    assert [name for name, _ in recorder.saved(SETTINGS[0])] == ["at-192"]
    assert [report[PACK]["0"].get(TROUBLES) for report in reports] == [None, {UNSAVED: "full"}, None, None]


def test_a_fresh_start_in_the_place_of_a_saved_state_is_said(make):
    """Each report says why, until another trial begins."""
    recorder = InMemory()
    recorder.saved = Mock(side_effect=OSError("the store is away"))
    trial = make(SETTINGS[0], recorder)
    assert [report[TROUBLES] for report in driven(trial)] == [{ANEW: "the store is away"}] * SETUP.evaluations
    recorder.saved = lambda config: iter([("its state", b"damaged")])
    trial.reset_config(SETTINGS[1])
    assert "its state is not a whole saved training" in driven(trial)[0][TROUBLES][ANEW]
    recorder.saved = lambda config: iter([])
    trial.reset_config(SETTINGS[2])
    assert TROUBLES not in driven(trial)[-1]


def test_a_process_lost_between_the_state_of_a_pause_and_its_row_trained_no_less_than_asked(make, monkeypatch):
    """The next one records the pause, and trains nothing of it; the rest of its pack goes on."""
    recorder, config = InMemory(), {PACK: [paused(SETTINGS[0], 0.5), SETTINGS[1]]}
    with monkeypatch.context() as patch, pytest.raises(SystemError):
        patch.setattr(recorder, "record", Mock(side_effect=SystemError("lost")))
        driven(make(config, recorder))
    reports = driven(make(config, recorder))
    last = reports[-1][PACK]["0"]
    assert (last["status"], last["images_seen"], len(last["looks"])) == ("stopped", 128, 2)
    assert last["val_score"] == max(score for _, score in last["looks"])
    assert len(reports) == 1 + SETUP.evaluations
    assert [outcome.images_seen for _, outcome, _ in recorder.ended] == [128, 256]


def test_a_network_is_kept_before_its_training_is_on_record(make):
    """Of those that are complete, not of one that pauses or diverges."""
    recorder, order = InMemory(), []
    record, keep = recorder.record, recorder.keep
    recorder.record = lambda *args: order.append("record") or record(*args)
    recorder.keep = lambda *args: order.append("keep") or keep(*args)
    lost = paused(configuration(1e20, 1e20, 32, 0), 0.5)  # ends before its pause
    for config in (SETTINGS[0], paused(SETTINGS[1], 0.5), lost):
        driven(make(config, recorder))
    assert order == ["keep", "record", "record", "record"]
    assert [outcome.status for _, outcome, _ in recorder.ended] == ["completed", "stopped", "diverged"]
    [(config, score, file)] = recorder.networks
    network = trained.load(io.BytesIO(file))
    assert config == SETTINGS[0] and network.h == {name: config[name] for name in network.h}
    assert score == recorder.ended[0][1].val_score == network.val_score


def test_images_that_do_not_decode_are_said_with_each_report(make, monkeypatch):
    """The warning of the process itself is not shown where it is driven from."""
    monkeypatch.setattr(module.DeviceData, "load", lambda *_: replace(DATA, left_out="a.jpg does not decode"))
    trial = make(SETTINGS[0], InMemory())
    reports = driven(trial)
    trial.reset_config(SETTINGS[1])
    assert all(report[TROUBLES] == {LEFT_OUT: "a.jpg does not decode"} for report in reports + driven(trial))


def test_a_network_that_cannot_be_kept_costs_nothing_else(make):
    recorder = InMemory()
    recorder.keep = Mock(side_effect=OSError("full"))
    last = driven(make(SETTINGS[0], recorder))[-1]
    assert last["status"] == "completed" and last[TROUBLES] == {UNKEPT: "full"}
    assert told_of(recorder) == expected(SETTINGS[0])


def raising(monkeypatch, error, where="step"):
    """Trainings of seed 1 raise in `where`."""
    original = getattr(Training, where)

    def broken(self, *args):
        if self.seed == 1:
            raise error
        return original(self, *args)

    monkeypatch.setattr(Training, where, broken)


BAD_SHAPE = ValueError("a bad shape"), "ValueError: a bad shape"
MEMORY = torch.OutOfMemoryError("CUDA out of memory"), "out of memory: batch_size=32 on cpu: CUDA out of memory"


@pytest.mark.parametrize("error, said, where, at_once", [
    (*BAD_SHAPE, "step", 1), (*BAD_SHAPE, "step", 3), (SystemExit(3), "SystemExit: 3", "step", 3),
    (*MEMORY, "step", 3), (*MEMORY, "terms_after_training", 3),
])  # fmt: skip
def test_a_training_that_fails_is_an_outcome_and_disturbs_no_other(make, monkeypatch, error, said, where, at_once):
    recorder = InMemory()
    with monkeypatch.context() as patch:
        raising(patch, error, where)
        trial = make({PACK: SETTINGS}, recorder, at_once=at_once)
        last = driven(trial)[-1][PACK]["1"]
    outcomes = {config["seed"]: outcome for config, outcome, _ in recorder.ended if config["batch_size"] == 32}
    assert outcomes[1].status == "failed" and outcomes[1].error.startswith(f"{said}\n")
    assert "test_trial.py" in outcomes[1].error, "where it failed is said"
    assert outcomes[1].failure_kind == ("out_of_memory" if error is MEMORY[0] else "error")
    assert [told(outcomes[0])] == expected(SETTINGS[0]) and len(recorder.ended) == 3
    assert (last["status"], last["done"], last["error"]) == ("failed", True, outcomes[1].error)
    assert math.isnan(last["val_score"])
    trial.reset_config({PACK: [SETTINGS[1]]})
    driven(trial)
    assert told_of(recorder)[3:] == expected(SETTINGS[1]), "the process is as good as new"


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), MemoryError("no"), RuntimeError("CUDA error: an illegal memory access")]
)
def test_what_is_wrong_with_the_machine_leaves_the_trial(make, monkeypatch, error):
    raising(monkeypatch, error)
    recorder = InMemory()
    with pytest.raises(type(error)):
        driven(make({PACK: SETTINGS}, recorder, at_once=3))
    assert not [config for config, _, _ in recorder.ended if config["seed"] == 1]


def test_data_that_cannot_be_used_are_told_from_a_machine_that_fails(make, monkeypatch):
    for error, raised in ((ValueError("2 of 9 images do not decode"), module.UnusableData), (OSError("full"), OSError)):
        monkeypatch.setattr(module.DeviceData, "load", Mock(side_effect=error))
        with pytest.raises(raised, match=f"^{error}$"):
            make(SETTINGS[0], InMemory())


def test_members_that_are_on_record_are_reported_and_not_trained(make, monkeypatch):
    raising(monkeypatch, AssertionError("trained again"))
    recorder, row = InMemory(), {"val_score": 0.7, "test_score": 0.6, "images_seen": 640, "status": "completed"}
    recorder.known[recorder.key(SETTINGS[1])] = row
    reports = driven(make({PACK: SETTINGS}, recorder, at_once=2))
    assert reports[0][PACK]["1"] == row | {"done": True}
    assert told_of(recorder) == expected(SETTINGS[0], SETTINGS[2])
    [alone_there] = driven(make(SETTINGS[1], recorder))
    assert alone_there["val_score"] == 0.7 and alone_there["done"]


@pytest.mark.parametrize("damaged, looks", [(0, 1), (1, 2), (3, 4)])
def test_another_process_goes_on_from_the_latest_state_that_is_whole(make, damaged, looks):
    """A pack is cut short; its rest comes in another pack, in another order, and ends as without interruption."""
    recorder = InMemory()
    first = make({PACK: SETTINGS}, recorder, at_once=3, checkpoint_seconds=0)
    for _ in range(SETUP.evaluations - 1):
        first.train()
    assert not recorder.ended
    for config in SETTINGS:
        states = recorder.saved(config)
        assert len(states) == 3
        states[:damaged] = [(name, state[: len(state) // 2]) for name, state in states[:damaged]]
    reports = driven(make({PACK: [SETTINGS[2], SETTINGS[0]]}, recorder, at_once=2))
    assert len(reports) == looks and told_of(recorder) == expected(SETTINGS[2], SETTINGS[0])


def test_states_are_saved_at_a_pace(make, clock):
    """Not before their time, and after one that took 10 s not before fifty times as long."""
    recorder, lasts = InMemory(), iter([60, 60, 1000, 60])
    clock.takes(Training, "judge", lambda *_: next(lasts))
    clock.takes(module.checkpoint, "dumps", lambda *_: 10)
    driven(make(SETTINGS[0], recorder, checkpoint_seconds=50))
    assert [name for name, _ in recorder.saved(SETTINGS[0])] == ["at-192", "at-64"]


def test_a_training_that_takes_too_long_has_failed_and_the_next_goes_on(make, monkeypatch, clock):
    """A step of the second takes 120 s by the clock, those of the others none."""
    recorder = InMemory()
    clock.takes(Training, "step", lambda training: 120 if training.seed == 1 else 0)
    monkeypatch.setattr(module, "SLACK", 10_000)  # the watchdog would end this process
    driven(make({PACK: SETTINGS}, recorder, limit=400))
    outcomes = [outcome for _, outcome, _ in recorder.ended]
    assert [outcome.status for outcome in outcomes] == ["completed", "failed", "completed"]
    assert outcomes[1].failure_kind == "timeout" and outcomes[1].error == "timeout: not done after 400 s"
    assert outcomes[1].images_seen == 128 and len(outcomes[1].curve) == 2, "the look after its 480 s was its last"


def hanging(argv):
    """A process with three trainings, of which the second hangs; it prints what is recorded."""

    class Printing(InMemory):
        def record(self, config, outcome, where):
            print(config["seed"], outcome.status, outcome.error, flush=True)
            module.SLACK = 0  # a machine may be slow at the first, which is evaluated once, and has no limit before

    class Bound(TrainTrial):
        def setup(self, config):
            tiny = replace(SETUP, images_seen=64, evaluations=1)
            super().setup(config, asdict(tiny), None, 1, Printing(), limit=5.0, at_once=1)

    def hangs(self, usual=Training.step):
        if self.seed == 1:
            time.sleep(600)
        usual(self)

    Training.step, module.SLACK = hangs, 600
    module.DeviceData.load = classmethod(lambda cls, *args: DATA)
    driven(Bound({PACK: [configuration(0.3, 2.0, 32, seed) for seed in range(3)]}))


@pytest.mark.slow
def test_a_training_that_hangs_is_recorded_and_its_process_ends(tmp_path):
    out, err = tmp_path / "out", tmp_path / "err"
    assert Forked("test_trial:hanging", [], out, err).wait(500) == OVERDUE, err.read_text()
    assert out.read_text().splitlines() == ["0 completed None", "1 failed timeout: not done after 5 s"]
    assert "in hangs" in err.read_text(), "and where it hung is said"
