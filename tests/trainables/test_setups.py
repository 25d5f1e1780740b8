"""The set-ups: the paper's numbers are those of their sources, each with its source beside it; overrides, refusals."""

from dataclasses import asdict, fields, replace
from importlib import import_module
from inspect import getsource

import pytest

from trainables.training import setups
from trainables.training.setup import Setup, override
from trainables.training.setups import PAPER, SETUPS, XBM, XBM_RANGE, find_setup, xbm_balance

SOURCES = (
    "sec:", "ssec:", "subsec:", "eq:", "fig:", "table:", "ours", "relational", "research-xbm",
    "cnnimageretrieval-pytorch",
)  # fmt: skip
"""The allowed beginnings of a source."""

USUAL = {
    "selected_by": None, "learning_rate": 0.1, "k": 2, "margin": 0.5, "temperature": 0.1, "bias": -10.0,
    "distance": None, "q": 1, "negatives": "others", "mining": "none", "distortion": 1.0, "probe_epochs": 100,
    "probe_steps": 0, "probe_rate": 1e-3, "probe_features": "raw", "embedding": 0, "crop_scale": 0.25, "crop_size": 0,
    "projector": "", "optimizer": "sgd", "weight_decay": 0.0, "schedule": "constant", "precision": "float32",
    "step": None, "memory": "none", "memory_size": 55_000, "memory_start": 1000, "test": "split",
    "test_image_size": 1024,
}  # fmt: skip
NAMES = ("loss", "network", "weights", "image_size", "images_seen", "evaluations", "augmentation", "projection")
DML, SSL = ("margin", "resnet18_gem", "imagenet"), ("infonce", "resnet32", "none")
OWN = {
    ("glyphs", "dml"): ("margin", "resnet18_gem", "none", 64, 3_000_000, 30, None, "relu"),
    ("glyphs", "ssl"): (*SSL, 64, 3_000_000, 30, None, "leaky_relu"),
    ("omniglot", "dml"): (*DML, 64, 3_000_000, 30, None, "relu"),
    ("sop", "dml"): (*DML, 224, 2_000_000, 20, "crop", "relu"),
    ("landmarks", "dml"): (*DML, 448, 1_000_000, 20, "crop", "relu"),
    ("tinyimagenet", "ssl"): (*SSL, 64, 36_000_000, 36, None, "leaky_relu"),
    ("folder", "dml"): (*DML, 224, 1_000_000, 20, "crop", "relu"),
    ("folder", "ssl"): (*SSL, 64, 36_000_000, 36, None, "leaky_relu"),
}
MEMORY = {
    "loss": "margin", "network": "resnet50_xbm", "weights": "imagenet", "embedding": 128, "image_size": 256,
    "crop_size": 224, "crop_scale": 0.2, "augmentation": "crop", "images_seen": 4_480_000, "evaluations": 70,
    "selected_by": "recall_at_1", "learning_rate": 1e-4, "k": 4, "distance": "cosine", "margin": 0.5, "q": 1,
    "optimizer": "adam", "weight_decay": 5e-4, "schedule": "constant", "memory": "fixed", "memory_size": 55_000,
    "memory_start": 1000, "dataset": "sop", "task": "dml",
}  # fmt: skip
BESIDE = {
    "training.setups.SEARCH_RANGE": (1e-6, 17.0), "training.setups.BATCH_SIZES": (16, 32, 64, 128, 256, 512),
    "training.setups.XBM_RANGE": (1e-2, 1.7e5), "training.setups.XBM_SCHEDULES": ("constant", "plateau"),
    "datasets.omniglot.VALIDATION_ALPHABETS": ("Balinese", "Futurama", "Grantha", "Hebrew", "N_Ko"),
}  # fmt: skip
"""Those of the plateau, the views, the scales and the fractions for validation show in what they do."""


@pytest.mark.parametrize(("dataset", "task"), OWN)
def test_every_field_of_a_paper_set_up_is_the_sources(dataset, task):
    expected = USUAL | dict(zip(NAMES, OWN[dataset, task], strict=True)) | {"dataset": dataset, "task": task}
    if dataset == "landmarks":
        expected["test"] = "roxford5k"
    assert asdict(SETUPS[dataset][task]["paper"]) == expected


def test_the_tables_name_the_same_set_ups_and_all_fields():
    assert {(dataset, task) for dataset, tasks in SETUPS.items() for task in tasks} == set(OWN) == set(PAPER)
    assert {field.name for field in fields(Setup)} == {*USUAL, *NAMES, "dataset", "task"}


def test_every_field_of_the_experiment_on_memory_is_the_sources():
    usual = USUAL | {"projection": "relu"}
    assert asdict(replace(find_setup("sop", "paper"), **XBM["paper"])) == usual | MEMORY


@pytest.mark.parametrize("name", BESIDE)
def test_numbers_beside_the_set_ups_are_the_codes(name):
    module, _, constant = name.rpartition(".")
    assert getattr(import_module(f"trainables.{module}"), constant) == BESIDE[name]


def without_source(source):
    """The lines `"field": value,` of a set-up in Python source whose comment does not begin with a source."""
    names, found = {field.name for field in fields(Setup)}, []
    for line in source.splitlines():
        name, colon, rest = line.strip().removeprefix('"').partition('": ')
        if colon and name in names and not rest.partition("  # ")[2].startswith(SOURCES):
            found.append(line.strip())
    return found


def test_every_number_of_a_paper_set_up_has_its_source_beside_it():
    paper, _, rest = getsource(setups).partition("\nSMALL = ")
    memory = rest[rest.index("XBM_ALIKE = ") : rest.index('"small": XBM_ALIKE')]
    assert without_source(paper) == [] == without_source(memory)
    assert paper.count("# ours") > 10 and "learning_rate" in memory, "the parts that have the numbers"
    assert without_source(paper.replace("# sec:exps", "# sec exps", 1)), "a missing source is found"


def test_36_million_steps_are_200_epochs_of_nine_tenths_in_two_views():
    """Why the paper's steps are read as images of which both views count."""
    fraction = import_module("trainables.datasets.tinyimagenet").VALIDATION_FRACTION
    assert find_setup("tinyimagenet", "paper").images_seen == 200 * round(100_000 * (1 - fraction)) * 2


def test_every_entry_is_its_own_datasets_and_small_ones_need_no_download():
    for dataset, tasks in SETUPS.items():
        for task, forms in tasks.items():
            assert set(forms) == {"paper", "small"}
            assert all((setup.dataset, setup.task) == (dataset, task) for setup in forms.values())
            assert forms["small"].weights == "none" and forms["small"].images_seen < 100_000


def test_the_small_xbm_experiment_is_small_in_size_alone():
    small = replace(find_setup("omniglot", "small"), **XBM["small"])
    assert (small.optimizer, small.weight_decay, small.metric) == ("adam", 5e-4, "recall_at_1")
    assert xbm_balance(64, 4) == {"Lambda_p": 3.0, "Lambda_e": 60.0}
    assert all(XBM_RANGE[0] < weight < XBM_RANGE[1] for weight in (3, 60))


GLYPHS, FOLDER = ("glyphs", "small"), ("folder", "small", "ssl")
IN_EFFECT = [
    (("sop", "paper"), "", {"metric": "r_map", "input_size": 224}),
    (("sop", "paper"), "selected_by=recall_at_1 crop_size=192",
     {"metric": "recall_at_1", "test_metric": "recall_at_1", "input_size": 192}),
    (("tinyimagenet", "paper"), "", {"metric": "probe_accuracy"}),
    (GLYPHS, "", {"loss_distance": "euclidean"}), (GLYPHS, "distance=cosine", {"loss_distance": "cosine"}),
    ((*GLYPHS, None, "infonce"), "", {"loss_distance": "cosine"}),
    (GLYPHS, "margin=0.3 k=4 network=resnet32 optimizer=adam weight_decay=5e-4",
     {"margin": 0.3, "k": 4, "network": "resnet32", "optimizer": "adam", "weight_decay": 5e-4}),
    (GLYPHS, "optimizer=adam", {"learning_rate": 1e-3}), (GLYPHS, "optimizer=sgd", {"learning_rate": 0.1}),
    (GLYPHS, "learning_rate=0.01 optimizer=adam", {"learning_rate": 0.01}),
]  # fmt: skip


@pytest.mark.parametrize("entry, fields, expected", IN_EFFECT)
def test_fields_are_read_as_their_type_and_what_is_left_open_is_in_effect(entry, fields, expected):
    setup = override(find_setup(*entry), fields.split())
    assert {name: getattr(setup, name) for name in expected} == expected and Setup(**asdict(setup)) == setup


REFUSED = [
    *((GLYPHS, text, said) for text, said in [
        ("margin", "FIELD=VALUE"), ("margins=1", "margins"), ("k=2.5", "int"), ("k=1", "at least 2"),
        ("weight_decay=5e-4", "weight_decay"), ("weight_decay=-1", "weight_decay"),
        ("crop_size=29", "crop_size"), ("crop_size=4", "crop_size"), ("crop_scale=0", "crop_scale"),
        ("crop_scale=1.5", "crop_s"), ("margin=-1", "> 0"), ("margin=3", "margin = 3"), ("margin=inf", "finite"),
        ("temperature=inf", "finite"), ("memory=full", "full"), ("memory_size=0", "memory_size"),
        ("image_size=2000", "2000"), ("image_size=4", "from 8"), ("schedule=linear", "linear"),
        ("precision=float16", "float16"), ("loss=vicreg", "--loss vicreg"), ("dataset=sop", "dataset"),
        ("q=3", "q = 3"), ("projection=gelu", "gelu"), ("selected_by=loss", "selected"),
        ("mining=easy", "mining = .*: one of"), ("negatives=none", "negatives = .*: one of"),
        ("mining=easy_positive", "mining = 'easy_positive', k = 2: .* k = 3 or more"),
        ("memory=fixed mining=hard", "mining = 'hard': 'others', 'none' with a memory"),
    ]),
    (("sop", "paper"), "crop_size=225", "crop_size is 0, or from 8 to image_size"),
    (("tinyimagenet", "paper"), "selected_by=recall_at_1", "'recall_at_1': one of .*probe_accuracy.* 'ssl'"),
    (FOLDER, "memory=fixed", "memory = 'fixed'"),
    (FOLDER, "projector=256-", "projector = '256-': widths"), (FOLDER, "projector=0-8", "projector = '0-8': widths"),
    (FOLDER, "projector=8 embedding=4", "projector = '8', .*embedding = 4: .* embedding = 0"),
    (("folder", "small"), "projector=8", "projector = '8', task = 'dml', .* for task 'ssl' alone"),
    (("sop", "small", None, "vicreg"), "", "loss = 'vicreg' with task = 'dml': it trains ssl"),
    (("tinyimagenet", "small", None, "vicreg"), "k=4", "k = 4, loss = 'vicreg': this loss takes 2 views"),
    (("tinyimagenet", "small", None, "siglip"), "bias=inf", "bias = inf: must be finite"),
    ((*GLYPHS, None, "own_losses:three_parts"), "memory=fixed", "memory = 'fixed', .*: with margin and infonce alone"),
    (("cub", "small"), "", "cub"), (("glyphs", "large"), "", "large"), (("sop", "small", "ssl"), "", "dml"),
]  # fmt: skip


@pytest.mark.parametrize("entry, fields, said", REFUSED)
def test_what_does_not_fit_is_refused(entry, fields, said):
    with pytest.raises(ValueError, match=said):
        override(find_setup(*entry), fields.split())


@pytest.mark.parametrize("field, value", [
    ("k", 2.5), ("images_seen", float("inf")), ("evaluations", 1.5), ("embedding", True), ("memory_size", 10.0),
])  # fmt: skip
def test_numbers_of_things_are_whole(field, value):
    with pytest.raises(ValueError, match=field):
        replace(find_setup("glyphs", "small"), **{field: value})
