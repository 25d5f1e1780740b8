"""The set-up table against what the paper prints, and its overrides."""

from dataclasses import asdict, replace

import pytest

from trainables.training.setup import Setup, override
from trainables.training.setups import SETUPS, XBM, XBM_RANGE, find_setup, xbm_balance


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


def test_what_selects_is_a_score_of_the_task():
    sop, tiny = (find_setup(dataset, "paper") for dataset in ("sop", "tinyimagenet"))
    assert (sop.metric, tiny.metric) == ("r_map", "probe_accuracy")
    chosen = override(sop, ["selected_by=recall_at_1"])
    assert (chosen.metric, chosen.test_metric) == ("recall_at_1", "recall_at_1")


def test_what_is_in_effect_where_a_field_leaves_it_open():
    photos, usual = find_setup("sop", "paper"), find_setup("omniglot", "small")
    assert (photos.input_size, override(photos, ["crop_size=192"]).input_size) == (224, 192)
    infonce = find_setup("omniglot", "small", loss="infonce")
    found = [setup.loss_distance for setup in (usual, infonce, override(usual, ["distance=cosine"]))]
    assert found == ["euclidean", "cosine", "cosine"]


def test_overrides_are_read_as_the_fields_type():
    fields = ["margin=0.3", "k=4", "network=resnet32", "optimizer=adam", "weight_decay=5e-4"]
    setup = override(find_setup("glyphs", "small"), fields)
    found = (setup.margin, setup.k, setup.network, setup.optimizer, setup.weight_decay)
    assert found == (0.3, 4, "resnet32", "adam", 5e-4)
    assert Setup(**asdict(setup)) == setup


GLYPHS, FOLDER = ("glyphs", "small"), ("folder", "small", "ssl")
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


@pytest.mark.parametrize(
    "fields",
    [{"k": 2.5}, {"images_seen": float("inf")}, {"evaluations": 1.5}, {"embedding": True}, {"memory_size": 10.0}],
)
def test_numbers_of_things_are_whole(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        replace(find_setup("glyphs", "small"), **fields)
