"""`CoordinateDescentSearch`: the descent as a Ray Tune `Searcher`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tune_cd.search.coordinate_descent import CoordinateDescent
from tune_cd.search.line_search import SearchSettings
from tune_cd.search.protocol import check_workers
from tune_cd.search.space import Space
from tune_cd.tune.optimiser_search import OptimiserSearch


class CoordinateDescentSearch(OptimiserSearch):
    """Reparameterised coordinate descent over a few numeric parameters.

        tuner = tune.Tuner(
            trainable,
            param_space={"lr": tune.loguniform(1e-6, 1.0), "weight_decay": tune.loguniform(1e-8, 1e-1), "epochs": 10},
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=20,
                                        search_alg=CoordinateDescentSearch(start={"lr": 1e-3, "weight_decay": 1e-4})),
        )

    space: the search space, a `Space` or a dict of Tune's domains; None: `param_space`. loguniform and lograndint
        become log-scaled axes, uniform and randint linear ones; a q-form allows only multiples of q. A choice of
        numbers is ordered, on a log scale unless one is negative. Nested keys are joined by "/".
    metric, mode: as in `TuneConfig`; "min" negates values once, in this class. metric None: Ray's default, "_metric".
    settings, directions, budgets, seed: see `CoordinateDescent`. start: one configuration or several, nested or flat.
    workers: largest number of concurrent trials; None: as many as Tune asks for, until the cluster is full.
        `TuneConfig`'s max_concurrent_trials and a ConcurrencyLimiter override it.
    points_to_evaluate: configurations tried first, in this order; the descent starts from the best of them.
    evaluated_rewards: the known values of these points, one each; the points then cost no trial.
    use_result: the reported value that a finished trial counts with, "last" or "best".
    full_length: (key, amount), such as ("training_iteration", 100). A trial whose last result is below this amount was
        stopped early by a scheduler. Its value may lose a comparison, never win one. None: trials that a scheduler ends
        are told by their lengths, with a warning; all others count as complete.
    annotate: a config key under which every suggestion carries {"direction", "line_position", "trial_index"}, for
        trainables that write their own result rows; None adds nothing.

    Raises ValueError, before any trial starts, for arguments that the search does not support.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        settings: str | SearchSettings = "default",
        directions: Sequence[Sequence[float]] | None = None,
        budgets: int | Sequence[int] = 3,
        start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        workers: int | None = None,
        seed: int = 0,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        use_result: str = "last",
        full_length: tuple[str, float] | None = None,
        annotate: str | None = None,
    ):
        check_workers(workers)
        make = partial(
            CoordinateDescent,
            settings=settings,
            directions=directions,
            budgets=budgets,
            workers=workers,
            seed=seed,
        )
        super().__init__(
            space, metric, mode, make=make, start=start, points_to_evaluate=points_to_evaluate,
            evaluated_rewards=evaluated_rewards, use_result=use_result, full_length=full_length, annotate=annotate,
        )  # fmt: skip
