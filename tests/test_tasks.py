"""The set-up table against what the paper prints, and its overrides."""

from dataclasses import asdict, replace

import pytest

from trainables.tasks import BATCH_SIZES, SEARCH_RANGE, SETUPS, XBM, Setup, find_setup, override, published_best


def test_the_papers_numbers():
    """sec:exps: loss, network and images seen of each dataset, margin 0.5, temperature 0.1, two per class."""
    printed = {
        "omniglot": ("dml", "margin", "resnet18_gem", 3_000_000), "sop": ("dml", "margin", "resnet18_gem", 2_000_000),
        "landmarks": ("dml", "margin", "resnet18_gem", 1_000_000), "tinyimagenet": ("ssl", "infonce", "resnet32", 36_000_000),
    }  # fmt: skip
    for dataset, expected in printed.items():
        setup = find_setup(dataset, "paper")
        assert (setup.task, setup.loss, setup.network, setup.images_seen) == expected
        assert (setup.margin, setup.temperature, setup.k, setup.q, setup.optimizer, setup.schedule) == (0.5, 0.1, 2, 1, "sgd", "constant")
        assert setup.weights == ("imagenet" if setup.task == "dml" else "none"), "fine-tuning of a pretrained model; from scratch"
    assert find_setup("landmarks", "paper").test_metric == "roxford5k_medium_map"
    assert SEARCH_RANGE == (1e-6, 17.0) and BATCH_SIZES == (16, 32, 64, 128, 256, 512)


def test_every_entry_is_its_own_datasets_and_small_ones_need_no_download():
    for dataset, tasks in SETUPS.items():
        for task, forms in tasks.items():
            assert set(forms) == {"paper", "small"}
            assert all((setup.dataset, setup.task) == (dataset, task) for setup in forms.values())
            assert forms["small"].weights == "none" and forms["small"].images_seen < 100_000


def test_the_xbm_experiment_is_the_published_one():
    setup = replace(find_setup("sop", "paper"), **XBM["paper"])
    assert (setup.network, setup.embedding, setup.k, setup.loss_distance, setup.margin) == ("resnet50", 128, 4, "cosine", 0.5)
    assert (setup.memory_size, setup.memory_start, setup.images_seen // 64) == (55_000, 1000, 70_000)


def test_the_published_best_balances():
    assert published_best(find_setup("sop", "small")) == {"Lambda_p": 1e-2, "Lambda_e": 4.0}
    assert published_best(find_setup("tinyimagenet", "paper")) == {"Lambda_p": 1.0, "Lambda_e": 2.0}
    with pytest.raises(ValueError, match="glyphs with margin; it has for omniglot with margin"):
        published_best(find_setup("glyphs", "small"))


def test_switching_the_loss_switches_its_usual_distance():
    assert find_setup("omniglot", "small").loss_distance == "euclidean"
    assert find_setup("omniglot", "small", loss="infonce").loss_distance == "cosine"
    assert override(find_setup("omniglot", "small"), ["distance=cosine"]).loss_distance == "cosine"


def test_overrides_are_read_as_the_fields_type():
    setup = override(find_setup("glyphs", "small"), ["margin=0.3", "k=4", "network=resnet32", "images_seen=640"])
    assert (setup.margin, setup.k, setup.network, setup.images_seen) == (0.3, 4, "resnet32", 640)
    assert Setup(**asdict(setup)) == setup


@pytest.mark.parametrize("text, said", [("margin", "FIELD=VALUE"), ("margins=1", "margins"), ("k=2.5", "int"), ("k=1", "at least 2"),
                                        ("margin=-1", "> 0"), ("memory=full", "full"), ("margin=3", "margin = 3"), ("margin=inf", "finite"), ("temperature=inf", "finite"), ("image_size=2000", "2000"), ("image_size=4", "from 8"), ("memory_size=0", "memory_size"), ("schedule=linear", "linear"), ("precision=float16", "float16"), ("loss=triplet", "triplet"), ("dataset=sop", "dataset"), ("q=3", "q = 3")])  # fmt: skip
def test_overrides_that_do_not_fit(text, said):
    with pytest.raises(ValueError, match=said):
        override(find_setup("glyphs", "small"), [text])


def test_what_is_not_in_the_table():
    for arguments, said in ((("cub", "small"), "cub"), (("glyphs", "large"), "large"), (("glyphs", "small", "ssl"), "dml")):
        with pytest.raises(ValueError, match=said):
            find_setup(*arguments)


def test_a_folder_has_both_tasks():
    assert find_setup("folder", "small").task == "dml"
    assert find_setup("folder", "small", "ssl").metric == "probe_accuracy"
    with pytest.raises(ValueError, match="memory = 'fixed'"):
        override(find_setup("folder", "small", "ssl"), ["memory=fixed"])


@pytest.mark.parametrize("fields", [{"k": 2.5}, {"images_seen": float("inf")}, {"evaluations": 1.5}, {"embedding": True}, {"memory_size": 10.0}])
def test_numbers_of_things_are_whole(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        replace(find_setup("glyphs", "small"), **fields)
