"""Driving one or several trainings: steps in turn, evaluations and tests enqueued together.

The host waits for the device as rarely as it can: once for all trainings, after everything is enqueued.
"""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.training.device import aside
from trainables.training.evaluation import evaluate, evaluate_test
from trainables.training.loop import DIVERGENCE_CHECK, Training
from trainables.training.outcome import Evaluation, Outcome, conclude


def advance(trainings: Sequence[Training]) -> list[Evaluation]:
    """Train each up to its own next validation evaluation, side by side, and return one evaluation each.

    trainings: of one set-up, data and device.
    `train_seconds` is the time until a training reached its evaluation, which on a GPU it shared with the others. A
    training that diverges takes no further step, and does not affect the others.
    """
    started = time.perf_counter()
    for training in trainings:
        training.depart()
    under_way = list(trainings)
    while under_way:
        stops = {
            training: min(training.target, (training.iteration // DIVERGENCE_CHECK + 1) * DIVERGENCE_CHECK)
            for training in under_way
        }
        while any(training.iteration < stops[training] for training in under_way):
            for training in under_way:  # turn by turn: on a GPU their streams fill up evenly
                if training.iteration < stops[training]:
                    training.step()
        for training in under_way:
            if training.iteration == training.target:
                training.wait()
        check([training for training in under_way if training.iteration < training.target])
        for training in under_way:
            if training.diverged or training.iteration == training.target:
                training.train_seconds += time.perf_counter() - started
        under_way = [one for one in under_way if not one.diverged and one.iteration < one.target]
    return validate(trainings)


def check(trainings: Sequence[Training]) -> None:
    """Mark as diverged the trainings whose terms were not finite CHECK_LEAD iterations ago. All are read by one copy to
    the host, during which the device goes on."""
    if not trainings:
        return
    for training in trainings:
        if training.stream:
            torch.cuda.current_stream(training.device).wait_event(training.check_made)
    terms = torch.stack([training.checked for training in trainings])
    for training, finite in zip(trainings, terms.isfinite().all(1).tolist()):
        training.diverged = not finite


def validate(trainings: Sequence[Training]) -> list[Evaluation]:
    """Evaluate each training on the validation split; all are enqueued before the host waits for the first."""
    if not trainings:
        return []
    setup, data = trainings[0].setup, trainings[0].data
    with aside(trainings):
        terms = torch.stack([training.terms for training in trainings])
        logged = [training.logged() for training in trainings]
        scores = evaluate([training.model for training in trainings], setup, data.train, data.validation)
        for training, finite in zip(trainings, terms.isfinite().all(1).tolist()):
            training.diverged = training.diverged or not finite
        return [training.judge(*measured) for training, *measured in zip(trainings, scores, read(logged))]


def outcomes(trainings: Sequence[Training]) -> list[Outcome]:
    """Test each training's weights that were best on validation, all enqueued before the host waits for the first. Of
    diverged trainings the last weights are evaluated on the test split."""
    setup, data = trainings[0].setup, trainings[0].data
    kept = [training for training in trainings if not training.diverged]
    lost = [training for training in trainings if training.diverged]
    with aside(trainings):
        for training in kept:
            training.model.load_state_dict(training.best)
        tests = dict(zip(kept, evaluate_test([training.model for training in kept], setup, data)))
        terms = dict(zip(kept, read([training.terms_after_training() for training in kept])))
        if lost and data.test is not None:
            tests |= dict(zip(lost, evaluate([training.model for training in lost], setup, data.train, data.test)))
    return [conclude(training, tests.get(training, {}), terms.get(training, {})) for training in trainings]


def read(measured: Sequence[dict[str, Tensor]]) -> list[dict[str, float]]:
    """Copy scalars from the device as numbers, all in one copy; the dicts have equal names."""
    if not measured:
        return []
    rows = torch.stack([torch.stack([value.double() for value in one.values()]) for one in measured]).tolist()
    return [dict(zip(one, row)) for one, row in zip(measured, rows)]
