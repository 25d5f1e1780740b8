"""A study of a user's own Tuner: four parameters, one linear from below 0, one of few whole numbers, one a category;
trainings that a scheduler stopped, and what each reported. Nothing is trained. No test in here."""

import numpy as np
import pandas as pd
from studies import row, table

OPTIMIZERS = ("sgd", "adamw", "lion")
EPOCHS = 16
SPACE = [
    {"name": "lr", "low": 1e-4, "high": 0.3, "values": None, "step": None, "scale": "log", "growth": 0.0},
    {"name": "momentum", "low": -0.5, "high": 0.99, "values": None, "step": None, "scale": "linear", "growth": 0.0},
    {"name": "layers", "low": 1, "high": 4, "values": [1, 2, 3, 4], "step": None, "scale": "log", "growth": 0.0},
    {"name": "optimizer", "low": None, "high": None, "values": list(OPTIMIZERS), "step": None, "scale": "category"},
]


def own_tuner(number: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(trials, their learning curves). Every fourth one is trained to the end, one fails, one diverges."""
    rng, rows, choices, curves = np.random.default_rng(5), [], [], []
    for n in range(number):
        lr, momentum = 10 ** rng.uniform(-4, -0.6), 0.0 if n == 0 else rng.uniform(-0.5, 0.99)
        layers, optimizer = int(rng.integers(1, 5)), OPTIMIZERS[n % 3]
        epochs = EPOCHS if n % 4 == 0 else int(rng.choice([2, 4, 8]))
        score = 0.9 - 0.06 * (np.log10(lr) + 2.2) ** 2 - 0.2 * (momentum - 0.8) ** 2 - 0.05 * np.log2(EPOCHS / epochs)
        score += {"sgd": -0.02, "adamw": 0.0, "lion": -0.05}[optimizer]
        status = {20: "failed", 24: "diverged"}.get(n, "completed" if epochs == EPOCHS else "stopped")
        rows.append(row(
            n, status, float(score), study="my-net", search="cd", metric_name="accuracy",
            times=(n * 60.0, n * 60.0 + 99),
            params={"lr": lr, "momentum": momentum, "layers": float(layers)},
            config={"space": SPACE, "full_length": ["epoch", EPOCHS]},
            scores={"accuracy": float(score), "epoch": float(epochs)}, trial_id=f"cd-{n:05d}", gpus=1.0,
            error="ValueError: <b>no</b>" if status == "failed" else None,
            **dict.fromkeys(("dataset", "task", "loss", "seed", "search_seed")),
        ))  # fmt: skip
        choices.append({"optimizer": optimizer})
        if status in ("completed", "stopped"):
            looks = range(1, epochs + 1)
            reports = {"study": "my-net", "trial_id": f"cd-{n:05d}", "images_seen": looks}
            curves.append(pd.DataFrame(reports | {"val_score": [score * look / epochs for look in looks]}))
    return table(rows).assign(choices=choices), pd.concat(curves, ignore_index=True)
