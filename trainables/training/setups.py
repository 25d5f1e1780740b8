"""The paper's set-ups as data (`sec:exps`): one entry a dataset and task, each with a `paper` and a `small` form.

`paper` is the paper's training, `small` a training for two CPU cores. Beside each number of a `paper` form stands its
source: a label of the paper, a file of the code that it cites, or "ours" where both are silent, with every known
departure. The sources of numbers that all of them share are beside the fields of `training.setup.Setup`. The code is

relational: github.com/mpatacchiola/self-supervised-relational-reasoning (Patacchiola and Storkey, NeurIPS 2020)
research-xbm: github.com/msight-tech (Wang et al., CVPR 2020); configs/sample_config.yaml is its only configuration
cnnimageretrieval-pytorch: github.com/filipradenovic (Radenović et al., PAMI 2018 and CVPR 2018)

The paper's "steps" are read as images, not iterations: Tiny-ImageNet's 36M are 200 epochs of 90,000 images, twice.
"""

from dataclasses import replace

from trainables.losses import find_loss
from trainables.training.setup import Setup

PRETRAINED = {
    "loss": "margin",  # fig:hpo_curves
    "network": "resnet18_gem",  # sec:exps; torchvision's; GeM as in cnnimageretrieval-pytorch, layers/pooling.py
    "weights": "imagenet",  # ssec:best_hp_values, fine-tuning of a pretrained model: torchvision's IMAGENET1K_V1
}
CROPS = {
    "augmentation": "crop",  # ours: random resized crops and flips; the paper is silent in metric learning
    "crop_scale": 0.25,  # ours
}
SIMCLR = {  # the SSL baseline that table:baselines compares with; the probe's numbers are defaults of `Setup`
    "loss": "infonce",  # fig:hpo_curves; margin by --loss margin, ssec:switching
    "network": "resnet32",  # sec:exps; as in relational, backbones/resnet_small.py: 16, 32, 64 channels, 5 blocks each
    "projection": "leaky_relu",  # relational, methods/simclr.py; torch's slope, 0.01
    "image_size": 64,  # relational, datamanager.py: the images' own; scaled to [-1, 1], there by 0.5, 0.25 a channel
    "images_seen": 36_000_000,  # sec:exps; both views count: 200 epochs, as there, a tenth of the images held out
    "evaluations": 36,  # ours: every million images
}
PAPER = {
    ("glyphs", "dml"): {  # not in the paper: fonts as a stand-in for Omniglot that needs no download
        "loss": "margin",  # ours: as omniglot
        "network": "resnet18_gem",  # ours: as omniglot; weights are none, as fonts are quickly learned from scratch
        "image_size": 64,  # ours: as omniglot
        "images_seen": 3_000_000,  # ours: as omniglot
        "evaluations": 30,  # ours: as omniglot
    },
    ("glyphs", "ssl"): SIMCLR | {
        "images_seen": 3_000_000,  # ours: as in metric learning on them
        "evaluations": 30,  # ours: every 100,000 images
    },
    ("omniglot", "dml"): PRETRAINED | {
        "image_size": 64,  # ours: the drawings have 105
        "images_seen": 3_000_000,  # sec:exps, Networks and training
        "evaluations": 30,  # ours: every 100,000 images
    },
    ("sop", "dml"): PRETRAINED | CROPS | {
        "image_size": 224,  # ours
        "images_seen": 2_000_000,  # sec:exps, Networks and training
        "evaluations": 20,  # ours: every 100,000 images
    },
    ("landmarks", "dml"): PRETRAINED | CROPS | {
        "image_size": 448,  # ours: cnnimageretrieval-pytorch's scripts train at 362 or 1024
        "images_seen": 1_000_000,  # sec:exps, Networks and training
        "evaluations": 20,  # ours: every 50,000 images
        "test": "roxford5k",  # sec:exps, Datasets and metrics: medium mAP; R-mAP on validation selects, which is ours
        "test_image_size": 1024,  # cnnimageretrieval-pytorch, examples/test.py: the longer side; no whitening
    },
    ("tinyimagenet", "ssl"): SIMCLR,
    ("folder", "dml"): PRETRAINED | CROPS | {  # the user's own images, one sub-folder a class
        "image_size": 224,  # ours: as sop
        "images_seen": 1_000_000,  # ours: half of SOP's
        "evaluations": 20,  # ours: as sop
    },
    ("folder", "ssl"): SIMCLR,
}  # fmt: skip
"""(dataset, task) -> the fields of its `paper` form that are not defaults of `Setup`."""

SMALL = {"network": "small_conv", "image_size": 28, "images_seen": 32_000, "memory_size": 2_000, "memory_start": 50}
DML = SMALL | {"loss": "margin", "evaluations": 8}
PHOTOS = DML | {"image_size": 32, "augmentation": "crop"}
SSL = SMALL | {
    "loss": "infonce", "evaluations": 4, "probe_epochs": 30, "probe_steps": 390, "probe_features": "standardised"
}  # fmt: skip
"""The probe standardises features, because in so few steps a probe of raw ones measures their scale. With a rate of
1e-3, or 3e-3 for fewer images, it has nearly converged after 30 epochs and does not overfit (`tune_cd/run/README.md`).
"""
FORMS = {
    ("glyphs", "dml"): DML | {"images_seen": 25_600},
    ("glyphs", "ssl"): SSL | {"probe_rate": 3e-3},
    ("omniglot", "dml"): DML,
    ("sop", "dml"): PHOTOS,
    ("landmarks", "dml"): PHOTOS | {"test": "roxford5k", "test_image_size": 96},
    ("tinyimagenet", "ssl"): SSL | {"image_size": 32},
    ("folder", "dml"): PHOTOS,
    ("folder", "ssl"): SSL | {"image_size": 32, "probe_rate": 3e-3},
}
"""The same of its `small` form."""

SETUPS: dict[str, dict[str, dict[str, Setup]]] = {}
for (_dataset, _task), _fields in PAPER.items():
    _forms = {"paper": _fields, "small": FORMS[_dataset, _task]}
    SETUPS.setdefault(_dataset, {})[_task] = {form: Setup(_dataset, _task, **own) for form, own in _forms.items()}
"""dataset -> task, the usual one first -> form -> set-up."""

PROJECTED, PROJECTORS = ("barlow_twins", "vicreg"), {"paper": "2048-2048-2048", "small": "256-256-256"}
"""Losses with a projector, and its usual widths by form; the authors' are 8192-8192-8192, on ResNet-50."""

XBM_ALIKE = {
    "embedding": 128,  # research-xbm, configs/sample_config.yaml (HEAD.DIM): linear, Kaiming's normal by fan-out
    "k": 4,  # research-xbm, configs/sample_config.yaml; classes are drawn alike, there by the images they have left
    "distance": "cosine",  # research-xbm, losses/contrastive_loss.py, as margin 0.5 and q 1, the defaults
    "optimizer": "adam",  # research-xbm, configs/sample_config.yaml
    "weight_decay": 5e-4,  # research-xbm, configs/sample_config.yaml (SOLVER.WEIGHT_DECAY), in Adam's gradient
    "selected_by": "recall_at_1",  # table:xbm, on our validation split; research-xbm: the best MAP@R of the test split
    "memory": "fixed",  # sec:xbm, S2 and S3; S1 is variable; without memory: none
}
XBM = {
    "paper": XBM_ALIKE | {
        "network": "resnet50_xbm",  # table:xbm, as in research-xbm, modeling/backbone/resnet.py; weights torchvision's
        "image_size": 256,  # research-xbm, config/defaults.py (INPUT.ORIGIN_SIZE), there the shorter side, no square
        "crop_size": 224,  # research-xbm, config/defaults.py (INPUT.CROP_SIZE); the centre in evaluation
        "augmentation": "crop",  # research-xbm, data/transforms/build.py, and flips
        "crop_scale": 0.2,  # research-xbm, config/defaults.py (INPUT.CROP_SCALE)
        "learning_rate": 1e-4,  # research-xbm, configs/sample_config.yaml (SOLVER.BASE_LR)
        "images_seen": 70_000 * 64,  # sec:xbm, iterations, of research-xbm's batches; its SOLVER.MAX_ITERS is 35,000
        "evaluations": 70,  # research-xbm, configs/sample_config.yaml (VALIDATION.VERBOSE): every 1,000 iterations
        "memory_size": 55_000,  # research-xbm, configs/sample_config.yaml; there each wrap overwrites the last 64
        "memory_start": 1000,  # sec:xbm, iterations; XBM.START_ITERATION of research-xbm
    },
    "small": XBM_ALIKE | {"learning_rate": 1e-3, "evaluations": 20},
}  # fmt: skip
"""The fields that the experiment of `table:xbm` changes in a metric learning set-up; its batch size is 64.

Its searches set `memory` and `schedule`. All use one optimizer, the XBM authors': S1 and S2 share a cell without memory
in the table, so they differ in the balance alone. The paper does not name the optimizer of S3.
"""

XBM_SCHEDULES = ("constant", "plateau")
"""The schedules without and with learning rate decay, for the two numbers of a cell of `table:xbm`. The paper says no
more of decay; plateau is research-xbm's only one (solver/build.py). As published it asks for a score that nothing sets
(R@1): here it is R@1 on validation."""

SEARCH_RANGE = (1e-6, 17.0)
"""Range of Lambda_p and Lambda_e of `paper` forms, "HPO ranges" in `sec:exps`."""

SMALL_RANGE = (1e-4, 1e3)
"""The same of `small` forms. Their best settings and averages lie between 0.004 and 136, the averages' Lambda_e highest
(`tests/benchmarks/RESULTS.md`)."""

XBM_RANGE = (1e-2, 1.7e5)
"""The same range for weights that do not include Adam's learning rate of 1e-4; the XBM authors' (3, 60) lies inside."""

BATCH_SIZES = (16, 32, 64, 128, 256, 512)  # sec:exps, HPO ranges; 64 where it is not searched


def find_setup(dataset: str, form: str, task: str | None = None, loss: str | None = None) -> Setup:
    """Find the table's entry; `loss` replaces its loss (`ssec:switching`) and sets its usual projector.

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
    if loss is None:
        return tasks[task][form]
    own = {"projector": PROJECTORS[form]} if loss in PROJECTED else {}
    return replace(tasks[task][form], loss=loss, **own)


def xbm_balance(batch_size: int, k: int) -> dict[str, float]:
    """The XBM authors' {"Lambda_p", "Lambda_e"} under Adam: sums over an anchor's k-1 positive, b-k negative pairs."""
    return {"Lambda_p": float(k - 1), "Lambda_e": float(batch_size - k)}
