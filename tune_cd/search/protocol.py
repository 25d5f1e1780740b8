"""The protocol of every search method: ask for a configuration, tell its value. Larger values are better."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tune_cd.search.space import Configuration, Space

OFF_LINES = ("start", "sampled")
"""The values of `Proposal.direction` outside line searches: a starting point, and a baseline's own choice."""


@dataclass(frozen=True)
class Proposal:
    """A configuration and its origin, the results table's columns `direction` and `line_position`.

    `line_position` is γ on the line x + γ·direction, in coordinates per unit of the direction. It is 0 at the line's
    origin.
    """

    h: Configuration
    direction: str
    line_position: float

    def annotation(self, trial_index: int) -> dict[str, Any]:
        """The results table's columns. trial_index: the trial's place in the order of asking."""
        return {"direction": self.direction, "line_position": self.line_position, "trial_index": trial_index}


class Told(NamedTuple):
    """The result of a trial. value: larger is better; None: it failed. censored: it was stopped early, see `tell`."""

    h: Mapping[str, Any]
    value: float | None
    censored: bool = False


@runtime_checkable
class Optimiser(Protocol):
    """A search method, as ask and tell. The optimiser never evaluates, sleeps, logs or opens a file.

    workers: the largest number of live trials; None: no limit. It limits asking and shapes nothing else, so it may be
        changed during a search.
    """

    space: Space
    workers: int | None

    def ask(self) -> Configuration | None:
        """The next configuration to evaluate; None while `workers` trials are live, or when nothing useful is left."""

    def tell(self, h: Mapping[str, Any], value: float | None, censored: bool = False) -> None:
        """Report a value; None or NaN means the trial failed. A second report of the same h replaces the first.

        censored: the trial was stopped early because it was worse than others. Its value may lose a comparison, but
        never wins one.
        """

    def recall(self, history: Sequence[Told]) -> None:
        """Continue an earlier run of the same search from its trials, in asking order.

        Call it before the first `ask`. The recalled trials are not asked for again.
        """

    @property
    def finished(self) -> bool:
        """True when nothing is left to propose, whatever values are told later."""

    @property
    def live(self) -> list[Configuration]:
        """Configurations asked for and not yet told, in asking order."""

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The best configuration told so far and its value; None before the first number."""

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """The line on which a configuration was proposed. Raises KeyError for one never asked for."""

    def state(self) -> dict[str, Any]:
        """Everything needed to continue the search, as plain JSON types."""


def check_workers(workers: int | None) -> None:
    """Raise ValueError unless `workers` is None or a whole number of at least 1."""
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise ValueError(f"workers {workers!r}: a whole number, at least 1, or None for no limit")


def check_version(state: Mapping[str, Any], version: int) -> None:
    """Raise ValueError unless a search's state has this version."""
    if state.get("version") != version:
        raise ValueError(f"search state of version {state.get('version')!r}; this release reads version {version}")


def is_free(workers: int | None, live: int) -> bool:
    """Whether one more trial may start while `live` trials run."""
    return workers is None or live < workers


def uncensored(value: float, censored: bool, best: float | None) -> float:
    """The value as it counts in comparisons: a censored value is capped just below `best`, the best uncensored value
    (None: no cap)."""
    return min(value, nextafter(best, -inf)) if censored and best is not None else value


def best_of(history: Iterable[tuple[Configuration, float | None]]) -> tuple[Configuration, float] | None:
    """The best (h, value) of a history in asking order; of equal values the first. None without any number."""
    numbers = [(h, value) for h, value in history if value is not None]
    return max(numbers, key=lambda pair: pair[1]) if numbers else None
