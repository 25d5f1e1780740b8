"""The search as an Optuna sampler: `python optuna_sampler.py`."""

import optuna

from tune_cd.optuna import CoordinateDescentSampler


def objective(trial):
    lr, net = trial.suggest_float("lr", 1e-5, 1, log=True), trial.suggest_categorical("net", ["a", "b"])
    return (lr - 0.01) ** 2 + (net == "a")


study = optuna.create_study(sampler=CoordinateDescentSampler())
study.optimize(objective, n_trials=20)
print(study.best_params, study.best_value)
