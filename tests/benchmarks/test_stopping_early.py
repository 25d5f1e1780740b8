"""Searches that decide how long to train, replayed, the rivals that do, and the table that compares them."""

from dataclasses import replace

import numpy as np
import pausing
import pytest
from lengths import Asha, Pruned, spend

from tune_cd import CoordinateDescent
from tune_cd.landscapes.landscape import on_points
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.space import Space

OCTAVES = np.arange(-20.0, 5.0, 2.0)


def ridge():
    """Short trainings rank settings nearly as long ones do; the last ticks diverge."""
    p, e = np.meshgrid(OCTAVES, OCTAVES, indexing="ij")
    end = 0.3 + 0.5 * np.exp(-(((p - e + 6) / 6) ** 2) - ((p + e + 10) / 12) ** 2)
    values = end[..., None] * (0.6 + 0.4 * np.arange(1, 17) / 16)
    values[-1, -1, 4:] = np.nan
    space = Space(Lambda_p=(2.0**-20, 2.0**4), Lambda_e=(2.0**-20, 2.0**4))
    points, curves = np.stack([p.ravel(), e.ravel()], axis=-1), values.reshape(-1, 16)
    return on_points("ridge", space, points, curves, curves[:, -1], np.empty((0, 16)))


RIDGE = ridge()
A, B = {"Lambda_p": 2.0**-6, "Lambda_e": 1.0}, {"Lambda_p": 2.0**-8, "Lambda_e": 2.0**-2}
CLIFF = {"Lambda_p": 2.0**4, "Lambda_e": 2.0**4}


class Scripted:
    """Asks for what it is told to, and keeps what it is told."""

    lengths = (0.25, 0.5, 1.0)

    def __init__(self, *steps):
        self.space, self.steps, self.told, self.next = RIDGE.space, list(steps), [], {}

    def ask(self):
        if not self.steps:
            return None
        h, until = self.steps.pop(0)
        self.next[self.space.key(h)] = until
        return h

    def until(self, h):
        return self.next[self.space.key(h)]

    def tell(self, h, value, share=1.0):
        self.told.append((share, value))


def random(n: int | None = None):
    """Random search; of n configurations, if any number is said."""
    search = OPTIMISERS["random"](RIDGE.space)
    if n is not None:
        ask, left = search.ask, iter(range(n))
        search.ask = lambda: None if next(left, None) is None else ask()
    return search


def test_cost_is_what_was_trained_and_what_is_reached_the_best_weights():
    search = Scripted((A, 0.25), (B, 1.0), (A, 0.5))
    reached, a, b = spend(search, RIDGE), RIDGE.curve(A), RIDGE.curve(B)
    assert search.told == [(0.25, a[3]), (0.25, b[3]), (0.5, b[7]), (1.0, b[15]), (0.5, a[7])]
    assert len(reached) == 24 and reached[3] == a[3] and reached[-1] == max(a[7], b[15])


def test_a_training_that_diverges_costs_its_images_and_is_told_once_as_failed():
    search = Scripted((CLIFF, 1.0), (A, 0.25))
    assert len(spend(search, RIDGE)) == 20
    assert [share for share, _ in search.told] == [0.25, 0.5, 0.25] and search.told[1][1] is None


def test_noise_is_told_and_not_reached():
    noisy = replace(RIDGE, deviations=np.full((1, 16), 0.05))
    search = Scripted((A, 1.0))
    reached = spend(search, noisy, seed=1)
    assert abs(search.told[-1][1] - RIDGE.curve(A)[-1]) == pytest.approx(0.05) and reached[-1] == RIDGE.curve(A)[-1]


def test_the_budget_is_kept_by_several_workers_too():
    assert [len(spend(Asha(random(), (1.0,), workers=n), RIDGE, budget=5, workers=n)) for n in (1, 8)] == [80, 80]


def steps_of(rule, most=60):
    """(number of the configuration, until) of each step of a rule; the earlier asked for, the better."""
    numbers, out = {}, []
    while len(out) < most and (h := rule.ask()) is not None:
        key = rule.space.key(h)
        number, until = numbers.setdefault(key, len(numbers)), rule.until(h)
        out.append((number, until))
        for share in [s for s in rule.lengths if max([0, *rule.trained.get(key, [])]) < s <= until]:
            rule.tell(h, 1.0 / (number + 1) + share, share)
    return out


def test_asha_promotes_the_better_part_of_a_rung_and_finishes_what_waits():
    assert steps_of(Asha(random()), most=7) == [
        (0, 0.125), (1, 0.125), (0, 0.25), (2, 0.125), (3, 0.125), (1, 0.25), (0, 0.5)
    ]  # fmt: skip
    rays = pausing.made("random, ASHA (Ray)", RIDGE.space, None, 0, None, 20.0)
    assert steps_of(rays, most=6) == [(0, 1 / 16), (1, 1 / 16), (2, 1 / 16), (3, 1 / 16), (0, 1 / 4), (4, 1 / 16)]
    finished = [number for number, until in steps_of(Asha(random(7), (0.25, 1.0))) if until == 1.0]
    assert finished == list(range(7)), "what waits once nothing new is proposed, best first"


@pytest.mark.parametrize("pruner", pausing.PRUNERS)
def test_optunas_pruners_stop_what_they_stop(pruner):
    pytest.importorskip("optuna")
    search, again = (Pruned(RIDGE.space, sampler="tpe", pruner=pruner, seed=0, start=A) for _ in range(2))
    assert search.ask() == pytest.approx(A)
    reached = spend(search, RIDGE, budget=15)
    assert len(reached) / 16 == pytest.approx(15, abs=0.5)
    assert {"PRUNED", "COMPLETE"} <= {trial.state.name for trial in search.study.trials}
    assert spend(again, RIDGE, budget=15).tolist() == reached.tolist()


@pytest.mark.parametrize("start", [None, B])
def test_all_methods_begin_at_the_same_point(start):
    pytest.importorskip("optuna")
    expected = start or CoordinateDescent(RIDGE.space, seed=3).ask()
    for name in pausing.METHODS:
        assert pausing.made(name, RIDGE.space, start, 3, 1, 5.0).ask() == pytest.approx(expected), name
    with pytest.raises(ValueError, match="method 'tpe, halving' with 4 workers"):
        pausing.made("tpe, halving", RIDGE.space, None, 0, 4, 5.0)


def test_a_table_by_hand():
    """Two searches each: ours is at 90 % after 1 and 2 trainings' worth, the other after 4 and 8."""
    looks = np.arange(1, 10 * 16 + 1) / 16
    rising = {"ours": (1, 2), "full": (4, 8)}
    reached = {name: np.array([np.where(looks >= at, 0.92, 0.5) for at in ats]) for name, ats in rising.items()}
    table = pausing.table(reached)
    assert table.loc["ours", ["2", "10", "below 95 %"]].tolist() == ["0.920", "0.920", "100%"]
    assert table.loc["full", ["5", "10", "to 90%", "to 95%"]].tolist() == ["0.710", "0.920", "8.0", ">10"]
    assert table.loc["ours", ["less, 10", "to 90%", "ratio, 90%"]].tolist() == [
        "+0.000 ±0.000", "2.0", "0.25 (0.25 to 0.25)",
    ]  # fmt: skip
    ratio, low, high = pausing.ratio_of(reached["ours"], reached["full"], 0.7)
    assert (ratio, low, high) == (0.25, 0.25, 0.25), "the mean of two is above 70 % once the first is"


def test_ours_needs_a_part_of_what_full_length_needs_on_a_measured_plane(monkeypatch, capsys):
    monkeypatch.setattr(pausing, "found", lambda name: RIDGE)
    pausing.main(["omniglot", "--methods", pausing.OURS, "cd", "--searches", "3", "--processes", "1", "--budget", "10"])
    head, columns, _, *rows = filter(None, capsys.readouterr().out.splitlines())
    assert head == "omniglot, 3 searches, 1 at a time, start: blind"
    at = [column.strip() for column in columns.split("|")].index("to 90%")
    ours, full = (float(row.split("|")[at]) for row in rows)
    assert ours < 0.7 * full
