"""The weight of a loss term in Hugging Face's Trainer, with trainings that pause: `python hugging_face.py`."""

import numpy as np
import torch
from ray import tune
from torch.nn.functional import normalize
from transformers import Trainer, TrainingArguments

from tune_cd import LENGTHS, CoordinateDescentSearch

EPOCHS = 8
TODAY = {"learning_rate": 1e-3, "weight": 1.0}


class Encoder(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 6))
        self.weight = weight  # of the second term

    def forward(self, one, other, labels):
        z, other = (normalize(self.network(view), dim=1) for view in (one, other))
        align, uniform = (z - other).square().sum(1).mean(), (-2 * torch.pdist(z).square()).exp().mean().log()
        return {"loss": align + self.weight * uniform, "z": z}


def model(trial):  # None before the first one
    torch.manual_seed(0)
    return Encoder((trial or TODAY)["weight"])


def accuracy(predicted):  # of the nearest neighbour's class
    z, labels = predicted
    return {"accuracy": float((labels[(z @ z.T - 3 * np.eye(len(z))).argmax(1)] == labels).mean())}


torch.manual_seed(0)  # the class of a vector shows in 3 of its 12 numbers
labels, noise = torch.randint(4, (512,)), torch.tensor([0.3] * 3 + [2.0] * 9)
x = torch.cat([torch.randn(4, 3)[labels], torch.zeros(512, 9)], dim=1)
views = (x + noise * torch.randn(512, 12) for _ in range(2))
data = [{"one": one, "other": other, "labels": label} for one, other, label in zip(*views, labels)]
args = TrainingArguments(
    "out", num_train_epochs=EPOCHS, eval_strategy="epoch", save_strategy="epoch",
    per_device_train_batch_size=64, per_device_eval_batch_size=512, use_cpu=True, report_to=[], disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(model_init=model, args=args, train_dataset=data, eval_dataset=data, compute_metrics=accuracy)
ranges = {"learning_rate": tune.loguniform(1e-5, 1.0), "weight": tune.loguniform(1e-3, 1e3)}
search = CoordinateDescentSearch(
    ranges, "objective", "max", start=TODAY, lengths=LENGTHS, full_length=("epoch", EPOCHS), budget=3
)
trainer.hyperparameter_search(
    lambda _: {}, lambda metrics: metrics["eval_accuracy"], direction="maximize", backend="ray", n_trials=-1,
    search_alg=search, scheduler=search.scheduler(), reuse_actors=True,
)  # fmt: skip
print(search.best)
