"""Train and test one configuration, or all combinations of several values, without Ray and without a search.

python -m trainables.train --dataset glyphs --Lambda_p 0.7 --Lambda_e 8 --batch-size 64
python -m trainables.train --dataset glyphs --Lambda_p 0.07 0.7 --Lambda_e 2 8 --seed 0 1 2
python -m trainables.train --dataset glyphs --task ssl --loss vicreg --Lambda_sim 2.5 --Lambda_std 2.5 --Lambda_cov 0.1
"""

import argparse
import json
import logging
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports without a traceback

from functools import partial
from itertools import product
from math import isfinite
from pathlib import Path

import torch

from trainables import trained
from trainables.console import chosen_device, run
from trainables.data.resident import DeviceData
from trainables.datasets import pin_source
from trainables.datasets.structure import local_path
from trainables.losses import LOSSES, find_loss
from trainables.training import checkpoint
from trainables.training.checks import check_training
from trainables.training.cuda_graphs import open_queues
from trainables.training.errors import described, is_of_the_machine
from trainables.training.parallel import Pack
from trainables.training.setup import TASKS, override, without_effect
from trainables.training.setups import SETUPS, find_setup

USUAL_RATE = 0.1
"""The learning rate in the default weights: each is this rate times the published coefficient."""

LARGEST = torch.finfo(torch.float32).max
"""The largest weight of a term: the weights are float32 in a training."""

DATA_ROOT = """the dataset's directory or zip, or s3://BUCKET/KEY.zip, s3://BUCKET/PREFIX/ (gs:// likewise) or
http[s]://HOST/FILE.zip, with #sha256=DIGEST or not, fetched once; default: $TUNE_CD_DATA, then ~/.cache/tune_cd"""
SAVE = """write the trained network, its weights that were best on validation, for trainables.trained.load and
--weights"""


def main(argv: list[str] | None = None) -> int:
    """Train all configurations and print their evaluations and outcomes; returns the exit status."""
    if hasattr(sys.stdout, "reconfigure"):  # else closed, or a notebook's
        sys.stdout.reconfigure(errors="backslashreplace")  # a path or a name that the terminal's encoding lacks
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # downloads and decoding take long and log progress
    open_queues()
    try:
        options = _parser().parse_args(argv)
        device = chosen_device(options.device)
        form = options.setup or ("paper" if device.type == "cuda" else "small")
        assignments = options.assignments + ([] if options.weights is None else [f"weights={options.weights}"])
        setup = override(find_setup(options.dataset, form, options.task, options.loss), assignments)
        if options.data_root == "":
            raise ValueError("--data-root '': a path or a URI is needed")
        data_root = pin_source(setup.dataset, options.data_root, options.download)  # asks a server only once
        setup, _ = check_training(setup, options.batch_size, data_root, options.download)
        if options.at_once is not None and options.at_once < 1:
            raise ValueError(f"--at-once {options.at_once}: at least 1")
        varied = options.Lambdas | {"batch_size": options.batch_size, "seed": options.seed}
        configurations = [dict(zip(varied, values)) for values in product(*varied.values())]
        for option in ("checkpoint", "save"):
            if getattr(options, option) and len(configurations) > 1:
                raise ValueError(f"--{option} holds one training; {len(configurations)} are asked for")
        states, network = (_writable(option, getattr(options, option)) for option in ("checkpoint", "save"))
        if states and states == network:
            raise ValueError(f"--checkpoint and --save {network}: two files are needed")
        data = DeviceData.load(setup, data_root, device)
        pack = Pack(setup, data, device, at_once=options.at_once)
        pack.begin(configurations)
        if states and states.exists():
            checkpoint.load(pack.start(0), states)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for warning in without_effect([setup], options.assignments):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{data.name}: {setup.images_seen:,} images each on {device}, {setup}", flush=True)
    return _train(pack, states, network)


def _writable(option: str, place: str | None) -> Path | None:
    """The absolute path of a file that can be written; None for None. Raises ValueError for any other place."""
    if place is None:
        return None
    if not place:
        raise ValueError(f"--{option} '': the path of a file is needed")
    file = local_path(place, f"--{option}").resolve()
    new = not file.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
    except OSError as error:
        raise ValueError(f"--{option} {file}: cannot be written as a file: {error}") from error
    if new:
        file.unlink()
    return file


def _weight(text: str) -> float:
    if not 0 <= float(text) <= LARGEST:
        raise ValueError
    return float(text)


def _seed(text: str) -> int:
    if not 0 <= int(text) < 2**63:
        raise ValueError
    return int(text)


_weight.__name__ = f"weight (a number from 0 to {LARGEST:.2g})"  # argparse's messages name the reader of a value
_seed.__name__ = "seed (a whole number from 0 to 2^63 - 1)"


def _train(pack: Pack, states: Path | None, network: Path | None) -> int:
    """Train all and print every evaluation and outcome; returns the exit status, 1 if a training failed or left no
    network to save. states, network: files for the state and the network of the only training; None: not saved."""
    status, several, say = 0, len(pack.configurations) > 1, partial(print, flush=True)
    while not pack.done:
        try:
            looks = pack.advance()
        except (Exception, SystemExit) as error:
            status = _leave_out(pack, pack.culprit, error)
            continue
        for index, evaluation in looks.items():
            which = f"[{index + 1}/{len(pack.configurations)}] " if several else ""
            score = f"validation {pack.setup.metric} {evaluation.val_score:.4f}"
            say(f"{which}{evaluation.images_seen:>10,} images  {evaluation.train_seconds:7.1f} s  {score}")
            if states:
                checkpoint.save(pack.running[index], states)
        for index, training in [(index, training) for index, training in pack.running.items() if training.done]:
            try:
                outcome = {name: value for name, value in vars(pack.finish(index)).items() if name != "curve"}
            except (Exception, SystemExit) as error:
                status = _leave_out(pack, index, error)
                continue
            say(_json(pack.configurations[index] | outcome) if several else _json(outcome, indent=1))
            if network and outcome["status"] == "completed":
                network.write_bytes(trained.dumps(training))
            elif network:
                status = 1
                said = f"error: --save {network}: the training {outcome['status']}, nothing is written"
                left = "; the file there is of an earlier training" if network.exists() else ""
                print(said + left, file=sys.stderr)
    return status


def _leave_out(pack: Pack, index: int, error: BaseException) -> int:
    """Drop a failed training, so that the others go on; returns the exit status. Raises the error again if the machine
    caused it, or if there is only one training."""
    if is_of_the_machine(error) or len(pack.configurations) == 1:
        raise error
    configuration = pack.configurations[index]
    print(f"error: {described(error, configuration, str(pack.device))}", file=sys.stderr)
    print(_json(configuration | {"status": "failed"}), flush=True)
    pack.drop(index)
    return 1


def _json(told: dict, indent: int | None = None) -> str:
    """Strict JSON: numbers that are not finite are null."""

    def finite(value):
        if isinstance(value, dict):
            return {name: finite(one) for name, one in value.items()}
        return None if isinstance(value, float) and not isfinite(value) else value

    return json.dumps(finite(told), indent=indent, allow_nan=False)


class _Parser(argparse.ArgumentParser):
    """Also parses the weights of the loss that the other options name; `Lambdas` maps each weight to its values."""

    def parse_known_args(self, args=None, namespace=None):
        options, rest = super().parse_known_args(args, namespace)
        loss = find_loss(find_setup(options.dataset, "small", options.task, options.loss).loss)
        weights = argparse.ArgumentParser(prog=self.prog, add_help=False, allow_abbrev=False)
        for name, coefficient in loss.coefficients.items():
            weights.add_argument(f"--{name}", type=_weight, nargs="+", default=[USUAL_RATE * coefficient])
        found, unknown = weights.parse_known_args(rest)
        if unknown:
            known = ", ".join(f"--{name}" for name in loss.weights)
            self.error(f"not an option: {' '.join(unknown)}; the weights of loss {loss.name!r} are {known}")
        options.Lambdas = vars(found)
        return options, []


def _of_terms() -> str:
    """The weights of all losses but margin and InfoNCE, in words."""
    others = (loss for loss in LOSSES.values() if not loss.pairwise)
    return "; ".join(f"{loss.name} has {', '.join(f'--{name}' for name in loss.weights)}" for loss in others)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m trainables.train",
        description="Train and test one configuration, or all combinations of several values.",
        epilog="--Lambda_TERM VALUE [VALUE ...]: weight of a term of the loss times the learning rate; default: "
        f"{USUAL_RATE} times the published coefficient; of several values all combinations are trained. --Lambda_p and "
        f"--Lambda_e are those of margin's and infonce's positive and entropy term. {_of_terms()}.",
    )
    add = parser.add_argument
    add("--dataset", choices=sorted(SETUPS), default="glyphs", help="default: %(default)s")
    add("--task", choices=TASKS, help="default: the dataset's")
    add("--data-root", metavar="PATH_OR_URI", help=DATA_ROOT)
    add("--download", action="store_true", help="fetch data that are absent, where there is a public archive")
    add("--weights", metavar="W", help="none, imagenet or a file; default: the set-up's")
    add("--setup", choices=("small", "paper"), help="default: paper on a GPU, else small")
    losses = f"{', '.join(LOSSES)}, or module:function for your own; default: the dataset's usual one"
    add("--loss", metavar="LOSS", help=losses)
    fields: dict = {"nargs": "+", "action": "extend", "default": [], "metavar": "FIELD=VALUE"}
    add("--set", dest="assignments", **fields, help="override fields of the set-up")
    add("--batch-size", type=int, nargs="+", default=[64], help="default: 64")
    add("--seed", type=_seed, nargs="+", default=[0], help="default: 0")
    several = "of several configurations; default: as many as fit the GPU, one on a CPU"
    add("--at-once", type=int, metavar="N", help=several)
    resumed = "resume from this file where it exists; written at every evaluation"
    add("--checkpoint", metavar="FILE", help=resumed)
    add("--save", metavar="FILE", help=SAVE)
    add("--device", help="default: cuda where there is a GPU, else cpu")
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
