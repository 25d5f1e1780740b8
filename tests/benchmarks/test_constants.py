"""The benchmark of other constants: each candidate changes the search, for as long as it is asked to."""

import constants
import numpy as np
import pytest
from constants import CANDIDATES, FAMILIES, NOW, auc, changed, left_out
from harness import found as find

from tune_cd.landscapes.measured import JUDGES
from tune_cd.search import beliefs

ON = {"BALANCE": "omniglot-242-infonce", "GENERAL": "box-8-ridge-3d"}
EVERY = [(belief, name) for belief, candidates in CANDIDATES.items() for name in candidates if name != NOW]


@pytest.fixture(scope="module")
def as_it_is():
    return {belief: searched(belief) for belief in ON}


def searched(belief: str) -> list[float]:
    return [auc(find(ON[belief]), seed) for seed in range(2)]


@pytest.mark.parametrize("belief, name", EVERY)
def test_every_candidate_is_another_search_and_leaves_none_behind(belief, name, as_it_is):
    before = dict(vars(beliefs))
    with changed(belief, CANDIDATES[belief][name]):
        assert searched(belief) != as_it_is[belief]
    assert {key: value for key, value in vars(beliefs).items() if before[key] is not value} == {}
    assert beliefs.prior_of.cache_info().currsize == 0


def test_no_judge_is_looked_at_and_every_landscape_is_of_its_belief():
    for belief, families in FAMILIES.items():
        for name in [name for family in families.values() for name in family]:
            assert name.removesuffix("-b256") not in JUDGES
            assert beliefs.belief_over(find(name).space) is getattr(beliefs, belief)


def test_what_is_chosen_without_a_family_is_told_of_it(monkeypatch):
    """One that is better on two families of three, by less than it loses on the third."""
    monkeypatch.setitem(FAMILIES, "BALANCE", {"a": (), "b": (), "c": ()})
    monkeypatch.setitem(CANDIDATES, "BALANCE", {NOW: {}, "other": {}})
    gains = {"a": [0.01, 0.01], "b": [0.02, 0.02], "c": [-0.09, -0.07]}
    less = {("other", family): np.array(values) for family, values in gains.items()}
    less |= {(NOW, family): np.zeros(2) for family in gains}
    rows = left_out("BALANCE", less).set_index("left out")
    assert rows["best on the others"].to_dict() == {"a": NOW, "b": NOW, "c": "other"}
    assert rows.loc["c", "gain there"] == "+1.5" and rows.loc["c", "on the one left out"].startswith("-8.0 ±")
    assert constants.by_family("BALANCE", less).iloc[0].to_dict() == {
        "constants": "other", "a": "+1.0 ±0.0", "b": "+2.0 ±0.0", "c": "-8.0 ±12.7",
    }  # fmt: skip
