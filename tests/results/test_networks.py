"""Which trained networks a study keeps."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from tune_cd.results.study_files import Networks


@pytest.fixture
def networks(tmp_path):
    return Networks(tmp_path, "mine")


PLACE = "studies/mine/networks"


def files(networks):
    return sorted(path.name for path in Path(networks.results, PLACE).iterdir())


def never():
    raise AssertionError("made for nothing")


def test_the_best_of_each_search_is_kept_in_whatever_order_they_end(networks):
    ends = {"cd-0": 0.2, "cd-1": 0.91, "cd-2": -0.5, "cd-3": 0.5}
    for order in permutations(ends):
        for trial in order:
            networks.keep("cd", trial, ends[trial], trial.encode)
        assert files(networks) == ["cd~0.910000000~cd-1.pt"]
    networks.keep("cd", "cd-4", 0.9, never)
    networks.keep("separate", "separate-0", 0.1, lambda: b"other")
    assert files(networks) == ["cd~0.910000000~cd-1.pt", "separate~0.100000000~separate-0.pt"]
    assert networks.best() == {
        "cd": f"{PLACE}/cd~0.910000000~cd-1.pt", "separate": f"{PLACE}/separate~0.100000000~separate-0.pt",
    }  # fmt: skip


def test_of_equal_scores_the_first_asked_stays_and_a_training_that_is_done_again_replaces_its_own(networks):
    for trial in ("cd-2", "cd-1"):
        networks.keep("cd", trial, 0.5, trial.encode)
    networks.keep("cd", "cd-3", 0.5, never)
    networks.keep("cd", "cd-1", 0.5, lambda: b"again")
    assert files(networks) == ["cd~0.500000000~cd-1.pt"]
    assert Path(networks.results, networks.best()["cd"]).read_bytes() == b"again"


def test_many_at_a_time(networks):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: networks.keep("cd", f"cd-{n}", n % 37 / 37, bytes), range(100)))
    assert files(networks) == ["cd~0.972972973~cd-36.pt"]


def test_files_of_others_and_of_searches_whose_names_begin_alike_are_left_alone(networks, tmp_path):
    place = tmp_path / PLACE
    place.mkdir(parents=True)
    for name in ("cd~best~mine.pt", "notes.txt"):
        (place / name).write_text("")
    networks.keep("cd-local", "cd-local-0", 0.9, lambda: b"")
    networks.keep("cd", "cd-0", 0.1, lambda: b"")
    assert len(files(networks)) == 4 and networks.best()["cd"].endswith("cd~0.100000000~cd-0.pt")
