"""The command line of `tune_cd.run`: its options, and what can be said of them without looking at data or cluster."""

import argparse
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from trainables.losses import LOSSES
from trainables.training.setups import BATCH_SIZES, SEARCH_RANGE, SETUPS, TASKS, XBM_RANGE, Setup
from tune_cd.results.location import is_uri
from tune_cd.results.schema import check_name
from tune_cd.run.config import ABOVE, BELOW, EXPERIMENTS, Call, Request, StudyConfig
from tune_cd.run.searches import DEFAULT_TRIALS, DEFAULT_WORTH
from tune_cd.search.registry import OPTIMISERS

ORIGIN = "origin"
"""The config key under which a trial finds where the search took it from."""

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
    _training_options(top)
    _search_options(top)
    _call_options(top)
    return top


def _training_options(top: argparse.ArgumentParser) -> None:
    what = top.add_argument_group("what is trained")
    what.add_argument("--dataset", choices=sorted(SETUPS), help="default: glyphs, made offline from fonts")
    what.add_argument("--task", choices=TASKS, help="default: the dataset's")
    what.add_argument(
        "--loss",
        type=_loss,
        metavar="LOSS",
        help=f"{', '.join(LOSSES)}, or module:function, your own; default: the dataset's usual one",
    )
    what.add_argument("--setup", choices=("small", "paper"), help="default: paper where trials get a GPU, else small")
    what.add_argument(
        "--set",
        dest="assignments",
        type=_assignment,
        metavar="FIELD=VALUE",
        nargs="+",
        action="extend",
        help="override fields of the set-up, e.g. margin=0.3 k=4",
    )
    what.add_argument(
        "--weights",
        type=_weights,
        metavar="W",
        help="the network's before training: none, imagenet, or a file; default: the set-up's",
    )
    what.add_argument(
        "--experiment",
        choices=EXPERIMENTS,
        help="balance: the set-up as it is (the default); xbm: table:xbm, without and with cross-batch memory, "
        "its balance as published (S1), fixed (S2) and tuned (S3), without and with learning rate decay",
    )
    what.add_argument(
        "--images-seen", type=int, metavar="N", help="training budget of a trial in images; default: the set-up's"
    )
    what.add_argument(
        "--data-root",
        type=_root,
        metavar="PATH_OR_URI",
        help="the dataset's directory or zip, which all nodes see; or what each fetches once, below "
        "$TUNE_CD_CACHE: s3://BUCKET/KEY.zip, s3://BUCKET/PREFIX/ with all below it (gs:// likewise) or "
        "http[s]://HOST/FILE.zip, with #sha256=DIGEST behind it or not (also with --dry-run); default: "
        "$TUNE_CD_DATA, then ~/.cache/tune_cd",
    )
    what.add_argument(
        "--download",
        action="store_true",
        help="fetch data that are absent there, on every node, where there is a public archive",
    )


def _search_options(top: argparse.ArgumentParser) -> None:
    how = top.add_argument_group("how it is searched")
    how.add_argument(
        "--search",
        choices=list(OPTIMISERS),
        help="default: cd; cd-paper: Algorithms 1 and 2, repeated points free; cd-local: the same with brackets "
        "around the incumbent; tpe, cmaes, gp, cfo, botorch and turbo need the extra `baselines`, smac an extra of "
        "its name",
    )
    how.add_argument(
        "--full-length",
        action="store_true",
        help="train every setting to its end; by default cd pauses trainings at an eighth, a quarter and a half of "
        "their length, and goes on with those that are worth it",
    )
    how.add_argument(
        "--num-samples",
        type=int,
        metavar="N",
        help="full trainings' worth of images that the search may spend, those of a resumed study included; a trial "
        f"that pauses counts as the share that it was trained; default: {DEFAULT_WORTH}, where nothing pauses "
        f"{DEFAULT_TRIALS} trials, or all of a grid",
    )
    how.add_argument(
        "--grid-step",
        type=float,
        metavar="F",
        help="factor between two cells of --search grid; default: 2, as in the paper",
    )
    how.add_argument(
        "--start",
        metavar="H",
        help="conventional (equal weights, or the loss's published ones, at the usual learning rate; the default), "
        "blind (drawn in the box), paper (its best for the dataset and loss, found at b = 64), "
        "Lambda_p=...,Lambda_e=...[,batch_size=...] (a Lambda_TERM for each term of the loss), or your recipe: "
        "lr=...,average=separate|global[,b=...], and of other losses than margin and infonce lr=...[,b=...]",
    )
    how.add_argument(
        "--range",
        type=_range,
        metavar="LO,HI",
        help=f"of every weight Lambda_TERM; default: {SEARCH_RANGE[0]:g},{SEARCH_RANGE[1]:g} with margin and infonce, "
        f"{XBM_RANGE[0]:g},{XBM_RANGE[1]:g} with --experiment xbm, whose Adam has a learning rate beside them, and of "
        f"other losses from 1/{BELOW:g} of the conventional start's smallest weight to {ABOVE:g} times its largest",
    )
    how.add_argument(
        "--batch-size",
        type=int,
        metavar="B",
        help="fixed batch size, and the start's; default: 64, or as --start says",
    )
    how.add_argument("--tune-batch-size", action="store_true", help="search over batch sizes as well")
    how.add_argument(
        "--batch-sizes",
        type=_integers,
        metavar="B,B,...",
        help=f"those allowed with --tune-batch-size; default: {','.join(map(str, BATCH_SIZES))}",
    )
    how.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="leave out the searches that tune the learning rate alone",
    )
    how.add_argument(
        "--baseline-trials",
        type=int,
        metavar="N",
        help="stop each of these after so many trials, or whole trainings' worth where cd pauses them; default: when "
        f"its best learning rate has neighbours 2/3 of an octave apart, at the latest after {DEFAULT_WORTH} whole "
        f"trainings' worth, or {DEFAULT_TRIALS} trials",
    )
    how.add_argument("--seed", type=int, help="of the search and of every training; default: 0")
    how.add_argument(
        "--replicates",
        type=int,
        metavar="N",
        help="train every setting N times, with seeds from --seed on, and search by their mean; default: 1",
    )
    how.add_argument(
        "--confirm",
        type=_count,
        metavar="N",
        help="train the best setting of every search once more with each of N fresh seeds: what tuning gains is then "
        "told of these, with intervals; 3 or more are advised; default: 0",
    )


def _call_options(top: argparse.ArgumentParser) -> None:
    where = top.add_argument_group("where it runs and what it leaves")
    where.add_argument(
        "--results",
        metavar="DIR_OR_URI",
        help="a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX that all nodes reach; default: results",
    )
    where.add_argument("--study", metavar="NAME", help="default: dataset, loss and time of the start")
    where.add_argument(
        "--resume", action="store_true", help="continue --study where it stopped, or with more --num-samples"
    )
    where.add_argument(
        "--retry-failed",
        action="store_true",
        help="with --resume: train again what failed by an error of its own or its time limit; what was lost with "
        "a process or node is trained again anyway",
    )
    where.add_argument(
        "--address",
        metavar="ADDR",
        help="of a Ray cluster; local: start one here; default: Ray's own rule (joins a running one, else starts one)",
    )
    where.add_argument(
        "--gpus-per-trial",
        type=_gpus,
        metavar="F",
        help="a fraction: so many trials are trained together in one process on one GPU; auto: as many as fit its "
        "memory; default: 1 where the cluster has or may grow GPUs, else 0",
    )
    where.add_argument(
        "--pack", type=int, metavar="N", help="trainings in one process; default: 1, or what --gpus-per-trial says"
    )
    where.add_argument(
        "--cpus-per-trial",
        type=int,
        metavar="N",
        help="of a process, and its threads on a CPU; default: 1 on GPUs, else the node's CPUs divided by the workers",
    )
    where.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="settings trained at a time; default: as many as fit the cluster's nodes, those alive and those it "
        "may grow to, but at most a fifth of --num-samples where the search learns from trials",
    )
    where.add_argument(
        "--ondemand-after",
        type=_after,
        metavar="S",
        help="seconds for which spot nodes may be short before on-demand nodes are asked for, where the cluster "
        "has a type with the resource `ondemand`; never: they are not; default: 60",
    )
    where.add_argument(
        "--budget",
        metavar="T",
        help="ask for nothing more once this is spent, such as 90min, 2h or 20gpu-hours, counted from the start of "
        "this call; what leads is trained whole within it; default: --num-samples alone ends it",
    )
    where.add_argument(
        "--trial-timeout",
        type=_limit,
        metavar="S",
        help="seconds after which a training counts as failed, hanging or not; default: no limit",
    )
    where.add_argument(
        "--max-failures",
        type=_count,
        metavar="N",
        help="times a trial is begun again whose process or node was lost, from its last saved state; default: 2",
    )
    where.add_argument(
        "--checkpoint-seconds",
        type=_seconds,
        metavar="S",
        help="least time between two saved states of a training; default: 300",
    )
    where.add_argument(
        "--tune-dir",
        type=_path,
        metavar="DIR",
        help="where Ray Tune keeps its logs, for TensorBoard; nothing in there is needed again; default: in the "
        "system's temporary folder",
    )
    where.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, say what would be run and how long it takes at most, train nothing",
    )
    where.add_argument("--verbose", action="store_true", help="show Ray's own tables and messages as well")


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


def _path(text: str) -> str:
    """As it stays valid in a trial's folder, and when the study is resumed from another one."""
    return str(Path(text).expanduser().resolve())


def _root(text: str) -> str:
    """A URI as it is; it is checked with the study, as an error here would repeat it."""
    return text if is_uri(text) and not Path(text).exists() else _path(text)


def _loss(text: str) -> str:
    """One's own is imported with the study, as an error here would not say why."""
    if text in LOSSES or ":" in text:
        return text
    raise argparse.ArgumentTypeError(f"{text!r}: one of {', '.join(LOSSES)}, or module:function")


def _weights(text: str) -> str:
    return text if text in ("none", "imagenet") else _path(text)


def _assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"weights={_weights(value)}" if equals and name == "weights" else text


def _gpus(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a number, or auto") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of seconds")
    return seconds


def _after(text: str) -> float | None:
    return None if text == "never" else _seconds(text)


def _limit(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError("0 s are no time to train")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: 0, 1, 2, ...")
    return int(text)


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: two numbers LO,HI") from None
    return low, high


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers B,B,...") from None
