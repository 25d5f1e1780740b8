"""Replays: the clock, what is recorded, the command, and the paper's numbers."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from replays import summary

from tune_cd import results
from tune_cd.analysis import best_so_far, curves_of
from tune_cd.landscapes.ablation import A_TH, A_TH_COLUMNS, ABLATION, ABLATION_3D
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import Table, from_table
from tune_cd.landscapes.printed import HP_RES, ROWS
from tune_cd.landscapes.replay import find, main, store
from tune_cd.landscapes.simulation import CONVENTIONAL, replay, replay_all, simulate, start_of
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.space import Space

PLANE = LANDSCAPES["omniglot"]
RANDOM, PAPER = OPTIMISERS["random"], OPTIMISERS["cd-paper"]


class Diary:
    """An optimiser that proposes 1, 2, 3, ... as far as told (`ahead` of what was told), and notes what happens."""

    def __init__(self, ahead: int = 99):
        self.space, self.ahead, self.diary, self.asked, self.told = Space(n=(1.0, 100.0)), ahead, [], 0, {}

    def ask(self):
        if self.asked - len(self.told) >= self.ahead:
            return None
        self.asked += 1
        self.diary.append(f"ask {self.asked}")
        return {"n": float(self.asked)}

    def tell(self, h, value):
        self.told[h["n"]] = value
        self.diary.append(f"tell {h['n']:g}")

    def annotation(self, h):
        return {"direction": "counting", "line_position": h["n"]}

    @property
    def best(self):
        numbers = {n: value for n, value in self.told.items() if value is not None}
        return ({"n": max(numbers, key=numbers.get)}, max(numbers.values())) if numbers else None


def line(**fields):
    """M(n) = log2(n) / 10 on n in [1, 100], failing beyond 64."""
    table = Table([np.array([0.0, 6.0, np.log2(100)])], np.array([0.0, 0.6, np.nan]))
    space, best = Space(n=(1.0, 100.0)), {"n": 64.0}
    return replace(PLANE, name="line", space=space, validation=table, optimum=best, high=0.6, **fields)


def test_equal_trials_run_in_rounds_and_are_told_in_asking_order():
    optimiser = Diary()
    trials = simulate(optimiser, line(), trials=5, workers=2)
    asked_and_told = "ask 1, ask 2, tell 1, tell 2, ask 3, ask 4, tell 3, tell 4, ask 5, tell 5"
    assert optimiser.diary == asked_and_told.split(", ")
    assert [trial.ended for trial in trials] == [1, 1, 2, 2, 3]
    assert [trial.started for trial in trials] == [0, 0, 1, 1, 2]


def test_one_worker_alternates_and_a_search_that_waits_leaves_workers_idle():
    sequential, waiting = Diary(), Diary(ahead=1)
    simulate(sequential, line(), trials=3)
    simulate(waiting, line(), trials=3, workers=7)
    assert sequential.diary == waiting.diary == ["ask 1", "tell 1", "ask 2", "tell 2", "ask 3", "tell 3"]


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("durations", ["equal", "lognormal", "fourfold"])
def test_the_clock_agrees_with_workers_simulated_one_by_one(workers, durations):
    """A search that waits for nothing: each trial goes to the worker that is free first."""
    landscape, free = line(durations=durations), [0.0] * workers
    expected = {}
    for n in range(1, 31):
        worker = free.index(min(free))
        free[worker] += landscape.measure({"n": float(n)}, seed=4).duration
        expected[n - 1] = free[worker]
    trials = simulate(Diary(), landscape, trials=30, workers=workers, seed=4)
    assert {trial.index: trial.ended for trial in trials} == pytest.approx(expected)
    assert [trial.ended for trial in trials] == sorted(expected.values())


def test_a_finished_search_ends_the_replay():
    space = Space(n=[1, 2, 4])
    landscape = replace(line(), space=space)
    trials = simulate(OPTIMISERS["grid"](space), landscape, trials=50, workers=2)
    assert [trial.h["n"] for trial in trials] == [1, 2, 4]


@pytest.mark.parametrize("how", [{"trials": 0}, {"trials": 5, "workers": 0}])
def test_no_trials_or_workers_are_refused(how):
    with pytest.raises(ValueError, match="at least 1 of each"):
        simulate(Diary(), line(), **how)


def test_failures_are_told_as_failures_and_reach_the_lowest_value():
    search = OPTIMISERS["random"](Space(n=(1.0, 100.0)), start=[{"n": 90.0}, {"n": 8.0}, {"n": 4.0}])
    trials = simulate(search, line(), trials=3)
    assert [trial.status for trial in trials] == ["diverged", "completed", "completed"]
    assert trials[0].value is None and trials[0].test is None
    assert [trial.value for trial in trials[1:]] == [trial.test for trial in trials[1:]] == pytest.approx([0.3, 0.2])
    assert [trial.reached for trial in trials] == pytest.approx([0.0, 0.3, 0.3])
    assert search.history[0][1] is None


def test_reached_is_the_true_score_of_what_was_chosen_by_noisy_values():
    landscape = replace(PLANE, noise=0.3)
    trajectory = replay("random", RANDOM, landscape, 5, trials=30)
    values = np.array([trial.value for trial in trajectory.trials])
    chosen = [int(np.argmax(values[: k + 1])) for k in range(30)]
    assert trajectory.curve.tolist() == [PLANE.score(trajectory.trials[i].h) for i in chosen]
    assert (np.diff(trajectory.curve) < 0).any()  # with so much noise a worse one takes over


def test_searches_are_told_validation_scores_and_test_scores_are_reported():
    flipped = replace(PLANE, test=partial(_one_minus, PLANE.validation))
    trajectory = replay("cd-paper", PAPER, flipped, 0, trials=20)
    same = replay("cd-paper", PAPER, PLANE, 0, trials=20)
    assert [trial.h for trial in trajectory.trials] == [trial.h for trial in same.trials]
    assert trajectory.curve == pytest.approx(1 - same.curve)


def _one_minus(surface, x):
    return 1 - surface(x)


@pytest.mark.slow
def test_a_trajectory_follows_from_its_seed_whatever_else_runs_and_on_however_many_processes():
    methods = {"random": RANDOM, "cd-paper": PAPER}
    landscapes = [replace(PLANE, noise=0.02, durations="lognormal"), LANDSCAPES["cliff"]]
    alone = [replay("cd-paper", PAPER, LANDSCAPES["cliff"], seed, trials=9, workers=2) for seed in (3, 4)]
    one = replay_all(methods, landscapes, range(2, 5), trials=9, workers=2, processes=1)
    two = replay_all(methods, landscapes, range(2, 5), trials=9, workers=2, processes=2)
    assert one == two and one[-2:] == alone
    assert [(t.landscape, t.method, t.seed) for t in one[:4]] == [
        ("omniglot", m, s) for m, s in (("random", 2), ("random", 3), ("random", 4), ("cd-paper", 2))
    ]


def test_starts():
    batch = LANDSCAPES["batch"]
    assert start_of("blind", PLANE, 0) is None and start_of("conventional", batch, 0) == CONVENTIONAL
    assert start_of("conventional", PLANE, 0) == {"Lambda_p": 0.1, "Lambda_e": 0.1}
    said = {"Lambda_p": 0.5, "Lambda_e": 2, "batch_size": 32}
    assert start_of("Lambda_p=0.5,Lambda_e=2,batch_size=32", batch, 0) == said
    said = {"rate": 0.01, "decay": 0.1, "solver": "sgd", "activation": "relu"}
    assert start_of("rate=0.01,decay=.1,solver=sgd,activation=relu", find("kinds-digits"), 0) == said


@pytest.mark.parametrize("name", ["omniglot", "sop", "batch"])
@pytest.mark.parametrize("octaves", [0.0, 2.0, 8.0])
def test_a_start_near_the_optimum_is_so_far_away(name, octaves):
    landscape = LANDSCAPES[name]
    starts = [start_of(f"near:{octaves:g}", landscape, seed) for seed in range(20)]
    x = landscape.space.to_coordinates
    away = [x(start) - x(landscape.optimum) for start in starts]
    assert np.linalg.norm(away, axis=1) == pytest.approx(octaves, abs=1e-9)
    assert octaves == 0 or len({tuple(step) for step in away}) == 20
    assert starts[7] == start_of(f"near:{octaves:g}", landscape, 7)


@pytest.mark.parametrize("text, message", [
    ("somewhere", "start 'somewhere': blind, conventional, near:OCTAVES or NAME=VALUE"),
    ("near:1.2.3", "start 'near:1.2.3': blind"), ("Lambda_p=abc", "start 'Lambda_p=abc': blind"),
    ("Lambda_p=0.5", "lacks"), ("Lambda_p=99,Lambda_e=1", "Lambda_p = 99 is outside"), ("near:99", "nothing in Space"),
])  # fmt: skip
def test_other_starts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        start_of(text, PLANE, 0)


def test_the_command_prints_tables_and_stores_trajectories(tmp_path, capsys):
    options = "--methods random cd-paper --landscapes omniglot batch --noise 0.02 --trajectories 2 --trials 6 "
    options += "--workers 2 --processes 1 --durations lognormal"
    assert main([*options.split(), "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    columns = (
        "omniglot-noise0.02 AUC@10",
        "batch-noise0.02 ΔAUC@20",
        "omniglot-noise0.02 t-95",
        "t-95: n-95 in durations",
    )
    assert all(column in printed for column in columns)
    table = results.read(tmp_path)
    studies = "replay-batch-noise0.02", "replay-omniglot-noise0.02"
    assert table.groupby("study").size().to_dict() == dict.fromkeys(studies, 2 * 2 * 6)
    assert table["batch_size"].notna().sum() == 24 and (table["status"] == "completed").all()
    noisy = replace(PLANE, name="omniglot-noise0.02", noise=0.02, durations="lognormal")
    expected = replay("random", RANDOM, noisy, 1, trials=6, workers=2)
    rows = table.query("study == 'replay-omniglot-noise0.02' and search == 'random' and search_seed == 1")
    stored = {
        row.trial_index: (row.params, row.val_score, row.scores["reached"], json.loads(row.config)["ended"])
        for row in rows.itertuples()
    }
    assert stored == {t.index: (t.h, t.value, t.reached, t.ended) for t in expected.trials}
    [curve] = curves_of(rows.sample(frac=1, random_state=1))
    assert curve.reached.tolist() == expected.curve.tolist(), "in the order of ending, not of asking"
    assert [t.index for t in expected.trials] != list(range(6))


def test_a_stored_grid_search_is_a_measured_grid(tmp_path):
    """What it measured can be read, drawn as a curve, and replayed."""
    landscape = LANDSCAPES["tinyimagenet"]
    search = replay("grid", partial(OPTIMISERS["grid"], step=32.0), landscape, 0)
    store(tmp_path, [search], [landscape], {"trials": 50})
    table = results.read(tmp_path)
    assert len(table) == len(search.trials) == 25
    assert best_so_far(table).tolist() == search.curve.tolist()
    measured, h = find(str(tmp_path)), {"Lambda_p": 1e-6 * 32**3, "Lambda_e": 1e-6 * 32**4}
    assert measured.score(h) == from_table(table, "grid").score(h) == pytest.approx(landscape.score(h))
    assert measured.space.axes[0].high == pytest.approx(1e-6 * 32**4)
    store(tmp_path, [replay("random", RANDOM, landscape, 0, trials=3)], [landscape], {"trials": 50})
    assert find(str(tmp_path)).score(h) == measured.score(h), "as of a study with baselines beside the grid"


@pytest.mark.parametrize("options, message", [
    (f"--trials {10**20}", f"--trials {10**20}: at least 1 is required, and at most"),
    (f"--trajectories {2**63}", f"--trajectories {2**63}"),
    ("--failures nan", "--failures nan"),
    (f"--seed {2**63}", f"--seed {2**63}"),
    ("--landscapes nowhere", "landscape 'nowhere': one of .*'omniglot'"),
    ("--landscapes omniglot sop omniglot", r"landscapes \['omniglot'\]: each name once"),
    ("--trajectories 0", "--trajectories 0"),
    ("--trials 0", "trials 0"),
    ("--noise -1", "noise -1.0"),
    ("--start there", "start 'there'"),
    ("--reference tpe", r"reference 'tpe': one of \['random', 'cd-paper'\]"),
    ("--table hp_res --methods cd", "--methods and --table: one of them at a time"),
    ("--ablation --methods cd --reference cd", "--methods and --ablation and --reference: one of them"),
    ("--table hp_res --reference random", "--table and --reference: one of them"),
    ("--table hp_res --ablation", "--ablation and --table: one of them"),
    ("--table ablation --workers 2", "with --workers 2 on its landscapes: one worker"),
    ("--table ablation --landscapes batch", r"on \['batch'\]"),
    ("--table ablation --start conventional", "has one trajectory from there"),
    ("--table ablation --start Lambda_p=1,Lambda_e=1 --noise 0.02 0", "one trajectory"),
])  # fmt: skip
def test_the_command_refuses_with_a_message(capsys, options, message):
    assert main([*options.split(), "--processes", "1"]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.slow
def test_the_papers_search_on_ridges_along_its_directions():
    """Of fitted ridges with aspect 2 and angle 0: the metric-learning rows of CD are predicted, Tiny-ImageNet's n-95 of
    27 is not."""
    trajectories = replay_all(
        {"random": RANDOM, "cd-paper": PAPER}, [LANDSCAPES[name] for name in HP_RES], range(80), trials=30, processes=1
    )
    table = summary(trajectories, "cd-paper").set_index(["landscape", "method"])
    for name in HP_RES:
        row, random = table.loc[name, "cd-paper"], table.loc[name, "random"]
        auc10, auc20, n95 = HP_RES[name]["cd-paper"]
        assert row.auc20 == pytest.approx(auc20, abs=0.03) and row.auc10 == pytest.approx(auc10, abs=0.035)
        if name == "tinyimagenet":
            assert row.n95_high < 10 < n95
        else:
            assert abs(row.n95 - n95) <= 2 and row.n95_high - row.n95_low <= 2
        auc10, auc20, _ = HP_RES[name]["random"]
        assert random.auc10 == pytest.approx(auc10, abs=random.auc10_ci + 0.005)
        assert random.auc20 == pytest.approx(auc20, abs=random.auc20_ci + 0.005)
        assert random.d20 + random.d20_ci < 0


def test_the_columns_of_the_inverse_change_one_constraint_at_a_time():
    assert np.array_equal(np.array(A_TH) @ np.array(A_TH_COLUMNS).T, np.eye(3))


@pytest.mark.slow
@pytest.mark.parametrize("searches", [24, pytest.param(80, marks=pytest.mark.faults)])
def test_the_ablations_order(searches):
    """tab:ablation on ridges along A_O's directions: A_O (3,3) is the best row; the appendix: A_th is far worse, in
    either reading."""
    landscapes = [LANDSCAPES[name] for name in ("omniglot", "sop", "landmarks")]
    rows = {name: ABLATION[name] for name in ROWS}
    flat = summary(replay_all(rows, landscapes, range(searches), trials=20, processes=1), "A_O (3,3)")
    worse = flat[flat["method"] != "A_O (3,3)"]
    assert (worse["d20"] + worse["d20_ci"] < 0).all()
    solid = summary(
        replay_all(ABLATION_3D, [LANDSCAPES["batch"]], range(searches), trials=20, processes=1), "A_O (3,3,3)"
    ).set_index("method")
    assert (solid.loc[["A_th rows (3,3,3)", "A_th inverse columns (3,3,3)"], "d20"] < -0.1).all()
