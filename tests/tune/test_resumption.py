"""A search continued from its table by a new searcher: `from_results(resume=True)`.

Where trials pause: test_pausing_trials.py.
"""

import math
import pickle
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from ray import tune
from ray.tune.search import Searcher
from warned import no_warnings

from tune_cd import CoordinateDescentSearch, Linear, Space, results
from tune_cd.results.schema import CUT

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
DOMAINS = {"lr": tune.loguniform(1e-6, 1.0), "wd": tune.loguniform(1e-8, 1.0)}
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def bowl(config):
    return math.exp(-(((math.log2(config["lr"] / 1e-3)) / 6) ** 2 + (math.log2(config["wd"] / 1e-4) / 6) ** 2))


def make(workers=1, rule="default"):
    return CoordinateDescentSearch(PLANE, "acc", "max", start={"lr": 0.1, "wd": 0.1}, rule=rule, workers=workers)


def again(tmp_path, workers=1, rule="default", given=True):
    named = {"space": PLANE, "metric": "acc", "mode": "max"} if given else {}
    return CoordinateDescentSearch.from_results(
        tmp_path, "s", resume=True, start={"lr": 0.1, "wd": 0.1}, rule=rule, workers=workers, **named
    )


class Driver:
    """What Tune does: whenever it can, it asks, while it has a slot; then the trial at place `ends(n running)` of those
    that run ends, and is a row."""

    def __init__(self, searcher, total, folder=None, first=0, ends=lambda n: 0, slots=math.inf):
        self.slots, self.begun = slots, {}
        self.searcher, self.total, self.folder, self.ends = searcher, total, folder, ends
        self.asked, self.running, self.ended, self.first = [], [], 0, first

    def fill(self):
        while len(self.asked) < self.total and len(self.running) < self.slots:
            trial = f"t{self.first + len(self.asked)}"
            config = self.searcher.suggest(trial)
            if not isinstance(config, dict):
                assert config is None or config == Searcher.FINISHED
                return
            config |= self.searcher.trials.origin_of(trial)
            self.asked.append(config)
            self.running.append((trial, config))
            self.begun[trial] = self.first + self.ended

    def run(self, rows=math.inf):
        self.fill()
        while self.running and self.ended < rows:
            self.end()
            self.fill()
        return self.asked

    def end(self, error=None):
        trial, config = self.running.pop(self.ends(len(self.running)))
        self.ended += 1
        if self.folder is not None:
            store(self.folder, config, (self.begun[trial], self.first + self.ended), error)
        self.searcher.on_trial_complete(trial, None if error else {"acc": bowl(config)}, error is not None)


def store(folder, config, minutes, error=None, **other):
    index = config["trial_index"]
    held = results.read_trial(folder, "s", f"cd-{index:05d}")
    outcome = {"status": "failed", "error": error} if error else {"status": "completed", "val_score": bowl(config)}
    row = {
        "attempt": 0 if held is None else held["attempt"] + 1, "params": {name: config[name] for name in PLANE.names},
        "direction": config["direction"], "line_position": config["line_position"],
        "started_at": BEGUN + timedelta(minutes=minutes[0]), "ended_at": BEGUN + timedelta(minutes=minutes[1]),
        **(other | {"error": error} if other else outcome),
    }  # fmt: skip
    write(folder, index, row)


def write(folder, index, row):
    named = {"study": "s", "search": "cd", "trial_id": f"cd-{index:05d}", "trial_index": index, "attempt": 0}
    results.write_trial(folder, named | {"metric_name": "acc", "scores": {}, "config": "{}", "software": "{}"} | row)


def in_order(n):
    return 0


def middle(n):
    return n // 2


RULES = ["default", "paper", "local"]


@pytest.mark.parametrize("rule", RULES)
def test_with_one_worker_it_goes_on_as_if_it_had_never_stopped(tmp_path, rule):
    """12 trials, stopped after some of them: the same configurations in the same order with the same indices."""
    whole = Driver(make(rule=rule), 12, tmp_path / "0").run()
    for rows in range(1, 12, 2):
        shutil.copytree(tmp_path / "0", tmp_path / str(rows))
        for place in range(rows, 12):
            (tmp_path / str(rows) / "trials" / "s" / f"cd-{place:05d}.parquet").unlink()
        searcher = again(tmp_path / str(rows), rule=rule)
        assert searcher.recalled == rows and Driver(searcher, 12 - rows, first=100).run() == whole[rows:]


@pytest.mark.parametrize("workers, slots", [(1, 9), (None, 1)], ids=["one worker", "one slot"])
def test_so_it_does_where_tune_alone_knows_space_and_slots(tmp_path, workers, slots):
    """Its rows are those of the search that never stopped, what was running first."""
    whole = Driver(make(workers), 9, slots=slots).run()
    Driver(make(workers), 9, tmp_path, slots=slots).run(5)
    searcher = pickle.loads(pickle.dumps(again(tmp_path, workers, given=False)))
    searcher.set_search_properties("acc", "max", DOMAINS, num_samples=4)
    Driver(searcher, 9 - searcher.recalled, tmp_path, first=100, slots=slots).run()
    assert searcher.recalled == 5 and sorted_rows(tmp_path) == [flat(h) for h in whole]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("workers, slots, ends", [(3, 9, in_order), (None, 3, middle)], ids=["workers", "slots"])
def test_with_several_workers_nothing_is_trained_twice_and_no_place_is_given_twice(
    tmp_path, workers, slots, rule, ends
):
    """What ran when the driver was killed has left no row, so the search may go on otherwise."""
    cut = Driver(make(workers, rule), 12, tmp_path, ends=ends, slots=slots)
    cut.run(rows=5)
    searcher = again(tmp_path, workers, rule)
    Driver(searcher, 12 - searcher.recalled, tmp_path, first=100, ends=ends, slots=slots).run()
    places, params = zip(*sorted_rows(tmp_path))
    assert searcher.recalled == 5 and len(set(places)) == len({PLANE.key(h) for h in params}) == 12


def place(config):
    return config["trial_index"]


def place_of(searcher, trial):
    """Suggests a trial's configuration; its place in the order of asking."""
    assert isinstance(searcher.suggest(trial), dict)
    return searcher.trials.origin_of(trial)["trial_index"]


def flat(config):
    return place(config), {name: config[name] for name in PLANE.names}


def sorted_rows(folder):
    table = results.read(folder, "s")
    assert set(table["status"]) == {"completed"}
    return list(zip(table["trial_index"], table["params"]))


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_lost_is_run_again_under_its_own_number(tmp_path, workers):
    """The node that ran the fourth was lost. Alone it is asked for first, and what follows is what would have
    followed."""
    whole = Driver(make(workers), 9).run()
    cut = Driver(make(workers), 9, tmp_path)
    cut.run(rows=3)
    cut.end(error="lost: the node died")
    searcher = again(tmp_path, workers)
    driver = Driver(searcher, 9 - searcher.recalled, tmp_path, first=100)
    rest = driver.run()
    assert searcher.recalled == 3 and len(rest) == 6
    assert flat(rest[0]) == flat(whole[3]) and results.read_trial(tmp_path, "s", "cd-00003")["attempt"] == 1
    table = results.read(tmp_path, "s")
    assert table["trial_index"].tolist() == list(range(9)) and set(table["status"]) == {"completed"}
    if workers == 1:
        assert sorted_rows(tmp_path) == [flat(h) for h in whole]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_what_was_interrupted_after_a_report_is_run_again_and_its_value_does_not_count(tmp_path, workers, rule):
    """Also where it is the best of all."""
    whole = Driver(make(workers, rule), 9).run()
    cut = Driver(make(workers, rule), 9, tmp_path)
    cut.run(rows=4)
    for trial, config in cut.running:
        store(tmp_path, config, (cut.begun[trial], 5), status="stopped", val_score=2.0, error=CUT)
    running = [flat(config) for _, config in cut.running]
    searcher = again(tmp_path, workers, rule)
    with no_warnings():
        rest = Driver(searcher, 9 - searcher.recalled, tmp_path, first=100).run()
    assert searcher.recalled == 4 and [flat(h) for h in rest[:workers]] == running
    assert sorted_rows(tmp_path) == [flat(h) for h in whole]


def test_a_lost_trial_that_runs_again_counts_as_one_of_the_workers(tmp_path):
    cut = Driver(make(), 9, tmp_path)
    cut.run(rows=3)
    cut.end(error="lost: the node died")
    searcher = again(tmp_path)
    assert place_of(searcher, "a") == 3 and searcher.suggest("b") is None and not searcher.trials.finished
    searcher.on_trial_complete("a", None, error=True)
    assert place_of(searcher, "b") == 4


def test_other_failures_are_no_reason_to_ask_again(tmp_path):
    cut = Driver(make(), 9, tmp_path)
    cut.run(rows=3)
    cut.end(error="out of memory: lr=0.1: torch.OutOfMemoryError: CUDA out of memory")
    assert place_of(again(tmp_path), "a") == 4


def test_a_study_without_rows_is_begun(tmp_path):
    with pytest.warns(UserWarning, match="begins"):
        searcher = again(tmp_path / "none")
    assert searcher.recalled == 0 and Driver(searcher, 6).run() == Driver(make(), 6).run()
    (tmp_path / "trials").mkdir()
    assert Driver(again(tmp_path), 6).run() == Driver(make(), 6).run()


def test_what_cannot_be_resumed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="name the study"):
        CoordinateDescentSearch.from_results(tmp_path, resume=True)
    Driver(make(), 2, tmp_path).run()
    row = results.read_trial(tmp_path, "s", "cd-00000")
    results.write_trial(tmp_path, row | {"trial_id": "random-00000", "search": "random"})
    with pytest.raises(ValueError, match="several searches, .'cd', 'random'."):
        again(tmp_path)


def test_what_waits_to_run_again_is_part_of_the_state(tmp_path):
    """Saved between the resumption and the suggestion of what was running."""
    cut = Driver(make(3), 12, tmp_path)
    cut.run(rows=5)
    for trial, config in cut.running:
        store(tmp_path, config, (cut.begun[trial], 6), status="stopped", val_score=0.5, error=CUT)
    searcher, other = again(tmp_path, 3), make(3)
    first = searcher.suggest("a")
    searcher.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    other.on_trial_complete("a", {"acc": bowl(first)})
    assert [place_of(other, trial) for trial in "bc"] == [place(config) for _, config in cut.running[1:]]


@pytest.mark.parametrize("space", [Space(lr=(1e-6, 0.05), wd=(1e-8, 1.0)), Space(lr=(1e-6, 1.0), momentum=(0.1, 1.0))])
def test_rows_outside_the_space_are_refused_before_a_trial_runs(tmp_path, space):
    Driver(make(), 2, tmp_path).run()
    with pytest.raises(ValueError):
        CoordinateDescentSearch.from_results(tmp_path, "s", resume=True, space=space, metric="acc", mode="max")


def test_integers_linear_axes_and_stopped_trials_go_on_as_well(tmp_path):
    """The table has every parameter as a float; a stopped trial's value never wins."""
    space = Space(lr=(1e-6, 1.0), batch_size=[16, 32, 64, 128], momentum=Linear(0.0, 0.9), shift=Linear(-2, 2, step=1))
    start = {"lr": 0.1, "batch_size": 32, "momentum": 0.0, "shift": -1}

    arguments = {"start": start, "full_length": ("training_iteration", 10)}

    def step(searcher, n):
        h = searcher.suggest(f"t{n}")
        value = 0.9 if n == 2 else bowl({"lr": h["lr"], "wd": h["batch_size"] * 1e-6}) - (h["shift"] / 10) ** 2
        searcher.on_trial_complete(f"t{n}", {"acc": value, "training_iteration": 3 if n == 2 else 10})
        return h, value

    whole = CoordinateDescentSearch(space, "acc", "max", **arguments)
    course = [step(whole, n) for n in range(9)]
    for n, (h, value) in enumerate(course[:5]):
        scores, status = {"training_iteration": 3 if n == 2 else 10}, "stopped" if n == 2 else "completed"
        write(tmp_path, n, {"params": h, "scores": scores, "status": status, "val_score": value})
    named = {"space": space, "metric": "acc", "mode": "max"}
    again = CoordinateDescentSearch.from_results(tmp_path, "s", resume=True, **named, **arguments)
    rest = [step(again, n) for n in range(5, 9)]
    assert rest == course[5:]
    assert all(isinstance(h["batch_size"], int) and isinstance(h["shift"], int) for h, _ in rest)
