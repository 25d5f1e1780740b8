"""The command line of `tune_cd.run`: its options, and what can be said of them without looking at data or cluster."""

import argparse
from dataclasses import fields
from datetime import datetime

from trainables.training.setup import Setup
from tune_cd.results.schema import check_name
from tune_cd.run.config import Call, Request, StudyConfig
from tune_cd.run.option_table import GROUPS

EPILOG = """\
examples:
  python -m tune_cd.run
      the default: glyphs, 20 trials, two baselines
  python -m tune_cd.run --dataset omniglot --data-root PATH/TO/omniglot.zip --start Lambda_p=0.25,Lambda_e=0.25
  python -m tune_cd.run --dataset folder --data-root MY/PHOTOS --start lr=0.1,average=global,b=128
      from where you are today
  python -m tune_cd.run --dataset sop --download --experiment xbm
      with and without cross-batch memory, table:xbm
  python -m tune_cd.run --study mine --num-samples 30 --resume
      ten more trials for a study of 20
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
        argument_default=argparse.SUPPRESS,  # the parser says what was written, the two values below the rest
    )
    for title, options in GROUPS.items():
        group = top.add_argument_group(title)
        for flag, arguments in options.items():
            group.add_argument(flag, **arguments)
    return top


def parse(argv: list[str] | None) -> Request:
    """What a command line says. Exits with 2 and a message for one that cannot be read; raises ValueError for options
    that cannot be together."""
    written = vars(parser().parse_args(argv))
    written = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    of_study = {name: value for name, value in written.items() if name in _names(StudyConfig)}
    return Request(
        StudyConfig(**of_study), Call(**{name: written[name] for name in written.keys() - of_study}), of_study
    )


def study_name(call: Call, setup: Setup) -> str:
    """The given name, checked, or one that no other run has."""
    if call.resume and call.study is None:
        raise ValueError("--resume needs the --study to continue")
    loss = setup.loss.rpartition(":")[2]  # of one's own the function
    return check_name(call.study or f"{setup.dataset}-{loss}-{datetime.now():%Y%m%d-%H%M%S}")


def _names(of: type) -> set[str]:
    return {field.name for field in fields(of)}
