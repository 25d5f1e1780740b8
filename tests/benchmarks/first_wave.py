"""What many workers find in their first waves: the default search beside random search and TPE with its liar.

    python tests/benchmarks/first_wave.py [seeds] [waves]

Each wave is asked for at once and told together. Prints the best value after each wave as a share of the landscape's
range, its mean and standard error over seeds, and how many trials the default search asked for.
"""

import os
import sys
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from hills import HILLS, Hill

from tune_cd import Space
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import Landscape, knowledge
from tune_cd.search.methods import CONFIGURED, OPTIMISERS

SEEDS, WORKERS = 30, 64
SIDE = 12.0  # octaves of every range of `many_axes`


def many_axes(n_axes: int, ridge: bool) -> Landscape:
    """A hill over more axes than `hills` has, its best anywhere, and turned."""
    rng = np.random.default_rng(n_axes)
    centre, directions = rng.uniform(0.1, 0.9, n_axes) * SIDE, np.linalg.qr(rng.standard_normal((n_axes, n_axes)))[0]
    widths = SIDE * (0.4 if ridge else 1.0) * rng.uniform(1.0, 3.0, n_axes)
    space, hill = Space(**{f"x{i}": (1.0, 2.0**SIDE) for i in range(n_axes)}), Hill(centre, directions, widths)
    return Landscape(f"{n_axes}d-{ridge}", space, hill, space.from_coordinates(centre), 0.0, 1.0)


PLACES: dict[str, Landscape] = {
    **{name: LANDSCAPES[name] for name in ("rotated", "narrow", "batch")},
    **{name: HILLS[name] for name in ("box-16-ridge", "box-8-ridge-3d", "box-8-bowl-4d", "box-8-ridge-4d")},
    **{f"{n}d-{kind}": many_axes(n, kind == "ridge") for n in (4, 6, 8) for kind in ("bowl", "ridge")},
}


def tpe_waves(landscape: Landscape, seed: int, n_waves: int) -> list[list[float]]:
    """The values of each wave of TPE with its liar."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(constant_liar=True, seed=seed))
    space, waves = landscape.space, []
    for _ in range(n_waves):
        trials = [study.ask() for _ in range(WORKERS)]
        told = []
        for trial in trials:
            x = [trial.suggest_float(name, *axis.ends) for name, axis in zip(space.names, space.axes)]
            told.append(float(landscape.score(space.from_coordinates(x))))
        for trial, value in zip(trials, told):
            study.tell(trial, value)
        waves.append(told)
    return waves


def waves_of(method: str) -> Callable[[Landscape, int, int], list[list[float]]]:
    def run(landscape: Landscape, seed: int, n_waves: int) -> list[list[float]]:
        known = knowledge(landscape.space) if method in CONFIGURED else {}
        search, waves = OPTIMISERS[method](landscape.space, seed=seed, workers=WORKERS, **known), []
        for _ in range(n_waves):
            asked = [h for _ in range(WORKERS) if (h := search.ask()) is not None]
            waves.append([float(landscape.score(h)) for h in asked])
            for h, value in zip(asked, waves[-1]):
                search.tell(h, value)
        return waves

    return run


def main(seeds: int = SEEDS, n_waves: int = 1) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    methods = {"cd": waves_of("cd"), "random": waves_of("random"), "TPE": tpe_waves}
    print(f"{seeds} seeds, {WORKERS} workers\n| | {' | '.join(methods)} | asked |\n|---|---|---|---|---|")
    for name, landscape in PLACES.items():
        runs = {label: [run(landscape, seed, n_waves) for seed in range(seeds)] for label, run in methods.items()}
        cells = []
        for many in runs.values():
            best = np.maximum.accumulate([[max(wave, default=-np.inf) for wave in waves] for waves in many], axis=1)
            shares = (best - landscape.low) / (landscape.high - landscape.low)
            pairs = zip(shares.mean(0), shares.std(0) / np.sqrt(seeds))
            cells.append(", ".join(f"{mean:.3f} ±{error:.3f}" for mean, error in pairs))
        asked = np.mean([[len(wave) for wave in waves] for waves in runs["cd"]], axis=0)
        print(f"| {name} | {' | '.join(cells)} | {' '.join(f'{n:.0f}' for n in asked)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
