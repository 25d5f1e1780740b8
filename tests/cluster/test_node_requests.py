"""The sum of what all studies request. No Ray runs."""

import math

import pytest

from tune_cd.cluster.node_requests import NodeRequests


@pytest.fixture
def clock():
    """A list whose first element is the time."""
    return [0.0]


@pytest.fixture
def sent():
    return []


@pytest.fixture
def requests(clock, sent):
    return NodeRequests(sent.append, clock=lambda: clock[0])


def test_requests_of_all_studies_add_up_and_are_sent_when_they_change(requests, sent):
    two = [{"GPU": 1, "ondemand": 1}] * 2
    assert requests.renew("a", {"GPU": 8}, [])["others"] == {"GPU": 0} and sent == [], (
        "nothing asked for, nobody else's wish replaced"
    )
    requests.renew("a", {"GPU": 8}, two)
    assert requests.renew("b", {"GPU": 4}, two[:1]) == {"others": {"GPU": 8}, "error": None}
    requests.renew("a", {"GPU": 8}, two)
    assert sent == [two, two + two[:1]]
    requests.withdraw("a")
    requests.withdraw("a")
    assert sent[2:] == [two[:1]]


def test_all_studies_together_ask_for_no_more_than_the_cluster_may_have(requests, sent):
    bundle = {"GPU": 1, "ondemand": 1}
    requests.renew("a", {}, [bundle] * 2, 3)
    requests.renew("b", {}, [bundle] * 2, 3)
    requests.renew("a", {}, [bundle] * 2, 1)
    requests.withdraw("b")
    requests.renew("a", {}, [bundle] * 2, math.inf)
    assert [len(bundles) for bundles in sent] == [2, 3, 1, 2]


def test_a_dead_drivers_wish_is_dropped_and_the_last_one_out_ends_it(requests, sent, clock):
    requests.renew("a", {}, [{"GPU": 1}])
    clock[0] = 50
    requests.renew("b", {}, [{"GPU": 1}])
    for now, needed, bundles in [(60, True, 2), (61, True, 1), (110, True, 1), (111, True, 0), (169, True, 0)]:
        clock[0] = now
        assert requests.expire() is needed and sent[-1] == [{"GPU": 1}] * bundles
    clock[0] = 170
    assert not requests.expire()


def test_one_that_has_lost_its_memory_takes_back_what_it_may_have_asked_for(sent):
    assert NodeRequests(sent.append, fresh=False).expire() and sent == [[]]


def test_what_could_not_be_sent_is_told_and_tried_again():
    fail = [OSError("no head"), None]

    def send(bundles):
        error = fail.pop(0)
        if error:
            raise error

    requests = NodeRequests(send)
    assert requests.renew("a", {}, [{"GPU": 1}])["error"] == "OSError: no head"
    assert requests.renew("a", {}, [{"GPU": 1}])["error"] is None and not fail
