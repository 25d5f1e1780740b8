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
    return margin_terms_of(z, z, positive_pairs(labels), negative_pairs(labels), margin, kind, q)


def global_margin_loss(z, labels, margin, kind, q):
    """The global average of ssec:ctrm_norm: every ordered pair weighs the same."""
    positive = [distance(z[i], z[j], kind) ** q for i, j in positive_pairs(labels)]
    entropy = [max(0.0, margin - distance(z[i], z[j], kind)) ** q for i, j in negative_pairs(labels)]
    return mean(positive + entropy)


def infonce_terms(z, labels, temperature, kind):
    """eq:infoNCE_onepair averaged as in eq:infoNCE_means; z [b, d] array, labels [b] list."""
    return infonce_terms_of(z, z, positive_pairs(labels), negative_pairs(labels), temperature, kind)


def ranking_scores(rel, relevant):
    """(AP-topR, AP@R, precision at 1, R-precision) of a query; rel: 0s and 1s, best rank first; R = relevant."""
    top = rel[:relevant]
    gained = math.fsum(sum(top[: k + 1]) / (k + 1) for k in range(relevant) if top[k])  # sum of P(k) rel(k)
    return gained / sum(top) if any(top) else 0.0, gained / relevant, float(top[0]), sum(top) / relevant


def rankings(embeddings, labels):
    """For each query with another image of its class, whether the others are of it (0s and 1s), best rank first; equal
    cosines in order of rows."""
    z = np.asarray(embeddings, dtype=np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    for query in range(len(z)):
        others = [i for i in range(len(z)) if i != query]
        others.sort(key=lambda i, query=query: (-float(z[query] @ z[i]), i))
        if any(hits := [int(labels[i] == labels[query]) for i in others]):
            yield hits


def retrieval_scores(embeddings, labels):
    """Mean of `ranking_scores` over the queries with another image of their class."""
    rows = [ranking_scores(hits, sum(hits)) for hits in rankings(embeddings, labels)]
    return dict(zip(("r_map", "map_at_r", "precision_at_1", "r_precision"), np.mean(rows, axis=0), strict=True))


def revisited_ap(ranking, positives, junk):
    """AP of one query by the protocol of revisited Oxford and Paris; ranking: positions, best first; None without
    positives."""
    if not positives:
        return None
    kept = [position for position in ranking if position not in junk]
    ranks = [rank for rank, position in enumerate(kept) if position in positives]
    precisions = [((j / r if r else 1.0) + (j + 1) / (r + 1)) / 2 for j, r in enumerate(ranks)]
    return math.fsum(precisions) / len(positives)


def revisited_map(similarities, ground_truth):
    """The three means of `revisited_ap`; similarities: [queries][database] lists, equal ones in order of positions."""
    levels = {
        "easy": (["easy"], ["junk", "hard"]),
        "medium": (["easy", "hard"], ["junk"]),
        "hard": (["hard"], ["junk", "easy"]),
    }
    scores = {}
    for level, (good, bad) in levels.items():
        values = []
        for row, lists in zip(similarities, ground_truth, strict=True):
            ranking = sorted(range(len(row)), key=lambda i, row=row: (-row[i], i))
            positives, junk = ({i for name in names for i in lists[name]} for names in (good, bad))
            values.append(revisited_ap(ranking, positives, junk))
        scores[f"{level}_map"] = mean(value for value in values if value is not None)
    return scores


def recall_at(embeddings, labels, k):
    """Share of the queries with another image of their class that have one among the k nearest others."""
    return mean(any(hits[:k]) for hits in rankings(embeddings, labels))


def memory_pairs(labels, slots, memory_labels):
    """(P, E) between a batch and the filled memory: (i, j) of equal labels but for i's own slot; of different
    labels."""
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(memory_labels))]
    positives = [(i, j) for i, j in pairs if labels[i] == memory_labels[j] and slots[i] != j]
    return positives, [(i, j) for i, j in pairs if labels[i] != memory_labels[j]]


def margin_terms_of(z, others, positives, negatives, margin, kind, q):
    """Both margin terms averaged over given pairs of z's rows [n, d] with the rows of others [m, d]."""
    positive = mean(distance(z[i], others[j], kind) ** q for i, j in positives)
    return positive, mean(max(0.0, margin - distance(z[i], others[j], kind)) ** q for i, j in negatives)


def infonce_terms_of(z, others, positives, negatives, temperature, kind):
    """Both InfoNCE terms averaged over given positive pairs; K_ij is j and the negatives of i."""

    def entropy(i, j):
        k_ij = [j] + [k for anchor, k in negatives if anchor == i]
        return math.log(math.fsum(math.exp(-distance(z[i], others[k], kind) / temperature) for k in k_ij))

    positive = mean(distance(z[i], others[j], kind) / temperature for i, j in positives)
    return positive, mean(entropy(i, j) for i, j in positives)


def published_memory_loss(z, labels, others, other_labels, threshold=0.5):
    """Wang et al.'s contrastive loss of anchors z [b, d] with others [m, d], a batch or a memory (sec:xbm's S1).

    For each anchor 1 - s summed over its positives, and s over its negatives with s > threshold; averaged over the
    anchors. As published, an item's own copy is told by its similarity, 1. Rows of numbers or of scalar tensors.
    """
    total = 0
    for z_i, label in zip(z, labels, strict=True):
        for z_j, other_label in zip(others, other_labels, strict=True):
            s = sum(a * b for a, b in zip(z_i, z_j, strict=True))
            if label == other_label and s < 1 - 1e-5:
                total = total + (1 - s)
            if label != other_label and s > threshold:
                total = total + s
    return total / len(labels)
