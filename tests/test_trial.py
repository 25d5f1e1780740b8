"""TrainTrial as Tune drives it, without Ray: reports, rows, failures."""

from dataclasses import asdict

import pytest

from test_pack import configuration
from test_train import DATA, SETUP
from trainables import trial as module
from trainables.trial import PACK, TrainTrial

SETTINGS = [configuration(0.3, 2.0, 32, 0), configuration(0.1, 0.1, 32, 1), configuration(0.5, 1.0, 16, 0)]


@pytest.fixture
def make(monkeypatch, tmp_path):
    """A trial of these configurations whose outcomes go to `record`."""
    monkeypatch.setattr(module.DeviceData, "load", classmethod(lambda cls, *args: DATA))

    def made(config, record, **parameters):
        class Bound(TrainTrial):
            def setup(self, config):
                super().setup(config, asdict(SETUP), None, 1, record, **parameters)

        return Bound(config)

    return made


def driven(trial):
    """All reports, and what the trial failed with."""
    reports = []
    while not (reports and reports[-1]["done"]):
        try:
            reports.append(trial.train())
        except Exception as error:
            return reports, error
    return reports, None


def test_a_pack_reports_each_of_its_members_and_records_it_before(make):
    recorded = []
    reports, error = driven(make({"extra": 7, PACK: SETTINGS}, lambda config, outcome, where: recorded.append((config, outcome, where)), at_once=2))
    assert error is None and [config["batch_size"] for config, _, _ in recorded] == [32, 32, 16] and all(config["extra"] == 7 for config, _, _ in recorded)
    assert {where["share"] for _, _, where in recorded} == {0.5}
    last = reports[-1][PACK]
    assert [last[str(place)]["status"] for place in range(3)] == ["completed"] * 3 and all(last[str(place)]["done"] for place in range(3))
    assert {last[str(place)]["val_score"] for place in range(3)} == {outcome.val_score for _, outcome, _ in recorded}
    assert reports[-1]["val_score"] == max(outcome.val_score for _, outcome, _ in recorded)
    assert "2" not in reports[0][PACK] and not any(report["done"] for report in reports[:-1])


def test_one_configuration_reports_as_itself(make):
    recorded = []
    reports, error = driven(make(SETTINGS[0], lambda config, outcome, where: recorded.append(where["share"])))
    assert error is None and recorded == [1] and PACK not in reports[-1]
    assert reports[-1]["status"] == "completed" and "train_positive_term" in reports[0] and len(reports) == SETUP.evaluations


@pytest.mark.parametrize("config, recorded", [(SETTINGS[0], 0), ({PACK: SETTINGS}, 2)])
def test_a_row_that_cannot_be_written_fails_the_trial_and_no_other_member(make, config, recorded):
    """Be it the only one or the last: a trial never ends well whose outcome is not in the table."""
    rows = []

    def record(config, outcome, where):
        if config["seed"] == 0 and config["batch_size"] == (16 if recorded else 32):
            raise OSError(28, "No space left on device")
        rows.append(config)

    reports, error = driven(make(config, record, at_once=3))
    assert isinstance(error, OSError) and len(rows) == recorded and not any(report["done"] for report in reports)
    if recorded:
        assert [reports[-1][PACK][str(place)].get("done", False) for place in range(3)] == [True, True, False]


def test_the_next_trial_uses_the_same_networks(make):
    trial = make(SETTINGS[0], lambda *args: None)
    driven(trial)
    network = trial._pack._spare[0].model
    assert trial.reset_config(SETTINGS[1])
    reports, error = driven(trial)
    assert error is None and reports[-1]["done"] and trial._pack._spare[0].model is network
