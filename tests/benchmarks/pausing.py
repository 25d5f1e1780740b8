"""What pausing saves on measured learning curves, beside other methods that stop early.

    python tests/benchmarks/pausing.py   # the landscapes in view; 20 minutes on two cores
    python tests/benchmarks/pausing.py omniglot-242-margin-b256 --start conventional --workers 4
    python tests/benchmarks/pausing.py --start known --methods "cd, pausing" cd cd-paper "tpe, Hyperband" tpe random
    python tests/benchmarks/pausing.py glyphs-margin --methods "gp, Hyperband" "botorch, ASHA (Ray)" cd "cd, pausing"

A method is one of `tune_cd.replay` at full length, or "METHOD, RULE": a rule decides how long its proposals are trained
(ASHA (Ray); for tpe and gp with one worker also Optuna's pruners Hyperband and halving).
All begin at the same starts, blind unless `--start` says otherwise; `known`: the best that `balance.known` has from
other datasets. Printed by landscape and method: the mean over
searches after 1, 2, 5, 10 and 20 full trainings' worth, as a share of the best; how many searches end below 95 %; after
10 the difference to the last method in pairs; trainings' worth until the mean is at 90 and 95 %, and their ratio to the
last method's, with 95 % intervals.
"""

import re
import sys
from argparse import Namespace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from harness import found, log_judges, mean, options_of, run
from lengths import LOOKS, Asha, Pausing, Pruned, spend

from tune_cd import balance
from tune_cd.analysis.tables import markdown
from tune_cd.landscapes import IN_VIEW, measured
from tune_cd.landscapes.landscape import knowledge
from tune_cd.landscapes.simulation import start_of
from tune_cd.search.methods import CONFIGURED, OPTIMISERS
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Configuration, Space

SHARES = (0.90, 0.95, 0.98)  # of the best
COSTS = (1.0, 2.0, 5.0, 10.0, 20.0)  # full trainings' worth
PAIRED = 10.0
RESAMPLES = 1000
OURS = "cd, pausing"
RULES = {
    "": partial(Asha, lengths=(1.0,)),
    "ASHA (Ray)": partial(Asha, lengths=(1 / LOOKS, 4 / LOOKS, 1.0), factor=4),  # Ray's defaults
}
"""Rules for the lengths of a method's proposals. "": full length."""

PRUNERS = ("Hyperband", "halving")
ASHAS = ("cd, ASHA (Ray)", "random, ASHA (Ray)", "tpe, ASHA (Ray)")
METHODS = (OURS, *ASHAS, "tpe", *(f"tpe, {pruner}" for pruner in PRUNERS), "cd")


def known_elsewhere(name: str) -> Configuration:
    """The best weights that are known from other datasets, for the loss, task and kind of network of a plane. Raises
    ValueError where nothing is known."""
    about = measured.load(re.sub(r"-b\d+$", "", name)).about
    size = int(at[1]) if (at := re.search(r"-b(\d+)$", name)) else 64
    kind = {"network": "small", "pretrained": False, "batch_size": size, "leave_out": about["setup"]["dataset"]}
    if not (rows := balance.known(about["loss"], about["task"], **kind)):
        raise ValueError(f"start known: no other dataset has a best of {about['loss']}, {about['task']}, as {name}")
    return rows[0].weights


def made(name: str, space: Space, start: Configuration | None, seed: int, workers: int, budget: float) -> Pausing:
    """A search by its name. Raises ValueError for an unknown one, and ImportError where a rival is missing."""
    ours = knowledge(space)
    if name == OURS:
        how = {"seed": seed, "start": start, "workers": workers, "lengths": LENGTHS, "budget": budget}
        return CoordinateDescent(space, **ours, **how)
    method, _, rule = name.partition(", ")
    if rule in PRUNERS and workers == 1:
        start = start or space.sample(np.random.default_rng(seed))
        return Pruned(space, sampler=method, pruner=rule, seed=seed, start=start)
    if method not in OPTIMISERS or rule not in RULES:
        raise ValueError(f"method {name!r} with {workers} workers: {OURS}, or METHOD[, RULE] of --help")
    told = ours if method in CONFIGURED else {}
    return RULES[rule](OPTIMISERS[method](space, seed=seed, start=start, workers=workers, **told), workers=workers)


def searched(job: tuple) -> list[float]:
    """What one search has reached after each look until its budget, as a share of the best. job: (method, landscape,
    budget, workers, start, seed)."""
    method, name, budget, workers, start, seed = job
    landscape = found(name)
    begin = known_elsewhere(name) if start == "known" else start_of(start, landscape, seed)
    search = made(method, landscape.space, begin, seed, workers, budget)
    reached = spend(search, landscape, budget=budget, workers=workers, seed=seed)
    reached = np.where(np.isfinite(reached), reached, landscape.low)
    wanted = np.minimum(np.arange(round(LOOKS * budget)), len(reached) - 1)  # a search that has ended keeps what it has
    return (reached[wanted] / landscape.high).tolist()


def table(reached: dict[str, np.ndarray]) -> pd.DataFrame:
    """One row a method. reached: method -> shares of the best [n_searches, n_looks]; the last is the reference."""
    *_, reference = reached
    rows = {}
    for method, shares in reached.items():
        row = {f"{cost:g}": f"{_after(shares, cost).mean():.3f}" for cost in COSTS if cost * LOOKS <= shares.shape[1]}
        row["below 95 %"] = f"{(shares[:, -1] < 0.95).mean():.0%}"
        if method != reference and shares.shape[1] >= PAIRED * LOOKS:
            row[f"less, {PAIRED:g}"] = mean(_after(shares, PAIRED) - _after(reached[reference], PAIRED))
        for share in SHARES:
            cost = cost_to(shares.mean(0), share)
            row[f"to {share:.0%}"] = f"{cost:.1f}" if np.isfinite(cost) else f">{shares.shape[1] / LOOKS:g}"
            if method != reference and np.isfinite(cost):
                ratio, low, high = ratio_of(shares, reached[reference], share)
                row[f"ratio, {share:.0%}"] = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        rows[method] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


def _after(shares: np.ndarray, cost: float) -> np.ndarray:
    return shares[:, round(cost * LOOKS) - 1]


def cost_to(means: np.ndarray, share: float) -> float:
    """Full trainings' worth until the mean [n_looks] is at a share of the best; inf where it is not."""
    reached = np.flatnonzero(means >= share)
    return float(reached[0] + 1) / LOOKS if len(reached) else np.inf


def ratio_of(ours: np.ndarray, others: np.ndarray, share: float) -> tuple[float, float, float]:
    """Ratio of two methods' costs until their means reach a share, and its 95 % interval of resampled pairs.

    ours, others: shares of the best [n_searches, n_looks]. 0 where only ours get there, inf where only the others do, 1
    where neither does.
    """
    n = len(ours)
    drawn = np.random.default_rng(0).multinomial(n, [1 / n] * n, RESAMPLES) / n
    costs = [(cost_to(w @ ours, share), cost_to(w @ others, share)) for w in (np.full(n, 1 / n), *drawn)]
    ratio, *others_drawn = [1.0 if a == b else 0.0 if np.isinf(b) else a / b for a, b in costs]
    low, high = np.quantile(others_drawn, [0.025, 0.975], method="nearest")
    return ratio, float(low), float(high)


def tables(name: str, options: Namespace) -> str:
    """A landscape's table in Markdown."""
    how = name, options.budget, options.workers, options.start
    jobs = [(method, *how, seed) for method, seed in product(options.methods, range(options.searches))]
    ran = np.array(run(searched, jobs, options)).reshape(len(options.methods), options.searches, -1)
    head = f"{name}, {options.searches} searches, {options.workers} at a time, start: {options.start}"
    return f"{head}\n\n{markdown(table(dict(zip(options.methods, ran))).rename_axis(name))}"


def main(argv: list[str]) -> None:
    parser = options_of(__doc__, 40)
    parser.add_argument("landscapes", nargs="*", metavar="LANDSCAPE", default=list(IN_VIEW))
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help=f"default: {'; '.join(METHODS)}")
    parser.add_argument("--workers", type=int, default=1, help="trials at a time; default: %(default)s")
    parser.add_argument("--budget", type=float, default=20.0, help="full trainings' worth; default: %(default)g")
    options = parser.parse_args(argv)
    alone = [f"tpe, {pruner}" for pruner in PRUNERS if options.workers > 1]
    options.methods = options.methods or [method for method in METHODS if method not in alone]
    log_judges(options.landscapes, ["pausing.py", *argv])
    for name in options.landscapes:
        print(tables(name, options), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
