"""Networks of timm and torchvision by name: their features, weights and inputs, and what is wrong."""

import pytest
import torch
from torchvision import models
from torchvision.transforms.v2 import functional as tv

from trainables.data.augmentation import normalise
from trainables.models.networks import build_network
from trainables.models.weights import Standardise


def build(name, weights="none", channels=3, image_size=64, **more):
    options = {"channels": channels, "image_size": image_size, "projection": False, "seed": 0} | more
    return build_network(name, weights=str(weights), **options).eval()


def features(model, channels=3, image_size=64):
    """The images' bytes, and the features that the model makes of them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, channels, image_size, image_size), generator=generator, dtype=torch.uint8)
    with torch.no_grad():
        return images, model.features(normalise(images))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """torchvision's ResNet-18 with random weights, and the file of its state dict."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = models.resnet18().eval()
    path = tmp_path_factory.mktemp("weights") / "weights.pth"
    torch.save(net.state_dict(), path)
    return net, path


@pytest.mark.parametrize("channels", [1, 3])
def test_torchvisions_network_with_a_file_is_torchvisions_before_its_classifier(theirs, channels):
    net, path = theirs
    images, found = features(build("torchvision:resnet18", path, channels), channels)
    standardised = tv.normalize(
        images.expand(-1, 3, -1, -1).float() / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    )
    classes = torch.nn.functional.linear(found, net.fc.weight, net.fc.bias)
    with torch.no_grad():
        torch.testing.assert_close(classes, net(standardised), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name, dimensions", [("mobilenet_v3_small", 1024), ("regnet_y_400mf", 440)])
def test_from_scratch_images_are_taken_as_they_are_and_seeds_decide(name, dimensions):
    before = torch.get_rng_state()
    one, two, other = (build(f"torchvision:{name}", channels=1, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before) and "standardise.mean" not in one.state_dict()
    assert features(one, 1)[1].shape == (2, dimensions)
    first, second, third = (list(model.parameters()) for model in (one, two, other))
    assert all(map(torch.equal, first, second)) and not torch.equal(first[0], third[0])


@pytest.mark.parametrize(
    "name, message",
    [
        ("torchvision:resnet51", "raised ValueError: Unknown model resnet51"),
        ("torchvision:squeezenet1_0", "it ends in no linear layer"),
        ("torchvision:vit_b_16", "Wrong image height! Expected 224 but got 64"),
    ],
)
def test_what_does_not_fit_is_said_beforehand(name, message):
    with pytest.raises(ValueError, match=f"network '{name}'.*{message}"):
        build(name)


def test_a_library_that_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(ValueError, match=r"'timm:resnet18': timm is not installed; pip install 'tune_cd\[timm\]'"):
        build("timm:resnet18")


# --- timm, the extra `timm`


@pytest.mark.slow
def test_timms_networks(tmp_path, monkeypatch):
    timm = pytest.importorskip("timm")
    net = timm.create_model("resnet18.a1_in1k").eval()
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in net.state_dict().items()}}, path)
    images, found = features(build("timm:resnet18.a1_in1k", path))
    mean, std = (net.pretrained_cfg[name] for name in ("mean", "std"))
    with torch.no_grad():
        expected = net.forward_head(
            net.forward_features(tv.normalize(images.float() / 255, mean, std)), pre_logits=True
        )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    vit = build("timm:vit_tiny_patch16_224", image_size=32, channels=1)  # its size is fixed when it is built
    assert features(vit, 1, 32)[1].shape == (2, 192)
    with pytest.raises(ValueError, match="Unknown model"):
        build("timm:resnet18x")
    with pytest.raises(ValueError, match="Invalid pretrained tag"):
        build("timm:resnet18.nope")
    with pytest.MonkeyPatch.context() as patch:  # as if timm had fetched them
        empty = timm.create_model

        def fetched(name, pretrained, **how):
            model, weights = empty(name, **how), net.state_dict()
            model.load_state_dict({key: weights[key] for key in model.state_dict()} if pretrained else {}, pretrained)
            return model

        patch.setattr(timm, "create_model", fetched)
        before = torch.get_rng_state()
        pretrained = build("timm:resnet18.a1_in1k", "imagenet")
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(features(pretrained)[1], found) and type(pretrained.standardise) is Standardise
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match="weights 'imagenet': .*HF_HOME.*--weights FILE"):
        build("timm:resnet18.a1_in1k", "imagenet", image_size=32)
