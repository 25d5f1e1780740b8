"""The command line of `tune_cd.run`: its options, and the checks that need neither data nor a cluster."""

import argparse
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from trainables.training.setup import Setup
from tune_cd.results.schema import check_name
from tune_cd.run.config import Call, Request, StudyConfig
from tune_cd.run.limits import option_of
from tune_cd.run.option_table import GROUPS

EPILOG = """\
examples:
  python -m tune_cd.run
      the default: glyphs, the images of ten whole trainings, two baselines
  python -m tune_cd.run --dataset omniglot --data-root PATH/TO/omniglot.zip --start Lambda_p=0.25,Lambda_e=0.25
  python -m tune_cd.run --dataset folder --data-root MY/PHOTOS --start lr=0.1,average=global,b=128
      from where you are today
  python -m tune_cd.run --dataset sop --download --experiment xbm
      with and without cross-batch memory, table:xbm
  python -m tune_cd.run --study mine --num-samples 20 --resume
      ten whole trainings' worth more for a study of ten
"""


def parser() -> argparse.ArgumentParser:
    """All options of `python -m tune_cd.run`, grouped, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.run",
        description="Find the best balance of a contrastive loss, (Lambda_p, Lambda_e[, batch_size]) or one weight a "
        "term of any other loss, by coordinate descent, each trial a training run under Ray Tune, and compare it with "
        "tuning the learning rate alone.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # the defaults are those of StudyConfig and Call
    )
    for title, options in GROUPS.items():
        group = top.add_argument_group(title)
        for flag, arguments in options.items():
            group.add_argument(flag, **arguments)
    return top


def parse(argv: list[str] | None) -> Request:
    """Parse a command line. Exits with 2 and a message if it cannot be read; raises ValueError for impossible
    options."""
    written = vars(parser().parse_args(argv))
    if empty := [name for name, value in written.items() if value == []]:  # argparse drops a value of `--`
        raise ValueError(f"{option_of(empty[0])}: a value is needed")
    written = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    of_study = {name: value for name, value in written.items() if name in _names(StudyConfig)}
    request = Request(
        StudyConfig(**of_study), Call(**{name: written[name] for name in written.keys() - of_study}), of_study
    )
    _check_together(written)
    return request


def _check_together(written: Mapping[str, Any]) -> None:
    """Raise ValueError if an option and `--set` name the same field."""
    for field in ("images_seen", "weights"):
        assigned = [text for text in written.get("assignments", ()) if text.startswith(f"{field}=")]
        if field in written and assigned:
            option = f"--{field.replace('_', '-')}"
            raise ValueError(f"{option} {written[field]} and --set {assigned[-1]}: both name the {field}; give one")


def idle_options(request: Request) -> list[str]:
    """A warning for each option that has no effect beside the others. None with --resume, which has the stored
    options."""
    config, call, written = request.config, request.call, request.written
    if call.resume:
        return []
    pausing = config.search == "cd" and config.experiment == "balance"
    idle = {
        "--batch-sizes": "batch_sizes" in written and not config.tune_batch_size and "--tune-batch-size",
        "--grid-step": "grid_step" in written and config.search != "grid" and "--search grid",
        "--retry-failed": call.retry_failed and "--resume",
        "--baseline-trials": "baseline_trials" in written and not config.baseline and "the baselines",
        "--full-length": "full_length" in written and not pausing and "--search cd, which alone pauses trainings",
    }
    return [f"{option} has no effect: it needs {needs}" for option, needs in idle.items() if needs]


def study_name(call: Call, setup: Setup) -> str:
    """The given name of the study, checked, or a new one with the time. Raises ValueError for a bad or missing name."""
    if call.resume and call.study is None:
        raise ValueError("--resume needs the --study to continue")
    loss = setup.loss.rpartition(":")[2]  # the function's name in module:function
    return check_name(call.study or f"{setup.dataset}-{loss}-{datetime.now():%Y%m%d-%H%M%S}")


def _names(of: type) -> set[str]:
    return {field.name for field in fields(of)}
