"""The command line of `tune_cd.run`: its options, and the checks that need neither data nor a cluster."""

import argparse
from dataclasses import fields
from datetime import datetime
from typing import get_type_hints

from trainables.training.setup import Setup
from tune_cd.results.schema import check_name
from tune_cd.run.config import Call, Request, StudyConfig
from tune_cd.run.fields import argument_of, option_of
from tune_cd.run.searches import DEFAULT_TRIALS, DEFAULT_WORTH, WORTH_FROM_KNOWN

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
        "term of any other loss, by line searches that a model chooses, each trial a training run under Ray Tune, and "
        "compare it with tuning the learning rate alone.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # the defaults are those of StudyConfig and Call
    )
    options = [one for of in (StudyConfig, Call) for one in fields(of) if one.metadata]
    titles = dict.fromkeys(one.metadata["group"] for one in options)
    groups = {title: top.add_argument_group(title) for title in titles}
    kinds = get_type_hints(StudyConfig) | get_type_hints(Call)
    for one in sorted(options, key=lambda one: list(groups).index(one.metadata["group"])):
        flag = option_of(f"no_{one.name}" if one.default is True else one.name)
        said = one.metadata["help"].format(worth=DEFAULT_WORTH, known=WORTH_FROM_KNOWN, trials=DEFAULT_TRIALS)
        named = {"dest": one.name, "help": said}
        groups[one.metadata["group"]].add_argument(flag, **named, **argument_of(one, kinds[one.name]))
    return top


def parse(argv: list[str] | None) -> Request:
    """Parse a command line. Exits with 2 if it cannot be read; raises ValueError for impossible options."""
    written = vars(parser().parse_args(argv))
    if empty := [name for name, value in written.items() if value == []]:  # argparse drops a value of `--`
        raise ValueError(f"{option_of(empty[0])}: a value is needed")
    written = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    of_study = {field.name: written.pop(field.name) for field in fields(StudyConfig) if field.name in written}
    return Request(StudyConfig(**of_study), Call(**written), of_study)


def idle_options(request: Request) -> list[str]:
    """A warning for each option that has no effect beside the others; none with --resume, which has the stored ones."""
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
