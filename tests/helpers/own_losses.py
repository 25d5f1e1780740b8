"""Losses of a user's own, named `own_losses:<function>`, right and wrong ones."""

import torch


def three_parts(z, labels):
    """Three terms of the cosines: those of equal labels, of different ones, and of all, squared."""
    same = labels[:, None] == labels[None, :]
    cosines = z @ z.T  # [b, b]
    pull = ((1 - cosines) * same).sum() / same.sum()
    push = (cosines * ~same).square().sum() / (~same).sum()
    return {"pull": pull, "push": push, "all": cosines.square().mean()}


three_parts.published = {"all": 0.5, "pull": 2, "push": 3.0}


def pairwise(z, labels):
    """A positive and an entropy term under their short names."""
    from trainables.losses import margin_terms

    positive, entropy = margin_terms(z, labels)
    return {"p": positive, "e": entropy}


def unequal(z, labels):
    """The same, the entropy term first and of four times the weight."""
    return dict(reversed(pairwise(z, labels).items()))


unequal.published = {"p": 1, "e": 4}


def entropy_first(z, labels):
    """The same, of equal weight."""
    return dict(reversed(pairwise(z, labels).items()))


def raw(z, labels):
    """Embeddings as they are: their mean square, and their distance from length 3."""
    return {"square": z.square().mean(), "length": (z.norm(dim=1) - 3).abs().mean()}


raw.normalised = False


def changing(z, labels):
    """Other terms for large batches."""
    return {"a" if len(z) < 20 else "b": z.square().mean()}


def drawing(z, labels):
    """Draws from torch's global generator."""
    return {"noisy": (z + torch.randn_like(z)).square().mean()}


def returns_a_tuple(z, labels):
    return z.mean(), z.std()


def names_with_a_dash(z, labels):
    return {"pull-in": z.mean()}


def pulling(term, **published):
    """A loss of the one term "pull", which is term(z)."""

    def loss(z, labels):
        return {"pull": term(z)}

    if published:
        loss.published = published
    return loss


per_row = pulling(lambda z: z.mean(1))
detached = pulling(lambda z: z.detach().mean())
not_a_number = pulling(lambda z: (z.mean() - 10).sqrt())
endless_slope = pulling(lambda z: (z @ z.T - z @ z.T).sqrt().mean())
published_otherwise = pulling(torch.mean, push=1.0)
published_zero = pulling(torch.mean, pull=0.0)


def exits(z, labels):
    raise SystemExit(3)


def raises(z, labels):
    raise RuntimeError("no such batch")


not_a_function = 3


class Proxies(torch.nn.Module):
    """Pulls towards proxies of its own, which would have to be trained."""

    def __init__(self):
        super().__init__()
        self.proxies = torch.nn.Parameter(torch.ones(1, 1))

    def forward(self, z, labels):
        return {"pull": (z - self.proxies).square().mean()}


proxies, still = Proxies(), Proxies().requires_grad_(False)
