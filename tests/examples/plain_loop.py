"""Tune two numbers of any program in a loop: `python plain_loop.py`. Numpy and scipy are enough.

A loss is minimised, here that of a linear regression on 40 noisy examples.
"""

import numpy as np

from tune_cd import CoordinateDescent, Space

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 30))
Y = X @ RNG.normal(size=30) + 3 * RNG.normal(size=2000)


def train(lr, decay):
    """The validation loss after 300 steps of gradient descent; infinite where they diverge."""
    weights = np.zeros(30)
    with np.errstate(all="ignore"):
        for _ in range(300):
            weights -= lr * (X[:40].T @ (X[:40] @ weights - Y[:40]) / 40 + decay * weights)
        return np.square(X[40:] @ weights - Y[40:]).mean()


today = {"lr": 1e-3, "decay": 1e-3}
search = CoordinateDescent(Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0)), start=today)
for _ in range(20):
    h = search.ask()
    if h is None:  # nothing promising is left
        break
    search.tell(h, -train(**h))  # larger is better; infinity or NaN counts as a failure
best, value = search.best
print(f"{best}: loss {-value:.2f}, today {train(**today):.2f}")
