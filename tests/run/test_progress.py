"""What a study shows while it runs."""

import io
import itertools
import pickle
import re
import sys
from types import SimpleNamespace

import pytest
from fake_trials import FakeTrial
from studies import empty

from trainables.training.member import LEFT_OUT
from trainables.trial import ANEW, TROUBLES, UNKEPT, UNSAVED
from tune_cd.run.failures import StudyStopper
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.progress import Progress
from tune_cd.run.resources import Resources


def config_of(number, search="cd", **more):
    origin = {"search": search, "trial_index": number, "trial_id": f"{search}-0000{number}"}
    return {ORIGIN: origin, "Lambda_p": 0.1, "Lambda_e": 2.0, "batch_size": 64, "seed": 4, **more}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def portfolio(done=0.0, left=1.0, seeds=(0,)):
    """As far as `Progress` looks at it."""
    return SimpleNamespace(done=done, left=left, seeds=seeds)


def progress_of(account=None, **more):
    """Of searches whose trainings do not pause."""
    return Progress(account or portfolio(), empty(), "r_map", **more)


TRIALS = [SimpleNamespace(status=status, RUNNING="RUNNING") for status in ("RUNNING", "PENDING", "RUNNING")]


def run(progress, account=None):
    progress.setup()
    progress.on_step_end(0, [])
    progress.ended(config_of(0), {"val_score": 0.5}, 2.0)
    progress.ended(config_of(1), {"status": "diverged"}, 1.0)
    if account is not None:
        account.done, account.left = 2.0, 1.0
    progress.on_step_end(1, TRIALS)
    progress.on_experiment_end(TRIALS)


LINES = [
    "scores: r_map on validation; * a new best of its search",
    "search     Lambda_p  Lambda_e    b   score    best      time",
    "cd              0.1         2   64  0.5000  0.5000*    2.0 s",
    "cd              0.1         2   64  diverged",
]


@pytest.mark.parametrize(
    "account, seconds, first, last",
    [
        (portfolio(), 5, "0 of at most 1 trainings, 0 running", "2 of at most 3 trainings, 2 running"),
        (portfolio(0.125, 12.25), 5000, "", r"trainings, 2 running, \d+:\d\d:\d\d, about \d+:\d\d:\d\d left"),
    ],
    ids=["at once", "after hours"],
)
def test_on_a_terminal_a_status_of_80_columns_stays_below_the_lines(monkeypatch, account, seconds, first, last):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tqdm.std.time", itertools.count(100, seconds).__next__)  # it draws once a second
    run(progress_of(account), account)
    screen = terminal.getvalue()
    assert all(f"{line}\n" in screen for line in LINES)
    statuses = [part for part in screen.replace("\n", "\r").split("\r") if " left" in part]
    assert first in statuses[0] and re.search(last, statuses[-1]) and max(map(len, statuses)) <= 80


def test_a_training_s_error_is_told_without_its_secret(capsys, monkeypatch):
    monkeypatch.setenv("STORE_SECRET", "first-line\nof-two-lines-AbC")
    progress = progress_of()
    for error in ("403: token=ghp_abc", "key first-line\nof-two-lines-AbC", "Authorization: Bearer xyz refused"):
        progress.ended(config_of(0), {"status": "failed", "error": error}, 0.0)
    said = capsys.readouterr().out
    assert all(part in said for part in ("403: token=***", "key ***", "Bearer *** refused"))
    assert not any(part in said for part in ("ghp_abc", "first-line", "xyz"))


TERMS = {
    "two": {"Lambda_p": 2.345e-05, "Lambda_e": 1234.5678},
    "vicreg": {"Lambda_sim": 2.345e-05, "Lambda_std": 1234.5678, "Lambda_cov": 0.00012345},
    "four": {"Lambda_align": 2.345e-05, "Lambda_uniform": 1234.5678, "Lambda_spread": 0.00012345, "Lambda_norm": 1.0},
}


@pytest.mark.parametrize("weights", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("search", ["cd", "confirm"])
def test_rows_fit_into_80_columns_or_into_those_of_their_titles(weights, search, capsys):
    """Columns stand under their titles, and a long message goes below."""
    progress = progress_of(full=None if search == "confirm" else 530)  # a whole training has whole batches alone
    config = {ORIGIN: {"search": search}, **weights, "batch_size": 512, "seed": 4}
    reports = (
        {"val_score": 0.51234}, {"val_score": 0.4, "images_seen": 512}, {"status": "failed", "error": "odd word " * 30}
    )  # fmt: skip
    for report in reports:
        progress.ended(config, report, 12345.6)
    lines = capsys.readouterr().out.splitlines()
    title, first, second, *_ = lines[1:]
    for name, value in weights.items():
        assert first[: title.index(name) + len(name)].endswith(f" {value:.4g}")
    assert first[: title.index("score") + 5].endswith("0.5123") and first[: title.index("time") + 4].endswith("45.6 s")
    assert first[: title.index("best") + 5].endswith("0.5123*") and "0.5123 " in second
    assert ("100%" in second) == (search != "confirm") and max(map(len, lines)) <= max(80, len(title))
    assert " ".join(" ".join(lines).split()).endswith(("odd word " * 30).strip())


def test_elsewhere_there_are_lines_and_nothing_else(capsys):
    run(progress_of())
    assert capsys.readouterr().out.splitlines() == LINES
    run(progress_of(portfolio(seeds=(0, 1))))  # a best is one training's, and a search's is a mean over seeds
    assert capsys.readouterr().out.startswith("scores: r_map on validation; * a new best single training of its search")


def test_troubles_of_trainings_are_said_once_and_each_new_beginning(monkeypatch, capsys):
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    progress = progress_of()
    reason = "No space left\non hunter2hunter2"
    for number in (0, 1):
        troubles = {UNSAVED: reason, UNKEPT: reason, ANEW: "it is damaged", LEFT_OUT: "1 images do not decode"}
        progress.ended(config_of(number), {"val_score": 0.5, TROUBLES: troubles}, 1.0)
    told = capsys.readouterr().out.splitlines()
    assert sum("a state cannot be saved" in line for line in told) == 1
    assert sum("a trained network was not kept: No space left on ***" in line for line in told) == 1
    assert told.count("warning: not all data are used: 1 images do not decode") == 1
    assert [line for line in told if "again at" in line] == [
        f"warning: cd-0000{n} began again at image 0: it is damaged" for n in (0, 1)
    ]
    assert sum(line.startswith("warning: ") for line in told) == 5 and not any("hunter2" in line for line in told)


DATA = """The actor died because of an error raised in its creation task, ray::TrainTrial.__init__() (pid=1)
  File "/tune_cd/trainables/trial.py", line 133, in setup
    raise UnusableData(str(error)) from error
trainables.trial.UnusableData: photos: 2 of 9 images do not decode"""


def stopper(workers=1, worked=False, outside=lambda: None):
    return StudyStopper(Resources(1, 0.0, workers), worked, outside)


@pytest.mark.parametrize("again", [True, False])
def test_data_that_cannot_be_used_end_the_run_with_what_is_wrong_with_them(tmp_path, again, capsys):
    for text, broken in (("The actor died unexpectedly", None), (DATA, "photos: 2 of 9 images do not decode")):
        failed, stops = FakeTrial(1, {}).fail(tmp_path, text), stopper()
        (stops.on_trial_recover if again else stops.on_trial_error)(0, [], failed)
        assert (stops.broken, stops.stop_all()) == (broken, broken is not None)
        progress_of().on_trial_recover(0, [], failed)
        assert ("begun again" in capsys.readouterr().out) == (broken is None)


def test_a_reason_from_outside_ends_the_run():
    reasons = [None, "the lock is lost"]
    stops = stopper(outside=lambda: reasons.pop(0))
    assert not stops.stop_all() and stops.stop_all() and stops.broken == "the lock is lost"


def ended(number, kind="error", status="failed", **config):
    error = {"failure_kind": kind, "error": f"ValueError: a batch of {number}\nTraceback ..."}
    return config_of(number, **config), {"status": status} | (error if status == "failed" else {})


def told(trainings, **parameters):
    stops = stopper(**parameters)
    for config, report in trainings:
        stops.ended(config, report, 1.0)
    return stops.broken


def test_a_study_whose_first_settings_all_raise_errors_ends():
    """As many settings as run at a time do not tell."""
    raising = [ended(n) for n in range(6)]
    broken = "the first 3 settings raised errors; the last: ValueError: a batch of 2"
    assert told(raising[:2]) is None and told(raising[:3]) == broken == told(raising)
    assert told(raising[:5], workers=5) is None and told(raising, workers=5).startswith("the first 6 settings")
    assert told([ended(0, seed=seed) for seed in range(6)]) is None, "one setting's replicates"


def test_a_training_that_ended_otherwise_keeps_the_study_going_and_so_does_what_depends_on_the_setting():
    raising = [ended(n) for n in range(6)]
    assert told(raising, worked=True) is None
    for status in ("completed", "diverged", "stopped"):
        assert told([ended(7, status=status), *raising]) is None
    for kind in ("out_of_memory", "timeout"):
        assert told([ended(n, kind) for n in range(6)]) is None


def test_tune_may_pickle_what_it_is_given():
    held = progress_of(number for number in range(3)), stopper()
    assert [vars(copy) for copy in pickle.loads(pickle.dumps(held))] == [{}, {}]


def test_a_trial_that_failed_has_a_line_for_each_training_that_was_not_done(capsys):
    """A confirming trial says its seed."""
    pack = [config_of(number, "confirm") for number in (6, 7)]
    reports = {"pack": {"0": {"val_score": 0.5, "done": True}, "1": {"val_score": 0.5}}}
    trial = FakeTrial(1, {"pack": pack}, reports)
    trial.error_file = "e.txt"
    progress_of().on_trial_error(0, [], trial)
    title, row = capsys.readouterr().out.splitlines()[1:]
    assert title.split()[-4:] == ["seed", "score", "best", "time"] and row.endswith("   64    4  failed, see e.txt")
