"""A study that goes on from its rows: as if it had never stopped, whatever ran when it did."""

import math

import pytest
from made_studies import study
from studies import row, table

from tune_cd.results.attempts import to_retry
from tune_cd.run.resources import Resources
from tune_cd.run.resumption import portfolio_of
from tune_cd.run.searches import groups_of

BEST = {"Lambda_p": 0.02, "Lambda_e": 0.7}


def value(one):
    """A ridge; seeds differ a little."""
    off = [math.log2(one.h[name] / at) / 6 for name, at in BEST.items()]
    return math.exp(-sum(part**2 for part in off)) + 0.001 * one.seed


class Runs:
    """A group of a study's searches, from portfolio to portfolio: the trial at `ends(n)` of n that run ends next."""

    def __init__(self, made, workers=1, ends=lambda n: 0, group=0):
        self.study, self.searches, self.ends = made, groups_of(made.searches)[group], ends
        self.resources = Resources(1, 0.0, workers, replicates=made.config.replicates)
        self.rows: list[dict] = []

    def portfolio(self):
        rows = table(self.rows) if self.rows else table([row()]).iloc[:0]
        return portfolio_of(self.study, self.searches, rows, rows[~to_retry(rows)], self.resources)

    def go_on(self, most=math.inf, fails=()):
        """Run until so many trainings have ended in all; what was still running."""
        asking, live = self.portfolio(), []
        while True:
            while asked := asking.ask():
                live += asked
            if not live or len(self.rows) >= most:
                return live
            one = live.pop(self.ends(len(live)))
            lost = len(self.rows) in fails
            self.rows.append(self.row(one, "failed" if lost else "completed"))
            asking.tell(one, None if lost else value(one))

    def row(self, one, status):
        origin, at, place = dict(one.origin), len(self.rows), one.origin["trial_index"]
        told = {"error": "gone", "failure_kind": "lost"} if status == "failed" else {}
        return row(
            origin.pop("trial_index"), status, value(one), params=one.h, seed=one.seed, times=(0, at + 1),
            batch_size=64, trial_id=f"{origin['search']}-{place}-{one.seed}", **origin, **told,
        )  # fmt: skip

    def trained(self):
        return sorted((r["search"], r["trial_index"], r["seed"], *r["params"].values()) for r in self.rows)


def small(tmp_path, *argv):
    return study(tmp_path, "--num-samples", "8", "--baseline-trials", "5", *argv)


@pytest.mark.parametrize("ends", [lambda n: 0, lambda n: n - 1, lambda n: n // 2], ids=["first", "last", "middle"])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("cut", [1, 6, 11])
def test_it_goes_on_as_if_it_had_never_stopped(tmp_path, cut, workers, ends):
    """Three searches side by side: the same settings with the same places; those that ran when it stopped come first,
    and none is trained twice."""
    made = small(tmp_path)
    whole, cut_off = Runs(made, workers, ends), Runs(made, workers, ends)
    whole.go_on()
    running = cut_off.go_on(most=cut)
    begun = cut_off.portfolio()
    first = [begun.ask()[0] for _ in running]
    assert {(one.origin["search"], one.origin["trial_index"]) for one in first} == {
        (one.origin["search"], one.origin["trial_index"]) for one in running
    }
    cut_off.go_on()
    assert cut_off.trained() == whole.trained()


def test_replicates_that_are_missing_alone_are_trained(tmp_path):
    made = small(tmp_path, "--replicates", "2", "--no-baseline")
    whole, cut_off = Runs(made), Runs(made)
    whole.go_on()
    (left,) = cut_off.go_on(most=5)
    assert left.seed == 1 and [one.seed for one in cut_off.portfolio().ask()] == [1]
    cut_off.go_on()
    assert cut_off.trained() == whole.trained()


def test_what_was_lost_is_run_again_under_its_own_number(tmp_path):
    made = small(tmp_path, "--no-baseline")
    runs = Runs(made)
    runs.go_on(fails={3})
    (lost,) = [r for r in runs.rows if r["status"] == "failed"]
    (again,) = runs.portfolio().ask()
    assert again.origin["trial_index"] == lost["trial_index"] and again.h == lost["params"]
    assert made.call.retry_failed is False and len(runs.rows) == 8, "it had counted as one of its eight"


def test_a_finished_study_has_nothing_left(tmp_path, capsys):
    runs = Runs(small(tmp_path))
    runs.go_on()
    capsys.readouterr()
    assert not runs.portfolio().members
    said = capsys.readouterr().out
    assert "[cd]  all 8 trials are in the table already" in said and "[separate]  all 5" in said


def test_fresh_seeds_are_trained_of_what_each_search_chose(tmp_path):
    """Of those that have it in common once; and once they are on record there is nothing left."""
    made = small(tmp_path, "--confirm", "2")
    runs = Runs(made)
    runs.go_on()
    last = Runs(made, group=1)
    last.rows = runs.rows
    before = len(runs.rows)
    last.go_on()
    chosen = {tuple(r["params"].values()) for r in last.rows[before:]}
    assert len(last.rows) - before == 2 * len(chosen) and {r["seed"] for r in last.rows[before:]} == {1, 2}
    best = max(runs.rows[:before], key=lambda r: (r["search"] == "cd", r["val_score"]))
    assert tuple(best["params"].values()) in chosen
    assert not last.portfolio().members
