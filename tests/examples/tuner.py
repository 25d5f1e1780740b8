"""A searcher for any trainable, and a row a trial: `python tuner.py`."""

import numpy as np
from ray import tune

from tune_cd import CoordinateDescentSearch


def trainable(config):  # yours; this one is linear regression on 40 noisy examples
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2000, 30)), np.zeros(30)
    y = x @ rng.normal(size=30) + 3 * rng.normal(size=2000)
    for _ in range(300):
        weights -= config["lr"] * (x[:40].T @ (x[:40] @ weights - y[:40]) / 40 + config["decay"] * weights)
    tune.report({"accuracy": float(np.mean((x[40:] @ weights > 0) == (y[40:] > 0)))})


search = CoordinateDescentSearch(start={"lr": 1e-4, "decay": 1e-3})  # what you use today
tuner = tune.Tuner(
    trainable,
    param_space={"lr": tune.loguniform(1e-5, 1.0), "decay": tune.loguniform(1e-4, 10.0)},
    tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=20, search_alg=search, reuse_actors=True),
    run_config=tune.RunConfig(callbacks=[search.callback("results", "own")]),
)
best = tuner.fit().get_best_result()
print(best.config, best.metrics["accuracy"])
