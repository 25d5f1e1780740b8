"""A loss of your own in the built-in trainer. In this folder:

    python -m tune_cd.run --loss own_loss:pull_push_spread --start lr=0.01,b=64

Each term gets a weight, all of which are searched; the baseline `published` tunes the learning rate alone.
"""

import torch


def pull_push_spread(z, labels):
    """Three unweighted terms of unit vectors z [b, d] and their labels [b]."""
    same = labels[:, None] == labels[None, :]  # [b, b]
    cosines = z @ z.T
    pull = ((1 - cosines) * same).sum() / same.sum()
    push = (torch.relu(cosines) * ~same).sum() / (~same).sum()
    spread = torch.relu(1 / z.shape[1] ** 0.5 - z.std(0)).mean()  # each coordinate is used
    return {"pull": pull, "push": push, "spread": spread}


pull_push_spread.published = {"pull": 1, "push": 2, "spread": 1}  # the weights that you use today
