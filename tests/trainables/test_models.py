"""The networks: shapes, sizes, pooling against its formula, the same for the same seed, one's own."""

import pytest
import torch
from embedded import alike, seeded
from torch import nn
from torch.nn import functional as F

from trainables.models.networks import NETWORKS, GeM, build_network


def build(name, channels=3, image_size=64, projection=False, seed=0, **more):
    return build_network(name, channels=channels, image_size=image_size, projection=projection, seed=seed, **more)


@pytest.mark.parametrize("name, channels, size, projection, features, embedding, millions", [
    ("small_conv", 1, 28, False, 512, 512, 0.24), ("small_conv", 3, 32, True, 512, 64, 0.39),
    ("resnet18_gem", 1, 64, False, 512, 512, 11.17), ("resnet18_gem", 3, 64, False, 512, 512, 11.18),
    ("resnet32", 3, 64, True, 64, 64, 0.50), ("resnet50", 3, 64, False, 2048, 2048, 23.51),
    ("resnet50_xbm", 3, 64, False, 2048, 2048, 23.51),
    ("torchvision:mobilenet_v3_small", 1, 64, False, 1024, 1024, 1.52),
    ("torchvision:regnet_y_400mf", 1, 64, False, 440, 440, 3.90),
])  # fmt: skip
def test_shapes_and_sizes(name, channels, size, projection, features, embedding, millions):
    model = build(name, channels, size, projection).eval()
    images = torch.randn(4, channels, size, size)
    with torch.no_grad():
        assert model.features(images).shape == (4, features)
        z = model(images)
    assert z.shape == (4, embedding)
    assert torch.allclose(z.norm(dim=1), torch.ones(4), atol=1e-6)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def test_gem_is_learnable_and_computed_in_float32_inside_autocast():
    assert build("resnet18_gem").trunk.avgpool.p.requires_grad
    x = torch.rand(2, 5, 7, 7, generator=seeded()).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pooled = GeM()(x)
    assert pooled.dtype == torch.float32 and torch.equal(pooled, GeM()(x.float()))


def test_gems_gradients_are_right():
    x, gem = torch.rand(2, 3, 4, 4, generator=seeded(), dtype=torch.float64) + 0.1, GeM().double()
    pooled = lambda x, p: torch.func.functional_call(gem, {"p": p}, x)  # noqa: E731
    assert torch.autograd.gradcheck(pooled, (x.requires_grad_(), gem.p))


@pytest.mark.parametrize("p", [1.0, 3.0, 6.5, 30.0, 200.0])
def test_gem_of_any_power_is_finite_and_lies_between_mean_and_maximum(p):
    """(1e-6)^8 and 30^30 are beyond float32; maps of zeros, of tiny and of large values pool to their values."""
    x = torch.rand(4, 3, 5, 5, generator=seeded()) * torch.tensor([0.0, 1e-6, 1.0, 30.0]).reshape(4, 1, 1, 1)
    gem, x = GeM(p), x.requires_grad_()
    pooled = gem(x)
    if p <= 30:  # float64's limit
        formula = x.detach().double().clamp(min=1e-6).pow(p).mean((2, 3)).pow(1 / p)
        torch.testing.assert_close(pooled.double(), formula, rtol=1e-5, atol=0)
    clamped = x.detach().clamp(min=1e-6)
    assert (pooled >= clamped.mean((2, 3)) * (1 - 1e-6)).all() and (pooled <= clamped.amax((2, 3)) * (1 + 1e-6)).all()
    pooled.sum().backward()
    assert gem.p.grad.isfinite() and x.grad.isfinite().all()


@pytest.mark.parametrize(("name", "projection"), [("small_conv", False), ("small_conv", True), ("resnet50", False)])
def test_an_embedding_is_what_the_loss_sees_and_leaves_the_features_alone(name, projection):
    model = build(name, image_size=32, projection=projection, embedding=128).eval()
    images = torch.randn(2, 3, 32, 32, generator=seeded())
    with torch.no_grad():
        z, features = model(images), model.features(images)
        assert z.shape == (2, 128) and torch.allclose(z.norm(dim=1), torch.ones(2), atol=1e-6)
        bare = build(name, image_size=32).eval().features(images)
        assert torch.equal(features, bare), "the trunk is drawn before the head"
        assert torch.equal(z, F.normalize(model.head(features)))


def test_the_projections_activation_is_the_one_asked_for():
    """Patacchiola and Storkey's SimCLR has torch's LeakyReLU between its two layers; the layers are drawn alike."""
    plain, leaky = (build("resnet32", projection=True, **more) for more in ({}, {"activation": "leaky_relu"}))
    assert [type(layer) for layer in leaky.head] == [nn.Linear, nn.BatchNorm1d, nn.LeakyReLU, nn.Linear]
    assert type(plain.head[2]) is nn.ReLU and leaky.head[2].negative_slope == nn.LeakyReLU().negative_slope == 0.01
    assert alike(plain, leaky)
    assert [layer.weight.shape for layer in (leaky.head[0], leaky.head[3])] == [(256, 64), (64, 256)]


def test_the_xbm_authors_head_is_kaimings_by_fan_out():
    """research-xbm, utils/init_methods.py: a standard deviation of sqrt(2 / 128), and no bias to begin with."""
    head = build("resnet50_xbm", embedding=128).head
    assert head.weight.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.02) and not head.bias.any()
    assert build("resnet50", embedding=128).head.weight.std().item() < 0.02, "torch's own"


LIBRARYS = ("torchvision:mobilenet_v3_small", "torchvision:regnet_y_400mf")


@pytest.mark.parametrize("name, projection", [(n, n[:8] != "resnet50") for n in (*NETWORKS, *LIBRARYS)])
def test_seeds_decide_trunk_and_head_and_the_global_generator_is_left_alone(name, projection):
    before = torch.get_rng_state()
    one, two, other = (build(name, 1, 32, projection, seed, embedding=16) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before) and alike(one, two)
    assert "standardise.mean" not in one.state_dict(), "images are taken as they are"
    last = "head.3.weight" if projection else "head.weight"
    for layer in (next(iter(one.state_dict())), last):
        assert not torch.equal(one.state_dict()[layer], other.state_dict()[layer])


# --- networks of one's own


class Mine(nn.Module):
    """A user's network: features [b, 6], with a part that is to stay in evaluation mode, and randomness of its own."""

    def __init__(self, channels, image_size):
        super().__init__()
        self.conv = nn.Conv2d(channels, 6, image_size // 2)
        self.norm = nn.BatchNorm2d(6).eval()

    def forward(self, x):
        return F.dropout(self.norm(self.conv(x)), training=self.training).amax((2, 3))


def lazy(channels, image_size):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(5))


def fails(channels, image_size):
    raise KeyError("no such size")


def keeps_maps(channels, image_size):
    return nn.Conv2d(channels, 4, 3)


class Two(nn.Flatten):
    def __init__(self, channels, image_size):
        super().__init__()

    def forward(self, x):
        return x, x


def test_a_users_function_gives_the_trunk():
    before, name = torch.get_rng_state(), f"{__name__}:Mine"
    model = build(name, 1, 12, embedding=3)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert model.features(torch.zeros(4, 1, 12, 12)).shape == (4, 6) and model.head.in_features == 6
    assert model.trunk.training and not model.trunk.norm.training, "modes are as the user left them"
    assert torch.equal(model.trunk.norm.running_mean, torch.zeros(6)), "the dry pass trains nothing"
    again, other = build(name, 1, 12, embedding=3), build(name, 1, 12, seed=1)
    assert alike(model, again) and not torch.equal(model.trunk.conv.weight, other.trunk.conv.weight)
    projected = build(name, 3, 12, projection=True)
    assert projected(torch.randn(4, 3, 12, 12, generator=seeded())).shape == (4, 64)
    assert sum(p.numel() for p in build(f"{__name__}:lazy", 3, 8).parameters()) == 5 * (3 * 8 * 8 + 1)


SHARED = {frozen: nn.Linear(48, 3).requires_grad_(not frozen) for frozen in (False, True)}


def shares():
    return nn.Sequential(nn.Flatten(), SHARED[False])


def shares_frozen():
    return nn.Sequential(nn.Flatten(), SHARED[True], nn.Linear(3, 2))


def test_a_users_network_has_no_trained_weights_of_another():
    """Else the second training would begin with the weights of the first."""
    frozen = [build(f"{__name__}:shares_frozen", 3, 4) for _ in range(2)]
    assert frozen[0].trunk[1] is frozen[1].trunk[1]
    build(f"{__name__}:shares", 3, 4)
    with pytest.raises(ValueError, match="it returned parts of an earlier call's, allowed is a new module at each"):
        build(f"{__name__}:shares", 3, 4)


def test_a_projector_is_the_authors():
    """barlowtwins' main.py: Linear without bias, BatchNorm, ReLU; the last layer linear alone. Raw on demand."""
    model, raw = (build("small_conv", 1, 28, True, projector=(32, 16, 8), **how) for how in ({}, {"normalised": False}))
    kinds = [type(layer).__name__ for layer in model.head]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU", "Linear"]
    linear = [layer for layer in model.head if isinstance(layer, nn.Linear)]
    sizes = [(layer.in_features, layer.out_features, layer.bias) for layer in linear]
    assert sizes == [(512, 32, None), (32, 16, None), (16, 8, None)]
    images = torch.randn(4, 1, 28, 28, generator=seeded())
    assert torch.equal(F.normalize(raw(images), dim=1), model(images))
    assert [type(layer).__name__ for layer in build("small_conv", 1, 28, True, projector=(8,)).head] == ["Linear"]


@pytest.mark.parametrize("name, message", [
    ("vgg", ".*resnet50.*module:function"),
    (f"{__name__}:nothing", f"'{__name__}' has no 'nothing'"),
    (f"{__name__}:fails", r"called with \(channels=3, image_size=8\) it raised KeyError: 'no such size'"),
    (f"{__name__}:keeps_maps", r"to torch.float32 \[2, 4, 6, 6\] on cpu, allowed"),
    (f"{__name__}:Two", "to tuple, allowed are floating point"),
    ("torchvision:resnet51", "raised ValueError: Unknown model resnet51"),
    ("torchvision:squeezenet1_0", "it ends in no linear layer"),
    ("torchvision:vit_b_16", "Wrong image height! Expected 224 but got 8"),
])  # fmt: skip
def test_what_is_wrong_with_a_network_is_said_beforehand(name, message):
    with pytest.raises(ValueError, match=f"network '{name}'.*{message}"):
        build(name, 3, 8)


def test_embeddings_are_unit_vectors_in_float32_under_autocast_too():
    model = build("small_conv", 1, 28, embedding=16).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        z = model(torch.rand(8, 1, 28, 28, generator=seeded()) * 2 - 1)
    assert z.dtype == torch.float32 and (z.norm(dim=1) - 1).abs().max() < 1e-6
