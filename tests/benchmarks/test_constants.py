"""The benchmark of other constants: each candidate changes the search, for as long as it is asked to."""

import json
from argparse import Namespace

import constants
import numpy as np
import pytest
from constants import CANDIDATES, FAMILIES, NOW, changed, searched
from harness import found, log_judges, mean, refuse_judges

from tune_cd.landscapes.find import JUDGES
from tune_cd.landscapes.landscape import knowledge
from tune_cd.search import prior as priors

ON = {"BALANCE": "omniglot-242-infonce", "GENERAL": "box-8-ridge-3d"}
EVERY = [(prior, name) for prior, candidates in CANDIDATES.items() for name in candidates if name != NOW]


@pytest.fixture(scope="module")
def as_it_is():
    return {prior: both(prior, NOW) for prior in ON}


def both(prior: str, candidate: str) -> list[float]:
    return [searched((prior, candidate, ON[prior], False, "blind", seed)) for seed in range(2)]


@pytest.mark.parametrize("prior, name", EVERY)
def test_every_candidate_is_another_search_and_leaves_none_behind(prior, name, as_it_is):
    before = dict(vars(priors))
    assert both(prior, name) != as_it_is[prior]
    assert {key: value for key, value in vars(priors).items() if before[key] is not value} == {}
    assert priors.draws_of.cache_info().currsize == 0


def test_every_landscape_is_of_its_belief_and_none_a_judge():
    for prior, families in FAMILIES.items():
        for name in [name for family in families.values() for name in family]:
            refuse_judges([name])
            assert knowledge(found(name).space).get("prior", "general") == prior.lower()


@pytest.mark.parametrize("name", [*JUDGES, f"{JUDGES[0]}-b256", f"{JUDGES[-1]}-3d"])
def test_constants_are_not_chosen_on_judges_and_runs_on_them_are_logged(monkeypatch, tmp_path, name):
    monkeypatch.setitem(FAMILIES, "BALANCE", {"measured": ("omniglot-242-margin", name)})
    with pytest.raises(ValueError, match=f"{name}.*: they judge searches afterwards"):
        constants.table("BALANCE", Namespace(pausing=False, start="blind", searches=1, processes=1, kept=None))
    for names in ([name], ["omniglot-242-margin"], [name]):
        log_judges(names, ["methods.py", *names], tmp_path / "log")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["judges"], line["command"]) for line in lines] == [([name], ["methods.py", name])] * 2


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
        now = searched(("BALANCE", NOW, ON["BALANCE"], True, "blind", 0))
    others = [searched(("BALANCE", one, ON["BALANCE"], True, "blind", 0)) for one in ("CENTRE 0", "CLOSER 1/8")]
    assert 0.5 < now < 1 and set(others) != {now}
