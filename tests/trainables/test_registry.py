"""Losses by name: the built-in ones, a user's own, and what is wrong with one."""

import zlib
from dataclasses import replace

import own_losses
import pytest
import torch

from trainables.losses import LOSSES, Loss, find_loss, siglip_terms
from trainables.losses.terms import infonce_terms, margin_terms
from trainables.own import imported
from trainables.training.setup import override
from trainables.training.setups import find_setup

SETUP = find_setup("glyphs", "small")


def test_the_built_in_losses():
    """Terms and published coefficients; the names of weights and scores that follow from the terms."""
    published = {
        "margin": {"p": 1, "e": 1},
        "infonce": {"p": 1, "e": 1},
        "alignment_uniformity": {"align": 1, "uniform": 1},
        "barlow_twins": {"on": 1, "off": 0.0051},
        "vicreg": {"sim": 25, "std": 25, "cov": 1},
        "siglip": {"pos": 1, "neg": 1},
    }
    assert {name: dict(zip(loss.terms, loss.published, strict=True)) for name, loss in LOSSES.items()} == published
    for name, loss in LOSSES.items():
        assert find_loss(name) is loss and loss.name == name
        assert (loss.tasks, loss.k) == ((("dml", "ssl"), None) if loss.pairwise else (("ssl",), 2))
        assert loss.normalised == (name not in ("barlow_twins", "vicreg"))
    assert LOSSES["margin"].weights == ("Lambda_p", "Lambda_e")
    assert LOSSES["infonce"].scores == ("positive_term", "entropy_term")
    assert LOSSES["vicreg"].weights == ("Lambda_sim", "Lambda_std", "Lambda_cov")
    assert LOSSES["vicreg"].scores == ("term_sim", "term_std", "term_cov")


def test_the_fields_of_a_set_up_reach_the_loss():
    z = torch.nn.functional.normalize(torch.randn(8, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    labels = torch.arange(2).repeat_interleave(4)
    infonce, siglip = (find_setup("glyphs", "small", loss=loss) for loss in ("infonce", "siglip"))
    pair = lambda terms: dict(zip("pe", terms, strict=True))  # noqa: E731
    for setup, expected in (
        (override(SETUP, ["margin=0.3", "distance=cosine", "q=2"]), pair(margin_terms(z, labels, 0.3, "cosine", 2))),
        (override(infonce, ["temperature=0.2"]), pair(infonce_terms(z, labels, temperature=0.2))),
        (override(SETUP, ["mining=hard"]), pair(margin_terms(z, labels, mining="hard"))),
        (override(infonce, ["mining=easy_positive", "k=4"]), pair(infonce_terms(z, labels, mining="easy_positive"))),
        (override(infonce, ["negatives=all"]), pair(infonce_terms(z, labels, negatives="all"))),
        (siglip, siglip_terms(z[::2], z[1::2], 10.0, -10.0)),
        (override(siglip, ["bias=-3"]), siglip_terms(z[::2], z[1::2], 10.0, -3.0)),
        (override(siglip, ["temperature=0.5"]), siglip_terms(z[::2], z[1::2], 2.0, -10.0)),
    ):  # fmt: skip
        assert LOSSES[setup.loss].compute(z, labels, setup) == expected


def test_a_users_own():
    loss = find_loss("own_losses:three_parts")
    assert isinstance(loss, Loss) and loss.name == "own_losses:three_parts"
    assert loss.terms == ("pull", "push", "all") and loss.published == (2.0, 3.0, 0.5)
    assert loss.weights == ("Lambda_pull", "Lambda_push", "Lambda_all")
    assert loss.tasks == ("dml", "ssl") and loss.k is None and loss.normalised
    z, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    assert loss.compute(z, labels, SETUP) == own_losses.three_parts(z, labels)
    assert find_loss("own_losses:three_parts") is loss, "tried once"
    assert find_loss("own_losses:raw").published == (1.0, 1.0) and not find_loss("own_losses:raw").normalised
    assert find_loss("own_losses:still").terms == ("pull",), "parameters that need no training"
    before = torch.get_rng_state()
    with torch.no_grad():
        assert find_loss("own_losses:drawing").terms == ("noisy",)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"


def test_a_positive_and_an_entropy_term_of_a_users_own():
    for name, published in (("pairwise", (1, 1)), ("entropy_first", (1, 1)), ("unequal", (1, 4))):
        loss = find_loss(f"own_losses:{name}")
        assert (loss.terms, loss.published) == (("p", "e"), published)
        assert loss.scores == ("positive_term", "entropy_term") and loss.pairwise == (published == (1, 1))
        z, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
        assert list(loss.compute(z, labels, SETUP).items()) == list(own_losses.pairwise(z, labels).items())


@pytest.mark.parametrize("name, message", [
    ("triplet", "loss = 'triplet': one of margin, infonce, .*vicreg, siglip, or module:function"),
    ("", "loss = ''"),
    (None, "loss = None"),
    (":f", "importing '' raised ValueError"),
    (".models:f", "importing '.models' raised TypeError"),
    ("own_losses:", "'own_losses' has no ''"),
    ("own_losses:nothing", "'own_losses' has no 'nothing'"),
    ("own_losses:not_a_function", "'not_a_function' is int, not a function"),
    ("own_losses:returns_a_tuple", "it returned tuple, allowed is a dict"),
    ("own_losses:names_with_a_dash", "a term is 'pull-in': .*; allowed is an identifier"),
    ("own_losses:per_row", r"a term is 'pull': torch.float32 \[16\] on cpu"),
    ("own_losses:detached", r"a term is 'pull': .* with a gradient"),
    ("own_losses:raises", r"called with z \[16, 8\] and labels \[16\] it raised RuntimeError: no such batch"),
    ("own_losses:exits", r"called with z \[16, 8\] and labels \[16\] it raised SystemExit: 3"),
    ("own_losses:not_a_number", "a term is 'pull': .* finite on random z"),
    ("own_losses:endless_slope", r"the gradient of \['pull'\] with respect to z is not finite"),
    ("own_losses:proxies", "its term 'pull' has parameters of its own, which the training would leave as they are"),
    ("own_losses:published_otherwise", r"its attribute published is {'push': 1.0}, .* \('pull',\)"),
    ("own_losses:published_zero", "its attribute published is {'pull': 0.0}, allowed is a number > 0"),
])  # fmt: skip
def test_what_is_wrong_is_said(name, message):
    with pytest.raises(ValueError, match=message):
        find_loss(name)
    if name == "triplet":  # a set-up imports nothing
        with pytest.raises(ValueError, match=message):
            replace(SETUP, loss=name)


@pytest.mark.parametrize("text, said", [
    ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ("raise GeneratorExit('odd\\nly')", "GeneratorExit: odd ly"),
    ("1 +", "SyntaxError: invalid syntax"),
    ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("def __getattr__(name): raise OSError(name)", "OSError: f"),
])  # fmt: skip
def test_whatever_a_users_module_raises_is_said_in_one_line(tmp_path, monkeypatch, text, said):
    module = f"mine{zlib.crc32(text.encode())}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for find, what in ((find_loss, "loss"), (lambda name: imported(name, "network"), "network")):
        with pytest.raises(ValueError) as refused:
            find(f"{module}:f")
        assert str(refused.value).startswith(f"{what} '{module}:f': importing '{module}' raised {said}")
        assert "\n" not in str(refused.value)


def test_a_loss_brings_what_is_usual_with_it():
    """The task that it can train, and for Barlow Twins and VICReg a projector, smaller in the small form."""
    assert find_setup("glyphs", "small").task == "dml" and find_setup("glyphs", "small", loss="infonce").task == "dml"
    for loss in ("vicreg", "barlow_twins"):
        setup = find_setup("glyphs", "small", loss=loss)
        assert (setup.task, setup.projector) == ("ssl", "256-256-256")
        assert find_setup("folder", "paper", "ssl", loss).projector == "2048-2048-2048"
    assert find_setup("folder", "small", loss="siglip").projector == ""
    assert find_setup("folder", "small", "dml", "own_losses:raw").task == "dml"
