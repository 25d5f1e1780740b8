"""The protocol of every search method: ask for a configuration, tell its value. Larger values are better."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from tune_cd.search.space import Configuration, Space
from tune_cd.search.training import Training

OFF_LINES = ("start", "sampled", "resumed")
"""The values of `Proposal.direction` outside line searches: a starting point, a baseline's own choice, and a training
that goes on or is run again."""


@runtime_checkable
class Optimiser(Protocol):
    """A search method, as ask and tell. The optimiser never evaluates, sleeps, logs or opens a file.

    workers: the largest number of live trials; None: no limit. It limits asking and shapes nothing else, so it may be
        changed during a search. lengths: shares of the full length at which trainings may pause. budget: in full
        trainings; inf: no limit.
    """

    space: Space
    workers: int | None
    lengths: tuple[float, ...]
    budget: float

    def ask(self) -> Configuration | None:
        """The next configuration to train; None while `workers` trials are live, or when nothing useful is left."""

    def until(self, h: Mapping[str, Any]) -> float:
        """The share of its full length to which an asked configuration is to be trained. KeyError if it is not live."""

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        *,
        left: bool = False,
        external: bool = False,
    ) -> None:
        """Report a value at a share of the full length, by default the share asked for; None or NaN: the trial failed.

        A second report at the same share replaces the first. left: the trial was stopped there and cannot go on.
        external: it was not trained for this search, and costs none of its budget.
        """

    def recall(self, trainings: Iterable[Training]) -> None:
        """Add the trainings of an earlier run of the same search, in asking order, before the first `ask`."""

    @property
    def finished(self) -> bool:
        """True when nothing is left to propose, whatever values are told later."""

    @property
    def ending(self) -> str:
        """Why it asks for nothing more, for a search that is `finished`."""

    @property
    def bracketed(self) -> bool:
        """Whether it searched one line, and its best has close neighbours on both sides."""

    @property
    def spent(self) -> float:
        """Training length asked for, in full trainings, without `external` ones."""

    @property
    def incumbent(self) -> Training | None:
        """The training with the best value told, which is finished before the search ends; None: nothing to finish."""

    @property
    def live(self) -> list[Configuration]:
        """Configurations asked for and not yet told, in asking order."""

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, last value) of all told trials in asking order; a failed trial's value is None."""

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The best configuration told so far and its value; None before the first number."""

    def annotation(self, h: Mapping[str, Any]) -> dict[str, Any]:
        """The results table's columns direction, line_position, trial_index. KeyError for one never asked for."""


def check_workers(workers: int | None) -> None:
    """Raise ValueError unless `workers` is None or a whole number of at least 1."""
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise ValueError(f"workers {workers!r}: a whole number, at least 1, or None for no limit")


def check_version(state: Mapping[str, Any], version: int) -> None:
    """Raise ValueError unless a search's state has this version."""
    if state.get("version") != version:
        raise ValueError(f"search state of version {state.get('version')!r}; this release reads version {version}")


def has_free_worker(workers: int | None, live: int) -> bool:
    """Whether one more trial may start while `live` trials run."""
    return workers is None or live < workers
