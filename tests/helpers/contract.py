"""The laws that every `Optimiser` obeys. Each takes `make(space, *, seed, start, workers)`."""

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tune_cd.search.protocol import Optimiser
from tune_cd.search.space import Axis, Linear, Space
from tune_cd.search.training import Training, curve_of

PLANE = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
MIXED = Space(lr=(1e-4, 1.0), steps=Axis.integers("steps", 3, 3000), batch_size=[16, 32, 64, 128])
BOTH = Space(lr=(1e-4, 1.0), momentum=Linear(0.0, 0.99), shift=Linear(-3, 4, step=1))
"""Axes of both scales."""

KINDS = Space(lr=(1e-4, 1.0), solver=["adam", "sgd", None], flag=[True, 1, "1"])
"""Axes without an order, of values that Python takes for equal."""

FINITE = Space(width=[32, 64, 128], depth=Axis.integers("depth", 1, 3))
FINITE_LINEAR = Space(dropout=[0.0, 0.25, 0.5], shift=Linear(-1, 1, step=1))
FINITE_KINDS = Space(solver=["adam", "sgd", None], flag=[True, 1, "1"])
TRIALS = 13  # Optuna's samplers draw at random until they have ten values
CENTRE = {"Lambda_p": 0.01, "Lambda_e": 2.0, "lr": 0.03, "steps": 100, "batch_size": 64, "width": 64, "depth": 2}
LINEAR_CENTRE, UNIT = {"momentum": 0.8, "shift": 1, "dropout": 0.25}, {"momentum": 0.1, "shift": 1, "dropout": 0.1}

Make = Callable[..., Optimiser]


def score(h: Mapping[str, Any]) -> float:
    """In (0, 1], 1 at CENTRE and LINEAR_CENTRE."""
    return math.exp(-sum((_away(name, value) / 8) ** 2 for name, value in h.items()))


def _away(name: str, value: Any) -> float:
    """From the centre, in octaves or UNITs; values of a category are some octaves apart."""
    if name in KINDS.names[1:]:
        return 2 * KINDS.to_coordinates({"lr": 1.0, "solver": None, "flag": True, name: value})[KINDS.names.index(name)]
    return (value - LINEAR_CENTRE[name]) / UNIT[name] if name in UNIT else math.log2(value / CENTRE[name])


def advance(search: Optimiser, trials: int, value: Callable = score) -> list[dict]:
    """Ask and tell in turn; what was asked for. A search that ends early is finished."""
    asked = []
    for _ in range(trials):
        h = search.ask()
        if h is None:
            assert search.finished
            break
        asked.append(h)
        search.tell(h, value(h))
    return asked


def exactly(h: Mapping[str, Any]) -> list:
    """A configuration such that True is not 1."""
    return [(type(value), value) for value in h.values()]


def again(search: Optimiser) -> Optimiser:
    """The search after saving and restoring; itself where it has no state."""
    return type(search).from_state(json.loads(json.dumps(search.state()))) if hasattr(search, "state") else search


def obeys_the_protocol(make: Make) -> None:
    search = make(PLANE, seed=0)
    assert isinstance(search, Optimiser)
    assert search.space == PLANE and search.best is None and search.live == [] and not search.finished


def asks_inside_the_space(make: Make) -> None:
    for space in (PLANE, MIXED, BOTH, KINDS):
        for h in advance(make(space, seed=1), TRIALS):
            assert exactly(space.check(h)) == exactly(h) and list(h) == list(space.names)
            assert all(type(h[name]) in (int, float) for name in space.numeric)


def asking_is_not_telling(make: Make) -> None:
    search = make(PLANE, seed=2)
    h = search.ask()
    assert search.live == [h] and search.best is None
    assert search.until(h) == 1.0 and search.annotation(h)["trial_index"] == 0
    search.tell(h, 0.5)
    assert search.live == [] and search.best == (h, 0.5)


def knows_the_best(make: Make) -> None:
    search = make(PLANE, seed=3)
    asked = advance(search, TRIALS)
    best = max(asked, key=score)
    assert search.best == (best, score(best))


def is_its_own_copy(make: Make) -> None:
    search = make(PLANE, seed=4)
    h = search.ask()
    before = dict(h)
    h["Lambda_p"] = 1e9
    search.live[0]["Lambda_e"] = 1e9
    assert search.live == [before]
    search.tell(before, 0.5)
    search.best[0]["Lambda_p"] = 1e9
    assert search.best == (before, 0.5)


def any_number_is_a_value_and_nothing_else_is(make: Make) -> None:
    search = make(BOTH, seed=4)
    kinds = (Decimal, Fraction, np.float32, np.array, lambda x: np.array([x]))
    for number, kind in enumerate(kinds):
        h = search.ask()
        search.tell({name: kind(value) if kind is not np.float32 else value for name, value in h.items()}, kind(0.5))
        assert search.live == [] and search.best[1] == 0.5, number
    h = search.ask()
    for wrong in ("0.5", True, np.bool_(True), 1j, np.array([1.0, 2.0]), [0.5]):
        with pytest.raises(ValueError, match="a number is required"):
            search.tell(h, wrong)
    assert search.live == [h]
    search.tell(h, 10**400)
    assert search.live == [] and search.best[1] == 0.5
    again(search)


def failures_never_stall(make: Make) -> None:
    for failure in (None, math.nan, math.inf, -math.inf):
        search = make(PLANE, seed=5)
        assert len(advance(search, TRIALS, value=lambda h, failure=failure: failure)) == TRIALS
        assert search.best is None and search.live == []
        h = search.ask()
        search.tell(h, 0.1)
        assert search.best == (h, 0.1)


def now_and_then_a_failure(make: Make) -> None:
    search = make(PLANE, seed=6)
    asked = advance(search, TRIALS, value=lambda h: score(h) if h["Lambda_p"] < 0.01 else math.nan)
    assert len(asked) == TRIALS
    assert search.best is None or search.best[0]["Lambda_p"] < 0.01


def a_second_report_replaces_the_first(make: Make) -> None:
    search = make(PLANE, seed=7)
    first, *_ = advance(search, TRIALS)
    search.tell(first, 2.0)
    assert search.best == (first, 2.0)
    search.tell(first, 2.0)
    assert search.best == (first, 2.0)
    search.tell(first, None)
    assert search.best[1] <= 1
    search.tell(first, 3.0)
    assert search.best == (first, 3.0)
    assert len(advance(search, 2)) == 2


def adopts_what_it_never_asked_for(make: Make) -> None:
    search = make(PLANE, seed=8)
    stranger, late = {"Lambda_p": 0.5, "Lambda_e": 0.25}, {"Lambda_p": 17.0, "Lambda_e": 1e-6}
    search.tell(stranger, 4.0)
    assert search.best == (stranger, 4.0) and search.live == []
    with pytest.raises(KeyError):
        search.annotation(stranger)
    advance(search, 3)
    search.tell(late, 5.0)
    assert search.best == (late, 5.0)
    assert len(advance(search, 3)) == 3


def refuses_what_lies_outside(make: Make) -> None:
    search = make(PLANE, seed=9)
    for h in ({"Lambda_p": 18.0, "Lambda_e": 1.0}, {"Lambda_p": 1.0}, {"Lambda_p": "1", "Lambda_e": 1.0}):
        with pytest.raises(ValueError, match="Lambda"):
            search.tell(h, 0.5)
    with pytest.raises(ValueError, match="Lambda_p"):
        make(PLANE, seed=0, start={"Lambda_p": 18.0, "Lambda_e": 1.0})


def begins_at_the_start(make: Make) -> None:
    starts = [{"Lambda_p": 0.1, "Lambda_e": 0.1}, {"Lambda_p": 17.0, "Lambda_e": 1e-6}]
    assert make(PLANE, seed=10, start=starts[0]).ask() == starts[0]
    assert advance(make(PLANE, seed=10, start=starts), 2) == starts


def the_seed_decides(make: Make) -> None:
    for space in (MIXED, BOTH, KINDS):
        one, other = (advance(make(space, seed=11), TRIALS) for _ in range(2))
        assert list(map(exactly, one)) == list(map(exactly, other))


def asks_for_nothing_twice(make: Make) -> None:
    for space in (FINITE, FINITE_LINEAR, FINITE_KINDS):
        search = make(space, seed=12)
        asked = advance(search, 30)
        assert len({space.key(h) for h in asked}) == len(asked) <= 9
        assert search.finished and search.ask() is None
        if len(asked) == 9:  # coordinate descent over categories may end where no single change gains
            search.tell(asked[0], 0.3)
            assert search.finished and search.ask() is None


def several_at_a_time(make: Make) -> None:
    """As many as there are workers may be live, and they may be told in any order: all that is asked for is new."""
    search, asked = make(PLANE, seed=13, workers=4), []
    for _ in range(5):
        batch = [search.ask() for _ in range(4)]
        assert search.live == batch and search.ask() is None and not search.finished
        asked += batch
        for h in reversed(batch):
            search.tell(h, score(h))
    assert len({PLANE.key(h) for h in asked}) == len(asked)
    assert search.live == []


def resumed_equals_never_stopped(make: Make) -> None:
    """Saved as JSON after a tell or between ask and tell, with a failure and a stranger in its history."""
    for space, told, live in product((MIXED, BOTH, KINDS), (0, 2, TRIALS), (False, True)):
        search = make(space, seed=14)
        for i in range(told):
            h = search.ask()
            search.tell(h, None if i == 1 else score(h))
        if told == 2:
            search.tell(CENTRE | LINEAR_CENTRE | {"solver": None, "flag": "1"}, 0.7)
        if live:
            search.ask()
        other = again(search)
        assert other.live == search.live and other.best == search.best and other.state() == search.state()
        for h in search.live:
            search.tell(h, score(h))
            other.tell(h, score(h))
        assert list(map(exactly, advance(other, 3))) == list(map(exactly, advance(search, 3)))


def a_trial_that_was_stopped_never_wins(make: Make) -> None:
    search = make(PLANE, seed=17)
    asked = advance(search, 4)
    best = search.best
    stopped = search.ask()
    search.tell(stopped, 9.0, share=0.5, left=True)
    assert search.best == best and search.live == []
    assert again(search).best == best
    assert len({PLANE.key(h) for h in asked + advance(search, 4)}) == 8
    search.tell(stopped, 9.0)
    assert search.best == (stopped, 9.0), "it was run again, to the end"


def workers_may_come_and_go(make: Make) -> None:
    search = make(PLANE, seed=15, workers=1)
    first = search.ask()
    assert search.ask() is None
    search.workers = 3
    others = [search.ask(), search.ask()]
    assert None not in others and search.ask() is None
    search.workers = 2
    search.tell(first, 0.5)
    assert search.ask() is None, "two are live still"
    other = again(search)
    assert other.workers == 2 and other.live == others
    with pytest.raises(ValueError, match="workers 0"):
        make(PLANE, seed=15, workers=0)


def asks_on_while_nothing_is_told(make: Make) -> None:
    """Without a number of workers; a space of nine configurations has no more of them."""
    for space, most in ((PLANE, 50), (BOTH, 20), (FINITE_LINEAR, 9)):
        search = make(space, seed=18)
        asked = [h for h in (search.ask() for _ in range(most + 1)) if h is not None]
        assert search.workers is None and search.live == asked
        assert len({space.key(h) for h in asked}) == len(asked) == (most if space is FINITE_LINEAR else most + 1)
        other = again(search)
        assert other.workers is None and other.live == asked
        for h in asked:
            search.tell(h, score(h))
        assert search.live == [] and search.best[1] == max(map(score, asked))


def goes_on_where_an_earlier_run_stopped(make: Make) -> None:
    def value(h):
        return score(h) if h["lr"] > 1e-3 else None

    for space in (MIXED, BOTH, KINDS):
        whole = advance(make(space, seed=16), TRIALS, value)
        for done in (0, 1, 8):
            search = make(space, seed=16)
            search.recall([Training(h, curve_of({1.0: value(h)}), trial_index=n) for n, h in enumerate(whole[:done])])
            asked = advance(search, 2, value)
            other = again(search)
            asked += advance(other, TRIALS - done - 2, value)
            assert list(map(exactly, asked)) == list(map(exactly, whole[done:]))


LAWS = [
    obeys_the_protocol, asks_inside_the_space, asking_is_not_telling, knows_the_best, is_its_own_copy,
    any_number_is_a_value_and_nothing_else_is, failures_never_stall, now_and_then_a_failure,
    a_second_report_replaces_the_first, adopts_what_it_never_asked_for, refuses_what_lies_outside, begins_at_the_start,
    the_seed_decides, asks_for_nothing_twice, several_at_a_time, resumed_equals_never_stopped,
    a_trial_that_was_stopped_never_wins, workers_may_come_and_go, asks_on_while_nothing_is_told,
    goes_on_where_an_earlier_run_stopped,
]  # fmt: skip
