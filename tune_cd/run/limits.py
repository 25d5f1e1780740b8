"""The values that the options of `tune_cd.run` may have, whether they were typed or are read from `study.json`."""

from dataclasses import fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

SECONDS = 1e9  # 32 years; a longer wait overflows the clock of a thread's lock
LIMITS: dict[str, tuple[float, float]] = {
    "num_samples": (1, 10**6), "baseline_trials": (1, 10**6), "batch_size": (1, 10**6),
    "batch_sizes": (1, 10**6), "replicates": (1, 1000), "confirm": (0, 1000), "pack": (1, 1000),
    "cpus_per_trial": (1, 10**5), "workers": (1, 10**5), "max_failures": (0, 10**6), "ondemand_after": (0, SECONDS),
    "trial_timeout": (0, SECONDS), "checkpoint_seconds": (0, SECONDS),
}  # fmt: skip
"""Field -> least and largest value, of each element if there are several."""

SEEDS = 2**63  # the table's and torch's largest seed is one less


def check_fields(options: Any) -> None:
    """Check each field's type and limits. options: a frozen dataclass. Raises ValueError naming option, value, and the
    values that are allowed."""
    kinds = get_type_hints(type(options))
    for name in (field.name for field in fields(options)):
        value = getattr(options, name)
        if not _is(value, kinds[name]):
            said = getattr(kinds[name], "__name__", kinds[name])
            raise ValueError(f"{option_of(name)} {value!r}: a value of type {said} is needed")
        least, most = LIMITS.get(name, (None, None))
        for number in value if isinstance(value, tuple) else (value,):
            if least is not None and number is not None and not least <= number <= most:
                raise ValueError(f"{option_of(name)} {number}: at least {least} and at most {most:,.15g}")


def option_of(name: str) -> str:
    """The option that a field is set by."""
    return "--set" if name == "assignments" else f"--{name.replace('_', '-')}"


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        there = isinstance(value, tuple) and (parts[-1] is Ellipsis or len(parts) == len(value))
        return there and all(_is(part, parts[0]) for part in value)
    return isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
