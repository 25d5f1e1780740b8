"""Pretrained weights and libraries: torchvision's networks layer for layer, wrong files, ImageNet, networks by name."""

import hashlib
import os
import pickle
from functools import cache
from urllib.error import URLError

import pytest
import torch
from embedded import alike, seeded
from pickled import Calls
from torch import nn
from torchvision import models as torchvision_models
from torchvision.models import Weights, WeightsEnum
from torchvision.transforms.v2 import functional as tv

from trainables.data.augmentation import normalise
from trainables.models.networks import build_network
from trainables.models.weights import Standardise

NETWORKS = {"resnet18_gem": "resnet18", "resnet50": "resnet50", "resnet50_xbm": "resnet50"}
STAGES = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")


@pytest.fixture(autouse=True)
def empty_hub(tmp_path, monkeypatch):
    """torch.hub's folder is a temporary one, and nothing is ever asked of the network."""

    def local_alone(request, *args, usual=torch.hub.urlopen, **kwargs):
        if request.full_url.startswith("file:"):
            return usual(request, *args, **kwargs)
        raise URLError(f"no network in tests: {request.full_url}")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("torch.hub.urlopen", local_alone)


def build(name, weights="none", channels=3, image_size=64, projection=False, **more):
    options = {"channels": channels, "image_size": image_size, "projection": projection, "seed": 0} | more
    return build_network(name, weights=str(weights), **options).eval()


def scrambled(module, seed=1):
    """Every parameter and statistic away from its initial value, activations still of order one."""
    generator = seeded(seed)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator)
            positive = tensor.ndim > 1 or name.endswith("running_var")
            tensor.mul_(0.7 + 0.6 * noise) if positive else tensor.add_(0.2 * noise - 0.1)
    return module.eval()


@cache
def of_torchvision(origin):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return scrambled(getattr(torchvision_models, origin)(weights=None))


@pytest.fixture
def resnet18(tmp_path):
    """(our name, torchvision's network, the file of its state dict)"""
    net = of_torchvision("resnet18")
    return "resnet18_gem", net, saved(tmp_path, net.state_dict(), "resnet18.pth")


def saved(tmp_path, state, name="weights.pth"):
    torch.save(state, tmp_path / name)
    return tmp_path / name


def photographs(n=2, channels=3, size=64):
    generator = seeded()
    return torch.randint(0, 256, (n, channels, size, size), generator=generator, dtype=torch.uint8)


def as_imagenet(images):
    """How torchvision's own transforms standardise bytes; grey is repeated."""
    transforms = torchvision_models.ResNet50_Weights.IMAGENET1K_V1.transforms()
    return tv.normalize(images.expand(-1, 3, -1, -1).float() / 255, transforms.mean, transforms.std)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name, origin", [*NETWORKS.items(), ("torchvision:resnet18", "resnet18")])
def test_bytes_in_features_out_as_torchvision(tmp_path, name, origin, channels):
    """The whole way: our [-1, 1] into our trunk against torchvision's standardisation into torchvision's network."""
    net, images = of_torchvision(origin), photographs(channels=channels)
    model = build(name, saved(tmp_path, net.state_dict()), channels, embedding=16)
    left_out = {"relu"} if name == "resnet50_xbm" else set()
    with torch.no_grad():
        body = nn.Sequential(*(net.get_submodule(stage) for stage in STAGES if stage not in left_out))
        maps = body(as_imagenet(images))
        gem = maps.clamp(min=1e-6).pow(3).mean((2, 3)).pow(1 / 3)
        pooled = {"resnet18_gem": gem, "resnet50_xbm": maps.amax((2, 3))}.get(name, maps.mean((2, 3)))
        torch.testing.assert_close(model.features(normalise(images)), pooled, rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize("name, channels", [("small_conv", 1), ("resnet32", 3), ("pretrained", 3), ("pretrained", 1)])
def test_our_own_file_is_the_network_that_was_saved(resnet18, tmp_path, name, channels):
    """From scratch it was fed [-1, 1], so no standardisation is put in front of it; pretrained it keeps its own."""
    name, path = resnet18[::2] if name == "pretrained" else (name, "none")
    model = scrambled(build(name, path, channels, embedding=8), seed=2)
    copy = build(name, saved(tmp_path, model.state_dict()), channels, seed=9, embedding=8)
    images = normalise(photographs(channels=channels))
    with torch.no_grad():
        assert torch.equal(copy(images), model(images))
        assert not torch.equal(copy(images), build(name, channels=channels, seed=9, embedding=8)(images))


def test_heads_come_and_go_with_our_own_files(tmp_path):
    """Self-supervised first, then metric learning: the projection is left behind, the new head is the seeded one."""
    model = scrambled(build("small_conv", projection=True))
    path = saved(tmp_path, model.state_dict())
    images = normalise(photographs())
    linear = build("small_conv", path, seed=4, embedding=8)
    for found in (build("small_conv", path), linear):
        assert torch.equal(found.features(images), model.features(images))
    assert torch.equal(linear.head.weight, build("small_conv", seed=4, embedding=8).head.weight)
    model = scrambled(build("resnet32"))  # a bare trunk's file, of no layers of torchvision's
    assert alike(build("resnet32", saved(tmp_path, model.trunk.state_dict()), seed=9), model)


def mine(channels, image_size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * image_size**2, 7))


def test_files_for_a_users_network(tmp_path):
    name, small = f"{__name__}:mine", {"channels": 1, "image_size": 6}
    model = scrambled(build(name, **small, embedding=3))
    bare = saved(tmp_path, model.trunk.state_dict() | {"fc.weight": torch.zeros(2, 7)}, "trunk.pth")
    assert torch.equal(build(name, bare, **small).trunk[1].weight, model.trunk[1].weight)
    whole = saved(tmp_path, model.state_dict())
    assert torch.equal(build(name, whole, seed=3, **small, embedding=3).head.weight, model.head.weight)


def below(start, state):
    return {f"{start}{name}": tensor for name, tensor in state.items()}


def but(part, state):
    assert any(part in name for name in state)
    return {name: tensor for name, tensor in state.items() if part not in name}


def moco(state):
    """As facebookresearch/moco's main_moco.py saves them: the trained encoder, its slow copy, and the queue."""
    slow = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    return below("module.encoder_q.", state) | below("module.encoder_k.", slow) | {"module.queue": torch.ones(3)}


WRAPPERS = {
    "DataParallel": lambda state: below("module.", state),
    "Lightning": lambda state: {
        "state_dict": {"loss.w": torch.ones(2)} | below("backbone.", state), "hyper_parameters": {"lr": 0.1},
    },
    "MoCo": lambda state: {"arch": "resnet18", "state_dict": moco(state), "optimizer": {"state": {}}},
    "torch.compile of a part": lambda state: {name.replace("layer1.", "layer1._orig_mod."): tensor
                                              for name, tensor in state.items()},
    "without its classifier": lambda state: but("fc.", state),
    "without counters": lambda state: but("num_batches_tracked", state),
    "all at once": lambda state: {"model": below("_orig_mod.module.net.", state)},
}  # fmt: skip


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_wrapped_weights_are_unwrapped_and_parts_that_nobody_needs_may_lack(resnet18, tmp_path, wrapper):
    name, net, path = resnet18
    assert alike(build(name, saved(tmp_path, wrapper(net.state_dict()))), build(name, path))


def refused(name, path, **options):
    with pytest.raises(ValueError) as built:
        build(name, path, **options)
    assert repr(str(path)) in str(built.value)
    return str(built.value)


def test_files_that_do_not_fit_are_refused_with_counts_and_first_names(tmp_path, resnet18):
    deeper = torchvision_models.resnet34(weights=None).state_dict()  # holds all that ResNet-18 has, and more
    ours = build("small_conv", embedding=8).state_dict()
    for name, state, embedding, message in (
        ("resnet18_gem", deeper, 0, "0 are missing, 0 are of another shape, and 96"),
        ("resnet32", resnet18[1].state_dict(), 0,
         "165 (trunk.0.weight, ...) are missing, 0 are of another shape, and 120"),
        ("small_conv", {name: tensor for name, tensor in ours.items() if name != "head.bias"}, 8,
         "1 (head.bias) are missing"),
        ("small_conv", ours, 9, "2 (head.weight: [8, 512], here [9, 512], ...) are of another shape"),
        ("small_conv", build("small_conv", channels=1).state_dict(), 0,
         "1 (trunk.0.weight: [32, 1, 3, 3], here [32, 3, 3, 3]) are of another shape"),
    ):  # fmt: skip
        assert message in refused(name, saved(tmp_path, state), embedding=embedding)


@pytest.mark.parametrize("kind", ["torch.save", "pickle", "hidden among weights"])
def test_a_pickle_that_wants_to_run_code_is_refused_and_not_run(tmp_path, kind):
    evil, path = Calls(os.mkdir, str(tmp_path / "harmed")), tmp_path / "evil.pth"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(evil, protocol=2))
    else:
        torch.save(evil if kind == "torch.save" else build("small_conv").state_dict() | {"trunk.extra": evil}, path)
    assert "torch.load(weights_only=True) refuses it" in refused("small_conv", path)
    assert not (tmp_path / "harmed").exists()
    torch.load(path, weights_only=False) if kind != "pickle" else pickle.loads(path.read_bytes())
    assert (tmp_path / "harmed").exists(), "the file is indeed a harmful one"


@pytest.mark.parametrize("content, message", [
    (b"", "refuses it"), (b"<html>404</html>", "refuses it"), (nn.Linear(2, 2), "refuses it"),
    (b"PK\3\4" + bytes(9_000), "refuses it with OSError"),  # its end is missing
    ({}, "not a state dict"), ([torch.zeros(3)], "it has list"), ({1: torch.zeros(3)}, "it has 1: Tensor"),
    ({"state_dict": {"a": [3]}, "epoch": 3}, "it has 'a': list"),
])  # fmt: skip
def test_what_is_not_a_state_dict_is_refused(tmp_path, content, message):
    path = tmp_path / "weights.pth"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    text = refused("small_conv", path)
    assert message in text and "torch.save(model.state_dict(), FILE)" in text


def test_an_absent_file_is_an_oserror_that_names_it(tmp_path, monkeypatch):
    for name in ("imagent", str(tmp_path / "absent.pth"), str(tmp_path)):
        with pytest.raises(OSError, match="no such file in .*none, imagenet") as raised:
            build("small_conv", name, 3, 32)
        assert repr(name) in str(raised.value)
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(tmp_path, build("small_conv").state_dict())
    build("small_conv", "~/weights.pth", 3, 32)


def test_imagenet_weights_that_cannot_be_had_are_an_error_that_says_what_to_do(tmp_path):
    """They are torchvision's first versions."""
    theirs = {"resnet18": torchvision_models.ResNet18_Weights, "resnet50": torchvision_models.ResNet50_Weights}
    for name, origin in NETWORKS.items():
        with pytest.raises(OSError) as raised:
            build(name, "imagenet")
        url = theirs[origin].IMAGENET1K_V1.url
        cached = tmp_path / "torch" / "hub" / "checkpoints" / os.path.basename(url)
        for part in (url, "URLError", str(cached), "TORCH_HOME", "`--weights none`", "`--weights FILE`"):
            assert part in str(raised.value)
    for name in ("small_conv", "resnet32", f"{__name__}:mine"):
        with pytest.raises(ValueError, match=f"'imagenet' exist for .*'resnet18_gem', .*, not for network '{name}'"):
            build(name, "imagenet")


def publish(monkeypatch, tmp_path, state, checksum=None):
    """The file of ResNet-18's ImageNet weights, named by the first digits of its SHA-256, as torch.hub wants it."""
    path = saved(tmp_path, state)
    path = path.rename(tmp_path / f"resnet18-{checksum or hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pth")

    class Local(WeightsEnum):
        IMAGENET1K_V1 = Weights(url=path.as_uri(), transforms=None, meta={})

    monkeypatch.setattr(torchvision_models, "ResNet18_Weights", Local)
    return path


def test_imagenet_weights_are_downloaded_once_checked_and_loaded(tmp_path, monkeypatch):
    net = scrambled(torchvision_models.resnet18(weights=None))
    path = publish(monkeypatch, tmp_path, net.state_dict())
    build("resnet18_gem", "imagenet", 1)
    path.unlink()  # from now on it is torch.hub's copy
    model = build("resnet18_gem", "imagenet")
    assert torch.equal(model.trunk.layer4[1].conv2.weight, net.layer4[1].conv2.weight)


def test_a_download_with_a_wrong_checksum_is_refused(tmp_path, monkeypatch):
    publish(monkeypatch, tmp_path, {"a": torch.zeros(1)}, checksum="00000000")
    with pytest.raises(OSError, match="invalid hash value"):
        build("resnet18_gem", "imagenet")
    assert not list((tmp_path / "torch").rglob("*.pth"))


def features(model, images):
    with torch.no_grad():
        return model.features(normalise(images))


def test_a_library_that_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(ValueError, match=r"'timm:resnet18': timm is not installed; pip install 'tune_cd\[timm\]'"):
        build("timm:resnet18")


@pytest.mark.slow
def test_timms_networks(tmp_path, monkeypatch):
    timm = pytest.importorskip("timm")
    net, images = timm.create_model("resnet18.a1_in1k").eval(), photographs()
    path = saved(tmp_path, {"state_dict": below("module.", net.state_dict())})
    found = features(build("timm:resnet18.a1_in1k", path), images)
    standardised = tv.normalize(images.float() / 255, net.pretrained_cfg["mean"], net.pretrained_cfg["std"])
    with torch.no_grad():
        expected = net.forward_head(net.forward_features(standardised), pre_logits=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    vit = build("timm:vit_tiny_patch16_224", image_size=32, channels=1)  # its size is fixed when it is built
    assert features(vit, photographs(channels=1, size=32)).shape == (2, 192)
    for unknown in ("timm:resnet18x", "timm:resnet18.nope"):
        with pytest.raises(ValueError, match=f"network '{unknown}', .* raised "):
            build(unknown)

    def fetched(name, pretrained, create=timm.create_model, **how):
        model, weights = create(name, **how), net.state_dict()
        model.load_state_dict({key: weights[key] for key in model.state_dict()} if pretrained else {}, pretrained)
        return model

    with monkeypatch.context() as patch:
        patch.setattr(timm, "create_model", fetched)
        before = torch.get_rng_state()
        pretrained = build("timm:resnet18.a1_in1k", "imagenet")
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(features(pretrained, images), found) and type(pretrained.standardise) is Standardise
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match="weights 'imagenet': .*HF_HOME.*--weights FILE"):
        build("timm:resnet18.a1_in1k", "imagenet", image_size=32)
