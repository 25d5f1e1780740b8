"""Studies with rows that no study of ours has, though the table's schema allows them. No test in here."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd
from studies import BEGIN, lattice, row, table

TAIL = '<img src=x onerror=alert(1)> "Λ" 𝜏'
NAN, INF = float("nan"), float("inf")
FAR = [1e308, -1e308, 5e-324, 1e155, -0.0, 1.0, 0.99, 0.5]
BALANCE, LR = {"Lambda_p": 0.5, "Lambda_e": 2.0, "batch_size": 64}, {"lr": 0.1, "momentum": 0.5}
TWO = [{"lr": 2.0**n, "momentum": 0.1 * (n % 3)} for n in range(8)]
WHOLE = {"images_seen": 640}
ONE_STOPPED = ["completed", "stopped", "stopped", "stopped"]


def weights(positive: Sequence[float], entropy: Sequence[float]) -> list[dict]:
    return [{"Lambda_p": p, "Lambda_e": e, "batch_size": 64} for p, e in lattice(positive, entropy).tolist()]


PAIRS = weights((1.0, 2.0, 4.0, 8.0), (1.0, 2.0, 4.0, 8.0))


def each(count: int, **functions) -> list[dict]:
    """Settings n = 0, 1, ...: parameter -> its function of n, or its value in all."""
    return [{name: f(n) if callable(f) else f for name, f in functions.items()} for n in range(count)]


ODD: dict[str, tuple[list[dict], Mapping]] = {
    "parameters changed": ([*TWO[:4], *each(4, depth=2.0, width=lambda n: 3.0 + n)], {}),
    "parameters added": ([*TWO[:4], *[h | {"depth": 2.0} for h in TWO[4:]]], {}),
    "parameters instead of the balance": ([*PAIRS[:4], *TWO[:4]], {}),
    "the balance instead of parameters": ([*TWO[:4], *PAIRS[:6]], {}),
    "three weights instead of two":
        ([*PAIRS[:4], *each(4, Lambda_a=lambda n: 2.0**n, Lambda_b=1.0, Lambda_c=2.0)], {}),
    "other weights":
        ([*each(4, Lambda_a=lambda n: 2.0**n, Lambda_b=1.0), *each(4, Lambda_b=lambda n: 2.0**n, Lambda_c=1.0)], {}),
    "one weight of two": ([{"Lambda_p": 1.0}, {"Lambda_p": 2.0}, {"Lambda_e": 2.0}, {"Lambda_e": 1.0}], {}),
    "weights in no row together": ([{"Lambda_p": 1.0}, {"Lambda_e": 2.0}], {}),
    "a batch size in some rows": ([*PAIRS[:4], *each(4, Lambda_p=lambda n: 2.0**n, Lambda_e=1.0)], {}),
    "a grid and other rows": ([*PAIRS, *TWO[:4]], {"search": "grid"}),
    "a grid of weights that some rows lack": ([*PAIRS, {}, {"Lambda_p": 3.0}], {"search": "grid"}),
    "a parameter missing": ([*TWO[:4], {"lr": 3.0}, {"lr": 4.0}], {}),
    "no parameters": ([{}] * 3, {}),
    "no parameters in some rows": ([*TWO[:3], {}, {}], {}),
    "a constant parameter": ([LR] * 4, {}),
    "one row": ([BALANCE], {}),
    "one row without parameters": ([{}], {}),
    "one failed row": ([BALANCE], {"status": "failed", "error": "no room"}),
    "failed rows": (PAIRS[:3], {"status": "failed", "times": None}),
    "failed rows of nothing": ([{}] * 2, {"status": "failed", "times": None, "dataset": None, "loss": None}),
    "diverged rows": (TWO[:3], {"status": "diverged", "val_score": None}),
    "stopped rows": (TWO[:3], {"status": "stopped"}),
    "stopped rows without a score": (TWO[:4], {"status": ONE_STOPPED, "val_score": [0.1, None, None, 0.2]}),
    "paused rows without a score":
        (PAIRS[:4], {"status": "stopped", "val_score": None, "config": WHOLE, "images_seen": 80}),
    "paused rows": ([*TWO[:4], *[{"depth": 2.0}] * 2],
        {"status": "stopped", "config": WHOLE, "images_seen": [80, 160, 320, 640, 900, None]}),
    "paused rows of one whole":
        (PAIRS[:4], {"status": ONE_STOPPED, "config": WHOLE, "images_seen": [640, 0, 80, None]}),
    "weights without columns": (PAIRS[:6], {"Lambda_p": None, "Lambda_e": None, "batch_size": None}),
    "columns without weights": ([{}] * 4, {"Lambda_p": [1.0, 2.0, 4.0, 8.0], "Lambda_e": 1.0}),
    "columns that contradict the parameters": (PAIRS[:6], {"Lambda_p": 3.0, "batch_size": [1, 2, 3, 4, 5, 6]}),
    "no times": (PAIRS[:4], {"times": None}),
    "some times":
        (PAIRS[:4], {"started_at": [None, BEGIN, None, BEGIN], "ended_at": [BEGIN, None, None, BEGIN]}),
    "ended before it started": (PAIRS[:4], {"times": (9.0, 0.0)}),
    "the first and the last year": (PAIRS[:4],
        {"started_at": datetime(1678, 1, 1, tzinfo=UTC), "ended_at": datetime(2261, 12, 31, tzinfo=UTC)}),
    "metrics mixed": (PAIRS[:4], {"metric_name": ["r_map", "accuracy", "loss", "r_map"]}),
    "datasets mixed": (PAIRS[:4], {"dataset": ["glyphs", None, "sop", ""]}),
    "everything mixed": (PAIRS[:4], {
        "dataset": ["a", "b", None, "c"], "task": ["dml", None, "ssl", "x"],
        "loss": ["margin", "infonce", None, "my:loss"], "search": ["cd", "grid", "random", "confirm"]}),
    "search names": (PAIRS[:4], {"search": [TAIL, "", "grid", "cd"]}),
    "only confirmed": (PAIRS[:4], {"search": "confirm"}),
    "only recipes": (PAIRS[:4], {"search": ["separate", "global", "separate", "published"]}),
    "values far apart": (each(8, lr=FAR.__getitem__, momentum=lambda n: 1.0 + n), {}),
    "weights far apart": (each(8, Lambda_p=FAR.__getitem__, Lambda_e=lambda n: 1.0 + n, batch_size=2), {}),
    "weights of zero and less":
        (each(4, Lambda_p=[0.0, -1.0, 2.0, 3.0].__getitem__, Lambda_e=[-0.0, 1.0, -2.0, -3.0].__getitem__,
              batch_size=0), {}),
    "batch sizes of zero and less":
        (each(4, Lambda_p=1.0, Lambda_e=2.0, batch_size=[0, -64, 2**62, 1].__getitem__), {}),
    "a grid far apart": (weights((5e-324, 1.0, 1e308), (1e-300, 1.0, 1e300)), {"search": "grid"}),
    "a grid of zero": (weights((0.0, 1.0, 2.0), (-1.0, 1.0, 2.0)), {"search": "grid"}),
    "names of columns": (each(5, val_score=lambda n: 2.0**n, status=lambda n: 1.0 + n, trials=2.0,
        value=lambda n: n + 1.0, setting=3.0, seed=lambda n: n + 1.0, lost=1.0, share=lambda n: 2.0**-n), {}),
    "names of columns paused": (
        each(5, share=lambda n: 2.0**n, end=lambda n: 1.0 + n, deviation=lambda n: n + 3.0, val_score=float),
        {"status": "stopped", "config": WHOLE, "images_seen": 80}),
    "names": (each(5, **{TAIL: lambda n: 2.0**n, "": lambda n: 1.0 + n, "a b": 2.0, "$x_1$": lambda n: n + 1.0,
        "Lambda_": lambda n: n + 2.0, "Lambda_<b>": lambda n: 2.0**n}), {}),
    "scores far apart": (PAIRS[:8], {"val": FAR}),
    "scores of 1e308":
        ([*PAIRS[:8], *TWO], {"val": 1e308, "test_score": 1e308, "search": ["grid"] * 8 + ["cd"] * 8}),
    "scores of both signs":
        (PAIRS, {"val": [1.7e308, -1.7e308] * 8, "test_score": [-1.7e308, 1.7e308] * 8, "search": "grid"}),
    "equal scores": (PAIRS, {"val": 0.5, "test_score": 0.5, "search": "grid"}),
    "scores of zero": (PAIRS, {"val": 0.0, "test_score": 0.0}),
    "scores that are not finite": (PAIRS[:4], {"scores": {"accuracy": NAN, "loss": INF, "term_a": -INF},
        "test_score": [NAN, INF, -INF, None], "positive_term": INF, "entropy_term": 1e308}),
    "names of scores": (PAIRS[:4], {"scores": {TAIL: 1.0, "": 2.0, "val_score": 3.0, "status": 1.0, "trial_id": 2.0,
        "term_": 2.0, "study": 1.0, "batch_size": 9.0}}),
    "many scores": (PAIRS[:4], {"scores": {f"s{n}": 1.0 * n for n in range(300)}}),
    "configs of other types": (PAIRS[:6], {"status": ["completed"] * 3 + ["stopped"] * 3, "config": [
        {"pack": [{"a": 1}, 2]}, {"k": "many", "published": [1], "optimizer": 3},
        {"k": 0, "published": {"Lambda_p": "x"}, "weights": {"a": [1]}}, {"runs": {"a": 1}},
        {"images_seen": "all", "runs": 7, "k": True},
        {"images_seen": 0, "k": -2, "published": {"Lambda_p": 0, "Lambda_e": None}}]}),
    "published weights": (PAIRS[:4], {"config": [{"published": one} for one in (
        {"Lambda_p": 0.0, "Lambda_e": 0.0}, {}, {"Lambda_p": -1, "Lambda_e": 1}, {"x": 1, "y": 2})]}),
    "published weights of zero": (PAIRS[:4], {"config": {"published": {"Lambda_p": 0.0, "Lambda_e": 1.0}}}),
    "published weights of text": (PAIRS[:4], {"config": {"published": {"Lambda_p": "a", "Lambda_e": [1]}}}),
    "runs that are no runs": (PAIRS[:4], {"status": "stopped", "images_seen": 80, "config": [
        {"runs": [1, 2], **WHOLE}, {"runs": [{}], **WHOLE}, {"runs": [None], **WHOLE},
        {"runs": [{"started_at": "x", "ended_at": 3, "images_seen": "y"}]}]}),
    "runs without numbers": (PAIRS[:2], {"images_seen": 640, "config": WHOLE | {"runs": [
        dict.fromkeys(("started_at", "ended_at", "images_seen", "val_score", "hostname"))
        | {"device": 3, "study": "other"}]}}),
    "set-ups of other types": (PAIRS[:4], {"config": [
        {"network": ["a"], "memory": {"a": 1}}, {"network": 1, "temperature": "hot"},
        {"network": None, "memory": True}, {}]}),
    "halves of characters": (PAIRS[:2], {"config": {"a": "\ud800", "b": ["\udfff"]}}),
    "software": (PAIRS[:4], {"software": ['{"torch": null}', '{"torch": [1]}', '{"torch": {"a": 1}}', "{}"]}),
    "directions": (PAIRS[:8], {
        "direction": [TAIL, "joint", "balance", "joint", "Lambda_p", "Lambda_e", "batch_size", "start"],
        "line_position": [1e308, -1e308, NAN, 1e4, -1e4, None, 5.0, INF]}),
    "an index used again": (PAIRS[:4], {"trial_index": 0}),
    "an index far away": (PAIRS[:4], {"trial_index": [2**62, 2**62 + 1, 0, 1]}),
    "seeds": ([PAIRS[0]] * 4, {"seed": [None, 2**62, -1, None], "search_seed": [None, -5, 2**62, None]}),
    "numbers": (PAIRS[:4], {
        "gpus": [NAN, INF, -1.0, 1e308], "images_seen": [2**62, -5, 0, None],
        "train_seconds": [INF, -1.0, NAN, 1e308], "best_at": [2**62, -1, None, 0]}),
    "texts": (PAIRS[:4], dict.fromkeys(("hostname", "git_commit", "loss", "dataset", "metric_name"), TAIL)
        | {"error": TAIL * 99, "device": ["", TAIL, None, "cpu"], "task": ""}),
}  # fmt: skip
"""Name -> its settings, and other columns: a value for all rows, or a list with one for each."""


def odd() -> dict[str, pd.DataFrame]:
    """Each study's table; the n-th is called odd-n."""
    tables = {}
    for at, (name, (settings, columns)) in enumerate(ODD.items()):
        rows = []
        for n, params in enumerate(settings):
            own = {column: value[n] if isinstance(value, list) else value for column, value in columns.items()}
            usual = {"search": "cd", "times": (0.0, 9.0), "val": 0.1 * n, "trial_id": f"t{n}", "study": f"odd-{at}"}
            rows.append(row(n, params=params, **usual | own))
        tables[name] = table(rows)
    return tables
