"""The paper's claims about the landscape of contrastive losses, tested on measured landscapes.

    python tests/benchmarks/claims.py [LANDSCAPE ...]

Settings are chosen by validation scores and compared by test scores, means over seeds. Intervals are of 95 %, from the
noise between seeds near the best (Student's t). They ignore that the cells with several seeds were selected. Each
function returns a table with one of VERDICTS per row: a landscape and batch size, or a pair of them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from math import isnan, nan

import numpy as np
import pandas as pd
from slices import FAILS, HOLDS, OPEN, VERDICTS, Slice, above, below, half_of, slices

from tune_cd import balance
from tune_cd.analysis import alignment, coupling, ridge, sublosses
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.ridge import DROP
from tune_cd.analysis.sublosses import TERMS, places, ranks
from tune_cd.analysis.tables import ALIKE, markdown
from tune_cd.landscapes.measured import MEASURED, NEAR, Measured, load

SIGNED = ("gain", "less")
"""Columns printed with a sign, ± the column "half"."""

DEGREES = ("angle", "from", "to", "drift")


HALF_WAY = 22.5
"""Degrees from a row of A_O to half-way between it and the nearest axis."""

UPPER = 0.5
"""A ridge is fitted through settings at most this share of the range of scores below the fit's best: the upper half.
With less, a grid in steps of two octaves has too few cells."""

USUAL = {"dml": "margin", "ssl": "infonce"}
"""task -> the loss that is "most classically" used with it (`ssec:switching`)."""


def off_diagonal(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "The best configuration is out of the diagonal" (`fig:hp_omniglot`, `fig:hp_tinyimagenet_infonce`).

    One row per average; for losses other than the paper's, their published ratios. A cell is on its diagonal within
    half a step of the grid, so a best setting less than a step away counts as on it. best: the best cell's weights.
    octaves: its distance from the diagonal, positive with more weight on the entropy (the second) term. off, on: test
    scores of the best cells off and on the diagonal. gain: off less on, ± half; share: of off. holds: the gain is above
    0 beyond its interval; does not hold: it is below ALIKE of off beyond its interval.
    """
    rows = []
    for part in slices(landscapes):
        for average in part.averages:
            diagonal = part.on(average)
            off, on = part.best(~diagonal), part.best(diagonal)
            gain, half = part.score(off) - part.score(on), half_of([part, part], [off, on])
            rows.append(_of(part) | {
                "average": average, "best": part.said(part.best()), "octaves": part.away(part.best(), average),
                "off": part.score(off), "on": part.score(on), "gain": gain, "half": half,
                "share": gain / part.score(off), "verdict": above(gain, half, 0.0, ALIKE * part.score(off)),
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
        scores = {way: [part.score(cell) for part, cell in zip(parts, cells)] for way, cells in ways.items()}
        least = (1 - DROP) * max(scores["tuned"])
        peak = parts[int(np.argmax(scores["tuned"]))]
        halves = {
            way: [half_of([part, peak], [cell, peak.best()], 1 - DROP) for part, cell in zip(parts, cells)]
            for way, cells in ways.items()
        }
        counts = {way: _near(scores[way], halves[way], least) for way in ways}
        low, high = counts.pop("tuned")
        verdict = OPEN
        if len(parts) > 1 and all(low > most for _, most in counts.values()):
            verdict = HOLDS
        elif len(parts) > 1 and any(ways[way] == ways["tuned"] or counts[way][0] >= high for way in counts):
            verdict = FAILS
        for way in ways:
            by_size = {f"b = {part.batch_size}": score for part, score in zip(parts, scores[way])}
            near = f"{sum(score >= least for score in scores[way])} of {len(parts)}"
            rows.append({"landscape": one.name, "way": way} | by_size | {"near": near, "verdict": verdict})
    sizes = sorted({int(size) for one in landscapes for size in one.axes["batch_size"]})
    return pd.DataFrame(rows, columns=["landscape", "way", *(f"b = {size}" for size in sizes), "near", "verdict"])


def directions(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "One main direction, varying Lambda_p and Lambda_e jointly" (`ssec:intuition`), steepest across it.

    From a quadratic through settings near the best (`analysis.ridge`, share UPPER). settings: their number. angle:
    degrees from the joint direction to the flattest, positive towards Lambda_e, NaN where the quadratic has no maximum
    (a plateau's may have none). from, to: 95 % interval of the unsigned angle. across, along: octaves in which the
    score falls by DROP, steepest first. A_O, A_I: coupling of the two rows of each, 0 ideal. drift: the angle less that
    at the smallest batch size. holds: the flattest direction is within HALF_WAY of the joint one.
    """
    rows = []
    for part in slices(_of_pairs(landscapes)):
        shape = ridge(part.rows, "val_score", axes=("Lambda_p", "Lambda_e"), share=UPPER)
        near = alignment(shape, balance.A_O).set_index(["direction", "row"]).loc[(1, "joint")]
        angle = float(angle_of(shape.directions[1])) if shape.curvatures.max() < 0 else nan
        first = next((row["angle"] for row in rows if row["landscape"] == part.landscape.name), nan)
        rows.append(_of(part) | {
            "settings": shape.trials, "angle": angle, "from": float(near["low"]), "to": float(near["high"]),
            "across": float(shape.widths[0]), "along": float(shape.widths[1]),
            "A_O": float(coupling(shape, balance.A_O)["coupling"].iloc[0]),
            "A_I": float(coupling(shape, A_I)["coupling"].iloc[0]),
            "drift": (angle - first + 90) % 180 - 90 if not isnan(first) else nan,
            "verdict": HOLDS if near["high"] < HALF_WAY else FAILS if near["low"] > HALF_WAY else OPEN,
        })  # fmt: skip
    return pd.DataFrame(rows)


A_I = {"Lambda_p": (1.0, 0.0, 0.0), "Lambda_e": (0.0, 1.0, 0.0)}
"""No reparameterisation, `tab:ablation`."""


def both_low(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "Minimise both the positive and the entropy subparts, which is required for good retrieval" (`fig:sublosses`).

    Of the settings whose score is at least NEAR of the best: positive, entropy: mean place of the term between its
    lowest (0) and highest (1) value over all settings, ± half of its 95 % interval; rank: mean rank of the term, scaled
    alike. below: share of all settings with both terms lower than at the best. holds: both places are below a half.
    """
    rows = []
    for part in slices(_of_pairs(landscapes)):
        table = sublosses(part.rows, "test_score")
        best = table["score"] >= NEAR * table["score"].max()
        row = _of(part)
        for term in TERMS:
            name, there = term.removesuffix("_term"), places(table[term])[best]
            row |= {name: float(there.mean()), f"{name}_half": half_interval_of(there.to_numpy())}
            row |= {f"{name} rank": float(ranks(table[term])[best].mean())}
        top = table.loc[table["score"].idxmax()]
        lower = (table[list(TERMS)] < top[list(TERMS)].astype(float)).all(axis=1)
        said = [below(float(row[name]), float(row[f"{name}_half"]), 0.5) for name in ("positive", "entropy")]
        verdict = FAILS if FAILS in said else OPEN if OPEN in said else HOLDS
        rows.append(row | {"below": float(lower.mean()), "verdict": verdict})
    return pd.DataFrame(rows)


def carried_over(landscapes: Sequence[Measured], batch_size: int = 64) -> pd.DataFrame:
    """ "For a same task and same loss the balance can be re-used" (`ssec:best_hp_values`), for every pair.

    Ordered pairs of landscapes over the same weights. regret: test score lost with the best setting of the landscape
    `of`, ± half; all of it where training diverges. share: of the best score. same: which of dataset, task and loss the
    two have in common. holds: the regret is below DROP of the score.
    """
    parts = [Slice(one, batch_size) for one in landscapes if batch_size in one.axes["batch_size"]]
    rows = []
    for of, on in permutations(parts, 2):
        if of.landscape.weights != on.landscape.weights:
            continue
        taken, best = on.nearest(of.weights(of.best())), on.best()
        regret, half = on.score(best) - on.score(taken), half_of([on, on], [best, taken])
        alike = [name for name in ("dataset", "task", "loss") if of.landscape.about[name] == on.landscape.about[name]]
        least = DROP * on.score(best)
        rows.append(_of(on) | {
            "of": of.landscape.name, "same": ", ".join(alike) or "nothing", "best": on.score(best),
            "regret": regret, "half": half, "share": regret / on.score(best), "verdict": below(regret, half, least),
        })  # fmt: skip
    columns = ["landscape", "b", "of", "same", "best", "regret", "half", "share", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def losses(landscapes: Sequence[Measured]) -> pd.DataFrame:
    """ "Both losses can be used interchangeably on both tasks" (`ssec:switching`), for datasets that have both.

    margin, infonce: the best test scores. less: the task's usual loss less the other, ± half; share: of the usual one's
    score. holds: the other loses less than DROP of the score.
    """
    parts = {(part.landscape.about["dataset"], part.landscape.about["loss"], part.batch_size): part
             for part in slices(landscapes)}  # fmt: skip
    rows = []
    for (dataset, loss, size), usual in parts.items():
        other = next((parts.get((dataset, name, size)) for name in USUAL.values() if name != loss), None)
        if other is None or loss != USUAL.get(usual.landscape.about["task"]):
            continue
        cells = [usual.best(), other.best()]
        both = {loss: usual.score(cells[0]), other.landscape.about["loss"]: other.score(cells[1])}
        less, half = usual.score(cells[0]) - other.score(cells[1]), half_of([usual, other], cells)
        rows.append({
            "dataset": dataset, "b": size, "task": usual.landscape.about["task"], "usual": loss,
            "margin": both["margin"], "infonce": both["infonce"], "less": less, "half": half,
            "share": less / usual.score(cells[0]), "verdict": below(less, half, DROP * usual.score(cells[0])),
        })  # fmt: skip
    columns = ["dataset", "b", "task", "usual", "margin", "infonce", "less", "half", "share", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _of_pairs(landscapes: Sequence[Measured]) -> list[Measured]:
    """Landscapes with a positive and an entropy term, which the paper's directions and sub-losses require."""
    return [one for one in landscapes if one.pairwise]


def _of(part: Slice) -> dict[str, object]:
    return {"landscape": part.landscape.name, "b": part.batch_size}


def _near(scores: Sequence[float], halves: Sequence[float], least: float) -> tuple[int, int]:
    """Numbers of batch sizes with a score of at least `least`, by lower and by upper ends of the intervals."""
    low = sum(score - half >= least for score, half in zip(scores, halves) if not isnan(half))
    high = sum(isnan(half) or score + half >= least for score, half in zip(scores, halves))
    return low, high


def angle_of(directions: np.ndarray) -> np.ndarray:
    """Degrees in (-90, 90] from the joint direction to directions [..., 2] in (log Lambda_p, log Lambda_e), positive
    towards Lambda_e."""
    positive, entropy = np.moveaxis(directions, -1, 0)
    return 90 - (90 - np.degrees(np.arctan2(entropy - positive, entropy + positive))) % 180


CLAIMS: dict[str, tuple[str, Callable[[Sequence[Measured]], pd.DataFrame]]] = {
    "off the diagonals": ("The best setting is out of reach of the learning rate alone.", off_diagonal),
    "batch sizes": ("A tuned balance is near the best at more batch sizes than an average.", batch_sizes),
    "directions": ("The ridge runs along the joint direction and falls along the balance.", directions),
    "both terms low": ("The best settings have both terms low.", both_low),
    "carried over": ("The best setting of one landscape can be used on another.", carried_over),
    "either loss": ("Either loss trains either task.", losses),
}
"""Name -> (the claim, the function that computes its table)."""


def summary(table: pd.DataFrame) -> str:
    """Summarise a table of CLAIMS in words: where the claim holds, does not hold and cannot be told."""
    if table.empty:
        return f"{OPEN}: nothing to compare"
    if "of" in table:
        counts = table["verdict"].value_counts()
        return f"Of {len(table)} pairs: " + "; ".join(f"{name} {counts[name]}" for name in VERDICTS if name in counts)
    names = [name for name in ("landscape", "dataset", "b", "average") if name in table]
    said = table[names].astype(str).agg(" ".join, axis=1)
    parts = {verdict: list(dict.fromkeys(said[table["verdict"] == verdict])) for verdict in VERDICTS}
    return "; ".join(f"{verdict}: {', '.join(found)}" for verdict, found in parts.items() if found)


def as_text(table: pd.DataFrame) -> str:
    """Markdown of a table of CLAIMS. Intervals stand beside numbers, shares are in percent, pairs form a square."""
    if "of" in table:
        return markdown(_square(table))
    columns = {}
    for name in table:
        values = table[name]
        if f"{name}_half" in table:
            columns[name] = [f"{value:.2f} ±{half:.2f}" for value, half in zip(values, table[f"{name}_half"])]
        elif name in SIGNED:
            columns[name] = [_between(value, half) for value, half in zip(values, table["half"])]
        elif name in ("share", "below"):
            columns[name] = [f"{100 * value:.1f} %" for value in values]
        elif not name.endswith("half"):
            digits = ".0f" if name in DEGREES else ".2f"
            columns[name] = [_number(value, digits) for value in values]
    return markdown(pd.DataFrame(columns).set_index(next(iter(columns))))


def _between(value: float, half: float) -> str:
    return f"{value:+.3f}" + ("" if pd.isna(half) else f" ±{half:.3f}")


def _number(value: object, digits: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-" if pd.isna(value) else f"{value:{digits}}"


def _square(table: pd.DataFrame) -> pd.DataFrame:
    """Regrets in percent of the best score. Rows: origin of the setting; columns: landscape on which it is used."""
    half = ["" if pd.isna(half) else f" ±{100 * half:.0f}" for half in table["half"] / table["best"]]
    cells = [f"{100 * share:.0f}{more} %" for share, more in zip(table["share"], half)]
    square = table.assign(cell=cells).pivot(index="of", columns="landscape", values="cell").fillna("")
    order = list(dict.fromkeys(table["of"]))
    return square.loc[order, order].rename_axis("best setting of, used on")


def claims(landscapes: Sequence[Measured]) -> Iterable[str]:
    """One section per claim: its sentence, its table and the summary of the verdicts."""
    for name, (sentence, numbers) in CLAIMS.items():
        table = numbers(landscapes)
        shown = [as_text(table)] if len(table) else []
        yield "\n\n".join([f"**{name.capitalize()}.** {sentence}", *shown, summary(table)])


if __name__ == "__main__":
    for section in claims([load(name) for name in sys.argv[1:] or MEASURED]):
        print(section, end="\n\n")
