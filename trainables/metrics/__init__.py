"""Scores of embeddings: retrieval, linear probe, the revisited benchmarks."""
