"""Searches that decide how long to train, replayed, and the rivals that do."""

import numpy as np
import pytest
from lengths import Alternating, Asha, FullLength, MedianStop, ShortThenBest, Spent, spend
from pausing import BUDGET, FULL, METHODS, OURS, PARTS, landscapes_of, methods_of, run, table
from pruners import Pruned

from tune_cd.landscapes.curves import CurveLandscape
from tune_cd.landscapes.measured import IN_VIEW, JUDGES, load
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.registry import OPTIMISERS
from tune_cd.search.space import Space

OCTAVES = np.arange(-20.0, 5.0, 2.0)


def ridge():
    """Short trainings rank settings nearly as long ones do; the last ticks diverge."""
    p, e = np.meshgrid(OCTAVES, OCTAVES, indexing="ij")
    end = 0.3 + 0.5 * np.exp(-(((p - e + 6) / 6) ** 2) - ((p + e + 10) / 12) ** 2)
    values = end[..., None] * (0.6 + 0.4 * np.arange(1, 17) / 16)
    values[-1, -1, 4:] = np.nan
    space = Space(Lambda_p=(2.0**-20, 2.0**4), Lambda_e=(2.0**-20, 2.0**4))
    return CurveLandscape("ridge", space, [OCTAVES] * 2, values)


RIDGE = ridge()


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


A, B = {"Lambda_p": 2.0**-6, "Lambda_e": 1.0}, {"Lambda_p": 2.0**-8, "Lambda_e": 2.0**-2}
CLIFF = {"Lambda_p": 2.0**4, "Lambda_e": 2.0**4}


def test_cost_is_what_was_trained_and_what_is_reached_the_best_weights():
    search = Scripted((A, 0.25), (B, 1.0), (A, 0.5))
    spent = spend(search, RIDGE)
    assert spent.cost.tolist() == pytest.approx(np.arange(1, 25) / 16)
    a, b = RIDGE.curve(A), RIDGE.curve(B)
    assert search.told == [(0.25, a[3]), (0.25, b[3]), (0.5, b[7]), (1.0, b[15]), (0.5, a[7])]
    assert spent.reached[3] == a[3] and spent.reached[-1] == max(a[7], b[15])


def test_a_workers_images_take_time_and_cost_and_an_idle_workers_time_costs_nothing():
    spent = spend(Scripted((A, 1.0), (B, 0.5)), RIDGE, workers=2)
    assert spent.clock[-1] == pytest.approx(1.0) and spent.cost[-1] == pytest.approx(1.5)
    twenty = spend(FullLength(proposer(), 8), RIDGE, workers=8)
    assert twenty.cost[-1] == pytest.approx(20) and twenty.clock[-1] == pytest.approx(3)


def test_a_training_that_diverges_costs_its_images():
    spent = spend(Scripted((CLIFF, 1.0), (A, 0.25)), RIDGE)
    assert spent.cost[-1] == pytest.approx(1.25)
    assert spent.at(np.array([0.1, 1.25]), 0.0).tolist() == [
        RIDGE.curve(CLIFF)[0],
        max(RIDGE.curve(A)[3], RIDGE.curve(CLIFF)[3]),
    ]


def test_what_was_trained_and_is_asked_again_is_trained_and_told_anew():
    search = Scripted((A, 1.0), (A, 0.25), (A, 0.5), (A, 0.5))
    assert spend(search, RIDGE).cost[-1] == pytest.approx(2.0)
    assert [share for share, _ in search.told] == [0.25, 0.5, 1.0, 0.25, 0.5, 0.25, 0.5]


def test_the_budget_is_kept():
    assert spend(FullLength(OPTIMISERS["random"](RIDGE.space)), RIDGE, budget=5).cost[-1] == pytest.approx(5)


def test_a_training_that_diverges_is_told_once_as_failed():
    search = Scripted((CLIFF, 1.0))
    spend(search, RIDGE)
    assert [share for share, _ in search.told] == [0.25, 0.5] and search.told[1][1] is None


def test_noise_is_told_and_not_reached():
    noisy = CurveLandscape("noisy", RIDGE.space, RIDGE.ticks, RIDGE.values, np.full((1, 16), 0.05))
    search = Scripted((A, 1.0))
    spent = spend(search, noisy, seed=1)
    assert abs(search.told[-1][1] - RIDGE.curve(A)[-1]) == pytest.approx(0.05)
    assert spent.reached[-1] == RIDGE.curve(A)[-1]


def test_before_anything_is_reached_there_is_the_lowest():
    spent = Spent("m", "l", 0, np.array([0.5, 1.0]), np.array([0.5, 1.0]), np.array([0.3, 0.4]), np.array([0.35, 0.38]))
    assert spent.at(np.array([0.25, 0.5, 0.75, 2.0]), 0.1).tolist() == [0.1, 0.3, 0.3, 0.4]


def steps_of(rule, most=60, score=lambda n, share: 1.0 / (n + 1) + share):
    """(number of the configuration, until) of each step of a rule, with scores by order of asking."""
    numbers, out = {}, []
    for _ in range(most):
        if (h := rule.ask()) is None:
            break
        number, until = numbers.setdefault(rule.space.key(h), len(numbers)), rule.until(h)
        out.append((number, until))
        for share in [s for s in rule.lengths if s <= until and s > max([0, *rule.trained.get(rule.space.key(h), [])])]:
            rule.tell(h, score(number, share), share)
    return out


def proposer():
    return OPTIMISERS["random"](RIDGE.space)


class Few:
    """Proposes so many configurations, and then nothing more."""

    def __init__(self, n):
        self.space, self.left, self._random = RIDGE.space, n, proposer()

    def ask(self):
        self.left -= 1
        return self._random.ask() if self.left >= 0 else None

    def tell(self, h, value, censored=False):
        self._random.tell(h, value, censored=censored)


def test_short_then_best():
    """Five eighths of the budget for the short ones; then the best of them, in their order."""
    steps = steps_of(ShortThenBest(proposer(), 0.25, plan=8), most=23)
    assert steps[:20] == [(n, 0.25) for n in range(20)] and steps[20:] == [(0, 1.0), (1, 1.0), (2, 1.0)]


def test_alternating():
    steps = steps_of(Alternating(proposer(), 0.25), most=20)
    assert steps[:12] == [(n, 0.25) for n in range(12)]
    assert steps[12] == (0, 1.0) and steps[13:17] == [(n, 0.25) for n in range(12, 16)] and steps[17] == (1, 1.0)


def test_the_rules_finish_what_waits_once_nothing_new_is_proposed():
    """Best first: of seven configurations the first are best."""
    for rule in (Alternating(Few(7), 0.25), Asha(Few(7)), ShortThenBest(Few(7), 0.25, plan=8)):
        steps = steps_of(rule)
        finished = [number for number, until in steps if until == 1.0]
        assert sorted(finished) == list(range(7)) and finished == sorted(finished)


def test_asha_has_rays_factor_and_rungs():
    steps = steps_of(METHODS["cd, ASHA (Ray)"](RIDGE.space, 0, 20.0, None), most=6)
    assert steps == [(0, 1 / 16), (1, 1 / 16), (2, 1 / 16), (3, 1 / 16), (0, 1 / 4), (4, 1 / 16)]


def test_asha_promotes_the_better_half_of_a_rung():
    assert steps_of(Asha(proposer()), most=7) == [
        (0, 0.125), (1, 0.125), (0, 0.25), (2, 0.125), (3, 0.125), (1, 0.25), (0, 0.5)
    ]  # fmt: skip


def test_the_median_rule_stops_who_is_below_the_others():
    steps = steps_of(MedianStop(proposer()), most=18)
    assert [until for number, until in steps if number < 3] == [0.125, 0.25, 0.5, 1.0] * 3
    assert [until for number, until in steps if number == 3] == [0.125]


@pytest.mark.parametrize("pruner", ["hyperband", "halving", "median"])
def test_optunas_pruners_stop_what_they_stop(pruner):
    pytest.importorskip("optuna")
    search = Pruned(RIDGE.space, sampler="tpe", pruner=pruner, seed=0, start=A)
    first = search.ask()
    assert first == pytest.approx(A)
    spent = spend(search, RIDGE, budget=15)
    assert spent.cost[-1] == pytest.approx(15, abs=0.5)
    states = {trial.state.name for trial in search._study.trials}
    assert {"PRUNED", "COMPLETE"} <= states
    again = spend(Pruned(RIDGE.space, sampler="tpe", pruner=pruner, seed=0, start=A), RIDGE, budget=15)
    assert again.reached.tolist() == spent.reached.tolist()


NEEDED = {"pausing-bayesian": ["optuna", "botorch"]}


@pytest.mark.parametrize("part", PARTS)
def test_all_methods_of_a_part_begin_at_the_same_point(part):
    for package in NEEDED.get(part, ["optuna"]):
        pytest.importorskip(package)
    expected = PausingDescent(RIDGE.space, seed=3, budget=5).ask()
    for workers, methods in methods_of(part).items():
        assert {OURS, FULL} < set(methods)
        for name, make in methods.items():
            assert make(RIDGE.space, 3, 5.0, workers).ask() == pytest.approx(expected), name


def test_a_part_has_the_planes_of_its_batch_size():
    found = {part: [landscape.name for landscape in landscapes_of(part)] for part in PARTS}
    assert found["pausing"] == list(IN_VIEW) and set(found["pausing-judged"]) <= set(JUDGES)
    measured_there = [name for name in IN_VIEW if 256 in load(name).axes["batch_size"]]
    assert found["pausing-256"] == [f"{name}-b256" for name in measured_there] != []


def test_ours_needs_a_part_of_what_full_length_needs():
    """Ratios and their intervals, of pairs; each method begins where the others do."""
    methods = {name: METHODS[name] for name in (OURS, FULL, "random, ASHA")}
    spent = run(methods, [RIDGE], range(4), processes=1)
    assert len({one.reached[0] for one in spent if one.seed == 0}) == 1
    rows = table(spent, [RIDGE]).set_index("method")
    assert rows.loc[OURS, "to 95%"] < 0.6 * rows.loc[FULL, "to 95%"] <= BUDGET
    assert rows.loc[OURS, "ratio 95% low"] <= rows.loc[OURS, "ratio 95%"] <= rows.loc[OURS, "ratio 95% high"] < 1
    assert rows.loc[FULL, ["ratio 90%", "ratio 95% low", "ratio 98% high"]].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_trajectory_follows_from_its_seed(workers):
    first, again = (
        spend(PausingDescent(RIDGE.space, seed=3, workers=workers, budget=6), RIDGE, budget=6, workers=workers)
        for _ in range(2)
    )
    assert first.reached.tolist() == again.reached.tolist() and first.clock.tolist() == again.clock.tolist()
