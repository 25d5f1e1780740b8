"""Retrieval scores, re-exported from `trainables.metrics`."""

from trainables.metrics.retrieval import retrieval_scores
from trainables.metrics.revisited import revisited_map

__all__ = ["retrieval_scores", "revisited_map"]
