"""A Lightning module whose loss is a sum of terms, with trainings that pause: `python lightning_pauses.py`."""

from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from ray import tune
from ray.tune.integration.pytorch_lightning import TuneReportCheckpointCallback
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

from tune_cd import LENGTHS, CoordinateDescentSearch
from tune_cd.balance import terms

EPOCHS = 8
LOSS = terms("align", "uniform", learning_rate=1e-3, optimizer="adam")  # what you use today; all weights are 1


class TwoTerms(LightningModule):
    def __init__(self, config):
        super().__init__()
        self.rate, self.weights = LOSS.rate(config), LOSS.weights(config)
        self.network = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 6))

    def training_step(self, batch, index):
        one, other = (normalize(self.network(view), dim=1) for view in batch[:2])
        align, uniform = (one - other).square().sum(1).mean(), (-2 * torch.pdist(one).square()).exp().mean().log()
        return self.weights["align"] * align + self.weights["uniform"] * uniform

    def validation_step(self, batch, index):  # accuracy of the nearest neighbour's class
        z, labels = normalize(self.network(batch[0]), dim=1), batch[2]
        near = torch.cdist(z, z).fill_diagonal_(torch.inf).argmin(dim=1)
        self.log_dict({"accuracy": (labels[near] == labels).float().mean(), "epochs": self.current_epoch + 1.0})

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.rate)


def trainable(config):
    torch.manual_seed(0)  # the class of a vector shows in 3 of its 12 numbers
    labels, noise = torch.randint(4, (512,)), torch.tensor([0.3] * 3 + [2.0] * 9)
    x = torch.cat([torch.randn(4, 3)[labels], torch.zeros(512, 9)], dim=1)
    data = TensorDataset(*(x + noise * torch.randn(512, 12) for _ in range(2)), labels)
    report = TuneReportCheckpointCallback(["accuracy", "epochs"], filename="last.ckpt")
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(max_epochs=EPOCHS, accelerator="cpu", callbacks=[report], num_sanity_val_steps=0, **quiet)
    paused = tune.get_checkpoint()  # None at the beginning
    last = Path(paused.path, "last.ckpt") if paused else None
    trainer.fit(TwoTerms(config), DataLoader(data, 64, shuffle=True), DataLoader(data, 512), ckpt_path=last)


search = CoordinateDescentSearch(
    **LOSS.search, metric="accuracy", mode="max", lengths=LENGTHS, full_length=("epochs", EPOCHS), budget=2
)
plan = tune.TuneConfig(num_samples=-1, search_alg=search, scheduler=search.scheduler(), reuse_actors=True)
tune.Tuner(trainable, tune_config=plan).fit()
print(search.best)
