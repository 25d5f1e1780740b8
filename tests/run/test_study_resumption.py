"""A study that goes on from its rows: as if it had never stopped, whatever ran when it did."""

import json
import math
import time

import pandas as pd
import pytest
from made_studies import study
from studies import row, table

from tune_cd.results.attempts import to_retry
from tune_cd.run.curves import curve_so_far, whole_length
from tune_cd.run.resources import Resources
from tune_cd.run.resumption import portfolio_of
from tune_cd.run.searches import groups_of
from tune_cd.run.trials import RunningFile, running_of

BEST = {"Lambda_p": 0.02, "Lambda_e": 0.7}


def value(one):
    """A ridge; seeds differ a little."""
    off = [math.log2(one.h[name] / at) / 6 for name, at in BEST.items()]
    return math.exp(-sum(part**2 for part in off)) + 0.001 * one.seed


FIRST, LAST = (lambda n: 0), (lambda n: n - 1)


class Runs:
    """A group of a study's searches, from portfolio to portfolio, with the rows and curves of its trainings: the best
    so far rises with length, small rates more slowly. The trial at `ends(n)` of n that run ends next."""

    def __init__(self, made, workers=1, ends=FIRST, group=0):
        self.study, self.searches, self.ends = made, groups_of(made.searches)[group], ends
        self.resources = Resources(1, 0.0, workers, replicates=made.config.replicates)
        self.by_trial: dict[str, dict] = {}
        self.curves: list[dict] = []
        self.images: list[int] = []  # trained by each step, in order
        self.running: list[dict] = []  # the note that the last driver left
        self.before: list[dict] = []  # the one before it

    @property
    def rows(self):
        return list(self.by_trial.values())

    def portfolio(self):
        rows = table(self.rows) if self.rows else table([row()]).iloc[:0]
        looks = pd.DataFrame(self.curves, columns=["trial_id", "images_seen", "val_score"])
        rows = rows.assign(again=to_retry(rows))
        return portfolio_of(self.study, self.searches, rows, self.resources, looks, self.running)

    def go_on(self, most=math.inf, lost=()):
        """Run until so many steps have ended in all; what was still running."""
        asking, live = self.portfolio(), []
        while True:
            while asked := asking.ask():
                live += asked
            self.before, self.running = self.running, json.loads(json.dumps(asking.unrecorded))
            if not live or len(self.images) >= most:
                return live
            live.sort(key=place_of)
            one = live.pop(self.ends(len(live)))
            asking.tell(one, self.train(one, len(self.images) in lost))

    def train(self, one, gone=False):
        setup = self.study.setup
        whole = whole_length(setup, 64)
        trial = one.origin["trial_id"]
        before = max((look["images_seen"] for look in self.curves if look["trial_id"] == trial), default=0)
        until = before if gone else math.ceil(one.until * setup.evaluations) * whole // setup.evaluations
        assert gone or until > before, "nothing is trained twice"
        for n in range(1, setup.evaluations + 1):
            if before < (seen := n * whole // setup.evaluations) <= until:
                score = value(one) * (1 - 0.2 * 2.0 ** (-8 * n / setup.evaluations))
                self.curves.append({"trial_id": trial, "images_seen": seen, "val_score": score})
        curve = [(x["images_seen"], x["val_score"]) for x in self.curves if x["trial_id"] == trial]
        status = "failed" if gone else "completed" if until == whole else "stopped"
        told = {"error": "gone", "failure_kind": "lost"} if gone else {}
        self.images.append(until - before)
        origin, best = dict(one.origin), max((score for _, score in curve), default=None)
        assert origin["attempt"] == (self.by_trial[trial]["attempt"] + 1 if trial in self.by_trial else 0)
        self.by_trial[trial] = row(
            origin.pop("trial_index"), status, best, params=one.h, seed=one.seed, times=(0, len(self.images)),
            batch_size=64, images_seen=until, **origin, **told,
        )  # fmt: skip
        return curve_so_far(setup, 64, status, best, curve, until)

    def trained(self):
        """(status, images, configuration) of each training."""
        return {
            trial: (row["status"], row["images_seen"], *row["params"].values()) for trial, row in self.by_trial.items()
        }


WHOLE = ("--num-samples", "8", "--baseline-trials", "5", "--full-length")
PAUSING = ("--num-samples", "5", "--baseline-trials", "5")
each_length = pytest.mark.parametrize("argv", [WHOLE, PAUSING], ids=["whole", "pausing"])


def place_of(asked):
    return asked.origin["search"], asked.origin["trial_index"]


@each_length
@pytest.mark.parametrize(
    "workers, ends",
    [
        pytest.param(1, FIRST, id="one"), pytest.param(3, lambda n: n // 2, id="middle"),
        *(pytest.param(3, ends, id=name, marks=pytest.mark.slow) for name, ends in (("first", FIRST), ("last", LAST))),
    ],
)  # fmt: skip
def test_it_goes_on_as_if_it_had_never_stopped(tmp_path, argv, workers, ends):
    """Three searches side by side: the same settings with the same places; those that ran when it stopped come first,
    and none is trained twice."""
    made = study(tmp_path, *argv)
    whole = Runs(made, workers, ends)
    whole.go_on()
    assert not whole.portfolio().searches, "a finished study has nothing left"
    for cut in (1, 6, 16):
        cut_off = Runs(made, workers, ends)
        running = cut_off.go_on(most=cut)
        begun = cut_off.portfolio()
        first = [begun.ask()[0] for _ in running]
        assert sorted(map(place_of, first)) == sorted(map(place_of, running))
        cut_off.go_on()
        assert cut_off.trained() == whole.trained() and sorted(cut_off.images) == sorted(whole.images), cut


@each_length
def test_a_driver_that_was_killed_between_a_row_and_its_note_has_asked_for_nothing_more(tmp_path, argv):
    made = study(tmp_path, *argv)
    whole = Runs(made)
    whole.go_on()
    for cut in (3, 7, 12):
        cut_off = Runs(made)
        cut_off.go_on(most=cut)
        cut_off.running = cut_off.before
        cut_off.go_on()
        assert cut_off.trained() == whole.trained(), cut


@each_length
def test_replicates_that_are_missing_alone_are_trained_and_those_of_a_setting_pause_together(tmp_path, argv):
    made = study(tmp_path, *argv, "--replicates", "2", "--no-baseline")
    whole, cut_off = Runs(made), Runs(made)
    whole.go_on()
    (left,) = cut_off.go_on(most=5)
    (missing,) = cut_off.portfolio().ask()
    assert left.seed == 1 and (missing.h, missing.seed, missing.until) == (left.h, 1, left.until)
    cut_off.go_on()
    assert cut_off.trained() == whole.trained()
    images = table(whole.rows).groupby("trial_index")["images_seen"]
    assert (images.nunique() == 1).all() and (images.size() == 2).all()


@each_length
@pytest.mark.parametrize("lost", [0, 3])
def test_what_was_lost_is_run_again_first_under_its_own_number_from_where_it_was(tmp_path, argv, lost):
    made = study(tmp_path, *argv, "--no-baseline")
    runs = Runs(made)
    runs.go_on(most=lost + 1, lost={lost})
    (gone,) = [row for row in runs.rows if row["status"] == "failed"]
    (again,) = runs.portfolio().ask()
    assert (again.origin["trial_index"], again.h) == (gone["trial_index"], gone["params"])
    runs.go_on()
    assert runs.by_trial[gone["trial_id"]]["status"] != "failed"
    assert argv != WHOLE or len(runs.rows) == 8, "it had counted as one of its eight"


def test_fresh_seeds_are_trained_of_what_each_search_chose(tmp_path, capsys):
    """Of those that have it in common once; and once they are on record there is nothing left."""
    made = study(tmp_path, *WHOLE, "--confirm", "2")
    runs = Runs(made)
    runs.go_on()
    last = Runs(made, group=1)
    last.by_trial, before = dict(runs.by_trial), len(runs.rows)
    last.go_on()
    chosen = {tuple(r["params"].values()) for r in last.rows[before:]}
    assert len(last.rows) - before == 2 * len(chosen) and {r["seed"] for r in last.rows[before:]} == {1, 2}
    best = max(runs.rows[:before], key=lambda r: (r["search"] == "cd", r["val_score"]))
    assert tuple(best["params"].values()) in chosen
    capsys.readouterr()
    assert not last.portfolio().searches
    assert f"confirm: {len(chosen)} of {len(chosen)} full trainings' worth; all" in capsys.readouterr().out


def test_a_choice_that_has_changed_is_trained_with_fresh_seeds_too(tmp_path):
    made = study(tmp_path, *WHOLE, "--confirm", "2", "--no-baseline")
    runs, last = Runs(made), Runs(made, group=1)
    runs.go_on()
    last.by_trial = dict(runs.by_trial)
    last.go_on()
    worst = min(runs.rows, key=lambda r: r["val_score"])
    last.by_trial[worst["trial_id"]] = worst | {"val_score": 2.0}
    assert [(one.h, one.seed) for one in last.portfolio().ask()] == [(worst["params"], 1), (worst["params"], 2)]


def grown(tmp_path, *argv):
    """A finished study of three and nine whole trainings' worth that was begun with three: the trainings before and
    after."""
    runs = Runs(study(tmp_path, "--num-samples", "3", "--no-baseline", *argv))
    runs.go_on()
    before = runs.trained()
    runs.study = study(tmp_path, "--num-samples", "9", "--no-baseline", *argv)
    runs.searches = groups_of(runs.study.searches)[0]
    runs.go_on()
    return before, runs.trained()


def test_more_for_a_finished_study_goes_on_with_what_it_paused(tmp_path):
    before, after = grown(tmp_path, "--start", "conventional")
    assert before.keys() <= after.keys() and any(after[trial][1] > seen for trial, (_, seen, *_) in before.items())


def test_more_whole_trainings_for_a_finished_study_are_those_of_a_larger_one(tmp_path):
    whole = Runs(study(tmp_path, "--num-samples", "9", "--no-baseline", "--full-length"))
    whole.go_on()
    assert grown(tmp_path, "--full-length")[1] == whole.trained()


def test_what_a_set_up_s_searches_had_of_others_stays_noted_while_another_set_up_is_trained(tmp_path):
    """Else they would ask for it again, under another index."""
    mine, start = study(tmp_path), {"direction": "start", "line_position": 0.0, "trial_index": 0, "params": BEST}
    shared, own = {"search": "S1", "until": None, **start}, {"search": "S1", "until": 1.0, **start, "trial_index": 1}
    later = [{**shared, "search": "S3"}, {**own, "search": "S3"}]
    for running, noted in (([shared, own], [shared, own]), (later, [shared, *later]), ([], [shared, later[0]])):
        RunningFile(mine)(running)
        deadline = time.monotonic() + 600
        while running_of(mine) != noted:
            assert time.monotonic() < deadline, running_of(mine)
            time.sleep(0.02)
    mine.store.write(mine.file("running.json"), b"[{")
    with pytest.raises(ValueError, match="running.json cannot be used .*: move it away"):
        running_of(mine)
