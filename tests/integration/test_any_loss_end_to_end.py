"""A study of a loss of three terms for real: pauses, the published baseline, table, more of it."""

import json
import re

import pytest
from drivers import run  # noqa: F401

from tune_cd import results
from tune_cd.analysis.runs import runs_of

pytestmark = [pytest.mark.ray, pytest.mark.slow]

OWN = ("--loss", "own_losses:three_parts", "--start", "lr=0.001,b=32", "--baseline-trials", "2", "--workers", "1")
WEIGHTS = ["Lambda_pull", "Lambda_push", "Lambda_all"]


def test_a_study_of_three_terms_of_ones_own(run, tmp_path):
    """Its file lies beside the tests' helpers, which are on the driver's path and hence on the workers'."""
    said = run(tmp_path, *OWN, "--study", "three", "--num-samples", "2")
    table = results.read(tmp_path)
    assert set(table["search"]) == {"cd", "published"} and (table["loss"] == "own_losses:three_parts").all()
    assert table[["Lambda_p", "Lambda_e", "positive_term"]].isna().all(axis=None)
    assert all(list(params) == WEIGHTS for params in table["params"])
    assert runs_of(table)["pauses"].any(), "short trainings first"
    assert set(json.loads(table["config"].iloc[0])["published"]) == set(WEIGHTS)
    whole = table[table["status"] == "completed"]
    assert all({"term_pull", "term_push", "term_all"} <= set(scores) for scores in whole["scores"])
    published = table[table["search"] == "published"]["params"]
    assert [h["Lambda_push"] / h["Lambda_all"] for h in published] == pytest.approx([6.0] * len(published))
    head = re.search(r"^ +Lambda_pull +Lambda_push +Lambda_all +b +validation +test$", said, re.MULTILINE)
    assert head and "\npublished weights " in said and "average" not in said

    before = len(table)
    run(tmp_path, *OWN, "--study", "three", "--resume", "--num-samples", "3")
    more = results.read(tmp_path)
    assert len(more) > before and set(more["trial_id"]) >= set(table["trial_id"])
    assert not more.assign(at=more["params"].map(lambda params: tuple(params.values()))).duplicated(["at"]).any()


def test_a_loss_of_two_views_is_trained(run, tmp_path):
    """VICReg with its projector, without the classes' labels."""
    run(
        tmp_path, "--task", "ssl", "--loss", "vicreg", "--study", "two-views", "--full-length", "--num-samples", "1",
        "--no-baseline", "--start", "lr=0.001,b=32", "--set", "images_seen=320", "evaluations=1", "probe_epochs=2",
        "probe_steps=0",
    )  # fmt: skip
    [row] = results.read(tmp_path).to_dict("records")
    assert (row["status"], row["task"], row["loss"]) == ("completed", "ssl", "vicreg")
    assert list(row["params"]) == ["Lambda_sim", "Lambda_std", "Lambda_cov"]
    assert {"term_sim", "term_std", "term_cov"} <= set(row["scores"])
