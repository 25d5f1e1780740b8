"""Clusters: their files, capacity, nodes and preemption. Commands: `python -m tune_cd.cluster --help`."""
