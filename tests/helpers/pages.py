"""Small payloads of the report's page, one a kind of study; made by hand and seeded. No test in here."""

import math
import random
from functools import cache

HOSTILE = "<script>alert(1)</script>"
FIELDS = [
    "trial_id",
    "search",
    "search_seed",
    "seed",
    "trial_index",
    "attempt",
    "direction",
    "line_position",
    "status",
    "images_seen",
    "train_seconds",
    "started",
    "ended",
    "hostname",
    "device",
    "gpus",
    "error",
]
BALANCE = [("Lambda_p", "Λp"), ("Lambda_e", "Λe"), ("batch_size", "b")]
SCORES = [("val_score", "validation r_map"), ("test_score", "test r_map"), ("scores.test_map_at_r", "test map_at_r")]
GAINS = {
    "title": "Gain of the balance",
    "columns": ["batch size", "best", "without balance", "gain"],
    "rows": [[32, "0.911", "0.874 ± 0.004", 0.037], [64, "0.937", None, 0.042]],
    "note": "Validation, means over seeds.",
}
BEGIN = 1_795_000_000  # s since 1970
TRACE = (
    'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    train(a < b && c > d)\n'
    + "torch.OutOfMemoryError: out of memory " * 8
)


def payload(*studies: dict, notes: tuple[str, ...] = ()) -> dict:
    return {
        "title": "Trials of results",
        "created": "2026-11-21T14:03:10Z",
        "notes": list(notes),
        "studies": list(studies),
    }


def trial(params: dict, scores: dict, index: int, **fields) -> dict:
    """A row of the table with usual values; fields replace them."""
    row = dict.fromkeys(FIELDS) | {
        "trial_id": f"cd-{index:05d}",
        "search": "cd",
        "search_seed": 0,
        "seed": 0,
        "trial_index": index,
        "attempt": 0,
        "direction": "balance",
        "line_position": float(index),
        "status": "completed",
        "images_seen": 60000,
        "train_seconds": 12.5,
        "started": BEGIN + 7.0 * index,
        "ended": BEGIN + 7.0 * index + 13.5,
        "hostname": "node-1",
        "device": "cpu",
        "gpus": 0.0,
    }
    return row | {"params": params, "scores": scores} | fields


def columns(rows: list[dict], axes: list, scores: list) -> dict:
    trials = {name: [row[name] for row in rows] for name in FIELDS}
    trials["params"] = {
        name: [row["params"].get(name) for row in rows]
        for name in dict.fromkeys(name for row in rows for name in row["params"])
    }
    trials["scores"] = {name: [row["scores"].get(name) for row in rows] for name, _ in scores}
    return trials


def grid(rows: list[dict], axes: list, scores: list, full: bool) -> dict:
    """Cells of equal parameters: means and standard deviations over rows, as the maker of payloads gives them."""
    ticks = [sorted({row["params"][name] for row in rows}) for name, _ in axes] + [[None]] * (3 - len(axes))
    found: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        at = tuple(ticks[n].index(row["params"][name]) for n, (name, _) in enumerate(axes)) + (0,) * (3 - len(axes))
        found.setdefault(at, []).append(number)
    cells = {"at": [list(at) for at in found], "trials": list(found.values()), "lost": [], "values": {}, "spread": {}}
    cells["lost"] = [sum(rows[n]["status"] in ("failed", "diverged") for n in numbers) for numbers in found.values()]
    for name, _ in scores:
        had = [
            [rows[n]["scores"][name] for n in numbers if rows[n]["scores"].get(name) is not None]
            for numbers in found.values()
        ]
        means = [sum(values) / len(values) if values else None for values in had]
        spread = [
            math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)) if len(values) > 1 else None
            for values, mean in zip(had, means, strict=True)
        ]
        cells["values"][name] = [None if mean is None else round(mean, 5) for mean in means]
        cells["spread"][name] = [None if one is None else round(one, 5) for one in spread]
    return {"full": full, "ticks": ticks, "cells": cells}


def curves(rows: list[dict]) -> list[dict]:
    """One a search and search seed, as the payload's contract says."""
    made = []
    for search, seed in dict.fromkeys((row["search"], row["search_seed"]) for row in rows):
        mine = [row for row in rows if (row["search"], row["search_seed"]) == (search, seed)]
        best, test, bests, tests = None, None, [], []
        for row in mine:
            value = row["scores"].get("val_score")
            if value is not None and (best is None or value > best):
                best, test = value, row["scores"].get("test_score")
            bests.append(best)
            tests.append(test)
        seconds = [None if row["ended"] is None else row["ended"] - BEGIN for row in mine]
        made.append(
            {
                "search": search,
                "label": search,
                "seed": seed,
                "trials": list(range(1, len(mine) + 1)),
                "best": bests,
                "test": tests,
                "seconds": seconds,
                "gpu_seconds": [None] * len(mine),
            }
        )
    return made


def study(
    name: str,
    rows: list[dict],
    axes: list = BALANCE,
    scores: list = SCORES,
    full: bool = False,
    top: int = 8,
    averages: bool = True,
    **replaced,
) -> dict:
    made_grid = grid(rows, axes, scores, full) if rows and axes else None
    batches = made_grid["ticks"][2] if made_grid else []
    diagonals = [
        {"name": "separate", "label": "separate average", "ratio": [1.0 for _ in batches]},
        {"name": "global", "label": "global average", "ratio": [(b or 64) - 2 for b in batches]},
    ]
    lines: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        if row["direction"] is not None:
            lines.setdefault((row["search"], row["direction"], number // 4), []).append(number)
    return {
        "name": name,
        "facts": [
            ["dataset", "glyphs"],
            ["task", "metric learning"],
            ["loss", "margin"],
            ["score", "r_map"],
            ["machine hours", "0.11"],
        ],
        "words": [
            {
                "head": "Best setting",
                "text": "Λp = 0.7114, Λe = 17, b = 64: validation r_map 0.9372, test 0.8955. Found by cd as trial "
                "cd-00017.",
                "kind": "result",
            },
            {
                "head": "Over the separate average",
                "text": "+0.0763 on the test split, +9.3 %. Tuning the learning rate alone, it reached 0.8192, at a "
                "learning rate of 0.711.",
                "kind": "result",
            },
            {
                "head": "How sure",
                "text": "Every setting was trained once: how much of a difference is chance cannot be told from this "
                "table.",
                "kind": "caution",
            },
            {
                "head": "What to try next",
                "text": "Train the best few settings with more seeds before relying on a small difference.",
                "kind": "next",
            },
            {
                "head": "The shape around it",
                "text": "The score falls fastest along the balance direction: by 5 % within 1.2 octaves.",
                "kind": "note",
            },
        ],
        "status": {
            kind: sum(row["status"] == kind for row in rows) for kind in ("completed", "diverged", "failed", "stopped")
        },
        "axes": [{"name": axis, "label": label, "log": True} for axis, label in axes],
        "scores": [{"name": score, "label": label} for score, label in scores],
        "trials": columns(rows, axes, scores),
        "grid": made_grid,
        "averages": diagonals if averages and rows else [],
        "top": top,
        "curves": curves(rows),
        "earlier": [],
        "learning": learning(rows),
        "lines": [
            {
                "search": search,
                "direction": direction,
                "trials": numbers,
                "points": [[rows[number]["params"][axis] for axis, _ in axes[:2]] for number in numbers],
            }
            for (search, direction, _), numbers in lines.items()
        ],
        "tables": [GAINS] if rows else [],
        "provenance": [
            ["code", "d1cf05b"],
            ["software", "torch 2.4, ray 2.40"],
            ["command", "python -m tune_cd.run --dataset glyphs"],
        ],
    } | replaced


def learning(rows: list[dict]) -> list[dict]:
    """A curve of three looks of every row with a score, where they are few; those that paused have the first two."""
    scored = [(n, row) for n, row in enumerate(rows) if row["scores"].get("val_score") is not None]
    looks = {"stopped": 2}
    return [
        {
            "row": n,
            "images": [1000, 2000, 4000][: looks.get(row["status"], 3)],
            "scores": [round(row["scores"]["val_score"] * share, 4) for share in (0.8, 0.9, 1)][
                : looks.get(row["status"], 3)
            ],
        }
        for n, row in scored
        if len(rows) <= 300
    ]


def ridge(positive: float, entropy: float, b: int) -> float:
    """A landscape like the paper's: a ridge along the joint learning rate that moves with the batch size."""
    balance, joint = math.log2(entropy / positive) - math.log2(b) + 2, math.log2(entropy * positive) - 2
    return 0.12 + 0.8 * math.exp(-((balance / 5) ** 2) - (joint / 13) ** 2)


def scored(value: float, noise: random.Random) -> dict:
    value += noise.gauss(0, 0.006)
    return {
        "val_score": round(value, 4),
        "test_score": round(value - 0.03 + noise.gauss(0, 0.004), 4),
        "scores.test_map_at_r": round(value * 0.7, 4),
    }


def search_study(name: str = "glyphs-margin") -> dict:
    """30 trials of three searches on two workers: 28 completed, one diverged, one failed."""
    noise, rows, free = random.Random(7), [], [BEGIN, BEGIN + 2.0]
    walks = {"cd": 20, "separate": 5, "global": 5}
    point = {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64}
    for search, count in walks.items():
        for n in range(count):
            joint, balance = (n // 4 % 2), 2.0 ** (2 * (n % 4) - 2)
            rate = 0.02 * 4.0**n
            ratio = 1.0 if search == "separate" else 62.0
            h = {"Lambda_p": rate, "Lambda_e": rate * ratio, "batch_size": 64}
            if search == "cd":
                h = dict(
                    point,
                    Lambda_p=round(point["Lambda_p"] * (balance if joint else 1 / balance), 6),
                    Lambda_e=round(point["Lambda_e"] * balance, 6),
                )
                h["batch_size"] = 64 if n < 12 else (32, 64, 128, 64)[n % 4]
            if search == "cd" and n % 4 == 3:
                best = max((row for row in rows if row["scores"]), key=lambda row: row["scores"]["val_score"])
                point = dict(best["params"])
            worker = free.index(min(free))
            start, length = free[worker], 9 + 4 * noise.random() + h["batch_size"] / 32
            free[worker] = start + length + 0.2
            direction = (
                ("start" if n == 0 else ("balance", "joint", "batch_size")[n // 4 % 3]) if search == "cd" else None
            )
            scores = scored(ridge(h["Lambda_p"], h["Lambda_e"], h["batch_size"]), noise)
            rows.append(
                trial(
                    {name: round(value, 6) for name, value in h.items()},
                    scores,
                    len(rows),
                    trial_id=f"{search}-{n:05d}",
                    search=search,
                    direction=direction,
                    started=start,
                    ended=round(start + length, 1),
                    train_seconds=round(length - 1, 2),
                )
            )
    for row, status, error in (
        (rows[9], "diverged", "the loss is not finite at step 311"),
        (rows[14], "failed", TRACE),
    ):
        row.update(status=status, error=error, scores={}, ended=row["started"] + 4)
    return study(name, rows)


def grid_study(
    name: str = "omniglot-grid", side: int = 25, batches: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
) -> dict:
    """side² settings for each batch size, 3,750 by default, with a corner never run, a corner that diverges and a few
    failures."""
    noise, rows = random.Random(3), []
    steps = [round(10 ** (-4 + 6 * n / (side - 1)), 8) for n in range(side)]
    for b in batches:
        for i, positive in enumerate(steps):
            for j, entropy in enumerate(steps):
                if i + j < side // 5:
                    continue
                index, scores, fields = len(rows), scored(ridge(positive, entropy, b), noise), {}
                if i + j > 2 * side - 8:
                    scores, fields = {}, {"status": "diverged", "error": "the loss is not finite at step 12"}
                elif noise.random() < 0.004:
                    scores, fields = {}, {"status": "failed", "error": "lost: the node died", "hostname": "node-2"}
                start = BEGIN + (index // 16) * 40.0 + noise.random()
                fields |= {
                    "trial_id": f"grid-{index:05d}",
                    "search": "grid",
                    "direction": None,
                    "device": "NVIDIA H200",
                    "gpus": 0.25,
                }
                rows.append(
                    trial(
                        {"Lambda_p": positive, "Lambda_e": entropy, "batch_size": b},
                        scores,
                        index,
                        started=start,
                        ended=start + 38,
                        **fields,
                    )
                )
    for row in rows[::5]:  # a second seed for every fifth
        if row["scores"] and len(rows) < side * side * len(batches):
            scores = {key: round(value + noise.gauss(0, 0.01), 4) for key, value in row["scores"].items()}
            rows.append(row | {"seed": 1, "trial_id": row["trial_id"] + "-s1", "scores": scores})
    return study(name, rows, full=True)


def slices() -> dict:
    """The same in small: 9 x 9 settings for each of six batch sizes."""
    return grid_study("slices", side=9)


def empty() -> dict:
    return study("nothing-yet", [], words=[], facts=[], provenance=[])


def single() -> dict:
    return study(
        "single",
        [
            trial(
                {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64},
                {"val_score": 0.5, "test_score": 0.48},
                0,
                direction="start",
            )
        ],
    )


def all_failed() -> dict:
    rows = [
        trial(
            {"Lambda_p": 0.1 * 2**n, "Lambda_e": 0.1, "batch_size": 64},
            {},
            n,
            status="failed",
            error=f"{HOSTILE} %{{x}} & so on, {n}",
        )
        for n in range(6)
    ]
    return study("all-failed", rows)


def nan_scores() -> dict:
    """Every second score is NaN, which a payload has as None; times are absent."""
    rows = [
        trial(
            {"Lambda_p": 0.1 * 2**n, "Lambda_e": 0.4, "batch_size": 64},
            {"val_score": None if n % 2 else 0.1 * n},
            n,
            started=None,
            ended=None,
            train_seconds=None,
        )
        for n in range(8)
    ]
    return study("nan", rows)


def one_batch_size() -> dict:
    """A small full grid over two parameters, the batch size fixed: no slider."""
    noise = random.Random(5)
    rows = [
        trial(
            {"Lambda_p": 4.0**i, "Lambda_e": 4.0**j, "batch_size": 64},
            scored(ridge(4.0**i, 4.0**j, 64), noise),
            7 * i + j + 24,
            direction=None,
        )
        for i in range(-3, 4)
        for j in range(-3, 4)
    ]
    return study("one-batch-size", rows, axes=BALANCE[:2], full=True)


def other_parameters() -> dict:
    """Somebody's own lr and weight decay: no diagonals, names as they are, no test score."""
    rows = [
        trial(
            {"lr": 10.0 ** -(n % 5 + 1), "weight_decay": 10.0 ** -(n // 5 + 2), "epochs": 10},
            {"val_score": round(0.5 + 0.02 * n, 3)},
            n,
        )
        for n in range(15)
    ]
    return study(
        "own-tuner",
        rows,
        axes=[("lr", "lr"), ("weight_decay", "weight_decay")],
        scores=[("val_score", "validation accuracy")],
        averages=False,
    )


def one_parameter() -> dict:
    rows = [
        trial(
            {"temperature": 0.05 * 2**n},
            {"val_score": round(0.8 - 0.03 * (n - 3) ** 2 + 0.01 * seed, 3)},
            2 * n + seed,
            seed=seed,
        )
        for n in range(7)
        for seed in (0, 1)
    ]
    return study(
        "temperature",
        rows,
        axes=[("temperature", "temperature τ")],
        scores=[("val_score", "validation accuracy")],
        averages=False,
    )


def hostile() -> dict:
    """Text that would do harm as markup, wherever text can be."""
    rows = [
        trial(
            {"Lambda_p": 0.1 * 2**n, "Lambda_e": 0.4, HOSTILE: 1.0 + n // 3},
            {"val_score": 0.1 * n},
            n,
            trial_id=f"{HOSTILE}%{{x}}&amp;{n}",
            search=HOSTILE,
            direction=HOSTILE,
            hostname=f"{HOSTILE}{n}",
            status="failed" if n == 2 else "completed",
            error=f"{HOSTILE}\u2028</script><!-- {TRACE}",
        )
        for n in range(4)
    ]
    words = [{"head": HOSTILE, "text": "<img src=x onerror=alert(1)> {{css}} {{payload}}", "kind": "result"}]
    return study(
        HOSTILE,
        rows,
        axes=BALANCE[:2],
        scores=[("val_score", HOSTILE)],
        words=words,
        facts=[[HOSTILE, HOSTILE]],
        provenance=[[HOSTILE, HOSTILE]],
        averages=True,
    )


EXAMPLES = {
    "search": lambda: payload(
        search_study(), notes=("2 files are damaged and were left out: cd-00031.parquet, cd-00032.parquet",)
    ),
    "grid": lambda: payload(grid_study()),
    "no-study": payload,
    "empty": lambda: payload(empty()),
    "single": lambda: payload(single()),
    "all-failed": lambda: payload(all_failed()),
    "nan": lambda: payload(nan_scores()),
    "one-batch-size": lambda: payload(one_batch_size()),
    "two-studies": lambda: payload(search_study(), one_batch_size(), empty()),
    "other-parameters": lambda: payload(other_parameters()),
    "one-parameter": lambda: payload(one_parameter()),
    "hostile": lambda: payload(hostile(), notes=(HOSTILE,)),
}


def of_small_tables() -> dict:
    """With a table of numbers in every form that there is, and a command among the words."""
    rows = [
        ["cd", "0.742 ±0.038", "7 (6 to 9)", "+0.0670", "0.2 to 0.4"],
        ["a", "-", ">20 (9 to >20)", "-", "5 or so"],
        ["b", "0.8", ">5", None, "17"],
    ]
    table = {"title": "Searches", "columns": ["method", "AUC@5", "n-95", "gain", "range"], "rows": rows, "note": ""}
    text = f"Do {'a thing or two ' * 3} with `--replicates 3` at last."
    return single() | {"name": "tables", "tables": [table], "words": [{"head": "Next", "text": text, "kind": "next"}]}


def of_seeds() -> dict:
    """The curves are those of three seeds of one search."""
    one = search_study("seeds")
    curves = enumerate(one["curves"])
    return one | {"curves": [c | {"search": "cd", "label": f"cd, seed {n}", "seed": n} for n, c in curves]}


def with_a_paused_training() -> dict:
    one = search_study("paused")
    one["trials"]["status"][one["learning"][0]["row"]] = "stopped"
    return one


@cache
def studies() -> dict[str, dict]:
    """Those of the examples and some more, each with a name of its own."""
    several = ("no-study", "two-studies")
    more = {"slices": slices, "tables": of_small_tables, "seeds": of_seeds, "paused": with_a_paused_training}
    return {name: made()["studies"][0] for name, made in EXAMPLES.items() if name not in several} | {
        name: made() for name, made in more.items()
    }
