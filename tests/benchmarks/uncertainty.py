"""Uncertainty weighting (Kendall et al. 2018) of the margin loss, in the place of a searched balance. In this folder:

    python -m tune_cd.run --dataset glyphs --loss uncertainty:margin --confirm 3

Each term has the weight 1 / exp(s), and s is added to the loss. The best s is the logarithm of the term, so the loss is
the sum of the terms' logarithms (Kirchdorfer et al. 2024). The baseline `published` tunes its learning rate alone; the
search also tunes the balance of the logarithms.
"""

import torch

from trainables.losses import margin_terms

LEAST = 1e-3  # a batch may have no negative within the margin


def margin(z, labels):
    positive, entropy = margin_terms(z, labels)
    return {"positive": torch.log(LEAST + positive), "entropy": torch.log(LEAST + entropy)}


margin.published = {"positive": 1, "entropy": 1}
