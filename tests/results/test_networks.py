"""Which trained networks a study keeps."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from tune_cd.results.store import store_of
from tune_cd.results.study_files import best_networks, keep_network

PLACE = "studies/mine/networks"


@pytest.fixture
def keep(tmp_path):
    return partial(keep_network, store_of(tmp_path), "mine")


def files(folder):
    return sorted(path.name for path in (folder / PLACE).iterdir())


def never():
    raise AssertionError("made for nothing")


def test_the_best_of_each_search_is_kept_in_whatever_order_they_end(keep, tmp_path):
    ends = {"cd-0": 0.2, "cd-1": 0.91, "cd-2": -0.5, "cd-3": 0.5}
    for order in permutations(ends):
        for trial in order:
            keep("cd", trial, ends[trial], trial.encode)
        assert files(tmp_path) == ["cd~0.910000000~cd-1.pt"]
    keep("cd", "cd-4", 0.9, never)
    keep("separate", "separate-0", 0.1, lambda: b"other")
    assert files(tmp_path) == ["cd~0.910000000~cd-1.pt", "separate~0.100000000~separate-0.pt"]
    assert best_networks(store_of(tmp_path), "mine") == {
        "cd": f"{PLACE}/cd~0.910000000~cd-1.pt", "separate": f"{PLACE}/separate~0.100000000~separate-0.pt",
    }  # fmt: skip


def test_of_equal_scores_the_first_asked_stays_and_a_training_that_is_done_again_replaces_its_own(keep, tmp_path):
    for trial in ("cd-2", "cd-1"):
        keep("cd", trial, 0.5, trial.encode)
    keep("cd", "cd-3", 0.5, never)
    keep("cd", "cd-1", 0.5, lambda: b"again")
    assert files(tmp_path) == ["cd~0.500000000~cd-1.pt"]
    assert Path(tmp_path, best_networks(store_of(tmp_path), "mine")["cd"]).read_bytes() == b"again"


def test_many_at_a_time(keep, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: keep("cd", f"cd-{n}", n % 37 / 37, bytes), range(100)))
    assert files(tmp_path) == ["cd~0.972972973~cd-36.pt"]


def test_files_of_others_and_of_searches_whose_names_begin_alike_are_left_alone(keep, tmp_path):
    place = tmp_path / PLACE
    place.mkdir(parents=True)
    for name in ("cd~best~mine.pt", "notes.txt"):
        (place / name).write_text("")
    keep("cd-local", "cd-local-0", 0.9, lambda: b"")
    keep("cd", "cd-0", 0.1, lambda: b"")
    best = best_networks(store_of(tmp_path), "mine")
    assert len(files(tmp_path)) == 4 and best["cd"].endswith("cd~0.100000000~cd-0.pt")
