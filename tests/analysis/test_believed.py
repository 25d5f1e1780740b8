"""What rows say of the ends of trainings that paused."""

import math

import pytest
from searches import curves, pausing
from studies import row, table

from tune_cd import Space
from tune_cd.analysis.believed import believed
from tune_cd.search.training import Training

WHOLE = 800
BOX = {"Lambda_p": (1e-3, 16.0), "Lambda_e": (1e-3, 16.0)}
LEARNT = {1 / 8: 0.5, 1 / 4: 0.7, 1 / 2: 0.9, 1.0: 1.0}


def score(h, share):
    away = [math.log2(h["Lambda_p"]), math.log2(h["Lambda_e"]) - 1]
    return math.exp(-sum(x**2 for x in away) / 50) * LEARNT[share]


@pytest.fixture
def search():
    search = pausing(Space(**BOX), budget=5, seed=1)
    while (h := search.ask()) is not None:
        until = search.until(h)
        for share in [share for share in LEARNT if share <= until]:
            search.tell(h, score(h, share), share)
    return search


def rows_of(search, sign=1, seeds=(0,)):
    """A study's rows; the last run alone of a setting that went on."""
    rows = []
    for n, (h, looks) in enumerate(curves(search)):
        share = max(looks)
        for seed in seeds:
            rows.append(
                row(
                    n, "completed" if share == 1 else "stopped", looks[share] + 0.01 * seed, params=h, seed=seed,
                    search="cd", config={"images_seen": WHOLE}, images_seen=int(share * WHOLE),
                    trial_id=f"cd-{n}-{seed}",
                )
            )  # fmt: skip
    return table(rows)


def test_ends_are_believed_as_the_search_would_from_the_same_looks(search):
    other = pausing(Space(**BOX))
    other.recall(Training(one.h, {max(one.curve): one.last}) for one in search.trainings)
    found = believed(rows_of(search), BOX)
    paused = [h for h, looks in curves(search) if max(looks) < 1]
    assert len(found) == len(paused) > 8 and found["end"].is_monotonic_decreasing
    for h in paused:
        here = (found["Lambda_p"] / h["Lambda_p"] - 1).abs() + (found["Lambda_e"] / h["Lambda_e"] - 1).abs() < 1e-9
        [line] = found[here].to_dict("records")
        assert (line["end"], line["deviation"]) == pytest.approx(other.believed(h), rel=1e-6)


def test_those_that_promise_most_end_nearer_to_what_is_believed_than_to_what_they_reached(search):
    found = believed(rows_of(search), BOX).head(3)
    ends = [score({"Lambda_p": one.Lambda_p, "Lambda_e": one.Lambda_e}, 1.0) for one in found.itertuples()]
    assert (found["end"] - ends).abs().mean() < 0.5 * (found["val_score"] - ends).abs().mean()


def test_of_several_seeds_the_mean_counts(search):
    one, both = believed(rows_of(search), BOX), believed(rows_of(search, seeds=(0, 1)), BOX)
    assert len(one) == len(both)
    assert sorted(both["val_score"]) == pytest.approx(sorted(one["val_score"] + 0.005))


def test_where_nothing_pauses_nothing_is_believed(search):
    rows = rows_of(search)
    whole = rows[rows["status"] == "completed"]
    assert len(believed(whole, BOX)) == 0 and len(believed(rows.iloc[:1])) == 0
