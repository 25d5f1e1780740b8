"""A study of a loss of three terms for real: pauses, the published baseline, table, picture, report, more of it."""

import json
import re
from pathlib import Path

import pytest
from drivers import run  # noqa: F401

from tune_cd import results
from tune_cd.analysis.runs import runs_of

pytestmark = [pytest.mark.ray, pytest.mark.slow]

WEIGHTS = ["Lambda_sim", "Lambda_std", "Lambda_cov"]
VICREG = (
    "--task", "ssl", "--loss", "vicreg", "--set", "images_seen=640", "evaluations=4", "probe_epochs=2", "probe_steps=0",
    "--start", "lr=0.001,b=32", "--baseline-trials", "2", "--workers", "1",
)  # fmt: skip


def test_a_study_of_three_terms(run, tmp_path):
    said = run(tmp_path, *VICREG, "--study", "three", "--num-samples", "2", drawn=True)
    table = results.read(tmp_path)
    assert set(table["search"]) == {"cd", "published"} and (table["loss"] == "vicreg").all()
    assert table[["Lambda_p", "Lambda_e", "positive_term"]].isna().all(axis=None)
    assert all(list(params) == WEIGHTS for params in table["params"])
    assert runs_of(table)["pauses"].any(), "short trainings first"
    assert set(json.loads(table["config"].iloc[0])["published"]) == set(WEIGHTS)
    whole = table[table["status"] == "completed"]
    assert all({"term_sim", "term_std", "term_cov"} <= set(scores) for scores in whole["scores"])
    ratios = [params["Lambda_sim"] / params["Lambda_cov"] for params in table[table["search"] == "published"]["params"]]
    assert ratios == pytest.approx([25.0] * len(ratios))
    head = re.search(r"^ +Lambda_sim +Lambda_std +Lambda_cov +b +validation +test$", said, re.MULTILINE)
    assert head and "best with published weights" in said and "average" not in said
    page = Path(re.search(r"^report:  (.+)$", said, re.MULTILINE)[1]).read_text(encoding="utf-8")
    assert "published weights" in page and "term sim" in page
    assert Path(re.search(r"^picture: (.+)$", said, re.MULTILINE)[1]).read_bytes().startswith(b"\x89PNG")

    before = len(table)
    run(tmp_path, *VICREG, "--study", "three", "--resume", "--num-samples", "3")
    more = results.read(tmp_path)
    assert len(more) > before and set(more["trial_id"]) >= set(table["trial_id"])
    assert not more.assign(at=more["params"].map(lambda params: tuple(params.values()))).duplicated(["at"]).any()


def test_a_loss_of_ones_own_is_trained_by_the_workers(run, tmp_path):
    """Its file lies beside the tests' helpers, which are on the driver's path and hence on the workers'."""
    said = run(
        tmp_path, "--loss", "own_losses:three_parts", "--study", "own", "--full-length", "--num-samples", "3",
        "--baseline-trials", "2", "--workers", "1", "--set", "images_seen=640", "evaluations=2",
    )  # fmt: skip
    table = results.read(tmp_path)
    assert (table["status"] == "completed").all() and len(table) >= 4, table["error"].dropna().tolist()
    assert set(table["params"].iloc[0]) == {"Lambda_pull", "Lambda_push", "Lambda_all"}
    assert "best with published weights" in said
