"""A Tuner as a user writes it. No test in here."""

from pathlib import Path
from typing import Any

from ray import tune


def tuner_of(
    trainable, search, space: dict, folder: Path, samples: int = -1, *, callbacks=(), name: str = "run", **config: Any
) -> tune.Tuner:
    """Searches for the largest "acc". folder: of Tune's files. config: of `TuneConfig`, with the search's own scheduler
    where trials pause."""
    if getattr(search, "pauses", False):
        config["scheduler"] = search.scheduler()
    usual = {"metric": "acc", "mode": "max", "num_samples": samples, "search_alg": search, "reuse_actors": True}
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**usual | config),
        run_config=tune.RunConfig(name=name, storage_path=str(folder), verbose=0, callbacks=list(callbacks)),
    )  # fmt: skip
