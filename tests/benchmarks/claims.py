"""The paper's claims about the landscape of contrastive losses, tested on measured landscapes.

    python tests/benchmarks/claims.py [LANDSCAPE ...]

Settings are chosen by validation scores and compared by test scores, means over seeds. Intervals are of 95 %, from the
noise between seeds near the best (Student's t). They ignore that the cells with several seeds were selected. The last
claim is about searches, replayed from blind starts; its intervals are over pairs of searches. Each function of CLAIMS
returns a table with one of VERDICTS per row: a landscape and batch size, a pair of them, or a pair of searches.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isnan, log2, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from ridge import DROP, ridge

from tune_cd import balance
from tune_cd.analysis import Grid, grid, reachable, sublosses
from tune_cd.analysis import summary as summary_of
from tune_cd.analysis.intervals import half_interval_of, student
from tune_cd.analysis.means import ALIKE
from tune_cd.analysis.sublosses import TERMS
from tune_cd.analysis.tables import markdown
from tune_cd.balance.known_bests import table
from tune_cd.landscapes.ablation import ABLATION_3D
from tune_cd.landscapes.find import volume
from tune_cd.landscapes.measured import MEASURED, NEAR, Measured, load
from tune_cd.landscapes.simulation import replay_all

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
VERDICTS = (HOLDS, FAILS, OPEN)
HALF_WAY = 22.5  # degrees from a row of A_O to half-way between it and the nearest axis
UPPER = 0.5
"""A ridge is fitted through settings at most this share of the range of scores below the fit's best: the upper half.
With less, a grid in steps of two octaves has too few cells."""

PAPER = "the paper's"

SEARCHES = 80  # blind starts a landscape, as many as the paper's trajectories

READINGS = {"rows": "A_th rows (3,3,3)", "inverse columns": "A_th inverse columns (3,3,3)"}
"""The paper says "the rows of A". The appendix's constraints change one at a time along columns of A_th's inverse."""

USUAL = {"dml": "margin", "ssl": "infonce"}
"""task -> the loss that is "most classically" used with it (`ssec:switching`)."""

Cell = tuple[int, ...]
"""Indices of a cell on a slice's grid, one per weight."""


@dataclass(frozen=True, eq=False)
class Slice:
    """A measured landscape at one batch size."""

    landscape: Measured
    batch_size: int

    @cached_property
    def rows(self) -> pd.DataFrame:
        return self.landscape.at(self.batch_size).rows()

    @cached_property
    def test(self) -> Grid:
        return grid(self.rows, "test_score")

    @cached_property
    def noise(self) -> tuple[float, int]:
        """Standard deviation of test scores between seeds near the best, and its degrees of freedom."""
        return self.landscape.noise_and_freedom(self.batch_size, score="test_score")

    @property
    def averages(self) -> tuple[str, ...]:
        return balance.averages_of(self.landscape.about["loss"], _pairwise(self.landscape))

    @property
    def name(self) -> dict[str, object]:
        return {"landscape": self.landscape.name, "b": self.batch_size}

    def on(self, average: str) -> np.ndarray:
        """Mask [n_p, n_e] of cells that an average reaches by its learning rate alone, to half the finest step."""
        step = float(np.diff(np.log2(self.test.ticks[1])).min())
        if average != balance.PUBLISHED:
            return reachable(self.test, average, self._k, within=step / 2)[..., 0]
        published = self.landscape.published
        rates = [np.log2(tick / published[name]) for name, tick in zip(self.test.names, self.test.ticks[:-1])]
        first, *others = np.meshgrid(*rates, indexing="ij")
        near: np.ndarray = np.all([np.abs(other - first) <= step / 2 + 1e-9 for other in others], axis=0)
        return near

    def away(self, cell: Cell, average: str) -> float:
        """Signed octaves from a cell to the diagonal of an average: positive with more weight on the entropy term.

        For other losses: of the weight that is furthest from its published ratio to the first.
        """
        weights = self.weights(cell)
        if average != balance.PUBLISHED:
            return balance.off_diagonal(weights, average, self.batch_size, self._k)
        first, *others = (log2(weights[name] / coefficient) for name, coefficient in self.landscape.published.items())
        return max((other - first for other in others), key=abs)

    @property
    def _k(self) -> int:
        return int(self.landscape.about["setup"].get("k", 2))

    def best(self, among: np.ndarray | None = None) -> Cell:
        """The cell with the best validation score. among: mask [n_p, n_e] of cells to choose from; None: all."""
        scores = grid(self.rows, "val_score").values[..., 0]
        scores = scores if among is None else np.where(among, scores, np.nan)
        return tuple(map(int, np.unravel_index(np.nanargmax(scores), scores.shape)))

    def weights(self, cell: Cell) -> dict[str, float]:
        return {name: float(tick[at]) for name, tick, at in zip(self.landscape.weights, self.test.ticks, cell)}

    def nearest(self, weights: Mapping[str, float]) -> Cell:
        """The trained cell nearest to some weights, in octaves; it may have diverged."""
        trained = np.argwhere(self.test.counts[..., 0] + self.test.lost[..., 0] > 0)
        at = np.column_stack([np.log2(tick[cells]) for tick, cells in zip(self.test.ticks, trained.T)])
        wanted = np.log2([weights[name] for name in self.landscape.weights])
        return tuple(map(int, trained[np.linalg.norm(at - wanted, axis=1).argmin()]))

    def score(self, cell: Cell) -> float:
        """Test score of a cell; 0 where training diverged."""
        return float(np.nan_to_num(self.test.values[(*cell, 0)]))

    def at_end(self, cell: Cell) -> bool:
        """Whether a weight is the smallest or largest of the range: the best of a larger range may lie beyond."""
        return any(place in (0, len(tick) - 1) for place, tick in zip(cell, self.test.ticks))

    def variance(self, cell: Cell) -> float:
        """Variance of a cell's mean test score over its seeds."""
        return self.noise[0] ** 2 / max(1, int(self.test.counts[(*cell, 0)]))


def slices(landscapes: Sequence[Measured]) -> list[Slice]:
    """One slice for every landscape and batch size."""
    return [Slice(one, size) for one in landscapes for size in one.axes["batch_size"].tolist()]


def _pairwise(landscape: Measured) -> bool:
    """Whether the terms are a positive and an entropy term."""
    return landscape.weights == ("Lambda_p", "Lambda_e")


def pairwise(landscapes: Sequence[Measured]) -> list[Slice]:
    """Those with a positive and an entropy term, which the paper's directions and sub-losses require."""
    return slices([one for one in landscapes if _pairwise(one)])


def half_of(parts: Sequence[Slice], cells: Sequence[Cell], share: float = 1.0) -> float:
    """Half the 95 % interval of the first cell's test score less `share` of the second's; parts: their slices.

    0 for a cell and itself, NaN where the noise is unknown.
    """
    if parts[0] is parts[1] and cells[0] == cells[1]:
        return 0.0
    freedom = min(part.noise[1] for part in parts)
    if not freedom:
        return nan
    return student(freedom) * sqrt(parts[0].variance(cells[0]) + share**2 * parts[1].variance(cells[1]))


def below(value: float, half: float, most: float, least: float | None = None) -> str:
    """HOLDS where a value ± half is below `most`, FAILS where it is above `least` (None: `most`), else OPEN; OPEN for
    NaN."""
    if isnan(half):
        return OPEN
    return HOLDS if value + half < most else FAILS if value - half > (most if least is None else least) else OPEN


def off_diagonal(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "The best configuration is out of the diagonal" (`fig:hp_omniglot`, `fig:hp_tinyimagenet_infonce`).

    One row per average; for losses other than the paper's, their published ratios. A cell is on its diagonal within
    half a step of the grid, so a best setting less than a step away counts as on it. octaves: `Slice.away` of the best
    cell. off, on: test scores of the best cells off and on the diagonal. end: those of the two that lie at an end of
    the range, which a larger range may exceed; the verdict is of this range. gain: off less on, ± half; share: of off.
    holds: the gain is above 0 beyond its interval; does not hold: it is below ALIKE of off beyond its interval.
    """
    rows = []
    for part in slices(landscapes):
        for average in part.averages:
            diagonal = part.on(average)
            off, on = part.best(~diagonal), part.best(diagonal)
            gain, half = part.score(off) - part.score(on), half_of([part, part], [off, on])
            rows.append(part.name | {
                "average": average, "best": ", ".join(f"{value:.3g}" for value in part.weights(part.best()).values()),
                "octaves": part.away(part.best(), average), "off": part.score(off), "on": part.score(on),
                "end": ", ".join(name for name, cell in (("off", off), ("on", on)) if part.at_end(cell)) or "-",
                "gain": gain, "half": half, "share": gain / part.score(off),
                "verdict": below(-gain, half, 0.0, -ALIKE * part.score(off)),
            })  # fmt: skip
    return pd.DataFrame(rows)


def batch_sizes(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "Near-maximal performance over a larger range of batch sizes" (`fig:balance_gain`).

    One row per landscape for the tuned balance and for every average: the best test score at each batch size. near:
    number of batch sizes where it is at most DROP below the tuned best at any size. holds: tuned is near at more batch
    sizes than each average, within the intervals of these scores and of the best of all. does not hold: an average is
    near at as many, or has the same settings. cannot be told: a single batch size, or the noise decides.
    """
    rows = []
    for one in landscapes:
        parts = slices([one])
        ways = {"tuned": [part.best() for part in parts]}
        ways |= {average: [part.best(part.on(average)) for part in parts] for average in parts[0].averages}
        scores = {way: np.array([part.score(cell) for part, cell in zip(parts, cells)]) for way, cells in ways.items()}
        least, peak = (1 - DROP) * scores["tuned"].max(), parts[int(scores["tuned"].argmax())]
        counts = {}  # numbers of batch sizes with a score of at least `least`, by lower and by upper ends of intervals
        for way, cells in ways.items():
            halves = [half_of([part, peak], [cell, peak.best()], 1 - DROP) for part, cell in zip(parts, cells)]
            low, high = scores[way] - halves >= least, scores[way] + np.nan_to_num(halves, nan=np.inf) >= least
            counts[way] = int(low.sum()), int(high.sum())
        low, high = counts.pop("tuned")
        verdict = OPEN
        if len(parts) > 1 and all(low > most for _, most in counts.values()):
            verdict = HOLDS
        elif len(parts) > 1 and any(ways[way] == ways["tuned"] or counts[way][0] >= high for way in counts):
            verdict = FAILS
        for way in ways:
            by_size = {f"b = {part.batch_size}": float(score) for part, score in zip(parts, scores[way])}
            near = f"{(scores[way] >= least).sum()} of {len(parts)}"
            rows.append({"landscape": one.name, "way": way} | by_size | {"near": near, "verdict": verdict})
    sizes = sorted({int(size) for one in landscapes for size in one.axes["batch_size"]})
    return pd.DataFrame(rows, columns=["landscape", "way", *(f"b = {size}" for size in sizes), "near", "verdict"])


def directions(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "One main direction, varying Lambda_p and Lambda_e jointly" (`ssec:intuition`), steepest across it.

    From a quadratic through settings near the best (`ridge.py`, share UPPER). settings: their number. angle:
    degrees from the joint direction to the flattest, positive towards Lambda_e, NaN where the quadratic has no maximum
    (a plateau's may have none). from, to: 95 % interval of the unsigned angle. across, along: octaves in which the
    score falls by DROP, steepest first. holds: the flattest direction is within HALF_WAY of the joint one.
    """
    rows = []
    for part in pairwise(landscapes):
        shape = ridge(part.rows, "val_score", share=UPPER)
        low, high = shape.angle(1, balance.A_O["joint"][:2])
        positive, entropy = shape.directions[1]
        angle = 90 - (90 - np.degrees(np.arctan2(entropy - positive, entropy + positive))) % 180
        rows.append(part.name | {
            "settings": shape.trials, "angle": float(angle) if shape.curvatures.max() < 0 else nan,
            "from": low, "to": high, "across": float(shape.widths[0]), "along": float(shape.widths[1]),
            "verdict": HOLDS if high < HALF_WAY else FAILS if low > HALF_WAY else OPEN,
        })  # fmt: skip
    return pd.DataFrame(rows)


def both_low(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "Minimise both the positive and the entropy subparts, which is required for good retrieval" (`fig:sublosses`).

    Of the settings whose score is at least NEAR of the best: positive, entropy: mean place of the term between its
    lowest (0) and highest (1) value over all settings, ± half of its 95 % interval. below: share of all settings with
    both terms lower than at the best. holds: both places are below a half.
    """
    rows = []
    for part in pairwise(landscapes):
        table = sublosses(part.rows, "test_score")
        best, top = table["score"] >= NEAR * table["score"].max(), table.loc[table["score"].idxmax()]
        row, said = part.name, []
        for term in TERMS:
            name, there = term.removesuffix("_term"), _places(table[term])[best]
            row |= {name: float(there.mean()), f"{name}_half": half_interval_of(there.to_numpy())}
            said.append(below(row[name], row[f"{name}_half"], 0.5))
        lower = (table[list(TERMS)] < top[list(TERMS)].astype(float)).all(axis=1)
        verdict = FAILS if FAILS in said else OPEN if OPEN in said else HOLDS
        rows.append(row | {"below": float(lower.mean()), "verdict": verdict})
    return pd.DataFrame(rows)


def _places(values: pd.Series) -> pd.Series:
    """Values scaled from 0 (the lowest) to 1 (the highest)."""
    return (values - values.min()) / (values.max() - values.min())


def carried_over(landscapes: Sequence[Measured], batch_size: int = 64) -> pd.DataFrame:
    """ "For a same task and same loss the balance can be re-used" (`ssec:best_hp_values`).

    Ordered pairs of landscapes of the same task and loss, and the paper's best settings on each landscape of their task
    and loss. regret: test score lost with the best setting of `of`, ± half; all of it where training diverges. share:
    of the best score. holds: the regret is below DROP of it.
    """
    parts = [Slice(one, batch_size) for one in landscapes if batch_size in one.axes["batch_size"]]
    origins = [(part.landscape.name, _kind(part)[1::2], part.weights(part.best())) for part in parts]
    origins += [(f"{PAPER} {row.dataset}", (row.task, row.loss), row.weights) for row in table() if row.published]
    rows = []
    for on in parts:
        for name, same, weights in origins:
            if name == on.landscape.name or same != _kind(on)[1::2]:
                continue
            taken, best = on.nearest(weights), on.best()
            regret, half = on.score(best) - on.score(taken), half_of([on, on], [best, taken])
            rows.append(on.name | {
                "of": name, "best": on.score(best), "regret": regret, "half": half,
                "share": regret / on.score(best), "verdict": below(regret, half, DROP * on.score(best)),
            })  # fmt: skip
    return pd.DataFrame(rows)


def _kind(part: Slice) -> tuple[str, str, int, str]:
    about = part.landscape.about
    return about["dataset"], about["task"], part.batch_size, about["loss"]


def losses(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "Both losses can be used interchangeably on both tasks" (`ssec:switching`), for datasets that have both.

    margin, infonce: the best test scores. less: the task's usual loss less the other, ± half; share: of the usual one's
    score. holds: the other loses less than DROP of the score.
    """
    parts, rows = {_kind(part): part for part in slices(landscapes)}, []
    for (dataset, task, size, loss), usual in parts.items():
        other = next((parts.get((dataset, task, size, name)) for name in USUAL.values() if name != loss), None)
        if other is None or loss != USUAL.get(task) or not alike(usual, other):
            continue
        cells = [usual.best(), other.best()]
        score, another = usual.score(cells[0]), other.score(cells[1])
        both, half = {loss: score, other.landscape.about["loss"]: another}, half_of([usual, other], cells)
        rows.append({
            "dataset": dataset, "b": size, "task": task, "usual": loss, "margin": both["margin"],
            "infonce": both["infonce"], "less": score - another, "half": half, "share": (score - another) / score,
            "verdict": below(score - another, half, DROP * score),
        })  # fmt: skip
    return pd.DataFrame(rows)


def alike(one: Any, other: Any) -> bool:
    """Whether two landscapes have one set-up but for the loss, as far as both say."""
    first, second = (part.landscape.about["setup"] for part in (one, other))
    return all(first[name] == second[name] for name in {*first} & {*second} - {"loss"})


def theoretical(landscapes: Sequence[Measured], searches: int = SEARCHES) -> pd.DataFrame:
    """Along A_th the search "strongly underperforms" (the appendix's negative result). The paper's search in three
    dimensions, from blind starts, without noise, one trial at a time, on landscapes of several batch sizes that are no
    judges.

    reading: of A_th, see READINGS. A_O, A_th: AUC@20 along these directions. less: A_th less A_O in pairs of equal
    seeds, ± half. holds: below 0 beyond the interval; does not hold: above it.
    """
    solid = [
        volume(one) for one in landscapes if _pairwise(one) and len(one.axes["batch_size"]) > 1 and one.role != "judge"
    ]
    if not solid:
        return pd.DataFrame()
    own = next(iter(ABLATION_3D))
    variants = {name: ABLATION_3D[name] for name in (own, *READINGS.values())}
    ran = replay_all(variants, solid, range(searches), trials=20, processes=1)
    numbers = summary_of([one.as_curve() for one in ran], own).set_index(["landscape", "method"])
    rows = []
    for one, (reading, method) in product(solid, READINGS.items()):
        there = numbers.loc[one.name, method]
        rows.append({
            "landscape": one.name, "reading": reading, "A_O": float(numbers.loc[(one.name, own), "auc20"]),
            "A_th": float(there["auc20"]), "less": float(there["d20"]), "half": float(there["d20_ci"]),
            "verdict": below(there["d20"], there["d20_ci"], 0.0),
        })  # fmt: skip
    return pd.DataFrame(rows)


CLAIMS: dict[str, tuple[str, Callable[[Sequence[Measured]], pd.DataFrame]]] = {
    "off the diagonals": ("The best setting is out of reach of the learning rate alone.", off_diagonal),
    "batch sizes": ("A tuned balance is near the best at more batch sizes than an average.", batch_sizes),
    "directions": ("The ridge runs along the joint direction and falls along the balance.", directions),
    "both terms low": ("The best settings have both terms low.", both_low),
    "carried over":
        ("For a same task and loss the best setting of one landscape can be used on another.", carried_over),
    "either loss": ("Either loss trains either task.", losses),
    "theoretical directions":
        ("Along the theoretical directions A_th the paper's search is behind the one along A_O.", theoretical),
}  # fmt: skip
"""Name -> (the claim, the function that computes its table)."""


def summary(table: pd.DataFrame) -> str:
    """Summarise a table of CLAIMS in words: where the claim holds, does not hold and cannot be told."""
    if table.empty:
        return f"{OPEN}: nothing to compare"
    if "of" in table:
        papers = table["of"].str.startswith(PAPER)
        said = {"pairs of landscapes": table[~papers], "uses of the paper's settings": table[papers]}
        return ". ".join(f"Of {len(rows)} {what}: {_counts(rows)}" for what, rows in said.items() if len(rows))
    names = [name for name in ("landscape", "dataset", "b", "average", "reading") if name in table]
    said = table[names].astype(str).agg(" ".join, axis=1)
    parts = {verdict: list(dict.fromkeys(said[table["verdict"] == verdict])) for verdict in VERDICTS}
    return "; ".join(f"{verdict}: {', '.join(found)}" for verdict, found in parts.items() if found)


def _counts(table: pd.DataFrame) -> str:
    counts = table["verdict"].value_counts()
    return "; ".join(f"{name} {counts[name]}" for name in VERDICTS if name in counts)


def as_text(table: pd.DataFrame) -> str:
    """Markdown of a table of CLAIMS. Intervals stand beside numbers, shares are in percent, pairs form a square."""
    if "of" in table:
        return markdown(_square(table))
    columns = {}
    for name in [name for name in table if not name.endswith("half")]:
        values = table[name]
        if f"{name}_half" in table:
            columns[name] = [f"{value:.2f} ±{half:.2f}" for value, half in zip(values, table[f"{name}_half"])]
        elif name in ("gain", "less"):
            halves = ["" if isnan(half) else f" ±{half:.3f}" for half in table["half"]]
            columns[name] = [f"{value:+.3f}{half}" for value, half in zip(values, halves)]
        elif name in ("share", "below"):
            columns[name] = [f"{100 * value:.1f} %" for value in values]
        else:
            digits = ".0f" if name in ("angle", "from", "to") else ".3f" if name in ("A_O", "A_th") else ".2f"
            numbers = [f"{value:{digits}}" if isinstance(value, float) else str(value) for value in values]
            columns[name] = [number.replace("nan", "-") for number in numbers]
    return markdown(pd.DataFrame(columns).set_index(next(iter(columns))))


def _square(table: pd.DataFrame) -> pd.DataFrame:
    """Regrets in percent of the best score. Rows: origin of the setting; columns: landscape on which it is used."""
    half = ["" if isnan(half) else f" ±{100 * half:.0f}" for half in table["half"] / table["best"]]
    cells = [f"{100 * share:.0f}{more} %" for share, more in zip(table["share"], half)]
    square = table.assign(cell=cells).pivot(index="of", columns="landscape", values="cell").fillna("")
    return square.loc[list(dict.fromkeys(table["of"]))].rename_axis("best setting of, used on")


def claims(landscapes: Sequence[Measured], names: Iterable[str] = tuple(CLAIMS)) -> Iterable[str]:
    """One section per claim: its sentence, its table and the summary of the verdicts."""
    for name in names:
        sentence, numbers = CLAIMS[name]
        table = numbers(landscapes)
        shown = [as_text(table)] if len(table) else []
        yield "\n\n".join([f"**{name.capitalize()}.** {sentence}", *shown, summary(table)])


if __name__ == "__main__":
    for section in claims([load(name) for name in sys.argv[1:] or MEASURED]):
        print(section, end="\n\n")
