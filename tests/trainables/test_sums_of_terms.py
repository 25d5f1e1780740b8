"""Training with any sum of terms: the update, the results' names, packs, states, a user's own loss and the command."""

import json
import math
from dataclasses import asdict, replace

import own_losses
import pytest
import torch
from recorders import InMemory
from trainings import CPU, DATA, SETUP, SSL_DATA, SSL_SETUP, advance_one, blobs, finished, outcome_of, told, trained

from trainables import train, trial
from trainables.data.resident import DeviceData
from trainables.losses import LOSSES, find_loss, vicreg_terms
from trainables.training import checkpoint, evaluation
from trainables.training.loop import Training
from trainables.training.parallel import Pack
from trainables.training.setup import override
from trainables.training.setups import find_setup

VICREG = replace(SSL_SETUP, loss="vicreg", projector="24-16")
LAMBDAS = {"Lambda_sim": 2.5, "Lambda_std": 2.5, "Lambda_cov": 0.1}
H = LAMBDAS | {"batch_size": 32}
EVERY = {
    "margin": (0.3, 2.0), "infonce": (0.3, 0.3), "alignment_uniformity": (0.2, 0.2), "barlow_twins": (0.001, 5e-6),
    "vicreg": (1.0, 1.0, 0.04), "siglip": (0.1, 0.1), "own_losses:three_parts": (0.2, 0.3, 0.1),
}  # fmt: skip


def weighted(training, evaluation):
    """The sum of Lambda_i * term_i over the iterations before an evaluation."""
    means = [evaluation.scores[f"train_{name}"] for name in training.loss.scores]
    return math.fsum(training.h[name] * mean for name, mean in zip(training.loss.weights, means, strict=True))


def test_one_step_is_sgd_with_learning_rate_1_on_the_weighted_terms_of_raw_embeddings():
    run, reference = (Training(VICREG, SSL_DATA, H, seed=3, device=CPU) for _ in range(2))
    images = reference._batch()[0]
    z = reference.model.train()(images)
    assert z.shape == (32, 16) and (z.norm(dim=1) - 1).abs().max() > 0.1, "not unit vectors"
    terms = vicreg_terms(z[0::2], z[1::2])
    loss = 2.5 * terms["sim"] + 2.5 * terms["std"] + 0.1 * terms["cov"]
    gradients = torch.autograd.grad(loss, list(reference.model.parameters()))
    run.model.train()
    run.step()
    torch.testing.assert_close(run.terms, torch.stack([*terms.values()]).detach())
    for moved, before, gradient in zip(run.model.parameters(), reference.model.parameters(), gradients, strict=True):
        torch.testing.assert_close(moved, before - gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", EVERY)
def test_a_learning_rate_in_the_weights_gives_the_same_parameters(loss):
    """SGD at rate 1 with weights c lambda, and at rate c with weights lambda; powers of two, so that nothing rounds."""
    setup = replace(SSL_SETUP, loss=loss, projector="16-8" if not find_loss(loss).normalised else "")
    weights, parameters = dict(zip(find_loss(loss).weights, EVERY[loss], strict=True)), []
    for rate in (1.0, 0.25, 4.0):
        h = {name: weight / rate for name, weight in weights.items()} | {"batch_size": 32}
        run = Training(setup, SSL_DATA, h, seed=0, device=CPU)
        for group in run.optimiser.param_groups:
            group["lr"] = rate
        run.model.train()
        for _ in range(3):
            run.step()
        parameters.append(torch.cat([one.detach().flatten() for one in run.model.parameters()]))
    assert torch.equal(parameters[0], parameters[1]) and torch.equal(parameters[0], parameters[2])
    start = torch.cat([one.flatten() for one in Training(setup, SSL_DATA, h, seed=0, device=CPU).model.parameters()])
    assert (parameters[0] - start).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("loss", EVERY)
def test_a_short_training_on_glyphs_decreases_the_weighted_loss(loss):
    setup = find_setup("glyphs", "small", "ssl", None if loss == "infonce" else loss)
    setup = replace(setup, images_seen=3840, evaluations=3, probe_epochs=2, probe_steps=0)
    h = dict(zip(find_loss(loss).weights, EVERY[loss], strict=True)) | {"batch_size": 64}
    run = finished(setup, DeviceData.load(setup, None, CPU), h)
    first, *_, last = (weighted(run, evaluation) for evaluation in run.curve)
    outcome = outcome_of(run)
    assert outcome.status == "completed" and last < first
    assert outcome.test_score == outcome.scores["test_probe_accuracy"]
    assert 0.05 < outcome.scores["test_knn_accuracy"] < 1, "of 200 classes"


def test_results_have_the_terms_under_their_names():
    """After training and at every look, beside the pairs' statistics; the two terms' columns stay empty."""
    outcome = outcome_of(finished(VICREG, SSL_DATA, H))
    assert (outcome.status, outcome.positive_term, outcome.entropy_term) == ("completed", None, None)
    names = {"term_sim", "term_std", "term_cov"}
    logged = {f"train_{name}" for name in names}
    assert names | logged | {"positive_similarity", "train_negative_similarity"} <= set(outcome.scores)
    assert not {"positive_term", "entropy_term", "train_positive_term"} & set(outcome.scores)
    assert all(logged <= set(look.scores) for look in outcome.curve)
    assert all(-1 <= outcome.scores[name] <= 1 for name in ("positive_similarity", "negative_similarity")), "cosines"
    pairwise = outcome_of(finished(replace(SETUP, loss="own_losses:pairwise"), DATA))
    assert told(pairwise) == told(outcome_of(finished(SETUP, DATA))) and pairwise.positive_term > 0


def test_the_logged_terms_are_the_means_over_the_interval():
    run, twin = (Training(VICREG, SSL_DATA, H, seed=2, device=CPU) for _ in range(2))
    twin.model.train()
    terms = []
    for _ in range(10):
        twin.step()
        terms.append(twin.terms)
    scores = advance_one(run).scores
    logged = [scores[f"train_{name}"] for name in run.loss.scores]
    assert logged == pytest.approx(torch.stack(terms).mean(0).tolist(), rel=1e-6)


def test_packed_equals_alone_with_three_weights():
    settings = [(2.5, 2.5, 0.1, 32, 0), (0.5, 1.0, 0.02, 32, 1), (2.5, 2.5, 0.1, 16, 0)]
    names = (*LAMBDAS, "batch_size", "seed")
    configurations = [dict(zip(names, values, strict=True)) for values in settings]
    outcomes = trained(Pack(VICREG, SSL_DATA, CPU, at_once=2), configurations)
    for index, configuration in enumerate(configurations):
        alone = finished(VICREG, SSL_DATA, configuration, configuration["seed"])
        assert told(outcomes[index]) == told(outcome_of(alone))


def test_resumed_equals_never_stopped():
    run, other = (Training(VICREG, SSL_DATA, H, seed=4, device=CPU) for _ in range(2))
    advance_one(run)
    checkpoint.loads(other, checkpoint.dumps(run), "here")
    assert other.h == H
    for one in (run, other):
        advance_one(one)
    assert told(outcome_of(run)) == told(outcome_of(other))
    changed = Training(VICREG, SSL_DATA, H | {"Lambda_cov": 0.2}, seed=4, device=CPU)
    with pytest.raises(ValueError, match=r"here: the state of another training: h .*'Lambda_cov': 0.1"):
        checkpoint.loads(changed, checkpoint.dumps(run), "here")


def test_a_trial_trains_them_and_goes_on_from_what_is_saved(monkeypatch):
    """A damaged state is passed over: the training then begins anew with the weights that it was given."""

    class Bound(trial.TrainTrial):
        def setup(self, config):
            super().setup(config, asdict(VICREG), None, 1, recorder)

    monkeypatch.setattr(trial.DeviceData, "load", classmethod(lambda cls, *args: SSL_DATA))
    recorder, config = InMemory(), H | {"seed": 0}
    monkeypatch.setattr(InMemory, "saved", lambda *_: [("damaged", b"no state")])
    one = Bound(config)
    reports = [one.train(), one.train()]
    assert [report["done"] for report in reports] == [False, True] and "train_term_cov" in reports[0]
    [(_, outcome, _)] = recorder.ended
    assert told(outcome) == told(outcome_of(finished(VICREG, SSL_DATA, H)))


@pytest.mark.parametrize("term", range(3))
def test_a_weight_that_is_not_finite_ends_the_training(term):
    h = H | {list(LAMBDAS)[term]: math.inf}
    assert outcome_of(finished(replace(VICREG, images_seen=1600), SSL_DATA, h)).status == "diverged"


def test_a_users_own_gets_unit_vectors_or_the_raw_output():
    own_losses.SEEN.clear()
    run = Training(
        replace(SSL_SETUP, loss="own_losses:raw"), SSL_DATA, {"Lambda_square": 0.1, "Lambda_length": 0.1,
        "batch_size": 32}, seed=0, device=CPU,
    )  # fmt: skip
    run.step()
    assert (own_losses.SEEN[-1] - 1).abs().min() > 1e-3
    unit = Training(replace(SSL_SETUP, loss="own_losses:drawing"), SSL_DATA, {"Lambda_noisy": 1, "batch_size": 32},
                    seed=0, device=CPU)  # fmt: skip
    assert unit.model.normalised and not run.model.normalised


def test_a_users_own_that_changes_its_terms_is_an_error():
    run = Training(replace(SETUP, loss="own_losses:changing"), DATA, {"Lambda_a": 1.0, "batch_size": 32},
                   seed=0, device=CPU)  # fmt: skip
    with pytest.raises(ValueError, match=r"returned the terms \['b'\], and \['a'\] at first"):
        run.step()


def test_nearest_neighbours_are_measured_beside_the_probe_and_may_select():
    run = finished(SSL_SETUP, SSL_DATA)
    scores = outcome_of(run).scores
    assert 0 < scores["val_knn_accuracy"] <= 1 and 0 < scores["test_knn_accuracy"] <= 1
    chosen = outcome_of(finished(replace(SSL_SETUP, selected_by="knn_accuracy"), SSL_DATA))
    assert chosen.val_score == max(look.scores["knn_accuracy"] for look in run.curve)
    assert chosen.test_score == chosen.scores["test_knn_accuracy"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["projector=256-"], "projector = '256-': widths"),
        (["projector=0-8"], "projector = '0-8': widths"),
        (["projector=8", "embedding=4"], r"projector = '8': .* embedding = 0 \(not 4\)"),
    ],
)
def test_projectors_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        override(find_setup("folder", "small", "ssl"), fields)
    with pytest.raises(ValueError, match="projector = '8': with task 'ssl' alone"):
        override(find_setup("folder", "small", "dml"), ["projector=8"])


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


def test_the_command_trains_a_users_own_loss_in_all_combinations(capsys):
    own = ["--loss", "own_losses:three_parts", "--Lambda_pull", "0.1", "0.2", "--Lambda_push", "0.5", *SHORT]
    assert train.main([*own, "--batch-size", "32"]) == 0
    said = capsys.readouterr().out
    assert '"Lambda_pull": 0.2, "Lambda_push": 0.5, "Lambda_all": 0.05, "batch_size": 32, "seed": 0' in said
    assert said.count('"status": "completed"') == 2 and '"term_pull"' in said


def test_the_command_names_what_it_does_not_know(capsys):
    for wrong, message in (
        (
            ["--loss", "vicreg", "--Lambda_p", "1"],
            "--Lambda_p 1; the weights of loss 'vicreg' are --Lambda_sim, --Lambda_std, --Lambda_cov",
        ),
        (["--loss", "infonce", "--Lambda_x", "1"], "the weights of loss 'infonce' are --Lambda_p, --Lambda_e"),
        (["--Lambda_p", "much"], "argument --Lambda_p: invalid weight (a number from 0 to 3.4e+38) value: 'much'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            train.main([*SHORT, *wrong])
        assert message in capsys.readouterr().err
    for wrong, message in (
        (["--loss", "triplet"], "loss = 'triplet': one of margin, infonce"),
        (["--set", "loss=infonce"], "--loss infonce names the loss"),
        (["--loss", "own_losses:raises"], "no such batch"),
        (["--dataset", "sop", "--loss", "siglip"], "it trains ssl"),
    ):
        assert train.main([*wrong, *SHORT]) == 2
        assert message in capsys.readouterr().err
    assert set(EVERY) > set(LOSSES), "each is trained here"


def test_a_benchmark_averages_unit_vectors_of_raw_embeddings(monkeypatch):
    """Over several scales of an image: longer embeddings are not to count for more."""
    setup = replace(find_setup("landmarks", "small", loss="own_losses:raw"), images_seen=64, evaluations=1)
    h = {"Lambda_square": 0.1, "Lambda_length": 0.1, "batch_size": 32}
    data = DeviceData("blobs", *(blobs(20, seed, channels=3, size=32) for seed in (1, 2)))
    run, images = Training(setup, data, h, seed=0, device=CPU), torch.rand(3, 3, 32, 32)
    embedded = []
    monkeypatch.setattr(evaluation, "evaluate_benchmark", lambda embed, *_, **__: embedded.append(embed(images)) or {})
    assert evaluation.evaluate_test([run.model], setup, data) == [{}]
    torch.testing.assert_close(embedded[0], torch.nn.functional.normalize(run.model(images), dim=1))
    assert (run.model(images).norm(dim=1) - 1).abs().min() > 1e-3


def test_metric_learning_on_raw_embeddings_is_scored_by_cosines():
    data = DeviceData("blobs", blobs(24, 1), blobs(8, 2), blobs(8, 3))
    h = {"Lambda_square": 1e-3, "Lambda_length": 1e-3, "batch_size": 32}
    outcome = outcome_of(finished(replace(SETUP, loss="own_losses:raw"), data, h))
    assert outcome.status == "completed" and 0 < outcome.scores["test_r_map"] <= 1
