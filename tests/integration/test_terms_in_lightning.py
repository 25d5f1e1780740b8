"""A Lightning module whose loss is a sum of three terms, trained by Adam and tuned by `balance.terms`: no Ray."""

import warnings

import pytest
import torch
from torch.nn.functional import mse_loss, relu
from torch.utils.data import DataLoader, TensorDataset

from tune_cd import CoordinateDescent
from tune_cd.balance import terms

pytestmark = pytest.mark.slow
lightning = pytest.importorskip("pytorch_lightning")

LOSS = terms("sim", "std", "cov", weights=(25, 25, 1), learning_rate=1e-3, optimizer="adam")


class ThreeTerms(lightning.LightningModule):
    """Two noisy views of a vector; config: what the search asks for."""

    def __init__(self, config):
        super().__init__()
        self.rate, self.weights = LOSS.rate(config), LOSS.weights(config)
        self.network = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 6))

    def training_step(self, batch, index):
        one, other = (self.network(batch[0] + view) for view in (0.0, batch[1]))
        covariances = [torch.cov(z.T) for z in (one, other)]
        value = {
            "sim": mse_loss(one, other),
            "std": sum(relu(1 - (z.var(0) + 1e-4).sqrt()).mean() / 2 for z in (one, other)),
            "cov": sum((c - c.diag().diag()).square().sum() / len(c) for c in covariances),
        }
        return sum(self.weights[name] * value[name] for name in LOSS.names)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.rate)


def images():
    """(x [512, 12], a view's difference [512, 12], labels [512]): four classes in 3 of the 12 numbers."""
    generator = torch.Generator().manual_seed(0)
    centres, labels = torch.randn(4, 3, generator=generator), torch.randint(4, (512,), generator=generator)
    noise = torch.randn(2, 512, 12, generator=generator) * torch.tensor([0.3] * 3 + [2.0] * 9)
    x = torch.cat([centres[labels], torch.zeros(512, 9)], dim=1) + noise[0]
    return x, noise[1] - torch.cat([torch.zeros(512, 3), noise[0][:, 3:]], dim=1), labels


def accuracy(h):
    """Of the nearest neighbour's class, after a short training."""
    lightning.seed_everything(0, verbose=False)
    x, change, labels = images()
    module = ThreeTerms(h)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(max_epochs=6, accelerator="cpu", devices=1, **quiet)
        trainer.fit(module, DataLoader(TensorDataset(x, change), batch_size=64))
    with torch.no_grad():
        z = module.network(x)
    near = torch.cdist(z, z).fill_diagonal_(torch.inf).argmin(dim=1)
    return float((labels[near] == labels).float().mean())


def test_a_lightning_module_is_tuned_by_its_terms():
    search = CoordinateDescent(**LOSS.search)
    for _ in range(10):
        h = search.ask()
        assert set(h) == {"lr", "ratio_std", "ratio_cov"}
        search.tell(h, accuracy(h))
    (first, today), (best, value) = search.history[0], search.best
    assert first == LOSS.start and value >= today + 0.05, f"{value} at {best}, {today} today"
