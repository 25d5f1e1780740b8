"""Every search method obeys the contract; those of other libraries where they are installed."""

from functools import partial
from importlib.util import find_spec

import pytest
from contract import LAWS, TRIALS

from tune_cd.search.methods import CONFIGURED, OPTIMISERS

NEEDS = {
    "tpe-paper": ["optuna"], "tpe": ["optuna"], "cmaes": ["optuna", "cmaes"], "gp": ["optuna", "torch"],
    "botorch": ["botorch"],
}  # fmt: skip

MODELLED = {"botorch": {"initial": TRIALS - 1}}
"""Methods that take up to seconds a suggestion, with options that make them ask their models seldom."""

RESUMED = "resumed_equals_never_stopped"
MANY = ("the_seed_decides", "several_at_a_time", RESUMED, "goes_on_where_an_earlier_run_stopped")
"""Laws of many suggestions. For MODELLED they are run when asked for; `test_botorch.py` has their short form."""

SLOW = {("gp", "asks_for_nothing_twice"), ("gp", "the_seed_decides")}

CASES = [
    pytest.param(method, law, id=f"{method}-{law.__name__}",
                 marks=[pytest.mark.faults] * (method in MODELLED and law.__name__ in MANY)
                 + [pytest.mark.slow] * ((method, law.__name__) in SLOW))
    for method in OPTIMISERS for law in LAWS
    if method in CONFIGURED or law.__name__ != RESUMED  # the others have no state
]  # fmt: skip


@pytest.mark.parametrize("method, law", CASES)
def test_law(method, law):
    missing = [module for module in NEEDS.get(method, []) if find_spec(module) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    law(partial(OPTIMISERS[method], **MODELLED.get(method, {})))
