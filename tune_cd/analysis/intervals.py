"""Confidence intervals of means: one definition for all tables."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit  # scipy.stats takes a second to import


def student(freedom: int) -> float:
    """Half the 95 % interval of Student's t with this many degrees of freedom, at least one."""
    return float(stdtrit(freedom, 0.975))


def half_interval_of(values: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Half the 95 % interval of the mean of values [n] (Student's t); NaN for n < 2."""
    n = len(values)
    return float(student(n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.nan
