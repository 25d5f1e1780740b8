"""The sum of what all studies request. No Ray runs."""

import math

from tune_cd.cluster.node_requests import NodeRequests


def test_requests_of_all_studies_add_up_and_are_sent_when_they_change():
    sent = []
    requests, two = NodeRequests(sent.append), [{"GPU": 1, "ondemand": 1}] * 2
    assert requests.renew("a", {"GPU": 8}, [], 0)["others"] == {"GPU": 0} and sent == [], (
        "nothing asked for, nobody else's wish replaced"
    )
    requests.renew("a", {"GPU": 8}, two, 5)
    assert requests.renew("b", {"GPU": 4}, two[:1], 6) == {"others": {"GPU": 8}, "error": None}
    requests.renew("a", {"GPU": 8}, two, 10)
    assert sent == [two, two + two[:1]]
    requests.withdraw("a")
    requests.withdraw("a")
    assert sent[2:] == [two[:1]]


def test_all_studies_together_ask_for_no_more_than_the_cluster_may_have():
    sent = []
    requests, bundle = NodeRequests(sent.append), {"GPU": 1, "ondemand": 1}
    requests.renew("a", {}, [bundle] * 2, 0, 3)
    requests.renew("b", {}, [bundle] * 2, 0, 3)
    requests.renew("a", {}, [bundle] * 2, 5, 1)
    requests.withdraw("b")
    requests.renew("a", {}, [bundle] * 2, 7, math.inf)
    assert [len(bundles) for bundles in sent] == [2, 3, 1, 2]


def test_a_dead_drivers_wish_is_dropped_and_the_last_one_out_ends_it():
    sent = []
    requests = NodeRequests(sent.append)
    requests.renew("a", {}, [{"GPU": 1}], 0)
    requests.renew("b", {}, [{"GPU": 1}], 50)
    assert requests.expire(60) and sent[-1] == [{"GPU": 1}] * 2
    assert requests.expire(61) and sent[-1] == [{"GPU": 1}]
    assert requests.expire(110) and sent[-1] == [{"GPU": 1}]
    assert requests.expire(111) and sent[-1] == []
    assert requests.expire(169) and not requests.expire(170)


def test_one_that_has_lost_its_memory_takes_back_what_it_may_have_asked_for():
    sent = []
    assert NodeRequests(sent.append, fresh=False).expire(0) and sent == [[]]


def test_what_could_not_be_sent_is_told_and_tried_again():
    fail = [OSError("no head"), None]

    def send(bundles):
        error = fail.pop(0)
        if error:
            raise error

    requests = NodeRequests(send)
    assert requests.renew("a", {}, [{"GPU": 1}], 0)["error"] == "OSError: no head"
    assert requests.renew("a", {}, [{"GPU": 1}], 5)["error"] is None and not fail
