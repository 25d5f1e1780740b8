"""The linear probe: the public name of `trainables.metrics`."""

from trainables.metrics.linear_probe import linear_probe

__all__ = ["linear_probe"]
