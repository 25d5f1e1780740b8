"""The source of every number of a `paper` set-up: the paper, the code it cites, or, where both are silent, our choice.

    python -m trainables.training.paper                   all of it, as Markdown
    python -m trainables.training.paper sop "sop, xbm"    some set-ups

The values are repeated here as the source has them; a test compares them with `trainables.training.setups`. A row's
note gives the reason for our choice, and names every known departure from a source.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from trainables.console import run
from trainables.training.setup import Setup
from trainables.training.setups import SETUPS, XBM, find_setup

OURS = "ours"
RELATIONAL = "self-supervised-relational-reasoning"  # github.com/mpatacchiola: Patacchiola and Storkey, NeurIPS 2020
# github.com/msight-tech: Wang et al., CVPR 2020; sample_config.yaml is its only configuration
RESEARCH_XBM = "research-xbm"
CIRTORCH = "cnnimageretrieval-pytorch"  # github.com/filipradenovic: Radenović et al., PAMI 2018 and CVPR 2018
SOURCES = ("sec:", "ssec:", "subsec:", "eq:", "fig:", "table:", RELATIONAL, RESEARCH_XBM, CIRTORCH, OURS)
"""The allowed beginnings of a source: a label of the paper, a cited repository, or OURS."""


@dataclass(frozen=True)
class Number:
    """A value and its source, which begins with one of SOURCES. note: the reason for a choice, or a departure."""

    value: Any
    source: str
    note: str = ""


TRAINING = "sec:exps, Networks and training"
METRICS = "sec:exps, Datasets and metrics"
SILENT = "the paper is silent"
STEPS = "its steps are read as images, not iterations: Tiny-ImageNet's 36M are 200 epochs of 90,000 images in two views"

EVERYWHERE = {
    "loss": Number("margin", "fig:hpo_curves"),
    "k": Number(2, "sec:exps, Sampling"),
    "margin": Number(0.5, TRAINING),
    "temperature": Number(0.1, TRAINING, "of InfoNCE"),
    "negatives": Number("others", "eq:infoNCE_means", "K_ij"),
    "mining": Number("none", "sec:balance", "all pairs of a batch"),
    "distance": Number(
        None,
        "eq:contrastive, eq:infoNCE_onepair",
        "the usual one there: euclidean for margin, cosine for InfoNCE; on unit vectors",
    ),
    "q": Number(1, "eq:contrastive"),
    "optimizer": Number("sgd", "subsec:pipeline", "bare: no momentum, no weight decay, learning rate 1 on Lambda"),
    "weight_decay": Number(0.0, "subsec:pipeline"),
    "learning_rate": Number(0.1, OURS, "where the search starts, alone: it is part of Lambda"),
    "schedule": Number("constant", OURS, f"{SILENT} but for sec:xbm"),
    "precision": Number(
        "float32",
        OURS,
        "torch's default, TF32 in a GPU's convolutions included; --set precision=bfloat16 is asked for",
    ),
    "step": Number(None, OURS, "how it is computed, not what"),
    "embedding": Number(0, TRAINING, "the pooled features are the embedding: no layer on top is mentioned"),
    "memory": Number("none", "sec:xbm", "used there alone"),
    "crop_size": Number(0, OURS, "the whole of the stored square is used"),
    "augmentation": Number(None, OURS, f"none: {SILENT} on augmentation in metric learning"),
    "test": Number("split", METRICS),
    "selected_by": Number(None, METRICS, "R-mAP on validation; weights are selected where it peaks"),
    "network": Number(
        "resnet18_gem",
        TRAINING,
        "torchvision's; GeM with p = 3, learned, eps = 1e-6 as in cnnimageretrieval-pytorch (layers/pooling.py)",
    ),
    "weights": Number(
        "imagenet",
        "ssec:best_hp_values",
        "fine-tuning of a pretrained model; which is not said: torchvision's IMAGENET1K_V1",
    ),
}
"""field -> Number, for set-ups that have none of their own. A field that is not in effect has no row."""

CROPS = {
    "augmentation": Number(
        "crop",
        OURS,
        f"random resized crops and flips; {SILENT} on augmentation in metric learning",
    ),
    "crop_scale": Number(0.25, OURS, SILENT),
}
NUMBERS: dict[str, dict[str, Number]] = {
    "omniglot": {
        "image_size": Number(64, OURS, f"{SILENT}; the drawings have 105"),
        "images_seen": Number(3_000_000, TRAINING, STEPS),
        "evaluations": Number(30, OURS, f"{SILENT}; every 100,000 images"),
    },
    "sop": CROPS | {
        "image_size": Number(224, OURS, SILENT),
        "images_seen": Number(2_000_000, TRAINING, STEPS),
        "evaluations": Number(20, OURS, f"{SILENT}; every 100,000 images"),
    },
    "landmarks": CROPS | {
        "image_size": Number(448, OURS, f"{SILENT}; cnnimageretrieval-pytorch's scripts train at 362 or 1024"),
        "images_seen": Number(1_000_000, TRAINING, STEPS),
        "evaluations": Number(20, OURS, f"{SILENT}; every 50,000 images"),
        "test": Number("roxford5k", METRICS, "medium mAP"),
        "test_image_size": Number(
            1024, f"{CIRTORCH}, examples/test.py",
            "the longer side; several scales, averaged, see metrics.revisited.SCALES; no whitening",
        ),
        "selected_by": Number(None, OURS, "R-mAP on validation: the paper names the test's metric only"),
    },
    "tinyimagenet": {
        "loss": Number("infonce", "fig:hpo_curves", "margin by --loss margin, ssec:switching"),
        "network": Number(
            "resnet32", TRAINING,
            f"as in {RELATIONAL}, backbones/resnet_small.py: 16, 32, 64 channels, five blocks each",
        ),
        "weights": Number("none", "ssec:best_hp_values", "SSL from scratch"),
        "embedding": Number(
            0, f"{RELATIONAL}, methods/simclr.py",
            "0: the projection's usual 64 dimensions, 256 in between",
        ),
        "projection": Number("leaky_relu", f"{RELATIONAL}, methods/simclr.py", "torch's slope, 0.01"),
        "image_size": Number(
            64, f"{RELATIONAL}, datamanager.py",
            "the images' own; scaled to [-1, 1], there by 0.5 and 0.25 a channel",
        ),
        "images_seen": Number(
            36_000_000, TRAINING,
            "both views count: 200 epochs, as there, of 90,000 images, a tenth being held out",
        ),
        "evaluations": Number(36, OURS, f"{SILENT}; every million images"),
        "augmentation": Number(
            None, TRAINING,
            f"SimCLR's, with the numbers of {RELATIONAL}, datamanager.py: no blur, see views",
        ),
        "selected_by": Number(None, METRICS, "accuracy of the linear probe"),
        "probe_epochs": Number(
            100, f"{RELATIONAL}, train_linear_evaluation.py",
            "one linear layer, Adam, batches of 128, no augmentation",
        ),
        "probe_steps": Number(0, f"{RELATIONAL}, train_linear_evaluation.py", "epochs alone"),
        "probe_rate": Number(1e-3, f"{RELATIONAL}, train_linear_evaluation.py"),
        "probe_features": Number("raw", f"{RELATIONAL}, train_linear_evaluation.py"),
    },
    "sop, xbm": {
        "loss": Number("margin", "sec:xbm"),
        "network": Number(
            "resnet50_xbm", "table:xbm",
            f"as in {RESEARCH_XBM}, modeling/backbone/resnet.py: a global maximum, no ReLU after the first BatchNorm",
        ),
        "weights": Number(
            "imagenet", f"{RESEARCH_XBM}, config/defaults.py",
            "MODEL.PRETRAIN; its file is taken to be torchvision's IMAGENET1K_V1",
        ),
        "embedding": Number(
            128, f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "MODEL.HEAD.DIM; a linear layer, Kaiming's normal by fan-out",
        ),
        "image_size": Number(
            256, f"{RESEARCH_XBM}, config/defaults.py",
            "INPUT.ORIGIN_SIZE, there the shorter side; here its centred square is kept",
        ),
        "crop_size": Number(224, f"{RESEARCH_XBM}, config/defaults.py", "INPUT.CROP_SIZE; the centre in evaluation"),
        "crop_scale": Number(0.2, f"{RESEARCH_XBM}, config/defaults.py", "INPUT.CROP_SCALE"),
        "augmentation": Number("crop", f"{RESEARCH_XBM}, data/transforms/build.py", "and flips"),
        "images_seen": Number(
            4_480_000, "sec:xbm",
            "70,000 iterations of 64 (DATA.TRAIN_BATCHSIZE); SOLVER.MAX_ITERS is 35,000",
        ),
        "evaluations": Number(
            70, f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "VALIDATION.VERBOSE: every 1,000 iterations",
        ),
        "selected_by": Number(
            "recall_at_1", "table:xbm",
            f"on our validation split; {RESEARCH_XBM} evaluates on the test split, and keeps the best MAP@R",
        ),
        "learning_rate": Number(1e-4, f"{RESEARCH_XBM}, configs/sample_config.yaml", "SOLVER.BASE_LR"),
        "k": Number(
            4, f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "DATA.NUM_INSTANCES; classes are drawn alike, there by the images they have left",
        ),
        "distance": Number("cosine", f"{RESEARCH_XBM}, losses/contrastive_loss.py"),
        "margin": Number(0.5, f"{RESEARCH_XBM}, losses/contrastive_loss.py"),
        "q": Number(1, f"{RESEARCH_XBM}, losses/contrastive_loss.py"),
        "optimizer": Number(
            "adam", f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "of all rows: S1 and S2 have one cell without memory in table:xbm, so one optimizer; that of S3 is not "
            "said",
        ),
        "weight_decay": Number(
            5e-4, f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "SOLVER.WEIGHT_DECAY, in Adam's gradient",
        ),
        "schedule": Number(
            "constant", "table:xbm",
            "its first number; the second is with decay, of which the paper says no more: see "
            "training.setups.XBM_SCHEDULES",
        ),
        "memory": Number("fixed", "sec:xbm", "S2 and S3; S1 is variable; without memory: none"),
        "memory_size": Number(
            55_000, f"{RESEARCH_XBM}, configs/sample_config.yaml",
            "XBM.SIZE; first in, first out, where that code overwrites the last 64 at each wrap",
        ),
        "memory_start": Number(1000, "sec:xbm", f"iterations; XBM.START_ITERATION of {RESEARCH_XBM}"),
    },
}  # fmt: skip
"""set-up of the paper -> field -> Number. For other fields see EVERYWHERE."""

DISTORTED = {"distortion": Number(1.0, OURS, "12 faces draw a letter nearly alike")}
COPIES = {"glyphs": "omniglot", "glyphs, ssl": "tinyimagenet", "folder": "sop", "folder, ssl": "tinyimagenet"}
"""set-up of data that are not in the paper -> the set-up that it follows."""
NOT_IN_THE_PAPER: dict[str, dict[str, Number]] = {
    "glyphs": DISTORTED
    | {"weights": Number("none", OURS, "fonts are quickly learned from scratch, without a download")},
    "glyphs, ssl": DISTORTED
    | {
        "images_seen": Number(3_000_000, OURS, "as in metric learning on them"),
        "evaluations": Number(30, OURS, "every 100,000 images"),
    },
    "folder": {"images_seen": Number(1_000_000, OURS, "half of SOP's")},
    "folder, ssl": {},
}
"""set-up of COPIES -> field -> Number, where it differs from the set-up that it follows."""

ELSEWHERE: dict[str, Number] = {
    "training.setups.SEARCH_RANGE": Number((1e-6, 17.0), "sec:exps, HPO ranges"),
    "training.setups.BATCH_SIZES": Number(
        (16, 32, 64, 128, 256, 512), "sec:exps, HPO ranges", "64 where it is not searched"
    ),
    "training.setups.XBM_RANGE": Number(
        (1e-2, 1.7e5), OURS,
        "SEARCH_RANGE divided by Adam's learning rate, which is no part of the weights",
    ),
    "training.setups.XBM_SCHEDULES": Number(
        ("constant", "plateau"), f"{RESEARCH_XBM}, solver/build.py",
        "its only schedule; as published it asks for a score that nothing sets (R@1): here it is R@1 on validation",
    ),
    "training.assembly.REDUCTION": Number(0.1, f"{RESEARCH_XBM}, solver/build.py", "ReduceLROnPlateau's default"),
    "training.assembly.PATIENCE": Number(4, f"{RESEARCH_XBM}, solver/build.py", "evaluations"),
    "training.assembly.THRESHOLD": Number(1e-3, f"{RESEARCH_XBM}, solver/build.py", "of the best"),
    "training.assembly.COOLDOWN": Number(2, f"{RESEARCH_XBM}, solver/build.py", "evaluations"),
    "training.assembly.LEAST": Number(0.05, f"{RESEARCH_XBM}, solver/build.py", "min_lr / BASE_LR with SOLVER.STEPS 2"),
    "training.setups.PUBLISHED_BEST": Number(
        {
            ("omniglot", "margin"): (8e-3, 2.0), ("sop", "margin"): (1e-2, 4.0), ("landmarks", "margin"): (4e-3, 5e-1),
            ("tinyimagenet", "margin"): (1.0, 8.0), ("tinyimagenet", "infonce"): (1.0, 2.0),
        },
        "ssec:best_hp_values", "at b = 64",
    ),
    "data.augmentation.SCALE": Number((0.08, 1.0), f"{RELATIONAL}, datamanager.py"),
    "data.augmentation.RATIO": Number(
        (3 / 4, 4 / 3), f"{RELATIONAL}, datamanager.py",
        "torchvision's default, of which research-xbm makes use as well",
    ),
    "data.augmentation.P_FLIP": Number(0.5, f"{RELATIONAL}, datamanager.py"),
    "data.augmentation.P_JITTER": Number(0.8, f"{RELATIONAL}, datamanager.py"),
    "data.augmentation.P_GREY": Number(0.2, f"{RELATIONAL}, datamanager.py"),
    "data.augmentation.STRENGTH": Number(0.8, f"{RELATIONAL}, datamanager.py", "brightness, contrast, saturation"),
    "data.augmentation.HUE": Number(0.2, f"{RELATIONAL}, datamanager.py"),
    "metrics.revisited.SCALES": Number(
        (1.0, 2**-0.5, 0.5), f"{CIRTORCH}, README",
        "averaged, though its test.py takes GeM's mean of networks without whitening",
    ),
    "datasets.tinyimagenet.VALIDATION_FRACTION": Number(
        0.1, TRAINING,
        "a tenth makes 36M steps of 200 epochs; the share itself is not said",
    ),
    "datasets.sop.VALIDATION_FRACTION": Number(0.1, OURS, f"of the training classes; {SILENT}"),
    "datasets.omniglot.VALIDATION_ALPHABETS": Number(
        ("Balinese", "Futurama", "Grantha", "Hebrew", "N_Ko"), OURS,
        f"and the evaluation alphabets for the test; {SILENT}",
    ),
    "datasets.landmarks.LISTS": Number(
        {"train": "annotation_clean_train.txt", "validation": "annotation_clean_val.txt"}, OURS,
        f"the authors' own two lists; {SILENT}",
    ),
}  # fmt: skip
"""module.NAME of trainables -> Number: the numbers outside of set-ups."""


def setups() -> dict[str, Setup]:
    """All `paper` set-ups by name: the dataset's, `<dataset>, <task>` for its second task, and `sop, xbm`."""
    found = {}
    for dataset, tasks in SETUPS.items():
        for task in tasks:
            found[dataset if task == next(iter(tasks)) else f"{dataset}, {task}"] = find_setup(dataset, "paper", task)
    return found | {"sop, xbm": replace(find_setup("sop", "paper"), **XBM["paper"])}


def numbers(name: str) -> Mapping[str, Number]:
    """field -> Number of a set-up of `setups`. Raises ValueError for another name."""
    if name in NUMBERS:
        return EVERYWHERE | NUMBERS[name]
    if name not in COPIES:
        raise ValueError(f"set-up {name!r}: one of {[*NUMBERS, *COPIES]}")
    followed, note = numbers(COPIES[name]), f"not in the paper: as {COPIES[name]}"
    return {field: replace(row, source=OURS, note=note) for field, row in followed.items()} | NOT_IN_THE_PAPER[name]


def markdown(names: list[str]) -> str:
    """The tables of these set-ups, and of the numbers outside of set-ups."""
    parts = []
    for name in names:
        rows = numbers(name)
        ordered = {field.name: rows[field.name] for field in fields(Setup) if field.name in rows}
        parts.append(f"## {name}\n\n{_table('field', ordered)}")
    return "\n\n".join([*parts, f"## beside the set-ups\n\n{_table('name', ELSEWHERE)}"])


def _table(head: str, rows: Mapping[str, Number]) -> str:
    lines = [f"| {head} | value | source | note |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {row.value} | {row.source} | {row.note} |" for name, row in rows.items()])


def main(argv: list[str] | None = None) -> int:
    """Print the tables; returns the exit status."""
    every = [*NUMBERS, *COPIES]
    parser = argparse.ArgumentParser(
        prog="python -m trainables.training.paper", description="The paper set-ups' numbers and their sources."
    )
    parser.add_argument("names", nargs="*", metavar="SET-UP", help=f"default: all, which are {', '.join(every)}")
    names = parser.parse_args(argv).names
    try:
        print(markdown(names or every))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
