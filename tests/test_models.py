"""The networks: shapes, sizes, pooling against its formula, the same for the same seed."""

import pytest
import torch
from torch.nn import functional as F

from trainables.models import GeM, build_network


def build(name, channels=3, image_size=64, projection=False, seed=0):
    return build_network(name, channels=channels, image_size=image_size, projection=projection, seed=seed)


@pytest.mark.parametrize(
    "name, channels, size, projection, features, embedding, millions",
    [("small_conv", 1, 28, False, 512, 512, 0.24), ("small_conv", 3, 32, True, 512, 64, 0.39), ("resnet18_gem", 1, 64, False, 512, 512, 11.17),
     ("resnet18_gem", 3, 64, False, 512, 512, 11.18), ("resnet32", 3, 64, True, 64, 64, 0.50)],
)  # fmt: skip
def test_shapes_and_sizes(name, channels, size, projection, features, embedding, millions):
    model = build(name, channels, size, projection).eval()
    images = torch.randn(4, channels, size, size)
    with torch.no_grad():
        assert model.features(images).shape == (4, features)
        z = model(images)
    assert z.shape == (4, embedding)
    assert torch.allclose(z.norm(dim=1), torch.ones(4), atol=1e-6)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def test_resnet32_has_32_layers_with_weights_on_its_main_path():
    trunk = build("resnet32").trunk
    main = [name for name, module in trunk.named_modules() if isinstance(module, torch.nn.Conv2d) and "downsample" not in name]
    assert len(main) + 1 == 32, "31 convolutions and the classifier that the probe is"


def test_gem_is_its_formula_and_p_is_learnable():
    x = torch.rand(2, 5, 7, 7) - 0.2
    for p in (1.0, 3.0, 6.5):
        expected = F.avg_pool2d(x.clamp(min=1e-6).pow(p), 7).pow(1 / p).flatten(1)
        assert torch.allclose(GeM(p)(x), expected, atol=1e-6)
    assert build("resnet18_gem").trunk[-1].p.requires_grad


def test_the_same_seed_gives_the_same_network_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = build("small_conv", 1, 28), build("small_conv", 1, 28), build("small_conv", 1, 28, seed=1)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_unknown_network():
    with pytest.raises(ValueError, match="vgg.*resnet18_gem"):
        build("vgg")
