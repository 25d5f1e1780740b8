"""Training with any sum of terms: the update, the results' names, packs, states, a user's own loss and the command."""

import json
from dataclasses import replace

import pytest
import torch
from trainings import H3, SETUP, SSL_DATA, VICREG, begun, blobs, finished, outcome_of, told

from trainables import train
from trainables.data.resident import DeviceData
from trainables.training import evaluation
from trainables.training.setups import find_setup


def test_results_have_the_terms_under_their_names():
    """After training and at every look, beside the pairs' statistics; the two terms' columns stay empty."""
    outcome = outcome_of(finished(VICREG, SSL_DATA, H3))
    assert (outcome.status, outcome.positive_term, outcome.entropy_term) == ("completed", None, None)
    names = {"term_sim", "term_std", "term_cov"}
    logged = {f"train_{name}" for name in names}
    assert names | logged | {"positive_similarity", "train_negative_similarity"} <= set(outcome.scores)
    assert not {"positive_term", "entropy_term", "train_positive_term"} & set(outcome.scores)
    assert all(logged <= set(look.scores) for look in outcome.curve)
    assert all(-1 <= outcome.scores[name] <= 1 for name in ("positive_similarity", "negative_similarity")), "cosines"
    pairwise = outcome_of(finished(replace(SETUP, loss="own_losses:pairwise")))
    assert told(pairwise) == told(outcome_of(finished())) and pairwise.positive_term > 0


def test_a_users_own_that_changes_its_terms_is_an_error():
    run = begun(replace(SETUP, loss="own_losses:changing"), h={"Lambda_a": 1.0, "batch_size": 32})
    with pytest.raises(ValueError, match=r"returned the terms \['b'\], and \['a'\] at first"):
        run.step()


SHORT = ["--set", "images_seen=256", "evaluations=2", "probe_epochs=1", "probe_steps=0", "--device", "cpu"]


def outcome_said(said):
    return json.loads(said[said.index("{\n") :])


def test_the_command_trains_vicreg(capsys):
    weights = ["--Lambda_sim", "2.5", "--Lambda_std", "2.5", "--Lambda_cov", "0.1"]
    assert train.main(["--dataset", "glyphs", "--task", "ssl", "--loss", "vicreg", *weights, *SHORT]) == 0
    said = capsys.readouterr().out
    outcome = outcome_said(said)
    assert said.startswith("glyphs-200: 256 images") and "validation probe_accuracy" in said
    assert outcome["status"] == "completed" and outcome["positive_term"] is None
    assert {"term_sim", "term_std", "term_cov", "test_knn_accuracy"} <= set(outcome["scores"])
    assert train.main(["--loss", "vicreg", *SHORT]) == 0, "the task that it trains, a tenth of the published weights"
    assert outcome_said(capsys.readouterr().out)["scores"] == outcome["scores"]


def test_a_benchmark_averages_unit_vectors_of_raw_embeddings(monkeypatch):
    """Over several scales of an image: longer embeddings are not to count for more."""
    setup = replace(find_setup("landmarks", "small", loss="own_losses:raw"), images_seen=64, evaluations=1)
    h = {"Lambda_square": 0.1, "Lambda_length": 0.1, "batch_size": 32}
    data = DeviceData("blobs", *(blobs(20, seed, channels=3, size=32) for seed in (1, 2)))
    run, images = begun(setup, data, h), torch.rand(3, 3, 32, 32)
    embedded = []
    monkeypatch.setattr(evaluation, "evaluate_benchmark", lambda embed, *_, **__: embedded.append(embed(images)) or {})
    assert evaluation.evaluate_test([run.model], setup, data) == [{}]
    torch.testing.assert_close(embedded[0], torch.nn.functional.normalize(run.model(images), dim=1))
    assert (run.model(images).norm(dim=1) - 1).abs().min() > 1e-3
