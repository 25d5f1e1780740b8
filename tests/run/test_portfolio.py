"""Several searches in one run: each takes its own way, no training is run twice, and packs hold whole settings."""

import math
import pickle
import re
from types import SimpleNamespace

import pytest
from bowl import BEST, PLANE, START, bowl
from portfolios import Process, as_reported, line, pausing, portfolio, run, until, whole
from ray.tune.search import Searcher

from trainables.trial import PACK
from tune_cd import LENGTHS, CoordinateDescent
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.resumption import say_ended
from tune_cd.run.study_search import StudySearch

ELSEWHERE = {"lr": 1e-4, "wd": 1e-2}


def settings(begun, search=None):
    """Those that were trained for a search, or for any."""
    return [one.h for one in begun if search in (None, one.origin["search"])]


def test_searches_run_side_by_side_on_the_way_they_would_take_alone():
    def both():
        return portfolio(2, one=line([1, 1]), two=line([1, 1], ELSEWHERE))

    asking, begun = both(), run(both())
    assert settings(begun, "one") == settings(run(portfolio(1, one=line([1, 1]))))
    assert len(settings(begun, "two")) == 5
    asked = [asking.ask()[0].origin["search"] for _ in range(2)]
    assert asked == ["one", "two"] and asking.ask() == [], "a search that waits leaves its worker to the next"


def test_a_setting_of_two_searches_is_trained_once():
    """While it is live the second waits for it, afterwards it is told at once; neither spends its budget on it."""
    begun = run(portfolio(2, one=line([1, 1], budget=4), two=line([1, -1], budget=4)))
    assert len({PLANE.key(one.h) for one in begun}) == len(begun)
    assert settings(begun, "two") == settings(run(portfolio(1, two=line([1, -1]))))[1:]


def test_what_is_known_is_not_trained_again_and_costs_no_budget():
    alone = settings(run(portfolio(1, one=line([1, 1]))))
    known = [(h, 0, bowl(h)) for h in alone[:3]]
    assert settings(run(portfolio(1, known, one=line([1, 1], budget=2)))) == alone[3:]
    steered = [(h, 0, bowl(h)) for h in (BEST, alone[3])]
    assert settings(run(portfolio(1, steered, one=line([1, 1], budget=4)))) == alone[:3] + alone[4:], (
        "what others found out is used when the search comes by, and steers nothing else"
    )
    diverged = [*known, (START, 0, -math.inf)]
    assert START not in settings(run(portfolio(1, diverged, one=line([1, 1]))))
    pauses = portfolio(1, known[:1], cd=pausing(budget=2))
    (first,) = pauses.ask()
    assert first.h != START and pauses.searches["cd"].spent == LENGTHS[0]
    assert pauses.searches["cd"].best == (START, bowl(START))


def test_a_setting_counts_with_the_mean_over_its_seeds():
    asking = portfolio(1, seeds=(5, 6, 7), one=line([1, 1]))
    asked = asking.ask()
    assert [(one.h, one.seed) for one in asked] == [(START, 5), (START, 6), (START, 7)]
    for one, value in zip(asked, (0.2, None, 0.4)):
        assert asking.ask() == []
        asking.tell(one, whole(value))
    assert asking.searches["one"].history == [(START, pytest.approx(0.3))], "of those that gave a number"
    known = portfolio(1, [(START, 5, 0.5)], seeds=(5, 6), one=line([1, 1]))
    (asked,) = known.ask()
    assert (asked.h, asked.seed) == (START, 6), "not trained again"


# ---------------------------------------------------------------------------------------------- trainings that pause


def test_a_search_that_pauses_takes_the_way_it_would_take_alone():
    alone = CoordinateDescent(PLANE, start=START, lengths=LENGTHS, budget=4)
    expected = []
    while (h := alone.ask()) is not None:
        expected.append((PLANE.key(h), alone.until(h)))
        for share in [share for share in LENGTHS if share <= alone.until(h)]:
            alone.tell(h, bowl(h) * (0.9 + share / 10), share)
    begun = run(portfolio(1, cd=pausing(), one=line([1, 1], {"lr": 1e-5, "wd": 1e-5})))
    assert [(PLANE.key(one.h), one.until) for one in begun if one.origin["search"] == "cd"] == expected
    assert {one.until for one in begun if one.origin["search"] == "one"} == {1.0}


def test_a_training_goes_on_for_whoever_wants_it_longer_under_the_name_it_has():
    """The second search wants to the end what the first has paused; the first is told, and pays for it."""
    asking = portfolio(2, cd=pausing(budget=2), one=line([1, 1], budget=1))
    asking.searches["cd"].workers = 1
    (short,) = asking.ask()
    assert short.until == LENGTHS[0] and asking.ask() == [], "the line waits for its start, which is being trained"
    asking.tell(short, until(short))
    (longer,) = asking.ask()
    assert (longer.h, longer.until, longer.origin) == (START, 1.0, short.origin | {"attempt": 1})
    cd, one = asking.searches["cd"], asking.searches["one"]
    assert cd.spent == LENGTHS[0]
    asking.tell(longer, until(longer))
    assert cd.spent == 1, "it is told at once, of a training that stands under its name"
    assert one.spent == 0, "a training of another's costs it no trial"
    assert one.history == [(START, pytest.approx(bowl(START)))]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_what_is_trained_and_what_is_left_never_exceed_the_budgets(seeds):
    """But for what is trained of a search's settings for another one."""
    asking = portfolio(2, seeds=seeds, cd=pausing(budget=2), one=line([1, 1], budget=2))
    limits = {name: search.budget for name, search in asking.searches.items()}
    trained, running = 0.0, []
    while True:
        running += asking.ask()
        spent = {name: search.spent for name, search in asking.searches.items()}
        most = sum(max(limit, spent[name]) for name, limit in limits.items()) + 1 - LENGTHS[0]
        under_way = sum(one.until - one.reached for one in running)
        assert under_way - 1e-9 <= asking.left and trained + asking.left <= len(seeds) * most + 1e-9
        if not running:
            break
        one = running.pop(0)
        trained += one.until - one.reached
        asking.tell(one, until(one))
        assert asking.done == pytest.approx(trained), "one account, whoever asks"
    assert asking.finished and asking.left == 0
    assert trained == pytest.approx(len(seeds) * sum(search.spent for search in asking.searches.values()))


def test_each_search_says_what_it_trained_and_why_it_ended(capsys):
    asking = portfolio(1, cd=pausing(budget=2), one=line([1, 1], budget=2))
    run(asking)
    say_ended(asking.searches)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    spent, one = re.match(
        r"cd: ([\d.]+) of 2 full trainings' worth; its budget of 2 full trainings allows no more; a larger .* on (.*)",
        " ".join(said.split()),
    ).groups()
    trained = [one for one in asking.searches["cd"].trainings if one.curve]
    assert float(spent) == pytest.approx(sum(one.share for one in trained), abs=0.005)
    assert one.startswith("one: 2 of 2 full trainings' worth")
    short = pausing(budget=9)
    asking = portfolio(1, cd=short)
    asking.allow(1.0)
    run(asking)
    asking.allow(math.inf)
    say_ended({"cd": short}, "20s")
    assert "of 9 full trainings' worth; --budget 20s is spent" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------- as Tune's searcher


def ended(asked, told):
    return whole(told.get("val_score"))


def test_packs_hold_whole_settings():
    asking = portfolio(9, seeds=(0, 1, 2), one=line([1, 1]), two=line([1, -1], ELSEWHERE))
    searcher = StudySearch(asking, 4, 3, ended)
    pack = searcher.suggest("a")[PACK]
    assert [(config["seed"], config[ORIGIN]["search"]) for config in pack] == [(0, "one"), (1, "one"), (2, "one")], (
        "a second setting would not fit whole"
    )
    assert {name: pack[0][name] for name in PLANE.names} == START
    origin = {"direction": "start", "line_position": 0.0, "trial_index": 0, "search": "one", "attempt": 0}
    assert pack[0][ORIGIN] == origin | {"trial_id": "one-00000-seed0"}
    assert [config[ORIGIN]["search"] for config in searcher.suggest("b")[PACK]] == ["two"] * 3
    assert searcher.suggest("c") is None
    small = StudySearch(portfolio(2, seeds=(0, 1, 2), one=line([1, 1])), 1, 2, ended)
    assert len(small.suggest("a")[PACK]) == 3, "a setting larger than a pack is one pack"


def test_members_are_told_as_they_end_and_a_lost_pack_fails_the_rest():
    asking = portfolio(9, seeds=(0, 1), one=line([1, 1], budget=1))
    searcher = StudySearch(asking, 2, 1, ended)
    searcher.suggest("a")
    assert searcher.suggest("b") is None, "one pack at a time"
    searcher.on_trial_result("a", {PACK: {"0": {"val_score": 0.4, "done": True}, "1": {"val_score": 0.9}}})
    assert asking.searches["one"].history == []
    searcher.on_trial_complete("a", None, error=True)
    assert asking.searches["one"].history == [(START, 0.4)]
    assert searcher.suggest("b") == Searcher.FINISHED


def test_listeners_are_told_once_of_each_training_that_is_done():
    """A pack's reports have all its trainings; one that is lost with its pack is not done."""
    heard = []
    listener = SimpleNamespace(ended=lambda config, told, seconds: heard.append((config, told["val_score"], seconds)))
    asking = portfolio(9, seeds=(0, 1, 2), one=line([1, 1], budget=1))
    searcher = StudySearch(asking, 3, 1, ended, {"batch_size": 64}, [listener])
    configs = searcher.suggest("a")[PACK]
    done = {"0": {"val_score": 0.4, "done": True}, "1": {"val_score": 0.9}}
    searcher.on_trial_result("a", {PACK: done, "time_total_s": 2.0})
    searcher.on_trial_result("a", {PACK: done | {"1": {"val_score": 0.9, "done": True}}, "time_total_s": 3.0})
    searcher.on_trial_complete("a", None, error=True)
    assert [(config["seed"], *rest) for config, *rest in heard] == [(0, 0.4, 2.0), (1, 0.9, 3.0)]
    assert all(config.items() <= told.items() for (config, *_), told in zip(heard, configs))
    assert heard[0][0]["batch_size"] == 64


def test_tune_may_pickle_it_and_takes_no_snapshot(tmp_path):
    searcher = StudySearch(portfolio(1, one=line([1, 1])), 1, 1, ended)
    pickle.dumps(searcher)
    searcher.save_to_dir(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_all_parts_of_a_pack_are_equally_long_and_what_is_cut_goes_on_in_the_next():
    """Else a process would wait for the longest with idle places. Each search takes the course it takes alone."""
    alone = Process(StudySearch(portfolio(1, cd=pausing()), 1, 1, as_reported)).run()
    asking = portfolio(3, cd=pausing(), one=line([1, 1], {"lr": 1e-5, "wd": 1e-5}))
    asking.searches["cd"].workers = 1
    packed = Process(StudySearch(asking, 3, 1, as_reported)).run()
    assert all(max(parts) == pytest.approx(min(parts)) for parts in packed.packs)
    mixed = [parts for parts in packed.packs if len(parts) > 1]
    assert len(mixed) > 5 and {key: share for key, share in packed.done.items() if key[0] == "cd"} == alone.done
    assert {share for key, share in packed.done.items() if key[0] == "one"} == {1.0}
    assert len(packed.packs) < len(alone.packs) + 8 * 5
