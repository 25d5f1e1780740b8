"""The command line of `tune_cd.run`: its options are the fields of `config`."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, get_type_hints

from trainables.training.setup import Setup
from tune_cd.results.schema import check_name
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.fields import argument_of, option_of
from tune_cd.run.screen import fold

EPILOG = """\
examples:
  python -m tune_cd.run
      the default: glyphs, the images of five whole trainings, two baselines
  python -m tune_cd.run --dataset folder --data-root MY/PHOTOS \\
      --start lr=0.1,average=global,b=128
      from where you are today
  python -m tune_cd.run --study mine --num-samples 20 --resume
      ten whole trainings' worth more for a study of ten
"""


@dataclass(frozen=True)
class Request:
    """A parsed command line. written: the options of the study that it names, by field."""

    config: StudyConfig
    call: Call
    written: Mapping[str, Any]


def parser() -> argparse.ArgumentParser:
    """All options of `python -m tune_cd.run`, grouped, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.run",
        description=fold(
            "Find the best balance of a contrastive loss, (Lambda_p, Lambda_e[, batch_size]) or one weight a "
            "term of any other loss, by line searches that a model chooses, each trial a training run under Ray Tune, "
            "and compare it with tuning the learning rate alone.",
            indent="",
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # the defaults are those of StudyConfig and Call
        allow_abbrev=False,  # `submit` looks for the options that hold paths, by their whole names
    )
    groups: dict[str, Any] = {}
    for of in (StudyConfig, Call):
        kinds = get_type_hints(of)
        for one in (one for one in fields(of) if one.metadata):
            title = one.metadata["group"]
            groups[title] = groups.get(title) or top.add_argument_group(title)
            flag = option_of(f"no_{one.name}" if one.default is True else one.name)
            groups[title].add_argument(flag, dest=one.name, **argument_of(one, kinds[one.name]))
    return top


def parse(argv: list[str] | None) -> Request:
    """Parse a command line. Exits with 2 if it cannot be read; raises ValueError for impossible options."""
    typed = vars(parser().parse_args(argv))
    written = {name: tuple(value) if isinstance(value, list) else value for name, value in typed.items()}
    of_study = {field.name: written.pop(field.name) for field in fields(StudyConfig) if field.name in written}
    return Request(StudyConfig(**of_study), Call(**written), of_study)


def study_name(call: Call, setup: Setup) -> str:
    """The given name of the study, checked, or a new one with the time. Raises ValueError for a bad or missing name."""
    if call.resume and call.study is None:
        raise ValueError("--resume needs the --study to continue")
    loss = setup.loss.rpartition(":")[2]  # the function's name in module:function
    return check_name(call.study or f"{setup.dataset}-{loss}-{datetime.now():%Y%m%d-%H%M%S}")
