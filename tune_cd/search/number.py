"""Which values are numbers: Python's and numpy's, and what holds just one."""

from decimal import Decimal
from math import inf
from numbers import Integral, Real
from typing import Any


def number_of(value: Any) -> float | int | None:
    """`value` as Python's own int or float, which JSON can store; None unless it is a real number, or holds just one.

    Numbers are Python's and numpy's, Decimal and Fraction; arrays and tensors of one element hold one. Booleans, text
    and complex numbers are none. A number beyond the range of a float is ±inf.
    """
    if type(value) is float:  # nearly all are
        return value
    if not isinstance(value, (Real, Decimal)) and callable(getattr(value, "item", None)):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # it has several elements or none
            return None
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    real: Any = value
    try:
        number = float(real)
    except OverflowError:
        return inf if real > 0 else -inf
    except (TypeError, ValueError):  # a time, a signalling NaN
        return None
    return int(real) if isinstance(real, Integral) else number


def is_number(value: object) -> bool:
    """Whether a value is a number, see `number_of`."""
    return number_of(value) is not None


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, Python's or numpy's, of at least `least`; 2.0 is none."""
    number = number_of(value)
    return isinstance(number, int) and number >= least
