"""`PackedSearch`: several trainings a trial, and the search none the wiser."""

import json
import math

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.utils import flatten_dict
from snapshots import tunes

import trainables.trial
from tune_cd import CoordinateDescent, CoordinateDescentSearch, PackedSearch, PausingSearch, Space
from tune_cd.search.registry import OPTIMISERS
from tune_cd.tune.optimiser_search import OptimiserSearch
from tune_cd.tune.packed import PACK, UNTIL, members_of

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
    assert (trainables.trial.PACK, trainables.trial.UNTIL) == (PACK, UNTIL)


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


def test_the_searcher_inside_sees_its_members_reports_as_those_of_trials():
    """Their best results, and how far they were."""
    inside = descent(workers=2, use_result="best", full_length=("epoch", 10))
    searcher = packed(inside, 2)
    searcher.suggest("a")
    searcher.on_trial_result("a", {PACK: {"0": {"acc": 0.9, "epoch": 1}, "1": {"acc": 0.1, "epoch": 1}}})
    done = {"acc": 0.8, "epoch": 2, "done": True}, {"acc": 0.3, "epoch": 10, "done": True}
    searcher.on_trial_complete("a", {PACK: {"0": done[0], "1": done[1]}})
    assert [value for _, value in inside._search.history] == [0.9, 0.3] and inside._search.best[1] == 0.3


def test_a_searcher_whose_trials_pause_is_refused():
    pausing = PausingSearch(PLANE, "acc", "max", full_length=("epoch", 10))
    for inside in (pausing, ConcurrencyLimiter(pausing, 2)):
        with pytest.raises(ValueError, match="PausingSearch: a member of a pack cannot pause"):
            packed(inside, 2)


def test_a_limiter_around_ours_is_looked_through_and_around_rays_refused(tmp_path):
    one, other = (packed(ConcurrencyLimiter(descent(workers=2), 2), 2) for _ in range(2))
    first = one.suggest("a")[PACK]
    one.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    other.set_search_properties("acc", "max", {})
    assert other.suggest("b")[PACK] == first, "lost with a driver, and suggested again"
    pytest.importorskip("optuna")
    from ray.tune.search.optuna import OptunaSearch

    rays = OptunaSearch({"lr": tune.loguniform(1e-6, 1.0)}, metric="acc", mode="max")
    with pytest.raises(ValueError, match="ConcurrencyLimiter: Ray saves none of its trials"):
        packed(ConcurrencyLimiter(rays, 2), 2)


def test_a_searcher_of_rays_is_saved_as_it_saves_itself(tmp_path):
    """OptunaSearch has no `get_state`."""
    pytest.importorskip("optuna")
    from ray.tune.search.optuna import OptunaSearch

    def optuna(seed):
        return OptunaSearch({"lr": tune.loguniform(1e-6, 1.0)}, metric="acc", mode="max", seed=seed)

    def drive_one(searcher, trials):
        return drive(searcher, trials, value=lambda h: -abs(math.log2(h["lr"]) + 9))

    one, other = packed(optuna(0), 2), packed(optuna(1), 2)
    one.suggest("live")
    one.on_trial_result("live", {PACK: {"0": {"acc": 0.3}}, "training_iteration": 1})
    one.on_trial_complete("live", {PACK: {"0": {"acc": 0.3}, "1": {"acc": 0.2}}})
    drive_one(one, 3)
    one.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    assert flat(drive_one(other, 2)) == flat(drive_one(one, 2))


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


@pytest.mark.parametrize("packs", [1, 2])
def test_packs_that_nobody_trains_any_more_are_suggested_again(tmp_path, packs):
    """A new experiment with a restored searcher: what was under way comes first, what was done is not asked again."""
    one, other = (packed(descent(workers=6), 3, packs=packs) for _ in range(2))
    drive(one, 2)
    before = [one.suggest(f"live{place}")[PACK] for place in range(packs)]
    one.on_trial_result("live0", {PACK: {"1": {"acc": 0.3, "done": True}}})
    one.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    other.set_search_properties("acc", "max", {})
    again = flat([other.suggest(f"new{place}")[PACK] for place in range(packs)])
    lost = [config for config in flat(before) if config != before[0][1]]
    assert again[: len(lost)] == lost and before[0][1] not in again
    assert (other.suggest("more") is None and packs == 1) or len(again) <= 6


def test_packs_are_what_tunes_snapshot_says_of_them(tmp_path):
    """One is not in it, one has ended since, one goes on."""
    one, other = (packed(descent(workers=6), 2, packs=3) for _ in range(2))
    packs = {name: one.suggest(name)[PACK] for name in ("gone", "ended", "running")}
    one.save_to_dir(str(tmp_path), "now")
    done = {PACK: reported(packs["ended"])}
    tunes(tmp_path, [("ended", {PACK: packs["ended"]}, "TERMINATED", done),
                        ("running", {PACK: packs["running"]}, "RUNNING", {})])  # fmt: skip
    other.restore_from_dir(str(tmp_path))
    assert other.suggest("new")[PACK] == packs["gone"]
    other.on_trial_complete("running", flatten_dict({PACK: reported(packs["running"])}))
    told = {trial["h"]["lr"]: trial["value"] for trial in other.get_state()["searcher"]["search"]["trials"]}
    for config in packs["ended"] + packs["running"]:
        assert told[config["lr"]] == pytest.approx(bowl(config))


def test_the_searcher_inside_has_the_same_metric():
    """Or every member would count as failed."""
    with pytest.raises(ValueError, match=r"metric, mode \('loss', 'max'\): the searcher inside has \('acc', 'max'\)"):
        PackedSearch(descent(), 2, metric="loss", mode="max")
    with pytest.raises(ValueError, match=r"the searcher inside has \('acc', 'max'\)"):
        PackedSearch(descent(), 2, metric="acc", mode="min")


def test_domains_beside_packs_are_refused():
    """No trial's configuration would have a value for them."""
    packed = PackedSearch(CoordinateDescentSearch(Space(lr=(1e-4, 1.0)), "acc", "max"), 2, metric="acc", mode="max")
    with pytest.raises(ValueError, match=r"param_space leaves \['lr'\] open: give them to the searcher inside"):
        packed.set_search_properties("acc", "max", {"lr": tune.loguniform(1e-4, 1.0)})
    assert packed.set_search_properties("acc", "max", {"epochs": 2})


def test_an_impossible_size_is_refused():
    with pytest.raises(ValueError, match="size 0"):
        packed(descent(), 0)


def test_members_of_a_trial():
    assert members_of({"lr": 1}, {"acc": 2}) == [({"lr": 1}, {"acc": 2})]
    assert members_of({"b": 3, PACK: [{"lr": 1}, {"lr": 2, "b": 4}]}, {PACK: {"1": {"acc": 5}}}) == [
        ({"b": 3, "lr": 1}, {}),
        ({"b": 4, "lr": 2}, {"acc": 5}),
    ]
    assert members_of({PACK: [{"lr": 1}]}, None) == [({"lr": 1}, {})]
