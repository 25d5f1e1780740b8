"""Slow oracles of the losses of two views: the papers' formulas as loops over rows and columns, in Python's float64.

z and other are lists of n rows of d numbers; row i of both is of image i. Where a formula of the paper and the authors'
code differ, the oracle has the code's, and the docstring of `trainables.losses.two_views` says so.
"""

import math

from reference import mean


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def squared_distance(x, y):
    return math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def columns(z):
    return [list(column) for column in zip(*z, strict=True)]


def alignment_uniformity(z, other, alpha=2.0, t=2.0):
    """Wang and Isola, sec. 4.1: E |x - y|^alpha of positive pairs, log E exp(-t |x - y|^2) of different images."""

    def uniform(view):
        n = len(view)
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        return math.log(mean(math.exp(-t * squared_distance(view[i], view[j])) for i, j in pairs))

    align = mean(math.sqrt(squared_distance(x, y)) ** alpha for x, y in zip(z, other, strict=True))
    return {"align": align, "uniform": (uniform(z) + uniform(other)) / 2}


def barlow_twins(z, other, epsilon=1e-5):
    """Zbontar et al., eq. 1 and 2, on dimensions that batch normalisation has standardised."""

    def standardised(column):
        centre = mean(column)
        deviation = math.sqrt(mean((a - centre) ** 2 for a in column) + epsilon)
        return [(a - centre) / deviation for a in column]

    one, two = [[standardised(column) for column in columns(view)] for view in (z, other)]
    d, n = len(one), len(z)
    correlation = [[dot(one[i], two[j]) / n for j in range(d)] for i in range(d)]
    on = math.fsum((1 - correlation[i][i]) ** 2 for i in range(d))
    off = math.fsum(correlation[i][j] ** 2 for i in range(d) for j in range(d) if i != j)
    return {"on": on, "off": off}


def vicreg(z, other, epsilon=1e-4):
    """Bardes et al., eq. 1 to 5, with the averages of the authors' code."""
    n, d = len(z), len(z[0])

    def covariance(x, y):
        return math.fsum((a - mean(x)) * (b - mean(y)) for a, b in zip(x, y, strict=True)) / (n - 1)

    def std(view):
        return mean(max(0.0, 1 - math.sqrt(covariance(x, x) + epsilon)) for x in columns(view))

    def cov(view):
        x = columns(view)
        return math.fsum(covariance(x[i], x[j]) ** 2 for i in range(d) for j in range(d) if i != j) / d

    sim = mean(squared_distance(x, y) / d for x, y in zip(z, other, strict=True))
    return {"sim": sim, "std": (std(z) + std(other)) / 2, "cov": cov(z) + cov(other)}


def siglip(z, other, t=10.0, beta=-10.0):
    """Zhai et al., algorithm 1: -1/n times the sum over all i, j of log sigmoid(+-logit), in two parts."""

    def log_sigmoid(x):
        return -math.log1p(math.exp(-x)) if x > -30 else x - math.log1p(math.exp(x))

    n = len(z)
    logits = [[t * dot(x, y) + beta for y in other] for x in z]
    pos = -math.fsum(log_sigmoid(logits[i][i]) for i in range(n)) / n
    neg = -math.fsum(log_sigmoid(-logits[i][j]) for i in range(n) for j in range(n) if i != j) / n
    return {"pos": pos, "neg": neg}


def knn_accuracy(train, train_labels, test, test_labels, k, temperature):
    """Share of the test rows for whose class the k training rows of largest cosine vote with exp(cosine / T)."""
    right = []
    for x, label in zip(test, test_labels, strict=True):
        cosines = [dot(x, y) / math.sqrt(dot(x, x) * dot(y, y)) for y in train]
        nearest = sorted(range(len(train)), key=lambda i, cosines=cosines: -cosines[i])[:k]
        votes = {}
        for i in nearest:
            votes[train_labels[i]] = votes.get(train_labels[i], 0.0) + math.exp(cosines[i] / temperature)
        right.append(max(sorted(votes), key=votes.get) == label)
    return mean(right)
