"""The protocol every search method obeys: ask for a configuration, tell its value, larger is better."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tune_cd.search.space import Configuration, Space

OFF_LINES = ("start", "sampled")
"""`Proposal.direction` of what no line search proposed: a starting point, a baseline's own choice."""


@dataclass(frozen=True)
class Proposal:
    """A configuration and where it comes from: the results table's `direction` and `line_position`.

    `line_position` is γ on the line through the line's origin, in coordinates per unit of the direction (0 at the
    origin).
    """

    h: Configuration
    direction: str
    line_position: float

    def annotation(self, trial_index: int) -> dict[str, Any]:
        """The results table's columns; trial_index: its place in the order of asking."""
        return {"direction": self.direction, "line_position": self.line_position, "trial_index": trial_index}


class Told(NamedTuple):
    """What a trial found. value: larger is better; None: it failed. censored: it was stopped early, see `tell`."""

    h: Mapping[str, Any]
    value: float | None
    censored: bool = False


@runtime_checkable
class Optimiser(Protocol):
    """Ask and tell. The optimiser never evaluates, sleeps, logs or opens a file.

    workers: so many trials may be live at a time, None: any number; it limits asking and shapes nothing else, so it
        may be changed.
    """

    space: Space
    workers: int | None

    def ask(self) -> Configuration | None:
        """The next configuration to evaluate; None while `workers` are live, or nothing useful is left to propose."""

    def tell(self, h: Mapping[str, Any], value: float | None, censored: bool = False) -> None:
        """Report a value; None or NaN means the trial failed. A second report of the same h replaces the first.

        censored: the trial was stopped early, for being worse than others. Its value may lose a comparison, never win
        one.
        """

    def recall(self, history: Sequence[Told]) -> None:
        """The trials of an earlier run of this same search, in asking order: it goes on where that one stopped.

        To be called before the first `ask`. None of them is asked for again.
        """

    @property
    def finished(self) -> bool:
        """True when nothing is left to propose, whatever is told."""

    @property
    def live(self) -> list[Configuration]:
        """Configurations asked for and not yet told, in asking order."""

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The best configuration told so far and its value; None before the first number."""

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """Which line an asked configuration was proposed on. Raises KeyError for one never asked."""

    def state(self) -> dict[str, Any]:
        """Everything needed to continue, as plain JSON types."""


def check_workers(workers: int | None) -> None:
    """Raises ValueError for what is neither a whole number of at least 1 nor None."""
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise ValueError(f"workers {workers!r}: a whole number, at least 1, or None for no limit")


def check_version(state: Mapping[str, Any], version: int) -> None:
    """Raises ValueError for a search's state of another version than this one."""
    if state.get("version") != version:
        raise ValueError(f"search state of version {state.get('version')!r}; this release reads version {version}")


def is_free(workers: int | None, live: int) -> bool:
    """Whether one more trial may run while `live` do."""
    return workers is None or live < workers


def uncensored(value: float, censored: bool, best: float | None) -> float:
    """What a value counts as: a censored one as just less than the `best` of those that are not, if it was more."""
    return min(value, nextafter(best, -inf)) if censored and best is not None else value


def best_of(history: Iterable[tuple[Configuration, float | None]]) -> tuple[Configuration, float] | None:
    """The best (h, value) of a history in asking order; of equal values the first. None while there is no number."""
    numbers = [(h, value) for h, value in history if value is not None]
    return max(numbers, key=lambda pair: pair[1]) if numbers else None
