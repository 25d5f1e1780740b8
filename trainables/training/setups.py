"""The paper's set-ups as data (`sec:exps`): one entry a dataset and task, each with a `paper` and a `small` form.

`paper` is the paper's training, `small` a training for two CPU cores.

`trainables.training.paper` has the source of every number of a `paper` form: the paper, the code it cites, or our
choice where both are silent (image sizes, augmentation in metric learning, the number of validation evaluations).
"""

from dataclasses import replace

from trainables.losses import find_loss
from trainables.training.setup import Setup

DML = {"task": "dml", "loss": "margin"}
SSL = {"task": "ssl", "loss": "infonce"}
PRETRAINED = {
    "network": "resnet18_gem",
    "weights": "imagenet",
}  # "fine-tuning of a pretrained model", ssec:best_hp_values
PATACCHIOLA = {"network": "resnet32", "projection": "leaky_relu"}  # the SSL baseline that table:baselines compares with
SMALL = {"network": "small_conv", "image_size": 28, "memory_size": 2_000, "memory_start": 50}
PHOTOS = SMALL | {"image_size": 32}
PROBE = {"probe_epochs": 30, "probe_steps": 390, "probe_features": "standardised"}
"""The probe of `small` set-ups. Features are standardised, because in so few steps a probe of raw ones measures their
scale. With a rate of 1e-3, or 3e-3 for fewer images, it has nearly converged after 30 epochs and does not overfit
(`tune_cd/run/README.md`)."""


SETUPS: dict[str, dict[str, dict[str, Setup]]] = {
    "glyphs": {  # not in the paper: fonts as a stand-in for Omniglot that needs no download, hence from scratch
        "dml": {
            "paper": Setup(
                "glyphs", **DML, network="resnet18_gem", image_size=64, images_seen=3_000_000, evaluations=30
            ),
            "small": Setup("glyphs", **DML, **SMALL, images_seen=25_600, evaluations=8),
        },
        "ssl": {
            "paper": Setup("glyphs", **SSL, **PATACCHIOLA, image_size=64, images_seen=3_000_000, evaluations=30),
            "small": Setup("glyphs", **SSL, **SMALL, images_seen=32_000, evaluations=4, **PROBE, probe_rate=3e-3),
        },
    },
    "omniglot": {
        "dml": {
            "paper": Setup("omniglot", **DML, **PRETRAINED, image_size=64, images_seen=3_000_000, evaluations=30),
            "small": Setup("omniglot", **DML, **SMALL, images_seen=32_000, evaluations=8),
        }
    },
    "sop": {
        "dml": {
            "paper": Setup(
                "sop", **DML, **PRETRAINED, image_size=224, images_seen=2_000_000, evaluations=20, augmentation="crop"
            ),
            "small": Setup("sop", **DML, **PHOTOS, images_seen=32_000, evaluations=8, augmentation="crop"),
        }
    },
    "landmarks": {
        "dml": {
            "paper": Setup(
                "landmarks",
                **DML,
                **PRETRAINED,
                image_size=448,
                images_seen=1_000_000,
                evaluations=20,
                augmentation="crop",
                test="roxford5k",
            ),
            "small": Setup(
                "landmarks",
                **DML,
                **PHOTOS,
                images_seen=32_000,
                evaluations=8,
                augmentation="crop",
                test="roxford5k",
                test_image_size=96,
            ),
        }
    },
    "tinyimagenet": {
        "ssl": {
            "paper": Setup("tinyimagenet", **SSL, **PATACCHIOLA, image_size=64, images_seen=36_000_000, evaluations=36),
            "small": Setup("tinyimagenet", **SSL, **PHOTOS, images_seen=32_000, evaluations=4, **PROBE),
        }
    },
    "folder": {  # the user's own images, one sub-folder a class
        "dml": {
            "paper": Setup(
                "folder",
                **DML,
                **PRETRAINED,
                image_size=224,
                images_seen=1_000_000,
                evaluations=20,
                augmentation="crop",
            ),
            "small": Setup("folder", **DML, **PHOTOS, images_seen=32_000, evaluations=8, augmentation="crop"),
        },
        "ssl": {
            "paper": Setup("folder", **SSL, **PATACCHIOLA, image_size=64, images_seen=36_000_000, evaluations=36),
            "small": Setup("folder", **SSL, **PHOTOS, images_seen=32_000, evaluations=4, **PROBE, probe_rate=3e-3),
        },
    },
}

OF_LOSS: dict[str, dict[str, dict[str, str]]] = {  # the authors' projectors are 8192-8192-8192, on ResNet-50
    loss: {"paper": {"projector": "2048-2048-2048"}, "small": {"projector": "256-256-256"}}
    for loss in ("barlow_twins", "vicreg")
}
"""loss -> form -> the set-up fields that are usual with that loss."""

XBM_ALIKE = {
    "embedding": 128, "k": 4, "distance": "cosine", "optimizer": "adam", "weight_decay": 5e-4,
    "selected_by": "recall_at_1", "memory": "fixed",
}  # fmt: skip
XBM = {
    "paper": XBM_ALIKE | {
        "network": "resnet50_xbm", "image_size": 256, "crop_size": 224, "augmentation": "crop", "crop_scale": 0.2,
        "learning_rate": 1e-4, "images_seen": 70_000 * 64, "evaluations": 70, "memory_size": 55_000,
        "memory_start": 1000,
    },
    "small": XBM_ALIKE | {"learning_rate": 1e-3, "evaluations": 20},
}  # fmt: skip
"""The fields that the experiment of `table:xbm` changes in a metric learning set-up; its batch size is 64.

Its searches set `memory` and `schedule`. All use one optimizer, the XBM authors': S1 and S2 share a cell without memory
in the table, so they differ in the balance alone. The paper does not name the optimizer of S3.
"""

XBM_SCHEDULES = ("constant", "plateau")
"""The schedules without and with learning rate decay, for the two numbers of a cell of `table:xbm`."""

PUBLISHED_BEST = {
    ("omniglot", "margin"): (8e-3, 2.0),
    ("sop", "margin"): (1e-2, 4.0),
    ("landmarks", "margin"): (4e-3, 5e-1),
    ("tinyimagenet", "margin"): (1.0, 8.0),
    ("tinyimagenet", "infonce"): (1.0, 2.0),
}
"""(dataset, loss) -> (Lambda_p, Lambda_e) at b = 64, `ssec:best_hp_values`."""

SEARCH_RANGE = (1e-6, 17.0)
"""Range of Lambda_p and Lambda_e of `paper` forms, "HPO ranges" in `sec:exps`."""

SMALL_RANGE = (1e-4, 1e3)
"""The same of `small` forms. Their best settings and averages lie between 0.004 and 136, the averages' Lambda_e highest
(`tests/benchmarks/RESULTS.md`)."""

XBM_RANGE = (1e-2, 1.7e5)
"""The same range for weights that do not include Adam's learning rate of 1e-4; the XBM authors' (3, 60) lies inside."""

BATCH_SIZES = (16, 32, 64, 128, 256, 512)


def find_setup(dataset: str, form: str, task: str | None = None, loss: str | None = None) -> Setup:
    """Find the table's entry; `loss` replaces its loss (`ssec:switching`) and sets its usual fields (`OF_LOSS`).

    task None: the dataset's first task that the loss can train. Raises ValueError listing the known names.
    """
    if dataset not in SETUPS:
        raise ValueError(f"dataset {dataset!r}: one of {sorted(SETUPS)}")
    tasks = SETUPS[dataset]
    if task is None:
        able = tasks if loss is None else find_loss(loss).tasks
        task = next((one for one in tasks if one in able), next(iter(tasks)))
    if task not in tasks:
        raise ValueError(f"task {task!r}: {dataset} is split for {list(tasks)}")
    if form not in tasks[task]:
        raise ValueError(f"setup {form!r}: one of {sorted(tasks[task])}")
    setup = tasks[task][form]
    return replace(setup, loss=loss, **OF_LOSS.get(loss, {}).get(form, {})) if loss is not None else setup


def published_best(setup: Setup) -> dict[str, float]:
    """The paper's best {"Lambda_p", "Lambda_e"} for the dataset and loss. Raises ValueError listing the known pairs."""
    if (setup.dataset, setup.loss) not in PUBLISHED_BEST:
        known = ", ".join(f"{dataset} with {loss}" for dataset, loss in PUBLISHED_BEST)
        raise ValueError(f"the paper has no best balance for {setup.dataset} with {setup.loss}; it has for {known}")
    return dict(zip(("Lambda_p", "Lambda_e"), PUBLISHED_BEST[setup.dataset, setup.loss]))


def xbm_balance(batch_size: int, k: int) -> dict[str, float]:
    """The XBM authors' {"Lambda_p", "Lambda_e"} under Adam: sums over an anchor's k-1 positive, b-k negative pairs."""
    return {"Lambda_p": float(k - 1), "Lambda_e": float(batch_size - k)}
