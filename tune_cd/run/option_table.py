"""The options of `python -m tune_cd.run` as data: flag -> the arguments of `argparse`'s `add_argument`, group by group.

Each is a field of `config.StudyConfig` or `config.Call`, which has its default.
"""

from collections.abc import Mapping
from typing import Any

from trainables.losses import LOSSES
from trainables.training.setup import TASKS
from trainables.training.setups import BATCH_SIZES, SEARCH_RANGE, SMALL_RANGE, XBM_RANGE
from tune_cd.run import option_values as values
from tune_cd.run.config import ABOVE, BELOW, CHOICES, EXPERIMENTS, FORMS
from tune_cd.run.searches import DEFAULT_TRIALS, DEFAULT_WORTH

Options = Mapping[str, Mapping[str, Any]]

TRAINING: Options = {
    "--dataset": {"choices": CHOICES["dataset"], "help": "default: glyphs, made offline from fonts"},
    "--task": {"choices": TASKS, "help": "default: the dataset's"},
    "--loss": {
        "type": values.loss,
        "metavar": "LOSS",
        "help": f"{', '.join(LOSSES)}, or module:function, your own; default: the dataset's usual one",
    },
    "--setup": {"choices": FORMS, "help": "default: paper where trials get a GPU, else small"},
    "--set": {
        "dest": "assignments",
        "type": values.assignment,
        "metavar": "FIELD=VALUE",
        "nargs": "+",
        "action": "extend",
        "help": "override fields of the set-up, e.g. margin=0.3 k=4",
    },
    "--weights": {
        "type": values.weights,
        "metavar": "W",
        "help": "the network's before training: none, imagenet, or a file; default: the set-up's",
    },
    "--experiment": {
        "choices": EXPERIMENTS,
        "help": "balance: the set-up as it is (the default); xbm: table:xbm, without and with cross-batch memory, "
        "its balance as published (S1), fixed (S2) and tuned (S3), without and with learning rate decay",
    },
    "--images-seen": {
        "type": int,
        "metavar": "N",
        "help": "training budget of a trial in images; default: the set-up's",
    },
    "--data-root": {
        "type": values.root,
        "metavar": "PATH_OR_URI",
        "help": "the dataset's directory or zip, which all nodes see; or what each fetches once, below "
        "$TUNE_CD_CACHE: s3://BUCKET/KEY.zip, s3://BUCKET/PREFIX/ with all below it (gs:// likewise) or "
        "http[s]://HOST/FILE.zip, with #sha256=DIGEST behind it or not (also with --dry-run); default: "
        "$TUNE_CD_DATA, then ~/.cache/tune_cd",
    },
    "--download": {
        "action": "store_true",
        "help": "fetch data that are absent there, on every node, where there is a public archive",
    },
}

SEARCH: Options = {
    "--search": {
        "choices": CHOICES["search"],
        "help": "default: cd; cd-paper: Algorithms 1 and 2, repeated points free; cd-local: the same with brackets "
        "around the incumbent; tpe, cmaes, gp and botorch need the extra `baselines`",
    },
    "--full-length": {
        "action": "store_true",
        "help": "train every setting to its end; by default cd pauses trainings at an eighth, a quarter and a half of "
        "their length, and goes on with those that are worth it",
    },
    "--num-samples": {
        "type": int,
        "metavar": "N",
        "help": "full trainings' worth of images that the search may spend, those of a resumed study included; a trial "
        f"that pauses counts as the share that it was trained; default: {DEFAULT_WORTH}, where nothing pauses "
        f"{DEFAULT_TRIALS} trials, or all of a grid",
    },
    "--grid-step": {
        "type": float,
        "metavar": "F",
        "help": "factor between two cells of --search grid; default: 2, as in the paper",
    },
    "--start": {
        "metavar": "H",
        "help": "conventional (equal weights, or the loss's published ones, at the usual learning rate; the default), "
        "blind (drawn in the box), paper (its best for the dataset and loss, found at b = 64), "
        "Lambda_p=...,Lambda_e=...[,batch_size=...] (a Lambda_TERM for each term of the loss), or your recipe: "
        "lr=...,average=separate|global[,b=...], and of other losses than margin and infonce lr=...[,b=...]",
    },
    "--range": {
        "type": values.bounds,
        "metavar": "LO,HI",
        "help": "of every weight Lambda_TERM, fixed. Without it the range grows where cd or an average has its best at "
        f"an end. It begins with {SMALL_RANGE[0]:g},{SMALL_RANGE[1]:g} for margin and infonce in --setup small, with "
        f"the paper's {SEARCH_RANGE[0]:g},{SEARCH_RANGE[1]:g} in --setup paper, with "
        f"{XBM_RANGE[0]:g},{XBM_RANGE[1]:g} in --experiment xbm, whose Adam has a learning rate beside the weights, "
        f"and for other losses with 1/{BELOW:g} of the conventional start's smallest weight to {ABOVE:g} times its "
        "largest",
    },
    "--batch-size": {
        "type": int,
        "metavar": "B",
        "help": "fixed batch size, and the start's; default: 64, or as --start says",
    },
    "--tune-batch-size": {"action": "store_true", "help": "search over batch sizes as well"},
    "--batch-sizes": {
        "type": values.integers,
        "metavar": "B,B,...",
        "help": f"those allowed with --tune-batch-size; default: {','.join(map(str, BATCH_SIZES))}",
    },
    "--no-baseline": {
        "dest": "baseline",
        "action": "store_false",
        "help": "leave out the searches that tune the learning rate alone",
    },
    "--baseline-trials": {
        "type": int,
        "metavar": "N",
        "help": "stop each of these after so many trials, or whole trainings' worth where cd pauses them; default: "
        f"when its best learning rate has neighbours 2/3 of an octave apart, at the latest after {DEFAULT_WORTH} whole "
        f"trainings' worth, or {DEFAULT_TRIALS} trials",
    },
    "--seed": {"type": values.count, "metavar": "N", "help": "of the search and of every training; default: 0"},
    "--replicates": {
        "type": int,
        "metavar": "N",
        "help": "train every setting N times, with seeds from --seed on, and search by their mean; default: 1",
    },
    "--confirm": {
        "type": values.count,
        "metavar": "N",
        "help": "train the best setting of every search once more with each of N fresh seeds: what tuning gains is "
        "then told of these, with intervals; 3 or more are advised; default: 0",
    },
}

CALL: Options = {
    "--results": {
        "metavar": "DIR_OR_URI",
        "help": "a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX that all nodes reach; default: results",
    },
    "--study": {"metavar": "NAME", "help": "default: dataset, loss and time of the start"},
    "--resume": {"action": "store_true", "help": "continue --study where it stopped, or with more --num-samples"},
    "--retry-failed": {
        "action": "store_true",
        "help": "with --resume: train again what failed by an error of its own or its time limit; what was lost with "
        "a process or node is trained again anyway",
    },
    "--address": {
        "metavar": "ADDR",
        "help": "of a Ray cluster; local: start one here; default: Ray's own rule (joins a running one, else "
        "starts one)",
    },
    "--gpus-per-trial": {
        "type": values.gpus,
        "metavar": "F",
        "help": "a fraction: so many trials are trained together in one process on one GPU; auto: as many as fit its "
        "memory; default: 1 where the cluster has or may grow GPUs, else 0",
    },
    "--pack": {
        "type": int,
        "metavar": "N",
        "help": "trainings in one process; default: 1, or what --gpus-per-trial says",
    },
    "--cpus-per-trial": {
        "type": int,
        "metavar": "N",
        "help": "of a process, and its threads on a CPU; default: 1. Scores on a CPU depend on it, as more threads add "
        "up in another order",
    },
    "--workers": {
        "type": int,
        "metavar": "N",
        "help": "settings trained at a time; default: as many as fit the cluster's nodes, those alive and those it "
        "may grow to, but at most a fifth of --num-samples where the search learns from trials",
    },
    "--ondemand-after": {
        "type": values.seconds_or_never,
        "metavar": "S",
        "help": "seconds for which spot nodes may be short before on-demand nodes are asked for, where the cluster "
        "has a type with the resource `ondemand`; never: they are not; default: 60",
    },
    "--budget": {
        "metavar": "T",
        "help": "ask for nothing more once this is spent, such as 90min, 2h or 20gpu-hours, counted from the start of "
        "this call; what leads is trained whole, beyond it if need be; default: --num-samples alone ends it",
    },
    "--trial-timeout": {
        "type": values.limit,
        "metavar": "S",
        "help": "seconds after which a training counts as failed, hanging or not; default: no limit",
    },
    "--max-failures": {
        "type": values.count,
        "metavar": "N",
        "help": "times a trial is begun again whose process or node was lost, from its last saved state; default: 2",
    },
    "--checkpoint-seconds": {
        "type": values.seconds,
        "metavar": "S",
        "help": "least time between two saved states of a training; default: 300",
    },
    "--tune-dir": {
        "type": values.folder,
        "metavar": "DIR",
        "help": "where Ray Tune keeps its logs, for TensorBoard; nothing in there is needed again; default: in the "
        "system's temporary folder",
    },
    "--dry-run": {
        "action": "store_true",
        "help": "check everything, say what would be run and how long it takes at most, train nothing",
    },
    "--verbose": {"action": "store_true", "help": "show Ray's own tables and messages as well"},
}

GROUPS: Mapping[str, Options] = {
    "what is trained": TRAINING,
    "how it is searched": SEARCH,
    "where it runs and what it leaves": CALL,
}
