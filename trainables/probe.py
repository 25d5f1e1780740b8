"""The linear probe, re-exported from `trainables.metrics`."""

from trainables.metrics.linear_probe import linear_probe

__all__ = ["linear_probe"]
