"""Tables of studies of losses with terms of any names, as `tune_cd.run` leaves them, from a formula."""

from itertools import product

import numpy as np
import pandas as pd
from studies import row, table

from tune_cd import CoordinateDescent, Space
from tune_cd.search.pausing_line import PausingLine

VICREG = {"Lambda_sim": 25.0, "Lambda_std": 25.0, "Lambda_cov": 1.0}
TWINS = {"Lambda_on": 1.0, "Lambda_off": 0.0051}
BOX = (1e-6, 10.0)


def score(h, published) -> float:
    """A ridge along the joint direction; the best has a quarter of the last weight's published share."""
    away = np.log2([h[name] / (0.05 * share / max(published.values())) for name, share in published.items()])
    away[-1] += 2
    across = away - away.mean()
    return float(0.8 * np.exp(-((across @ across) / 20) - (away.mean() / 6) ** 2))


def _row(index, h, published, direction, position, **fields):
    value = score(h, published)
    terms = {f"term_{name.removeprefix('Lambda_')}": value * (at + 1) for at, name in enumerate(published)}
    config = {"published": dict(published), "k": 2, "batch_size": 64}
    common = {"loss": "vicreg", "task": "ssl", "metric_name": "probe_accuracy", "batch_size": 64, "study": "terms"}
    return row(
        index, val=value, test_score=value - 0.05, params=h, direction=direction, line_position=position, scores=terms,
        config=config, times=(index * 10.0, index * 10.0 + 9), **common | fields,
    )  # fmt: skip


def searched(published, trials: int = 16, **fields) -> pd.DataFrame:
    """A search of the weights from the published ratios, and the published ones with the rate alone tuned."""
    space = Space(**dict.fromkeys(published, BOX))
    start = {name: 0.1 * share / max(published.values()) for name, share in published.items()}
    rows = []
    for name, search in (
        ("cd", CoordinateDescent(space, start=start)),
        ("published", PausingLine(space, start=start, direction=[1.0] * len(published), name="joint", lengths=(1.0,))),
    ):
        for index in range(trials if name == "cd" else 8):
            h = search.ask()
            if h is None:
                break
            search.tell(h, score(h, published))
            origin = search.origin(h)
            direction = origin.direction
            rows.append(_row(index, h, published, direction, origin.line_position, search=name, **fields))
    return table(rows)


def gridded(published, cells: int = 4) -> pd.DataFrame:
    """A full grid over all weights, in steps of two octaves."""
    ticks = {name: 0.05 * share / max(published.values()) * 4.0 ** np.arange(-2, cells - 2)
             for name, share in published.items()}  # fmt: skip
    places = [dict(zip(ticks, map(float, place))) for place in product(*ticks.values())]
    return table(_row(i, h, published, "sampled", None, search="grid") for i, h in enumerate(places))
