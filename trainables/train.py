"""Train and test one configuration, without Ray and without a search.

python -m trainables.train --dataset glyphs --Lambda_p 0.7 --Lambda_e 8 --batch-size 64
python -m trainables.train --dataset glyphs --task ssl --loss vicreg --Lambda_sim 2.5 --Lambda_std 2.5 --Lambda_cov 0.1
"""

import argparse
import json
import logging
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports without a traceback

from pathlib import Path

import torch

from trainables import trained
from trainables.console import chosen_device, run
from trainables.data.resident import DeviceData
from trainables.datasets import pin_source
from trainables.datasets.uri import local_path
from trainables.losses import LOSSES, find_loss
from trainables.training import checkpoint
from trainables.training.checks import check_training
from trainables.training.cuda_graphs import open_queues
from trainables.training.loop import Training
from trainables.training.setup import TASKS, override, without_effect
from trainables.training.setups import SETUPS, find_setup
from trainables.training.side_by_side import advance, outcomes

USUAL_RATE = 0.1
"""The learning rate in the default weights: each is this rate times the published coefficient."""

LARGEST = torch.finfo(torch.float32).max
"""The largest weight of a term: the weights are float32 in a training."""

DATA_ROOT = """the dataset's directory or zip, or s3://BUCKET/KEY.zip, s3://BUCKET/PREFIX/ (gs:// likewise) or
http[s]://HOST/FILE.zip, with #sha256=DIGEST or not, fetched once; default: $TUNE_CD_DATA, then ~/.cache/tune_cd"""
SAVE = """write the trained network, its weights that were best on validation, for trainables.trained.load and
--weights"""


def main(argv: list[str] | None = None) -> int:
    """Train the configuration and print its outcome, and on stderr its evaluations; returns the exit status."""
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
        setup, _ = check_training(setup, [options.batch_size], data_root, options.download)
        states, network = (_writable(option, getattr(options, option)) for option in ("checkpoint", "save"))
        if states and states == network:
            raise ValueError(f"--checkpoint and --save {network}: two files are needed")
        data = DeviceData.load(setup, data_root, device)
        h = options.Lambdas | {"batch_size": options.batch_size}
        training = Training(setup, data, h, seed=options.seed, device=device)
        if states and states.exists():
            checkpoint.load(training, states)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for warning in without_effect([setup], options.assignments, device.type == "cuda"):
        print(f"warning: {warning}", file=sys.stderr)
    fields = " ".join(f"{name}={value}" for name, value in setup.digest.items())  # those that have an effect
    print(f"{data.name}: {setup.images_seen:,} images on {device}, {fields}", file=sys.stderr, flush=True)
    return _train(training, states, network)


def _writable(option: str, place: str | None) -> Path | None:
    """The absolute path of a file that can be written; None for None. Raises ValueError for any other place."""
    if place is None:
        return None
    file = local_path(place, f"--{option}").resolve()
    new = not file.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
    except OSError as error:
        raise ValueError(f"--{option} {place!r}: cannot be written as a file: {error}") from error
    if not file.is_file():  # what is written takes its place
        raise ValueError(f"--{option} {place!r}: cannot be written as a file: it is a device")
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


def _train(training: Training, states: Path | None, network: Path | None) -> int:
    """Train and print the outcome, evaluations on stderr; returns the exit status, 1 if it left no network to save.
    states, network: files for its state and its network; None: not saved."""
    while not training.done:
        [evaluation] = advance([training])
        score = f"{evaluation.train_seconds:7.1f} s  validation {training.setup.metric} {evaluation.val_score:.4f}"
        print(f"{evaluation.images_seen:>10,} images  {score}", file=sys.stderr, flush=True)
        if states:
            try:
                checkpoint.save(training, states)
            except OSError as error:  # the training is worth more than its state
                print(f"warning: --checkpoint {states}: the state is not saved: {error}", file=sys.stderr)
    [outcome] = outcomes([training])
    told = json.dumps({name: value for name, value in vars(outcome).items() if name != "curve"})
    finite = json.loads(told, parse_constant=lambda _: None)  # strict JSON: other numbers are null
    wrong = "" if outcome.status == "completed" else f"the training {outcome.status}, "
    try:
        print(json.dumps(finite, indent=1), flush=True)
    finally:  # also where the output is closed
        if network and not wrong:
            try:
                checkpoint.put(network, trained.dumps(training))
            except OSError as error:
                wrong = f"{error}, "
    if network and wrong:
        left = "; the file there is of an earlier training" if network.exists() else ""
        print(f"error: --save {network}: {wrong}nothing is written{left}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """Also parses the weights of the loss that the other options name; `Lambdas` maps each weight to its value."""

    def parse_known_args(self, args=None, namespace=None):
        options, rest = super().parse_known_args(args, namespace)
        loss = find_loss(find_setup(options.dataset, "small", options.task, options.loss).loss)
        weights = argparse.ArgumentParser(prog=self.prog, add_help=False, allow_abbrev=False)
        for name, coefficient in loss.coefficients.items():
            weights.add_argument(f"--{name}", type=_weight, default=USUAL_RATE * coefficient)
        found, unknown = weights.parse_known_args(rest)
        if unknown:
            known = ", ".join(f"--{name}" for name in loss.weights)
            self.error(f"not an option: {' '.join(unknown)}; the weights of loss {loss.name!r} are {known}")
        options.Lambdas = vars(found)
        return options, []


def _parser() -> argparse.ArgumentParser:
    others = (loss for loss in LOSSES.values() if not loss.pairwise)
    of_terms = "; ".join(f"{loss.name} has {', '.join(f'--{name}' for name in loss.weights)}" for loss in others)
    parser = _Parser(
        prog="python -m trainables.train",
        description="Train and test one configuration.",
        epilog="--Lambda_TERM VALUE: weight of a term of the loss times the learning rate; default: "
        f"{USUAL_RATE} times the published coefficient. --Lambda_p and --Lambda_e are those of margin's and infonce's "
        f"positive and entropy term. {of_terms}.",
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
    add("--batch-size", type=int, default=64, help="default: %(default)s")
    add("--seed", type=_seed, default=0, help="default: %(default)s")
    resumed = "resume from this file where it exists; written at every evaluation"
    add("--checkpoint", metavar="FILE", help=resumed)
    add("--save", metavar="FILE", help=SAVE)
    add("--device", help="default: cuda where there is a GPU, else cpu")
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
