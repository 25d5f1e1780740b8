"""The benchmark of other constants: each candidate changes the search, for as long as it is asked to."""

from argparse import Namespace

import constants
import numpy as np
import pytest
from constants import CANDIDATES, FAMILIES, NOW, changed, searched
from harness import found, mean

from tune_cd.landscapes.landscape import knowledge
from tune_cd.landscapes.measured import JUDGES
from tune_cd.search import beliefs

ON = {"BALANCE": "omniglot-242-infonce", "GENERAL": "box-8-ridge-3d"}
EVERY = [(belief, name) for belief, candidates in CANDIDATES.items() for name in candidates if name != NOW]


@pytest.fixture(scope="module")
def as_it_is():
    return {belief: both(belief, NOW) for belief in ON}


def both(belief: str, candidate: str) -> list[float]:
    return [searched((belief, candidate, ON[belief], False, "blind", seed)) for seed in range(2)]


@pytest.mark.parametrize("belief, name", EVERY)
def test_every_candidate_is_another_search_and_leaves_none_behind(belief, name, as_it_is):
    before = dict(vars(beliefs))
    assert both(belief, name) != as_it_is[belief]
    assert {key: value for key, value in vars(beliefs).items() if before[key] is not value} == {}
    assert beliefs.prior_of.cache_info().currsize == 0


def test_no_judge_is_looked_at_and_every_landscape_is_of_its_belief():
    for belief, families in FAMILIES.items():
        for name in [name for family in families.values() for name in family]:
            assert name.removesuffix("-b256") not in JUDGES
            assert knowledge(found(name).space).get("prior", "general") == belief.lower()


@pytest.mark.parametrize("pausing", [False, True])
def test_the_table_has_paired_means_over_the_landscapes_of_a_family(monkeypatch, pausing):
    families = {"one": ("a",), "two, measured": ("b", "c")}
    monkeypatch.setitem(FAMILIES, "BALANCE", families)
    monkeypatch.setitem(CANDIDATES, "BALANCE", {NOW: {}, "other": {}})
    gains = {"a": [0.01, 0.03], "b": [0.02, 0.02], "c": [-0.08, -0.04]}
    monkeypatch.setattr(
        constants, "searched", lambda job: 0.5 + 0.1 * job[-1] + (gains[job[2]][job[-1]] if job[1] == "other" else 0.0)
    )
    constants.searched.__name__ = "searched"
    options = Namespace(pausing=pausing, start="blind", searches=2, processes=1, kept=None)
    row = constants.table("BALANCE", options).loc["other"]
    assert row["two, measured"] == mean(np.array([-3.0, -1.0]), 1) == "-2.0 ±12.7"
    assert "one" not in row if pausing else row["one"] == "+2.0 ±12.7"


def test_a_search_that_pauses_is_changed_too():
    with changed("BALANCE", {}):
        now = searched(("BALANCE", NOW, ON["BALANCE"], True, "conventional", 0))
    assert 0.5 < now < 1 and searched(("BALANCE", "CENTRE 0", ON["BALANCE"], True, "conventional", 0)) != now
