"""How far a mean may be off: one definition for all tables."""

import numpy as np
from scipy.stats import t as student


def half_interval(std: float, n: int) -> float:
    """Half the 95 % interval of a mean of n values with this sample standard deviation (Student's t); NaN below two."""
    return float(student.ppf(0.975, n - 1) * std / np.sqrt(n)) if n > 1 else np.nan
