"""Training: the update is the paper's, runs are deterministic, selection and divergence are as documented."""

import math
from dataclasses import replace

import pytest
import torch
from embedded import alike
from trainings import (
    DATA,
    H3,
    SETUP,
    SSL_DATA,
    SSL_SETUP,
    VICREG,
    H,
    advance_one,
    begun,
    blobs,
    finished,
    outcome_of,
    told,
)  # fmt: skip

from trainables.data.augmentation import crop_views
from trainables.data.resident import DeviceData
from trainables.losses import vicreg_terms
from trainables.losses.memory import CrossBatchMemory, memory_terms
from trainables.losses.terms import margin_terms
from trainables.training import assembly, evaluation, side_by_side
from trainables.training import loop as training
from trainables.training.assembly import decay, next_evaluation, plateau
from trainables.training.evaluation import evaluate, spread
from trainables.training.setup import UNLABELLED, without_effect
from trainables.training.setups import find_setup

TERMS = {
    "margin": (SETUP, DATA, H, lambda z, labels: margin_terms(z, labels)),
    "raw embeddings, three terms": (VICREG, SSL_DATA, H3, lambda z, labels: vicreg_terms(z[0::2], z[1::2]).values()),
}


def check_step(run, twin, terms, moved=lambda at, slope: at - slope, tolerance=2e-6):
    """A step of `run` moves its parameters, the twin's, as `moved` says of the slope of the twin's weighted terms."""
    loss = sum(run.h[name] * term for name, term in zip(run.loss.weights, terms, strict=True))
    parameters = list(twin.model.parameters())
    slopes = torch.autograd.grad(loss, parameters)
    run.model.train()
    run.step()
    for found, at, slope in zip(run.model.parameters(), parameters, slopes, strict=True):
        torch.testing.assert_close(found, moved(at, slope), rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("kind", TERMS)
def test_one_step_is_sgd_with_learning_rate_1_on_the_weighted_terms(kind):
    setup, data, h, function = TERMS[kind]
    run, twin = (begun(setup, data, h, seed=3) for _ in range(2))
    images, labels = twin.batch()
    assert not torch.equal(images[0], images[1]), "two images of a class, or two views of an image"
    z = twin.model.train()(images)
    terms = torch.stack(tuple(function(z, labels)))
    check_step(run, twin, terms)
    torch.testing.assert_close(run.terms, terms.detach())
    assert ((z.norm(dim=1) - 1).abs().max() < 1e-5) == (kind == "margin"), "unit vectors where the loss takes those"


def test_the_seed_alone_decides_the_bits():
    one = finished()
    torch.manual_seed(2)  # the global generator plays no part
    two, other = finished(), finished(seed=1)
    assert outcome_of(one).curve[-1].scores == outcome_of(two).curve[-1].scores
    assert alike(one.model, two.model) and not alike(one.model, other.model)


def test_the_budget_is_images_seen_and_evaluations_are_even():
    training = finished()
    assert training.iteration == 640 // 32
    assert [evaluation.images_seen for evaluation in training.curve] == [160, 320, 480, 640]
    odd = finished(replace(SETUP, images_seen=700, evaluations=3))
    assert odd.iteration == 21 and [e.images_seen for e in odd.curve] == [7 * 32, 14 * 32, 21 * 32]
    few = finished(replace(SETUP, images_seen=64, evaluations=9))
    assert [e.images_seen for e in few.curve] == [32, 64], "no more evaluations than iterations"
    assert next_evaluation(5, 10, 2**63) == 6, "evaluations without number cost nothing"


def test_the_weights_that_were_best_on_validation_are_tested(monkeypatch):
    """With validation scores made to peak in the middle, the middle's weights are tested."""
    scripted, weights = iter([0.2, 0.9, 0.5, 0.4]), []

    def scored(models, *_):
        weights.append([p.clone() for p in models[0].parameters()])
        return [{"r_map": next(scripted), "spread": 0.5}]

    monkeypatch.setattr(side_by_side, "evaluate", scored)
    run = finished()
    outcome = outcome_of(run)
    assert (outcome.val_score, outcome.best_at, outcome.images_seen) == (0.9, 320, 640)
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), weights[1]))
    assert outcome.test_score == evaluate([run.model], SETUP, DATA.train, DATA.test)[0]["r_map"]


@pytest.mark.parametrize("setup, data", [(SETUP, DATA), (SSL_SETUP, SSL_DATA)], ids=["dml", "ssl"])
def test_networks_scored_together_have_the_scores_of_each_alone(setup, data):
    """One whose output is not finite has none, and changes no other's."""
    runs = [begun(setup, data, seed=seed) for seed in range(3)]
    with torch.no_grad():
        next(runs[1].model.parameters()).fill_(math.nan)
    models = [run.model for run in runs]
    alone = [evaluate([model], setup, data.train, data.validation)[0] for model in models]
    assert evaluate(models, setup, data.train, data.validation) == alone
    assert [bool(scores) for scores in alone] == [True, False, True] and alone[0] != alone[2]
    assert evaluate([], setup, data.train, data.validation) == []


def test_it_learns():
    untrained = begun()
    before = evaluate([untrained.model], SETUP, DATA.train, DATA.test)[0]["r_map"]
    noisy = DeviceData("blobs", *(blobs(n, seed, per_class=8) for n, seed in ((40, 1), (8, 2), (8, 3))))
    outcome = outcome_of(finished(replace(SETUP, images_seen=3200), noisy))
    assert outcome.status == "completed" and outcome.test_score >= before
    assert outcome.positive_term == outcome.scores["positive_term"] > 0


@pytest.mark.parametrize("h", [{"Lambda_p": 1e38, "Lambda_e": 1e38}, {"Lambda_p": math.inf, "Lambda_e": 1.0}])
def test_a_loss_that_is_not_finite_ends_the_training_early(h):
    run = begun(replace(SETUP, images_seen=320_000), DATA, h | {"batch_size": 32})
    assert math.isnan(advance_one(run).val_score)
    outcome = outcome_of(run)
    assert run.done and run.iteration <= training.DIVERGENCE_CHECK
    assert (outcome.status, outcome.val_score, outcome.test_score, outcome.best_at) == ("diverged", None, None, None)


def test_a_collapsed_network_is_reported_as_diverged():
    training = begun()
    with torch.no_grad():
        for parameter in training.model.trunk[-4].parameters():  # the last convolution's batch norm: constant output
            parameter.zero_()
        training.model.trunk[-4].bias.fill_(1.0)
    training.weights.zero_()
    assert math.isnan(advance_one(training).val_score)
    outcome = outcome_of(training)
    assert outcome.status == "diverged" and outcome.val_score is None and outcome.test_score is None
    assert outcome.scores["test_spread"] < 1e-6 and 0 <= outcome.scores["test_r_map"] <= 1, "kept to be looked at"


def test_spread():
    assert spread(torch.eye(4)) == pytest.approx(0.75)
    assert spread(torch.ones(5, 3)) == pytest.approx(0, abs=1e-12)
    for bad in (torch.full((5, 3), math.nan), torch.tensor([[1.0, math.inf]])):
        assert math.isnan(spread(bad))


@pytest.mark.parametrize("kind", TERMS)
def test_the_logged_terms_are_the_means_over_the_interval(kind):
    setup, data, h, _ = TERMS[kind]
    run, twin = (begun(setup, data, h, seed=2) for _ in range(2))
    scores, terms = advance_one(run).scores, []
    twin.model.train()
    for _ in range(run.iteration):
        twin.step()
        terms.append(twin.terms)
    logged = [scores[f"train_{name}"] for name in run.loss.scores]
    assert logged == pytest.approx(torch.stack(terms).mean(0).tolist(), rel=1e-6)
    assert (scores["train_positive_pairs"], scores["train_negative_pairs"]) == (32, 32 * 30)


@pytest.mark.parametrize("mode", ["variable", "fixed"])
def test_the_memory_joins_the_loss_after_its_start(mode):
    """Before memory_start the training is the one without; then the step is SGD on the sum of both weighted losses."""
    setup = replace(SETUP, memory=mode, memory_size=64, memory_start=2, k=4, distance="cosine")
    run, without = (begun(one, seed=3) for one in (setup, replace(setup, memory="none")))
    for one in (run, without):
        one.model.train()
        for _ in range(2):
            one.step()
    assert alike(run.model, without.model) and int(run.memory.enqueued) == 0
    images, labels = without.batch()
    z = without.model(images)
    memory = CrossBatchMemory(64, z.shape[1])  # of this batch alone: both factors are 1
    slots = memory.enqueue(z, labels)
    remembered = memory_terms(z, labels, slots, memory, loss="margin", distance="cosine")
    terms = margin_terms(z, labels, distance="cosine")
    check_step(run, without, [of_batch + of_memory for of_batch, of_memory in zip(terms, remembered)])
    assert int(run.memory.enqueued) == 32


def test_schedules():
    assert [decay("cosine", x) for x in (0, 0.5)] == pytest.approx([1, 0.5]) and decay("cosine", 0.999) < 1e-5
    assert [decay("step", x) for x in (0, 0.59, 0.6, 0.79, 0.8, 0.99)] == [1, 1, 0.1, 0.1, 0.01, 0.01]
    assert decay("constant", 0.9) == 1
    rates = []
    for name in ("cosine", "constant"):
        run = begun(replace(SETUP, schedule=name, evaluations=1))
        advance_one(run)
        rates.append(float(run.optimiser.param_groups[0]["lr"]))
    assert rates == pytest.approx([decay("cosine", 19 / 20), 1])


@pytest.mark.parametrize("seed", range(8))
def test_plateau_is_torchs_with_the_xbm_authors_numbers(seed):
    """research-xbm, solver/build.py; scores that rise, stall, and are 0 or negative."""
    noise = 0.02 * torch.rand(70, generator=torch.Generator().manual_seed(seed))
    scores = (noise + 0.01 * torch.arange(70).clamp(max=5 * seed) - 0.05 * (seed % 3)).tolist()
    rate, factors = 1e-4, []
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    options = {"mode": "max", "patience": 4, "threshold": 0.001, "cooldown": 2, "min_lr": rate / (10 * 2)}
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for n, score in enumerate(scores, start=1):
        schedule.step(score)
        factors.append(plateau(scores[:n]))
        assert rate * factors[-1] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-9), n
    assert plateau([]) == 1 and min(factors) == 0.05, "each of these stalls twice"


def test_a_plateau_of_too_few_evaluations_is_warned_of():
    needed = 1 + next(n for n in range(99) if plateau([0.5] * n) < 1)
    for evaluations in (needed - 1, needed):
        said = without_effect([replace(SETUP, schedule="plateau", evaluations=evaluations)], [], gpu=False)
        few = f"schedule = 'plateau' has no effect with evaluations = {evaluations}, only with {needed} or more"
        assert said == [few] * (evaluations < needed)


def test_a_training_on_a_plateau_goes_on_at_a_tenth(monkeypatch):
    """The rate follows the validation scores of the looks so far, also after a state is loaded."""
    setup = replace(SETUP, schedule="plateau", evaluations=20)
    scores = iter([0.5] * 20)
    monkeypatch.setattr(side_by_side, "evaluate", lambda *_: [{"r_map": next(scores), "spread": 1.0}])
    run, rates = begun(setup), []
    for _ in range(10):
        advance_one(run)
        rates.append(round(float(run.optimiser.param_groups[0]["lr"]), 6))
    assert rates == [1.0] * 6 + [0.1] * 4, "the first look is the best, and five more are not better"
    other = begun(setup)
    other.load_state(run.state())
    advance_one(other)
    assert float(other.optimiser.param_groups[0]["lr"]) == pytest.approx(0.1)


def test_weight_decay_is_added_to_adams_gradient():
    setup = replace(SETUP, optimizer="adam", learning_rate=1e-2, weight_decay=0.5)
    run, twin = (begun(setup, seed=3) for _ in range(2))
    images, labels = twin.batch()

    def first_step(at, slope):
        slope = slope + 0.5 * at
        return at - 1e-2 * slope / (slope.abs() + 1e-8)

    check_step(run, twin, margin_terms(twin.model.train()(images), labels), first_step, 1e-5)


def test_crops_are_as_small_as_said_and_the_centre_is_evaluated(monkeypatch):
    data = DeviceData("blobs", *(blobs(classes, seed, size=40) for classes, seed in ((24, 1), (8, 2), (8, 3))))
    setup, seen = replace(SETUP, image_size=40, crop_size=28, augmentation="crop", crop_scale=0.2), []
    crop = lambda images, generator, *how: seen.append(how) or crop_views(images, generator, *how)  # noqa: E731
    monkeypatch.setattr(assembly, "crop_views", crop)
    run = begun(setup, data)
    assert run.batch()[0].shape == (32, 1, 28, 28) and seen == [(28, (0.2, 1.0))]
    middle = [(images[:, :, 6:34, 6:34].contiguous(), labels) for images, labels in (data.train, data.validation)]
    small = replace(setup, image_size=28, crop_size=0)
    assert evaluate([run.model], setup, data.train, data.validation) == evaluate([run.model], small, *middle)


SELECTED = [(SETUP, DATA, "recall_at_1"), *((SSL_SETUP, SSL_DATA, name) for name in ("knn_accuracy", *UNLABELLED))]


@pytest.mark.parametrize("setup, data, score", SELECTED, ids=[score for *_, score in SELECTED])
def test_the_score_that_is_asked_for_selects_the_weights_and_is_tested(setup, data, score):
    outcome = outcome_of(run := finished(replace(setup, selected_by=score), data))
    assert [look.val_score for look in run.curve] == [look.scores[score] for look in run.curve]
    assert outcome.val_score == max(look.scores[score] for look in run.curve)
    assert 0 <= outcome.test_score == outcome.scores[f"test_{score}"] <= 1


def test_a_network_that_is_finite_on_validation_and_not_on_test_has_diverged(monkeypatch):
    monkeypatch.setattr(side_by_side, "evaluate_test", lambda models, setup, data: [{}])
    outcome = outcome_of(finished())
    assert (outcome.status, outcome.val_score, outcome.test_score) == ("diverged", None, None)
    assert len(outcome.curve) == 4


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


def test_data_without_classes_have_no_probe_and_data_with_classes_keep_it():
    without = DeviceData("blobs", *((images, 0 * labels) for images, labels in (SSL_DATA.train, SSL_DATA.validation)))
    setup = replace(SSL_SETUP, selected_by="rankme")
    model = finished(SSL_SETUP, SSL_DATA).model
    [scores] = evaluate([model], setup, without.train, without.validation)
    assert set(scores) == {"spread", *UNLABELLED}
    [labelled] = evaluate([model], setup, SSL_DATA.train, SSL_DATA.validation)
    assert labelled == scores | {name: labelled[name] for name in ("probe_accuracy", "knn_accuracy")}
    assert not set(UNLABELLED) & set(evaluate([model], SSL_SETUP, SSL_DATA.train, SSL_DATA.validation)[0])
