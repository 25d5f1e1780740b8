"""Slow oracles: the paper's formulas as loops over pairs and ranks, in Python's float64. Nothing clever, no torch."""

import math

import numpy as np


def distance(z_i, z_j, kind):
    """d(z_i, z_j) of two unit vectors [d], from the differences (euclidean) or from the cosine."""
    if kind == "euclidean":
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(z_i, z_j, strict=True)))
    return 1 - sum(a * b for a, b in zip(z_i, z_j, strict=True))


def positive_pairs(labels):
    """P: all (i, j) with i != j and equal labels."""
    b = len(labels)
    return [(i, j) for i in range(b) for j in range(b) if i != j and labels[i] == labels[j]]


def negative_pairs(labels):
    """E: all (i, j) with different labels."""
    b = len(labels)
    return [(i, j) for i in range(b) for j in range(b) if labels[i] != labels[j]]


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def margin_terms(z, labels, margin, kind, q):
    """eq:contrastive averaged as in eq:contrastive_means; z [b, d] array, labels [b] list."""
    positive = mean(distance(z[i], z[j], kind) ** q for i, j in positive_pairs(labels))
    entropy = mean(max(0.0, margin - distance(z[i], z[j], kind)) ** q for i, j in negative_pairs(labels))
    return positive, entropy


def global_margin_loss(z, labels, margin, kind, q):
    """The global average of ssec:ctrm_norm: every ordered pair weighs the same."""
    positive = [distance(z[i], z[j], kind) ** q for i, j in positive_pairs(labels)]
    entropy = [max(0.0, margin - distance(z[i], z[j], kind)) ** q for i, j in negative_pairs(labels)]
    return mean(positive + entropy)


def infonce_terms(z, labels, temperature, kind):
    """eq:infoNCE_onepair averaged as in eq:infoNCE_means; z [b, d] array, labels [b] list."""

    def entropy(i, j):
        others = [j] + [k for k in range(len(labels)) if labels[k] != labels[i]]  # K_ij
        return math.log(math.fsum(math.exp(-distance(z[i], z[k], kind) / temperature) for k in others))

    pairs = positive_pairs(labels)
    positive = mean(distance(z[i], z[j], kind) / temperature for i, j in pairs)
    return positive, mean(entropy(i, j) for i, j in pairs)


def ranking_scores(rel, relevant):
    """(AP-topR, AP@R, precision at 1, R-precision) of a query; rel: 0s and 1s, best rank first; R = relevant."""
    top = rel[:relevant]
    gained = math.fsum(sum(top[: k + 1]) / (k + 1) for k in range(relevant) if top[k])  # sum of P(k) rel(k)
    return gained / sum(top) if any(top) else 0.0, gained / relevant, float(top[0]), sum(top) / relevant


def retrieval_scores(embeddings, labels):
    """Mean of `ranking_scores` over the queries with another image of their class; equal cosines in order of rows."""
    z = np.asarray(embeddings, dtype=np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    rows = []
    for query in range(len(z)):
        others = [i for i in range(len(z)) if i != query]
        relevant = sum(labels[i] == labels[query] for i in others)
        if relevant:
            others.sort(key=lambda i, query=query: (-float(z[query] @ z[i]), i))
            rows.append(ranking_scores([int(labels[i] == labels[query]) for i in others], relevant))
    return dict(zip(("r_map", "map_at_r", "precision_at_1", "r_precision"), np.mean(rows, axis=0), strict=True))
