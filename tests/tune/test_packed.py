"""PackedSearch and Together: several trainings a trial, several searches a run, and each search none the wiser."""

import json
import math

import pytest
from ray.tune.search import Searcher
from ray.tune.utils import flatten_dict

import trainables.trial
from tune_cd import CoordinateDescent, CoordinateDescentSearch, PackedSearch, Space
from tune_cd.run.options import ORIGIN
from tune_cd.run.together import Member, Together
from tune_cd.search.registry import OPTIMISERS
from tune_cd.tune.optimiser_search import OptimiserSearch
from tune_cd.tune.packed import PACK, members_of

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
BEST = {"lr": 1e-3, "wd": 1e-4}
START = {"lr": 0.1, "wd": 0.1}


def bowl(config):
    return math.exp(-sum((math.log2(config[name] / at) / 6) ** 2 for name, at in BEST.items()))


def descent(workers=1, **arguments):
    return CoordinateDescentSearch(PLANE, "acc", "max", start=START, workers=workers, settings="paper", **arguments)


def packed(searcher, size, **arguments):
    return PackedSearch(searcher, size, metric="acc", mode="max", **arguments)


def reported(pack, value=bowl):
    return {str(place): {"acc": value(config), "done": True} for place, config in enumerate(pack)}


def drive(searcher, trials, value=bowl):
    """Packs one after another, as Tune would with one worker, which tells searchers flat results; the packs."""
    packs = []
    for i in range(trials):
        config = searcher.suggest(f"t{i}")
        if config == Searcher.FINISHED:
            break
        packs.append(config[PACK])
        searcher.on_trial_complete(
            trial_id=f"t{i}", result=flatten_dict({PACK: reported(config[PACK], value), "config": config}), error=False
        )
    return packs


def flat(packs):
    return [config for pack in packs for config in pack]


def test_both_packages_mean_the_same_key():
    assert trainables.trial.PACK == PACK


def test_a_pack_of_one_is_the_search_itself():
    core, history = CoordinateDescent(PLANE, start=START, settings="paper"), []
    for _ in range(12):
        history.append(core.ask())
        core.tell(history[-1], bowl(history[-1]))
    assert flat(drive(packed(descent(), 1), 12)) == history


def test_packs_hold_what_the_search_can_propose_and_no_more():
    """A golden section alone has one point to try, however large the pack; with four workers it looks ahead."""
    assert [len(pack) for pack in drive(packed(descent(), 8), 5)] == [1] * 5
    packs = drive(packed(descent(workers=4), 8), 5)
    assert all(1 <= len(pack) <= 4 for pack in packs) and max(map(len, packs)) > 1
    keys = [PLANE.key(config) for config in flat(packs)]
    assert len(set(keys)) == len(keys)


def test_the_grid_in_packs_is_the_grid():
    def grid():
        return OptimiserSearch(
            PLANE, "acc", "max", make=lambda space, start: OPTIMISERS["grid"](space, start=start, step=16, workers=99)
        )

    singles, searcher = [], grid()
    while (config := searcher.suggest(f"t{len(singles)}")) != Searcher.FINISHED:
        singles.append(config)
        searcher.on_trial_complete(f"t{len(singles) - 1}", {"acc": 0.1})
    packs = drive(packed(grid(), 7), 99)
    assert flat(packs) == singles and [len(pack) for pack in packs[:-1]] == [7] * (len(packs) - 1)


def test_members_that_are_done_are_told_while_the_pack_goes_on():
    searcher = packed(descent(workers=4), 4, packs=2)
    first = searcher.suggest("a")[PACK]
    assert len(first) == 4 and searcher.suggest("b") is None, "four are live"
    searcher.on_trial_result("a", {PACK: {"0": {"acc": 0.4, "done": True}, "1": {"acc": 0.1}}})
    second = searcher.suggest("b")[PACK]
    assert len(second) == 1 and second[0] not in first
    searcher.on_trial_result("a", {PACK: {"0": {"acc": 0.4, "done": True}}})  # said again: no second telling
    assert searcher.suggest("c") is None, "two packs at a time"


def test_a_pack_that_fails_fails_those_that_were_not_done():
    told = {}

    class Inner(Searcher):
        def suggest(self, trial_id):
            return {"x": len(told)}

        def on_trial_complete(self, trial_id, result=None, error=False):
            told[trial_id] = (result, error)

    searcher = packed(Inner("acc", "max"), 3)
    searcher.suggest("a")
    searcher.on_trial_result("a", {PACK: {"1": {"acc": 0.7, "done": True}, "2": {"acc": 0.9}}})
    searcher.on_trial_complete("a", None, error=True)
    assert list(told.values()) == [({"acc": 0.7}, False), (None, True), (None, True)]
    told.clear()
    searcher.suggest("b")
    searcher.on_trial_complete("b", {PACK: {"0": {"acc": math.nan, "done": True}, "2": {"acc": 0.2}}})
    assert sorted(told.values(), key=str) == sorted([(None, True), (None, True), ({"acc": 0.2}, False)], key=str), (
        "a trial ended by a scheduler counts as it last reported"
    )
    searcher.on_trial_complete("b", None, error=True)
    searcher.on_trial_complete("never", None, error=True)


def test_replicates_are_told_as_their_mean():
    told = []

    class Inner(Searcher):
        def suggest(self, trial_id):
            return {"x": float(len(told)), "origin": {"trial_index": len(told)}}

        def on_trial_complete(self, trial_id, result=None, error=False):
            told.append((result, error))

    searcher = packed(Inner("acc", "max"), 4, seeds=[5, 6, 7])
    pack = searcher.suggest("a")[PACK]
    assert [(config["x"], config["seed"]) for config in pack] == [(0.0, 5), (0.0, 6), (0.0, 7)], (
        "one setting: a second would not fit whole"
    )
    searcher.on_trial_result("a", {PACK: {"0": {"acc": 0.2, "done": True}, "2": {"acc": 0.4, "done": True}}})
    assert told == []
    searcher.on_trial_complete("a", {PACK: {"1": {"acc": math.nan, "done": True}}})
    assert told == [({"acc": pytest.approx(0.3)}, False)], "of those that gave a number"


def test_what_is_known_of_a_setting_is_not_trained_again():
    values = {(START["lr"], 0): 0.5, (START["lr"], 1): 0.7}
    searcher = packed(
        descent(),
        2,
        seeds=[0, 1],
        known=lambda config, seed: values.get((config["lr"], seed)) if config["wd"] == START["wd"] else None,
    )
    pack = searcher.suggest("a")[PACK]
    assert pack[0]["lr"] != START["lr"] or pack[0]["wd"] != START["wd"], (
        "the start is known for both seeds: the search has gone on"
    )
    values.pop((START["lr"], 0))
    searcher = packed(
        descent(),
        2,
        seeds=[0, 1],
        known=lambda config, seed: values.get((config["lr"], seed)) if config["wd"] == START["wd"] else None,
    )
    assert searcher.suggest("a")[PACK] == [{**START, "seed": 0}]
    values[START["lr"], 0] = math.nan  # it diverged: that is known too, and not repeated
    searcher = packed(
        descent(),
        2,
        seeds=[0, 1],
        known=lambda config, seed: values.get((config["lr"], seed)) if config["wd"] == START["wd"] else None,
    )
    assert all(config["lr"] != START["lr"] or config["wd"] != START["wd"] for config in searcher.suggest("a")[PACK])


def test_saved_and_restored_goes_on(tmp_path):
    one, other = packed(descent(workers=3), 3), packed(descent(workers=3), 3)
    drive(one, 4)
    live = one.suggest("live")[PACK]
    one.on_trial_result("live", {PACK: {"0": {"acc": 0.3, "done": True}}})
    one.save(str(tmp_path / "state"))
    json.loads((tmp_path / "state").read_text())
    other.restore(str(tmp_path / "state"))
    for searcher in (one, other):
        searcher.on_trial_complete("live", {PACK: reported(live)})
    assert one.suggest("next") == other.suggest("next")
    with pytest.raises(ValueError, match="version 0"):
        other.set_state({"version": 0})


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 2, "seeds": []}, {"size": 2, "seeds": [1, 1]}])
def test_impossible_packs_are_refused(arguments):
    with pytest.raises(ValueError, match="size"):
        packed(descent(), **arguments)


def test_members_of_a_trial():
    assert members_of({"lr": 1}, {"acc": 2}) == [({"lr": 1}, {"acc": 2})]
    assert members_of({"b": 3, PACK: [{"lr": 1}, {"lr": 2, "b": 4}]}, {PACK: {"1": {"acc": 5}}}) == [
        ({"b": 3, "lr": 1}, {}),
        ({"b": 4, "lr": 2}, {"acc": 5}),
    ]
    assert members_of({PACK: [{"lr": 1}]}, None) == [({"lr": 1}, {})]


def line(direction, start, budget=5):
    def make(space, start):
        return CoordinateDescent(space, settings="paper", directions=[direction], budgets=budget, start=start)

    searcher = OptimiserSearch(PLANE, "val_score", "max", make=make, start=start, annotate=ORIGIN)
    searcher.set_max_concurrency(1)
    return searcher


def together(workers, **searches):
    return Together(
        {name: Member(searcher, budget) for name, (searcher, budget) in searches.items()},
        key=PLANE_KEY,
        workers=workers,
    )


def PLANE_KEY(config):
    return PLANE.key({name: config[name] for name in PLANE.names})


def run(searcher, workers):
    """Trials as Tune runs them, the oldest ending first; (search, configuration) in the order they were begun, most
    live."""
    begun, live, most = [], [], 0
    for i in range(200):
        config = searcher.suggest(f"t{i}") if len(live) < workers else None
        if isinstance(config, dict):
            live.append((f"t{i}", config))
            begun.append((config[ORIGIN]["search"], config))
            most = max(most, len(live))
        elif not live:
            assert config == Searcher.FINISHED
            return begun, most
        else:
            trial, done = live.pop(0)
            searcher.on_trial_complete(trial, {"val_score": bowl(done)})
    raise AssertionError("never finished")


def test_searches_run_side_by_side_on_the_course_they_would_take_alone():
    alone = [config for _, config in run(together(1, one=(line([1, 1], START), 5)), 1)[0]]
    begun, most = run(together(2, one=(line([1, 1], START), 5), two=(line([1, 1], {"lr": 1e-4, "wd": 1e-2}), 5)), 2)
    assert most == 2 and [{**config, ORIGIN: None} for name, config in begun if name == "one"] == [
        {**config, ORIGIN: None} for config in alone
    ]
    assert [name for name, _ in begun].count("two") == 5 and begun[1][0] == "two", (
        "a search that waits leaves its worker to the next"
    )


def test_a_setting_of_two_searches_is_trained_once():
    """While it is live the second waits for it, afterwards it is told at once; neither spends its budget on it."""
    begun, _ = run(together(2, one=(line([1, 1], START), 4), two=(line([1, -1], START), 4)), 2)
    keys = [PLANE_KEY(config) for _, config in begun]
    assert len(set(keys)) == len(keys) and [name for name, _ in begun].count("two") == 4
    alone, _ = run(together(1, two=(line([1, -1], START), 5)), 1)
    assert [PLANE_KEY(config) for name, config in begun if name == "two"] == [
        PLANE_KEY(config) for _, config in alone[1:]
    ]


def test_a_failure_is_told_to_both():
    searcher = together(2, one=(line([1, 1], START), 2), two=(line([1, -1], START), 2))
    searcher.suggest("a")
    assert searcher.suggest("b") is None
    searcher.on_trial_complete("a", None, error=True)
    assert {searcher.suggest("b")[ORIGIN]["search"], searcher.suggest("c")[ORIGIN]["search"]} == {"one", "two"}
    assert searcher.suggest("d") is None
