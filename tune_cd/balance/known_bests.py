"""Weights at which others ended: the starts of a search for the same loss, task and kind of network.

"For a same task and same loss the balance can be re-used" (`ssec:best_hp_values`). The table, `known_bests.csv`, has
the paper's best settings, and the means of repeated searches of the built-in set-ups.
"""

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import inf, log2
from pathlib import Path

NETWORKS = ("large", "small")
"""Kinds of networks: residual networks and others of their size; a few convolutions."""
TASKS = ("dml", "ssl")
"""Deep metric learning, and self-supervised learning."""
PAPER = "ssec:best_hp_values"
"""The source of the paper's best settings."""
APART = 1.0
"""Octaves: of two starts that are no farther apart in any weight, one is enough."""


@dataclass(frozen=True)
class Known:
    """The best weights that were found on one dataset, under SGD; they contain the learning rate.

    pretrained: whether the network's initial weights came from another task, such as ImageNet. spread: octaves between
    the weights and the farthest of the searches that they are the geometric mean of; None: of one search. source: a
    label of the paper, or the command that measured them.
    """

    loss: str
    task: str
    network: str
    pretrained: bool
    batch_size: int
    dataset: str
    weights: dict[str, float]
    spread: float | None
    source: str

    def __str__(self) -> str:
        return f"{self.dataset} at b = {self.batch_size} ({self.source})"

    @property
    def published(self) -> bool:
        """Whether it is one of the paper's best settings."""
        return self.source == PAPER

    def near(self, other: "Known") -> bool:
        """Whether all weights are within APART of the other's."""
        return all(abs(log2(value / other.weights[name])) <= APART for name, value in self.weights.items())


def known(
    loss: str, task: str, *, network: str = "large", pretrained: bool = True, batch_size: int = 64,
    dataset: str | None = None, leave_out: str | None = None,
) -> list[Known]:  # fmt: skip
    """The best weights found elsewhere, one row a dataset, at the batch size nearest to yours; [] if nothing is known.

    Their weights are starts: CoordinateDescent(space, start=[row.weights for row in known(...)], ...). dataset: its own
    row, where there is one, is the only one. leave_out: a dataset whose rows do not count. Rows nearer than APART to an
    earlier one are left out. Raises ValueError for another task, kind of network or batch size, and a misspelt loss.
    """
    for name, value, allowed in (
        ("task", task, TASKS), ("network", network, NETWORKS), ("pretrained", pretrained, (True, False)),
    ):  # fmt: skip
        if value not in allowed:
            raise ValueError(f"{name} {value!r}: one of {list(allowed)}")
    if not 0 < batch_size < inf:
        raise ValueError(f"batch_size {batch_size}: a finite number > 0")
    losses = {row.loss for row in table()}
    if loss not in losses and ":" not in loss and (meant := get_close_matches(loss.lower(), losses, cutoff=0.8)):
        raise ValueError(f"loss {loss!r}: {meant[0]!r}?")
    key = (loss, task, network, pretrained)
    rows = [row for row in table() if (row.loss, row.task, row.network, row.pretrained) == key]
    nearest: dict[str, Known] = {}
    for row in sorted(rows, key=lambda row: abs(log2(row.batch_size / batch_size))):
        if row.dataset != leave_out:
            nearest.setdefault(row.dataset, row)
    found: list[Known] = []
    for row in [nearest[dataset]] if dataset in nearest else nearest.values():
        if not any(map(row.near, found)):
            found.append(row)
    return found


def published(dataset: str, loss: str) -> Known:
    """The paper's best for a dataset and a loss (`ssec:best_hp_values`). Raises ValueError listing the known pairs."""
    rows = {(row.dataset, row.loss): row for row in table() if row.published}
    if (dataset, loss) not in rows:
        pairs = ", ".join(f"{dataset} with {loss}" for dataset, loss in rows)
        raise ValueError(f"the paper has no best balance for {dataset} with {loss}; it has for {pairs}")
    return rows[dataset, loss]


@cache
def table() -> tuple[Known, ...]:
    """All rows."""
    with Path(__file__).with_name("known_bests.csv").open(newline="", encoding="utf-8") as file:
        return tuple(map(_row, csv.DictReader(file)))


def _row(text: dict[str, str]) -> Known:
    weights = {name: float(value) for name, value in text.items() if name.startswith("Lambda_")}
    names = ("loss", "task", "network", "dataset", "source")
    return Known(
        **{name: text[name] for name in names},
        pretrained=text["pretrained"] == "yes",
        batch_size=int(text["batch_size"]),
        weights=weights,
        spread=float(text["spread"]) if text["spread"] else None,
    )
