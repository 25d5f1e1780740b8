"""Landscapes that come with the package: some of their cells are trained again, and have what the file says."""

import numpy as np
import pandas as pd
import pytest
import torch

from trainables.data.resident import DeviceData
from trainables.training.loop import Training
from trainables.training.setup import Setup
from trainables.training.side_by_side import advance, outcomes
from tune_cd import landscapes

ZIPS = {"omniglot-242": "omniglot-small.zip"}
"""How names of landscapes begin -> their images, among the test data."""

CPU = torch.device("cpu")


@pytest.fixture(params=landscapes.MEASURED)
def measured(request) -> landscapes.Measured:
    landscape = landscapes.load(request.param)
    if landscape.about["device"] != CPU.type:
        pytest.skip(f"{request.param} was measured on {landscape.about['device']}")
    return landscape


@pytest.fixture
def data(measured, request) -> DeviceData:
    setup = Setup(**measured.about["setup"])
    archive = next((file for name, file in ZIPS.items() if measured.name.startswith(name)), None)
    if archive is None and setup.dataset != "glyphs":
        pytest.skip(f"{measured.name}: its images are not among the test data")
    root = str(request.getfixturevalue("test_data") / archive) if archive else None
    return DeviceData.load(setup, root, CPU)


def begun(measured: landscapes.Measured, data: DeviceData, cell: pd.Series) -> Training:
    h = {name: cell[name] for name in (*measured.weights, "batch_size")}
    return Training(Setup(**measured.about["setup"]), data, h, seed=int(cell["seed"]), device=CPU)


def some(measured: landscapes.Measured, number: int) -> pd.DataFrame:
    """Cells anywhere on the grid, of any seed and batch size, that did not diverge."""
    ended = measured.trials[measured.trials["status"] == "completed"]
    return ended.sample(number, random_state=0)


def told_apart(measured: landscapes.Measured) -> float:
    """Four deviations of the difference of two seeds: equal trainings on other machines differ as much, as rounding
    grows from step to step."""
    return 4 * np.sqrt(2) * measured.noise()


@pytest.mark.slow
def test_it_starts_as_the_file_says(measured, data):
    """The first look: its score, and the terms up to there."""
    for _, cell in some(measured, 1).iterrows():
        [look] = advance([begun(measured, data, cell)])
        assert look.val_score == pytest.approx(cell["validation"][0], abs=told_apart(measured)), cell
        for term in measured.terms:
            assert look.scores[f"train_{term}"] == pytest.approx(cell[f"{term}_curve"][0], rel=0.25), cell


@pytest.mark.faults
def test_it_ends_as_the_file_says(measured, data):
    for _, cell in some(measured, 3).iterrows():
        training = begun(measured, data, cell)
        while not training.done:
            advance([training])
        [outcome] = outcomes([training])
        assert outcome.val_score == pytest.approx(cell["val_score"], abs=told_apart(measured)), cell
