"""Every search method obeys the contract; Optuna's where they are installed."""

from importlib.util import find_spec

import pytest
from contract import LAWS

from tune_cd.search.registry import OPTIMISERS, restore

NEEDS = {
    "tpe-paper": ["optuna"],
    "tpe": ["optuna"],
    "cmaes": ["optuna", "cmaes"],
    "gp": ["optuna", "torch"],
    "cfo": ["flaml"],
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("method", OPTIMISERS)
def test_law(method, law):
    missing = [module for module in NEEDS.get(method, []) if find_spec(module) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    law(OPTIMISERS[method], restore)
