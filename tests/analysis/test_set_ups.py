"""Set-ups: trainings of different ones are told apart and never averaged, those of one are never divided."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from studies import empty, row, table

from trainables.training.setup import ONLY_WITH, Setup
from trainables.training.setups import find_setup
from tune_cd.analysis import curves_of, grid
from tune_cd.analysis.parts import comparable, parts_of, require_one
from tune_cd.landscapes.find import SHIPPED
from tune_cd.landscapes.measured import MEASURED, load
from tune_cd.results import read_file
from tune_cd.results.rows import DIGEST

pytestmark = pytest.mark.filterwarnings("error")

MEMORY = ("fixed", "none", "variable")
SMALL = find_setup("glyphs", "small")
VICREG = find_setup("glyphs", "small", task="ssl", loss="vicreg")


def trained(*setups: Setup, **fields):
    """A table with a training of each, one setting and a seed each, as `tune_cd.run` writes them."""
    return table(
        row(0, val=0.1 * (1 + seed), seed=seed, study=f"s{seed}", task=setup.task, loss=setup.loss,
            config=asdict(setup) | {DIGEST: setup.digest, "seed": seed, "Lambda_p": 1.0, "until": 0.1 * seed}, **fields)
        for seed, setup in enumerate(setups)
    )  # fmt: skip


def with_memory(**fields):
    """One setting and seed in three set-ups, with a value each."""
    return [
        row(0, val=0.1 + 0.1 * i, study=f"xbm-{mode}", config={"memory": mode, "learning_rate": 0.01, "k": 2}, **fields)
        for i, mode in enumerate(MEMORY)
    ]


def test_trainings_that_differ_in_what_has_no_effect_are_averaged():
    """VICReg has no temperature, SGD no rate but Lambda, and nothing is remembered without a memory."""
    idle = replace(VICREG, temperature=0.2, memory_size=9), replace(VICREG, temperature=0.5, learning_rate=0.3)
    found = grid(trained(VICREG, *idle))
    assert found.counts.item() == 3 and found.values.item() == pytest.approx(0.2)
    assert [words for words, _ in parts_of(trained(VICREG, *idle))] == [""]
    other = replace(VICREG, temperature=0.2, network="resnet18")
    parts = [(words, len(rows)) for words, rows in parts_of(trained(*idle, VICREG, other))]
    assert parts == [("network=resnet18", 1), (f"network={VICREG.network}", 3)], "an idle field is not named"


def test_what_is_left_to_its_usual_value_is_that_value():
    require_one(trained(SMALL, replace(SMALL, distance="euclidean", selected_by="r_map", augmentation="none")))
    with pytest.raises(ValueError, match=r"set-up: \['distance=cosine', 'distance=euclidean'\]; select"):
        require_one(trained(SMALL, replace(SMALL, distance="cosine")))


@pytest.mark.parametrize("field", ONLY_WITH)
def test_a_field_is_in_the_digest_where_the_table_says_that_it_has_an_effect(field):
    tried = [
        replace(SMALL, optimizer="adam"), replace(SMALL, memory="fixed"), replace(SMALL, augmentation="crop"), VICREG,
        replace(SMALL, test="roxford5k"), replace(VICREG, loss="siglip"), replace(VICREG, loss="infonce", projector=""),
        replace(VICREG, loss="infonce", dataset="omniglot"),
    ]  # fmt: skip
    effect = [all(getattr(setup, other) in values for other, values in ONLY_WITH[field].items()) for setup in tried]
    assert [field in setup.digest for setup in tried] == effect and len(set(effect)) == 2


def test_memories_of_two_sizes_are_two_experiments_with_the_rows_that_have_none():
    sizes = [replace(SMALL, memory=memory, memory_size=size) for size in (8, 9) for memory in MEMORY]
    assert len(list(comparable(trained(*sizes)))) == 5, "without a memory its size has no effect"
    parts = comparable(trained(*sizes), but=["memory", "schedule"])
    assert [(part.set_up, len(part.trials)) for part in parts] == [("memory_size=8", 3), ("memory_size=9", 3)]


def test_set_ups_are_refused_together_and_have_a_grid_each():
    trials = table(with_memory())
    said = r"problem or set-up: \['memory=fixed', 'memory=none', 'memory=variable'\]; select one, as `parts_of` does$"
    for refused in (grid, require_one):
        with pytest.raises(ValueError, match=said):
            refused(trials)
    parts = list(parts_of(trials.sample(frac=1, random_state=0)))
    assert [words for words, _ in parts] == [f"memory={mode}" for mode in MEMORY]
    assert [grid(rows).values.item() for _, rows in parts] == pytest.approx([0.1, 0.2, 0.3])
    assert [grid(rows).counts.item() for _, rows in parts] == [1, 1, 1]


def test_rows_that_do_not_say_their_set_up_go_with_the_most_frequent():
    """Of their search, as a lost training of S1 is one of S1's, and where no row of that search says it, of the
    problem."""
    said = [row(n, val=0.5, config={"memory": "none"}) for n in range(3)]
    said += [row(n, val=0.5, study="t", config={"memory": "fixed"}) for n in range(2)]
    lost = [row(7 + n, "failed", study=study) for n, study in enumerate("stu")]
    lost.append(row(10, "failed", study="t", search="cd"))
    found = {words: sorted(rows["trial_index"]) for words, rows in parts_of(table(said + lost))}
    assert found == {"memory=fixed": [0, 1, 8], "memory=none": [0, 1, 2, 7, 9, 10]}
    require_one(table([*said[:3], row(7, "failed")]))
    ((words, rows),) = parts_of(table([row(7), row(8)]))
    assert words == "" and len(rows) == 2 and list(parts_of(empty())) == []


@pytest.mark.parametrize("name", ["glyphs-margin", "glyphs-ssl-margin", "kinds-digits", "network-digits"])
def test_tables_of_the_package_which_have_no_digest_are_of_one_set_up(name):
    trials = load(name).at(64).rows() if name in MEASURED else read_file(SHIPPED / "general" / f"{name}.parquet")
    assert DIGEST not in json.loads(trials["config"].iloc[0])
    [part] = comparable(trials)
    assert (part.words, len(part.trials)) == ("", len(trials)) and len(trials) > 100


def test_as_few_fields_are_named_as_tell_set_ups_apart():
    """Fields that always change together are one difference, and the first of the set-up is named."""
    longer = replace(SMALL, images_seen=1280, evaluations=2)
    remembered = [replace(SMALL, memory="fixed", memory_size=size) for size in (96, 32)]
    named = {rows["seed"].item(): words for words, rows in parts_of(trained(SMALL, longer, *remembered))}
    assert [named[seed] for seed in range(4)] == [
        f"images_seen={SMALL.images_seen} memory=none",
        "images_seen=1280 memory=none",
        f"images_seen={SMALL.images_seen} memory=fixed memory_size=96",
        f"images_seen={SMALL.images_seen} memory=fixed memory_size=32",
    ]


def test_studies_that_name_no_dataset_are_not_of_one():
    """Two studies of one's own may be of two datasets; rows of one study that do not say, such as those of lost
    trainings, are of its."""
    unnamed = {"dataset": None, "task": None, "loss": None}
    own = [row(n, study=study, params={"lr": 2.0**n}, **unnamed) for study in ("s", "t") for n in range(2)]
    found = [(part.problem["dataset"], part.problem["task"], part.words, len(part.trials))
             for part in comparable(table(own))]  # fmt: skip
    assert found == [("s", None, "s", 2), ("t", None, "t", 2)]
    with pytest.raises(ValueError, match=r"more than one problem or set-up: \['s', 't'\]"):
        grid(table(own))
    lost = table([row(0, config={"k": 2}), row(1, "failed", dataset=None), row(2, "failed", dataset=None, study="t")])
    assert [(part.problem["dataset"], len(part.trials)) for part in comparable(lost)] == [("glyphs", 2), ("t", 1)]
    assert {curve.landscape for curve in curves_of(table(own))} == {"s", "t"}


def test_parts_are_those_of_problems_and_set_ups_and_hold_every_row_once():
    rng, rows = np.random.default_rng(0), []
    for i in range(80):
        dataset, loss, memory = (str(rng.choice(names)) for names in (["x", "y"], ["margin", "infonce"], MEMORY))
        rows.append(
            row(i, val=0.1, dataset=dataset, loss=loss, config={"memory": memory, "k": 2} if rng.random() < 0.9 else {})
        )
    trials = pd.concat([table(rows[:40]), table(rows[40:])])  # labels repeat
    parts = list(parts_of(trials))
    assert sorted(n for _, part in parts for n in part["trial_index"]) == list(range(80)) and len(parts) == 2 * 2 * 3
    assert len({words for words, _ in parts}) == len(parts)
    for words, part in parts:
        require_one(part)
        said = {json.loads(config).get("memory") for config in part["config"]} - {None}
        assert words == f"{part['dataset'].iloc[0]} {part['loss'].iloc[0]} memory={said.pop()}" and not said


def test_a_users_own_configuration_is_compared_as_it_is():
    """But for what was searched, also where other trials have it fixed, and for what is known beside it."""

    def own(**fields):
        return [
            row(i, val=0.1 * i, params={"lr": 2.0**i}, study=f"s{len(str(fields))}",
                config={"lr": 2.0**i, "layers": 2, "seed": i, "space": [i], **fields})
            for i in range(3)
        ]  # fmt: skip

    fixed = row(9, val=0.4, params={"layers": 2.0, "lr": 0.3}, config={"lr": 0.3, "layers": 2})
    assert grid(table(own()), axes=["lr"]).values.tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert [words for words, _ in parts_of(table([*own(), fixed]))] == [""]
    several = table([*own(), *own(epochs=20), *own(model={"depth": 3})])
    parts = {words: len(rows) for words, rows in parts_of(several)}
    assert parts == {"default": 3, "epochs=20": 3, "model/depth=3": 3}
    with pytest.raises(ValueError, match=r"set-up: \['epochs=20', 'model/depth=3', 'default'\]"):
        require_one(several)
