"""ResultsCallback: rows for other people's trainables."""

import json
import math
import pickle
from functools import partial

import pandas as pd
import pytest
from fake_trials import FakeTrial
from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.repeater import TRIAL_INDEX as REPETITION
from rows import held

from tune_cd import CoordinateDescentSearch, Space, results
from tune_cd.analysis.means import means_over_settings
from tune_cd.analysis.parts import comparable
from tune_cd.results import store
from tune_cd.results.attempts import to_retry
from tune_cd.tune.callback import row_store


def begin(callback, trials):
    """As if its searcher had given these trials."""
    callback.setup()
    callback.searcher.trials.configurations |= {trial.trial_id: trial.config for trial in trials}


def run(callback, trials, failed=(), listed=None):
    """One run of an experiment: the trials start and end one after the other."""
    begin(callback, trials)
    for trial in trials:
        callback.on_trial_start(0, listed or trials, trial)
        callback.on_trial_result(0, listed or trials, trial, trial.last_result)
        (callback.on_trial_error if trial in failed else callback.on_trial_complete)(0, listed or trials, trial)
    callback.on_experiment_end(trials)


def lrs(*values):
    """An experiment's trials, numbered from 1 as Tune does."""
    return [FakeTrial(n, {"lr": lr}, {"acc": lr}) for n, lr in enumerate(values, 1)]


def make(folder, metric="acc", mode="max", fields=None, search="cd", **arguments):
    """The callback of a search that has asked for nothing."""
    searcher = CoordinateDescentSearch(Space(lr=(1e-4, 1.0)), metric, mode, **arguments)
    return searcher.callback(folder, "mine", fields=fields, search=search)


def suggested(trials):
    """A searcher that has suggested these trials."""
    points = [trial.config for trial in trials]
    searcher = CoordinateDescentSearch(Space(lr=(0.01, 1.0)), "acc", "max", points_to_evaluate=points)
    assert [searcher.suggest(trial.trial_id) for trial in trials] == points
    return searcher


def numbers(tmp_path):
    """Trial id -> (place, lr, attempt) of each row."""
    rows = results.read(tmp_path, "mine").itertuples()
    return {row.trial_id: (row.trial_index, row.params["lr"], row.attempt) for row in rows}


def warned(caplog, callback):
    """What a run logs of earlier rows."""
    caplog.clear()
    run(callback, lrs(0.7))
    return [record.getMessage() for record in caplog.records if "rows already" in record.getMessage()]


@pytest.mark.parametrize(
    "wrap", [lambda own: own, partial(Repeater, repeat=2), partial(ConcurrencyLimiter, max_concurrent=2)]
)
def test_the_callback_of_another_search_is_refused(tmp_path, wrap):
    own, other = (CoordinateDescentSearch(Space(lr=(0.01, 1.0)), "acc", "max") for _ in range(2))
    asked = wrap(own)
    trials = [FakeTrial(n, asked.suggest(f"tune{n}")) for n in (1, 2)]
    for trial in trials:
        own.callback(tmp_path, "mine").on_trial_start(0, trials, trial)
    with pytest.raises(ValueError, match="this callback is of another search than the Tuner's search_alg"):
        other.callback(tmp_path, "mine").on_trial_start(0, trials, trials[0])


@pytest.mark.parametrize("place, said", [(None, "not NoneType"), ("s3:/bucket/x", "at s3:/ are not allowed")])
def test_a_place_that_cannot_be_is_refused_before_a_trial_runs(place, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make(place)


def test_a_study_with_rows_that_the_search_does_not_know_is_said_once(tmp_path, caplog):
    named = {"space": Space(lr=(0.01, 1.0)), "metric": "acc", "mode": "max"}

    def begun(study="mine", known=()):
        """The callback of a search that knows these."""
        search = CoordinateDescentSearch(**named)
        for lr in known:
            search.add_evaluated_point({"lr": lr}, 0.5)
        return search.callback(tmp_path, study)

    assert warned(caplog, begun()) == []
    [said] = warned(caplog, begun())
    way = f"CoordinateDescentSearch.from_results('{tmp_path}', 'mine', resume=True, ...)"
    assert f"study 'mine' in {tmp_path} has 1 rows already" in said and way in said and "another study name" in said
    assert warned(caplog, begun("another")) == warned(caplog, begun(known=[0.7])) == []
    repeating = CoordinateDescentSearch(**named, points_to_evaluate=[{"lr": 0.7}])
    (callback := repeating.callback(tmp_path, "mine")).setup()
    callback.setup = lambda: None  # once, before the search is asked
    assert repeating.suggest("t") == {"lr": 0.7} and len(warned(caplog, callback)) == 1
    known = CoordinateDescentSearch.from_results(tmp_path, "mine", **named).callback(tmp_path, "mine")
    assert warned(caplog, known) == []


def test_a_restored_experiment_keeps_its_numbers_whatever_order_tune_lists_its_trials_in(tmp_path):
    """Two of a second run were in flight when the driver died; the second is run again, since the snapshot is older."""
    run(make(tmp_path), lrs(0.9, 0.8))
    trials = lrs(0.1, 0.2, 0.3, 0.4)
    first = suggested(trials).callback(tmp_path, "mine")
    restored = pickle.loads(pickle.dumps(first))  # as Tune does when the Tuner is made
    run(first, trials[:2], listed=trials)
    before = held(tmp_path, "mine", "cd-00003")
    run(restored, [trials[3], trials[1], trials[2]], listed=trials[::-1])
    places = sorted(entry[:2] for entry in numbers(tmp_path).values())
    assert [place for place, _ in places] == [0, 1, 2, 3, 4, 5]
    assert places[:4] == [(0, 0.9), (1, 0.8), (2, 0.1), (3, 0.2)] and {places[4][1], places[5][1]} == {0.3, 0.4}
    assert held(tmp_path, "mine", "cd-00003") == before, "a completed row never changes"


TRACEBACK = """\x1b[36mray::ImplicitFunc.train()\x1b[39m (pid=1, ip=10.0.0.1, actor_id=2, repr=f)
           ^^^^^^^^^^^^^^^
  File "/ray/tune/trainable/trainable.py", line 329, in train
    raise skipped from exception_cause(skipped)
  File "/home/me/train.py", line 12, in f
    raise RuntimeError("lost: no")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{}"""
DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: ImplicitFunc
\tactor_id: de62f9428c3c0e2a2272482901000000
\tpid: 20461
\tnamespace: 21217150-01de-44c8-9e3b-f03161b2df6c
\tip: 10.0.0.1
The actor died because its node has died. Node Id: 12"""
CREATION = "The actor died because of an error raised in its creation task,"
CHAINED = f"""{CREATION} \x1b[36mray::Mine.__init__()\x1b[39m (pid=1, ip=10.0.0.1)
           ^^^^^^^^^^^^^^^
  File "/home/me/data.py", line 7, in load
    raise ValueError("no such file")
ValueError: no such file

The above exception was the direct cause of the following exception:

\x1b[36mray::Mine.__init__()\x1b[39m (pid=1, ip=10.0.0.1)
  File "/home/me/train.py", line 3, in setup
    raise Unusable(str(error)) from error
me.train.Unusable: no such file"""


OLD = TRACEBACK.format("RuntimeError: old")
NODE = "The actor died because its node has died. Node Id: 12"
ROOM = "OutOfMemoryError: HIP out of memory."


@pytest.mark.parametrize(
    "text, error",
    [
        (TRACEBACK.format("RuntimeError: lost: no"), "RuntimeError: lost: no"),
        (TRACEBACK.format("ValueError: two\nlines"), "ValueError: two lines"),
        (TRACEBACK.format("KeyboardInterrupt"), "KeyboardInterrupt"),
        (DIED, f"lost: The actor died unexpectedly before finishing this task. {NODE}"),
        (f"{OLD}\nFailure # 2 (occurred at 2026-01-01_00-00-00)\n{DIED}", "lost: The actor died unexpectedly"),
        (TRACEBACK.format("ray.exceptions.NodeDiedError: its node"), "lost: ray.exceptions.NodeDiedError: its node"),
        (CHAINED, "me.train.Unusable: no such file"),
        (TRACEBACK.format(f"torch.{ROOM}"), f"out of memory: lr=0.1, batch_size=512: torch.{ROOM}"),
        (TRACEBACK.format(f"torch.cuda.{ROOM}"), f"out of memory: lr=0.1, batch_size=512: torch.cuda.{ROOM}"),
        (TRACEBACK.format("RuntimeError: CUDA out of memory. Tried"), "out of memory: lr=0.1, batch_size=512: Runtime"),
        ("", "the trial failed; Ray left no message"),
    ],
)
def test_the_error_of_a_failed_trial_says_what_can_be_done_about_it(tmp_path, text, error):
    trial = FakeTrial(1, {"lr": 0.1, "batch_size": 512}).fail(tmp_path, text)
    run(make(tmp_path), [trial], failed=[trial])
    row = held(tmp_path, "mine", "cd-00000")
    assert row["error"].startswith(error) and row["status"] == "failed"
    kinds = {"lost: ": "lost", "out of memory: ": "out_of_memory"}
    assert row["failure_kind"] == next((kind for start, kind in kinds.items() if error.startswith(start)), "error")
    assert "\n" not in row["error"] and ("ValueError" not in error or row["error"] == error)


def test_a_metric_may_be_nested_and_a_config_need_not_be_json(tmp_path):
    callback = make(tmp_path, metric="val/acc")
    run(callback, [FakeTrial(1, {"lr": 0.1}, {"val": {"acc": 0.5}}, options={("a", 1): {1, 2}})])
    row = held(tmp_path, "mine", "cd-00000")
    assert row["val_score"] == 0.5 and row["scores"] == {"val/acc": 0.5} and "('a', 1)" in row["config"]


def test_the_scores_are_what_the_trainable_said_and_how_far_it_is(tmp_path):
    """Tune's own numbers are none, unless one of them is what a length is counted in."""
    said = {"acc": 0.5, "time_per_image": 0.1, "pid_gain": 2.0, "done_share": 0.5}
    of_tune = {"training_iteration": 4, "time_total_s": 1.0, "timestamp": 7, "pid": 9, "iterations_since_restore": 4}
    run(make(tmp_path), [FakeTrial(1, {"lr": 0.1}, said | of_tune)])
    assert held(tmp_path, "mine", "cd-00000")["scores"] == said
    key = "training_iteration"
    run(make(tmp_path, full_length=(key, 16)), [FakeTrial(1, {"lr": 0.2}, said | of_tune)])
    rows = results.read(tmp_path, "mine")
    assert set(rows["gpus"]) == {0.5}, "those that a trial holds"
    assert rows["scores"][1] == said | {key: 4.0} and rows["status"].tolist() == ["completed", "stopped"]
    assert [known.curve for known in results.trainings(rows, (key, 16))] == [{1.0: 0.5}, {0.25: 0.5}]


UNHEARD = {"config": {"lr": 0.3}, "date": "2026-01-01_00-00-00", "pid": 7, "time_total_s": 1.5, "hostname": "h"}
"""What Tune fills in before a trial's first report."""


@pytest.mark.parametrize(
    "said, full_length, status",
    [
        ({"acc": 0.2}, None, "stopped"), ({"acc": 0.2}, ("epoch", 16), "stopped"),
        ({"acc": 0.2}, ("step", 16), "stopped"), ({"acc": 0.2}, ("epoch", 4), "completed"),
        ({"acc": 0.2, "done": True}, None, "completed"), ({"acc": math.nan}, ("epoch", 4), "diverged"),
        ({"acc": math.nan}, None, None), ({"loss": 0.2}, None, None), (None, None, None),
    ],
)  # fmt: skip
def test_trials_that_the_end_of_the_experiment_cuts_off_have_rows(tmp_path, said, full_length, status):
    """As by Ctrl-C or time_budget_s: Tune tells neither callbacks nor searchers of them. Those without a score have no
    row, and with it no failure."""
    ended, cut, unheard, earlier = (FakeTrial(n, {"lr": n / 10}, {"acc": n / 10}) for n in (1, 2, 3, 4))
    cut.last_result = UNHEARD if said is None else {"training_iteration": 4, "epoch": 4, "done": False, **said}
    unheard.last_result = {}
    callback, trials = make(tmp_path, full_length=full_length), [ended, cut, unheard, earlier]
    begin(callback, trials)
    for trial in trials[:3]:
        callback.on_trial_start(0, trials, trial)
    callback.on_trial_complete(0, trials, ended)
    callback.on_experiment_end(trials)
    rows = results.read(tmp_path, "mine")
    assert rows["val_score"].fillna(-1).tolist() == [0.1, *{None: [], "diverged": [-1]}.get(status, [0.2])]
    assert rows["status"].tolist()[1:] == ([status] if status else []) and pd.notna(rows["started_at"]).all()
    assert to_retry(rows).tolist() == [False, *([status == "stopped"] if status else [])], "it is run again"


def test_repetitions_of_a_setting_are_one_setting(tmp_path):
    """Ray's Repeater numbers them within the configuration."""
    again = [FakeTrial(n, {"lr": 0.1, REPETITION: n - 1}, {"acc": n / 10}) for n in (1, 2)]
    run(make(tmp_path), lrs(0.5, 0.6))  # an earlier run has their numbers
    run(make(tmp_path), again)
    rows = results.read(tmp_path, "mine")
    [*_, known] = results.trainings(rows)
    assert known.h == {"lr": 0.1} and known.curve == {1.0: pytest.approx(0.15)}
    repeated = rows[rows["seed"].notna()]
    assert repeated["seed"].tolist() == [0, 1] and means_over_settings(repeated)["seeds"].tolist() == [2]


def test_entries_that_a_function_gives_to_each_trial_are_no_set_up(tmp_path):
    drawn = tune.sample_from(lambda spec: spec.config.lr / 10)
    space = {"lr": tune.loguniform(1e-3, 1), "warm": drawn, "depth": 4, "net": {"sizes": [8, drawn], "kind": "a"}}
    search = CoordinateDescentSearch(metric="acc", mode="max")
    search.set_search_properties("acc", "max", inject_placeholders(space, create_resolvers_map()))
    given = [FakeTrial(n, {"lr": 0.1 / n}, {"acc": 0.1}, warm=n, depth=4, net={"sizes": [8, n], "kind": "a"})
             for n in (1, 2)]  # fmt: skip
    run(search.callback(tmp_path, "mine"), given)
    rows = results.read(tmp_path, "mine")
    assert json.loads(rows["config"][0])["drawn"] == ["net/sizes", "warm"]
    assert [part.words for part in comparable(rows)] == [""]


def test_two_runs_into_a_study_at_once_lose_no_row(tmp_path, monkeypatch):
    """Each has looked before the other has written."""
    one, other, callback = lrs(0.1), lrs(0.2), make(tmp_path)
    write = store.Store.write

    def late(*args, **kwargs):
        monkeypatch.setattr(store.Store, "write", write)
        callback.setup()
        callback.on_trial_complete(0, other, other[0])
        callback.close()
        return write(*args, **kwargs)

    monkeypatch.setattr(store.Store, "write", late)
    run(make(tmp_path), one)
    assert sorted(lr for _, lr, _ in numbers(tmp_path).values()) == [0.1, 0.2]


def test_rows_that_were_not_written_wait_in_the_folder_that_the_warning_names_until_the_next_run(tmp_path):
    (tmp_path / "r").touch()
    trials = lrs(0.1, 0.2)
    trials[1].fail(tmp_path, TRACEBACK.format("RuntimeError: no"))
    with pytest.warns(UserWarning, match="2 result rows were not written .tune1, tune2.*; 2 wait in") as said:
        run(make(tmp_path / "r"), trials, failed=trials[1:])
    [place] = tmp_path.glob(".r-waiting-*")
    assert str(place) in str(said[0].message) and sorted(numbers(place)) == ["cd-00000", "cd-00001"]
    (tmp_path / "r").unlink()
    run(make(tmp_path / "r"), lrs(0.8))
    held = sorted((lr, attempt) for _, lr, attempt in numbers(tmp_path / "r").values())
    assert held == [(0.1, 0), (0.2, 0), (0.8, 0)] and len(numbers(tmp_path / "r")) == 3 and not place.exists()


@pytest.mark.parametrize("pause", [0.0, 60.0], ids=["tried with every row", "tried at the end"])
def test_rows_wait_for_a_store_that_is_away(tmp_path, monkeypatch, caplog, pause):
    """A driver that is killed in between has lost none. Others' rows stay whole."""
    monkeypatch.setattr(row_store, "PAUSE", pause)
    run(make(tmp_path / "r"), lrs(0.5))
    (tmp_path / "r/trials").rename(tmp_path / "aside")
    (tmp_path / "r/trials").touch()
    trials, callback = lrs(0.1, 0.2, 0.3, 0.4), make(tmp_path / "r")
    callback.setup()
    for trial in trials[:3]:
        callback.on_trial_complete(0, trials, trial)
    assert len(list(tmp_path.glob(".r-waiting-*/trials/mine/*.parquet"))) == 3
    [place] = tmp_path.glob(".r-waiting-*")
    assert caplog.text.count("cannot be written and wait in") == 1 and str(place) in caplog.text
    (tmp_path / "r/trials").unlink()
    (tmp_path / "aside").rename(tmp_path / "r/trials")
    callback.on_trial_complete(0, trials, trials[3])
    assert place.exists() == (pause > 0)
    callback.on_experiment_end(trials)
    found = sorted(numbers(tmp_path / "r").values())
    assert [index for index, *_ in found] == [0, 1, 2, 3, 4] and found[0] == (0, 0.5, 0) and not place.exists()
    assert {lr for _, lr, _ in found[1:]} == {0.1, 0.2, 0.3, 0.4}


def test_rows_that_no_folder_takes_are_named(tmp_path, monkeypatch):
    (tmp_path / "r").touch()
    monkeypatch.setattr(row_store, "keep", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.warns(UserWarning, match="2 result rows were not written .tune1, tune2.; the first: full"):
        run(make(tmp_path / "r"), lrs(0.1, 0.2))


def test_a_row_that_is_not_allowed_is_named_and_the_others_are_written(tmp_path):
    trials = lrs(0.1, math.nan, 0.3)
    said = "1 result rows were not written .tune2.; the first: params = .*is not allowed"
    with pytest.warns(UserWarning, match=said):
        run(make(tmp_path), trials)
    assert sorted(numbers(tmp_path)) == ["cd-00000", "cd-00002"]


OF_TRIAL = {"val_score": 0.5}  # as a constant it would be in every row


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "most"}, {"search": "a/b"}] + [{"fields": one} for one in ({"seed": "3"}, {"colour": "red"}, OF_TRIAL)],
)
def test_arguments_are_checked_before_a_trial_runs_for_a_row_that_is_not_allowed(tmp_path, wrong):
    with pytest.raises(ValueError):
        make(tmp_path, metric="loss", **wrong)
