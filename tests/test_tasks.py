"""The set-up table against what the paper prints, and its overrides."""

from dataclasses import asdict

import pytest

from trainables.tasks import BATCH_SIZES, SEARCH_RANGE, SETUPS, Setup, find_setup, override


def test_the_papers_numbers():
    omniglot, tiny = find_setup("omniglot", "paper"), find_setup("tinyimagenet", "paper")
    assert (omniglot.images_seen, omniglot.network, omniglot.loss, omniglot.margin) == (3_000_000, "resnet18_gem", "margin", 0.5)
    assert (tiny.images_seen, tiny.network, tiny.loss, tiny.temperature) == (36_000_000, "resnet32", "infonce", 0.1)
    assert SEARCH_RANGE == (1e-6, 17.0) and BATCH_SIZES == (16, 32, 64, 128, 256, 512)
    assert all(setup.k == 2 and setup.q == 1 for forms in SETUPS.values() for setup in forms.values())


def test_switching_the_loss_switches_its_usual_distance():
    assert find_setup("omniglot", "small").loss_distance == "euclidean"
    assert find_setup("omniglot", "small", loss="infonce").loss_distance == "cosine"
    assert override(find_setup("omniglot", "small"), ["distance=cosine"]).loss_distance == "cosine"


def test_overrides_are_read_as_the_fields_type():
    setup = override(find_setup("glyphs", "small"), ["margin=0.3", "k=4", "network=resnet32", "images_seen=640"])
    assert (setup.margin, setup.k, setup.network, setup.images_seen) == (0.3, 4, "resnet32", 640)
    assert Setup(**asdict(setup)) == setup


@pytest.mark.parametrize("text, said", [("margin", "FIELD=VALUE"), ("margins=1", "margins"), ("k=2.5", "int"), ("k=1", "at least 2"),
                                        ("margin=-1", "> 0"), ("loss=triplet", "triplet"), ("dataset=sop", "dataset"), ("q=3", "q = 3")])  # fmt: skip
def test_overrides_that_do_not_fit(text, said):
    with pytest.raises(ValueError, match=said):
        override(find_setup("glyphs", "small"), [text])


def test_what_is_not_in_the_table():
    for arguments, said in ((("cub", "small"), "cub"), (("glyphs", "large"), "large"), (("glyphs", "small", "ssl"), "dml")):
        with pytest.raises(ValueError, match=said):
            find_setup(*arguments)
