"""Set-ups: trainings of different ones are told apart and never averaged, those of one are never divided."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from studies import empty, plain, row, table

from trainables.training.setup import ONLY_WITH, Setup
from trainables.training.setups import find_setup
from tune_cd.analysis import cells as cells_of
from tune_cd.analysis import curves_of, grid
from tune_cd.analysis.parts import SET_UP, WITHOUT_EFFECT, comparable, parts_of, require_one, set_ups

pytestmark = pytest.mark.filterwarnings("error")

MEMORY = ("fixed", "none", "variable")
EFFECTIVE = {"k": 2, "optimizer": "adam", "memory": "fixed", "test": "roxford5k"}
"""A configuration of which every field of a set-up has an effect."""
TRAINED = Setup("glyphs", task="dml", loss="margin", network="n", image_size=28, images_seen=640, evaluations=1)


def set_up_of(memory: str) -> str:
    """As `set_ups` gives it for a configuration that says `memory` and k = 2."""
    said = {"memory": memory, "k": 2}
    return json.dumps({name: said[name] for name in SET_UP if name in said})


def with_memory(**fields):
    """One setting and seed in three set-ups, with a value each."""
    return [
        row(0, val=0.1 + 0.1 * i, study=f"xbm-{mode}", config={"memory": mode, "learning_rate": 0.01, "k": 2}, **fields)
        for i, mode in enumerate(MEMORY)
    ]


def test_set_ups_are_refused_together_and_have_a_grid_each():
    trials = table(with_memory())
    for refused in (grid, cells_of, require_one):
        with pytest.raises(
            ValueError,
            match=r"^trials of more than one set-up: memory \['fixed', 'none', 'variable'\]; "
            r"select one, as `parts_of` does$",
        ):
            refused(trials)
    parts = list(parts_of(trials.sample(frac=1, random_state=0)))
    assert [words for words, _ in parts] == [f"memory={mode}" for mode in MEMORY]
    assert [grid(rows).values.item() for _, rows in parts] == pytest.approx([0.1, 0.2, 0.3]) and [
        grid(rows).counts.item() for _, rows in parts
    ] == [1, 1, 1]


@pytest.mark.parametrize("field", SET_UP)
def test_each_field_of_a_set_up_tells_landscapes_apart_and_no_other_does(field):
    several = table([row(0, config=EFFECTIVE | {field: 3}), row(1, config=EFFECTIVE | {field: 5}, study="t")])
    with pytest.raises(ValueError, match=rf"set-up: {field} \['3', '5'\]"):
        require_one(several)
    assert [words for words, _ in parts_of(several)] == [f"{field}=3", f"{field}=5"]
    same_but = table(
        [
            row(i, config={field: 3, "Lambda_p": 0.1 * i, "batch_size": 2**i, "seed": i, "data": str(i)})
            for i in range(3)
        ]
    )
    require_one(same_but)
    ((words, rows),) = parts_of(same_but)
    assert words == "" and rows.equals(same_but)


SMALL = asdict(find_setup("glyphs", "small"))
"""A built-in training's configuration of today."""


def test_sizes_without_effect_tell_nothing_apart():
    """A memory's size without a memory, a benchmark's pixels without a benchmark."""
    require_one(
        table(
            [row(0, config=SMALL), row(1, config=SMALL | {"memory_size": 9, "memory_start": 3, "test_image_size": 96})]
        )
    )
    with_memory = [
        row(i, config=SMALL | {"memory": memory, "memory_size": size})
        for i, (memory, size) in enumerate([("none", 9), ("fixed", 9), ("fixed", 8)])
    ]
    assert [words for words, _ in parts_of(table(with_memory[:2]))] == ["memory=fixed", "memory=none"]
    assert len(list(parts_of(table(with_memory)))) == 3


def test_every_field_of_a_built_in_training_has_been_thought_of():
    """Those that are no part of a set-up: the problem's own, and how it is computed."""
    assert set(SMALL) - set(SET_UP) == {"dataset", "task", "loss", "step", "selected_by"}


def test_rows_that_do_not_say_their_set_up_go_with_the_most_frequent():
    """Of their search, as a lost training of S1 is one of S1's, and where no row of that search says it, of the
    problem."""
    said = [row(i, val=0.5, config={"memory": "none"}) for i in range(3)] + [
        row(i, val=0.5, study="t", config={"memory": "fixed"}) for i in range(2)
    ]
    trials = table(
        [
            *said,
            row(7, "failed"),
            row(8, "failed", study="t"),
            row(9, "failed", study="u"),
            row(10, "failed", study="t", search="cd"),
        ]
    )
    assert {words: sorted(rows["trial_index"]) for words, rows in parts_of(trials)} == {
        "memory=fixed": [0, 1, 8],
        "memory=none": [0, 1, 2, 7, 9, 10],
    }
    require_one(table([*said[:3], row(7, "failed")]))
    ((words, rows),) = parts_of(table([row(7), row(8)]))
    assert words == "" and len(rows) == 2 and list(parts_of(empty())) == []


@pytest.mark.parametrize("field", WITHOUT_EFFECT)
def test_what_has_no_effect_tells_nothing_apart(field):
    """SGD's learning rate is the search's start alone, and trainings without memory have none of any size."""
    other, value = WITHOUT_EFFECT[field]
    idle, busy = (
        [row(i, config={"network": "n", other: word, field: 3 + i}) for i in range(2)] for word in (value, "another")
    )
    require_one(table(idle))
    assert len(list(parts_of(table(idle)))) == 1 and [words for words, _ in parts_of(table(busy))] == [
        f"{field}=3",
        f"{field}=4",
    ]
    assert hasattr(TRAINED, field) and hasattr(TRAINED, other), "a field of the built-in set-ups"
    assert ONLY_WITH[field][0] == other and value not in ONLY_WITH[field][1], "trainings say the same"


def test_as_few_fields_are_named_as_tell_set_ups_apart():
    """Fields that always change together are one difference, and the first in SET_UP is named."""
    first = {"network": "n", "memory": "none", "images_seen": 640, "evaluations": 1, "k": 2}
    others = [
        first | {"images_seen": 1280, "evaluations": 2},
        first | {"memory": "fixed", "memory_size": 96},
        first | {"memory": "fixed", "memory_size": 32},
    ]
    trials = table(row(i, config=config) for i, config in enumerate([first, *others]))
    named = {rows["trial_index"].item(): words for words, rows in parts_of(trials)}
    assert [named[i] for i in range(2)] == ["memory=none images_seen=640", "memory=none images_seen=1280"]
    assert [named[i] for i in (2, 3)] == [
        "memory=fixed images_seen=640 memory_size=96",
        "memory=fixed images_seen=640 memory_size=32",
    ]


def test_parts_say_their_problem_and_their_set_up_apart():
    rows = [
        row(0, dataset=dataset, study=f"{dataset}-{network}", config={"network": network})
        for dataset in ("x", "y")
        for network in ("a", "b")
        if (dataset, network) != ("y", "b")
    ]
    parts = list(comparable(table(rows)))
    assert [(part.problem["dataset"], part.set_up, part.words) for part in parts] == [
        ("x", "network=a", "x network=a"),
        ("x", "network=b", "x network=b"),
        ("y", "", "y"),
    ]
    assert parts[0].problem == {"dataset": "x", "task": "dml", "loss": "margin", "metric_name": "r_map"}
    assert [
        (part.problem["dataset"], part.set_up, len(part.trials)) for part in comparable(table(rows), but=["network"])
    ] == [("x", "", 2), ("y", "", 1)]
    require_one(table(rows[:2]), but=["network"])
    with pytest.raises(ValueError, match="more than one set-up: network"):
        require_one(table(rows[:2]))


def test_studies_that_name_no_dataset_are_not_of_one():
    """Two studies of one's own may be of two datasets; rows of one study that do not say, such as those of lost
    trainings, are of its."""
    own = [
        row(i, val=0.1 * i, study=study, dataset=None, task=None, loss=None, params={"lr": 2.0**i})
        for study in ("s", "t")
        for i in range(2)
    ]
    parts = list(comparable(table(own)))
    assert [(part.problem["dataset"], part.problem["task"], part.words, len(part.trials)) for part in parts] == [
        ("s", None, "s", 2),
        ("t", None, "t", 2),
    ]
    with pytest.raises(ValueError, match=r"more than one dataset: \[\['s'\], \['t'\]\]"):
        grid(table(own))
    lost = table([row(0, config={"k": 2}), row(1, "failed", dataset=None), row(2, "failed", dataset=None, study="t")])
    assert [(part.problem["dataset"], len(part.trials)) for part in comparable(lost)] == [("glyphs", 2), ("t", 1)]
    assert {curve.landscape for curve in curves_of(table(own))} == {"s", "t"}


def test_what_is_most_frequent_is_asked_of_each_problem():
    """A lost training on a small data set is not counted with the set-up of a large one."""
    rows = [row(i, config={"memory": "none"}) for i in range(5)] + [
        row(0, dataset="small", config={"memory": "fixed"}),
        row(1, "failed", dataset="small"),
    ]
    assert {words: len(part) for words, part in parts_of(table(rows))} == {"glyphs": 5, "small": 2}


def test_parts_are_those_of_problems_and_set_ups_and_hold_every_row_once():
    rng, rows = np.random.default_rng(0), []
    for i in range(80):
        dataset, loss, memory = (str(rng.choice(names)) for names in (["x", "y"], ["margin", "infonce"], MEMORY))
        rows.append(
            row(i, val=0.1, dataset=dataset, loss=loss, config={"memory": memory, "k": 2} if rng.random() < 0.9 else {})
        )
    trials = pd.concat([table(rows[:40]), table(rows[40:])])  # labels repeat
    parts = list(parts_of(trials))
    assert (
        sorted(index for _, part in parts for index in part["trial_index"]) == list(range(80))
        and len(parts) == 2 * 2 * 3
    )
    assert len({words for words, _ in parts}) == len(parts)
    for words, part in parts:
        require_one(part)
        memory = words.split("memory=")[1]
        assert words == f"{part['dataset'].iloc[0]} {part['loss'].iloc[0]} memory={memory}" and set(set_ups(part)) <= {
            "{}",
            set_up_of(memory),
        }


def test_a_users_own_configuration_may_differ_in_every_trial():
    own = table(
        row(
            i,
            val=0.1 * i,
            params={"lr": 2.0**i},
            config={"lr": 2.0**i, "layers": i, "model": {"memory": i}, "name": f"run {i}"},
        )
        for i in range(3)
    )
    assert grid(own).values.tolist() == pytest.approx([0.0, 0.1, 0.2]) and [words for words, _ in parts_of(own)] == [""]


@pytest.mark.parametrize(
    "name, config",
    [
        ("learning_rate", lambda value: {"learning_rate": value}),
        ("optimizer/lr", lambda value: {"optimizer": {"lr": value}}),
    ],
)
def test_what_was_searched_is_no_set_up(name, config):
    """A user's own search may have a parameter of a name that a built-in training has for a part of its set-up."""
    trials = table(
        row(i, val=0.1 * i, params={name: 2.0**i}, config=config(2.0**i) | {"memory": "none"}) for i in range(3)
    )
    for some in (trials, plain(trials)):
        assert grid(some).values.tolist() == pytest.approx([0.0, 0.1, 0.2]) and [
            len(rows) for _, rows in parts_of(some)
        ] == [3]
    with pytest.raises(ValueError, match=r"set-up: memory \['none', 'own'\]"):
        require_one(pd.concat([trials, table([row(3, params={name: 9.0}, config=config(9.0) | {"memory": "own"})])]))
