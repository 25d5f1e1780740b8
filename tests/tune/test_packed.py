"""Packs: several trainings in a trial."""

import trainables.trial
from tune_cd.tune.packs import PACK, UNTIL, members_of


def test_both_packages_mean_the_same_key():
    assert (trainables.trial.PACK, trainables.trial.UNTIL) == (PACK, UNTIL)


def test_members_of_a_trial():
    assert members_of({"lr": 1}, {"acc": 2}) == [({"lr": 1}, {"acc": 2})]
    assert members_of({"b": 3, PACK: [{"lr": 1}, {"lr": 2, "b": 4}]}, {PACK: {"1": {"acc": 5}}}) == [
        ({"b": 3, "lr": 1}, {}),
        ({"b": 4, "lr": 2}, {"acc": 5}),
    ]
    assert members_of({PACK: [{"lr": 1}]}, None) == [({"lr": 1}, {})]
