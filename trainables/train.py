"""Train and test one configuration, without Ray and without a search.

    python -m trainables.train --dataset glyphs --Lambda_p 0.7 --Lambda_e 8 --batch-size 64
"""

import argparse
import json
import logging
import sys
from pathlib import Path

import torch

from trainables import checkpoint
from trainables.checks import check_training
from trainables.data import DeviceData
from trainables.tasks import LOSSES, SETUPS, TASKS, find_setup, override
from trainables.training import Training


def main(argv: list[str] | None = None) -> int:
    """Train one configuration and print its evaluations and its outcome; returns the exit status."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # downloads and the decoding take their time
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        form = options.setup or ("paper" if device.type == "cuda" else "small")
        assignments = options.assignments + ([f"weights={options.weights}"] if options.weights else [])
        setup = override(find_setup(options.dataset, form, options.task, options.loss), assignments)
        check_training(setup, [options.batch_size], options.data_root, options.download)
        data = DeviceData.load(setup, options.data_root, device)
        h = {"Lambda_p": options.Lambda_p, "Lambda_e": options.Lambda_e, "batch_size": options.batch_size}
        training = Training(setup, data, h, seed=options.seed, device=device)
        if options.checkpoint:
            options.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        if options.checkpoint and options.checkpoint.exists():
            checkpoint.load(training, options.checkpoint)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{data.name}: {training.iterations} iterations of {options.batch_size} images on {device}, {setup}", flush=True)
    while not training.done:
        evaluation = training.advance()
        print(f"{evaluation.images_seen:>10,} images  {evaluation.train_seconds:7.1f} s  validation {setup.metric} {evaluation.val_score:.4f}", flush=True)
        if options.checkpoint:
            checkpoint.save(training, options.checkpoint)
    print(json.dumps({name: value for name, value in vars(training.outcome()).items() if name != "curve"}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainables.train", description="Train and test one configuration.")
    parser.add_argument("--dataset", choices=sorted(SETUPS), default="glyphs", help="default: %(default)s")
    parser.add_argument("--task", choices=TASKS, help="default: the dataset's")
    parser.add_argument("--data-root", metavar="PATH", help="the dataset's directory or zip; default: $TUNE_CD_DATA, then ~/.cache/tune_cd")
    parser.add_argument("--download", action="store_true", help="fetch data that are absent, where there is a public archive")
    parser.add_argument("--weights", metavar="W", help="none, imagenet or a file; default: the set-up's")
    parser.add_argument("--setup", choices=("small", "paper"), help="default: paper on a GPU, else small")
    parser.add_argument("--loss", choices=LOSSES, help="default: the dataset's usual one")
    parser.add_argument("--set", dest="assignments", metavar="FIELD=VALUE", nargs="+", action="extend", default=[], help="override fields of the set-up")
    parser.add_argument("--Lambda_p", type=float, default=0.1, help="weight of the positive term times the learning rate; default: %(default)s")
    parser.add_argument("--Lambda_e", type=float, default=0.1, help="weight of the entropy term times the learning rate; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="go on from this file where it exists; written at every evaluation")
    parser.add_argument("--device", help="default: cuda where there is a GPU, else cpu")
    return parser


if __name__ == "__main__":
    sys.exit(main())
