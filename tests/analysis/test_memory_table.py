"""`table:xbm`: each cell's numbers and iterations by hand, choices repeated with decay, datasets and set-ups apart."""

import numpy as np
import pytest
from printed_tables import cells_of
from studies import plain, row, table

from tune_cd.analysis.memory_table import MEMORY_TABLE, SUFFIX, memory, memory_modes

pytestmark = pytest.mark.filterwarnings("error")
MEMORIES = {
    "without": "none", "without-tuned": "none", "S1": "variable", "S1-tuned": "variable", "S2": "fixed", "S3": "fixed",
}  # fmt: skip
PLACES = dict(zip(MEMORIES, range(1, 7)))


def training(search, recall, at=None, *, val=None, config=None, index=0, **fields):
    """A row of the experiment, trained with decay where the search's name says so; at: (Lambda_p, Lambda_e)."""
    name, repeated, _ = search.partition("-decay")
    p, e = at or (float(PLACES[name]), 60.0)
    said = {"memory": MEMORIES[name], "schedule": "plateau" if repeated else "constant", "memory_size": 99}
    usual = {"study": "x", "metric_name": "recall_at_1", "images_seen": 12_800, "best_at": 6400, "test_score": recall}
    return row(
        index, val=recall if val is None else val, search=search, config=said | (config or {}),
        params={"Lambda_p": p, "Lambda_e": e, "batch_size": 64},
        scores={} if recall is None else {"test_precision_at_1": recall}, **usual | fields,
    )  # fmt: skip


def study(recalls, decayed=(), **fields):
    """One training a search, and some of them once more with decay."""
    again = {f"{name}-decay": recall for name, recall in dict(decayed).items()}
    return [training(name, recall, **fields) for name, recall in (recalls | again).items()]


RECALLS = {"without": 0.68, "without-tuned": 0.73, "S1": 0.77, "S1-tuned": 0.75, "S2": 0.71, "S3": 0.76}
DECAYED = {"without": 0.69, "without-tuned": 0.75, "S1": 0.80, "S2": 0.72, "S3": 0.79}


def test_each_cell_has_both_schedules():
    """S1 was not improved by tuning: its tuned cell is its own. A choice not run again has no second number."""
    trials = table(study(RECALLS, DECAYED))
    for some in (trials, plain(trials), trials.sample(frac=1, random_state=0)):
        assert memory(some)[["without XBM", "with XBM"]].to_numpy().tolist() == [
            ["0.68 / 0.69", "0.77 / 0.80"], ["0.73 / 0.75", "0.77 / 0.80"],
            ["0.68 / 0.69", "0.71 / 0.72"], ["0.73 / 0.75", "0.76 / 0.79"],
        ]  # fmt: skip
    assert list(memory(trials).index) == list(MEMORY_TABLE) and cells_of(memory(trials))[1][0] == "(S1) Original"
    assert memory(table(study(RECALLS)))["with XBM"].tolist() == ["0.77 / -", "0.77 / -", "0.71 / -", "0.76 / -"]


def test_the_second_number_is_of_the_setting_chosen_without_decay():
    """A setting that was a choice once, and was trained with decay then, is not taken for today's, however good."""
    rows = [training("S3", 0.6, (2.0, 60.0)), training("S3", 0.7, (4.0, 60.0), index=1)]
    rows.append(training("S3-decay", 0.95, (2.0, 60.0)))
    assert np.isnan(memory_modes(table(rows)).loc[f"with memory, S3: fixed, tuned{SUFFIX}", "recall_at_1"])
    again = training("S3-decay", 0.71, (4.0, 60.0), index=1)
    found = memory_modes(table([*rows, again])).loc[f"with memory, S3: fixed, tuned{SUFFIX}"]
    assert (found["Lambda_p"], found["recall_at_1"]) == (4.0, 0.71)


def test_iterations_are_those_until_the_best_validation_score():
    rows = [training("S1", 0.7, best_at=3200), training("S3", 0.65, best_at=4800)]
    assert memory_modes(table(rows))["iterations"].dropna().tolist() == [50, 50, 75]


def test_seeds_are_averaged_in_score_and_time():
    """Three seeds: one setting has the best single training and a lower mean, another lost a seed."""
    settings = {1.0: [(0.9, 0.99), (0.2, 0.9), (0.1, 0.9)], 2.0: [(0.6, 0.5), (0.5, 0.6), (0.7, 0.7)],
                4.0: [(0.5, 0.8), (None, None), (0.5, 0.8)]}  # fmt: skip
    rows = [
        training("S1", test, (p, 1.0), index=index, val=val, seed=seed, best_at=6400 * (seed + 1),
                 status="completed" if val else "failed")
        for index, (p, pairs) in enumerate(settings.items()) for seed, (val, test) in enumerate(pairs)
    ]  # fmt: skip
    for trials in (table(rows), plain(table(rows)), table(rows).sample(frac=1, random_state=0)):
        chosen = memory_modes(trials).loc["with memory, S1: variable"]
        assert chosen.tolist() == pytest.approx([2.0, 1.0, 0.6, 0.6, 0.6, 200])
        assert memory(trials).loc["(S1) Original", "with XBM"] == "0.60 / -"


def test_datasets_and_set_ups_are_not_mixed():
    """Neither a dataset's numbers nor a network's stand for another's; searches of other names do not count."""
    photos = study({name: recall - 0.5 for name, recall in RECALLS.items()}, dataset="sop", study="photos")
    networks = [study(RECALLS, study=name, config={"network": name}) for name in ("resnet18_gem", "resnet50_xbm")]
    other = [row(0, val=0.99, search="cd", study="balance", config={"k": 2})]
    assert memory(table([*networks[0], *other]))["with XBM"].iloc[0] == "0.77 / -"
    for others in (photos, networks[1]):
        with pytest.raises(ValueError, match="more than one experiment"):
            memory(table([*networks[0], *others]))


def test_lost_trainings_stay_with_their_experiment():
    lost = row(9, "failed", search="S1", study="x", metric_name="recall_at_1")
    assert len(memory(table([*study(RECALLS), lost]))) == 4
