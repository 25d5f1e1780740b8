"""What tuning gains, over seeds that had no part in choosing."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from studies import row, table

from tune_cd import balance
from tune_cd.analysis import best_trial, curves_of
from tune_cd.analysis.tables import best_values
from tune_cd.report.findings import Findings
from tune_cd.report.first_screen import worth
from tune_cd.report.words import fresh_score, summarise

GLOBAL = balance.ratio("global", 64, 2)
BEST, SEPARATE, ON_GLOBAL = (1.0, 17.0), (0.5, 0.5), (0.1, 0.1 * GLOBAL)


def trial(search, index, at, val, test, seed=0, **fields):
    params = dict(zip(("Lambda_p", "Lambda_e"), at)) | {"batch_size": 64}
    return row(index, val=val, test_score=test, search=search, params=params, seed=seed, **fields)


def chosen(**fields):
    """A search that found a lucky best, and both averages."""
    return [
        trial("cd", 0, SEPARATE, 0.70, 0.60, **fields), trial("cd", 1, BEST, 0.95, 0.94, **fields),
        trial("separate", 0, (0.2, 0.2), 0.60, 0.50, **fields), trial("global", 0, ON_GLOBAL, 0.80, 0.81, **fields),
    ]  # fmt: skip


FRESH = {BEST: (0.84, 0.86, 0.88), SEPARATE: (0.60, 0.64, 0.62), ON_GLOBAL: (0.86, 0.84, 0.88)}


def confirmed():
    return [
        trial("confirm", place, at, 0.5, test, seed)
        for place, (at, tests) in enumerate(FRESH.items())
        for seed, test in enumerate(tests, 1)
    ]


def of(found, average):
    return next(recipe for recipe in found.recipes if recipe.average == average)


def test_fresh_seeds_alone_say_what_is_gained():
    found = Findings(table(chosen() + confirmed()))
    separate, common = of(found, "separate"), of(found, "global")
    fresh = [found.fresh.value, separate.fresh.value, common.fresh.value]
    assert fresh == pytest.approx([0.86, 0.62, 0.86]) and separate.gain.seeds == 3
    differences = np.subtract(FRESH[BEST], FRESH[SEPARATE])
    low, high = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
    assert (separate.gain.value, separate.gain.low, separate.gain.high) == pytest.approx((0.24, low, high))
    assert common.gain.low < 0 < common.gain.high and common.gain.value == pytest.approx(0)
    shown = worth(found)["rows"][1]
    assert (shown["value"], shown["gain"]) == (pytest.approx(0.62), "+0.240 (+38.7 %)"), "a share of what is shown"


def test_a_seed_that_not_both_were_trained_with_is_in_no_gain():
    """The global average's best was trained anew with one seed of three, the separate one's with none."""
    some = [one for one in confirmed() if dict(one["params"])["Lambda_e"] != SEPARATE[1]]
    found = Findings(table(chosen() + [one for one in some if one["seed"] == 1 or one["trial_index"] == 0]))
    assert (of(found, "global").gain.seeds, of(found, "separate").gain.seeds) == (1, 1)
    assert of(found, "global").gain.value == pytest.approx(FRESH[BEST][0] - FRESH[ON_GLOBAL][0])
    assert of(found, "separate").gain.value == pytest.approx(0.34), "over the seed that chose, of a setting of cd's"


def test_fresh_seeds_choose_nothing():
    """In the confirming trials the lucky setting is worse than the global average's: it stays the choice, and the
    search's curve ends with what it chose."""
    trials = table(chosen() + confirmed())
    found = Findings(trials)
    assert found.best["Lambda_e"] == BEST[1] and found.best["seeds"] == 1
    assert {curve.method for curve in curves_of(trials)} == {"cd", "separate", "global"}
    assert best_values(trials)["Lambda_e"].tolist() == [BEST[1]]
    assert best_trial(trials)["search"] == "cd"


def test_the_summary_tells_the_mean_of_fresh_seeds():
    found = Findings(table(chosen() + confirmed()))
    best, separate, common = worth(found)["rows"]
    assert fresh_score(found.fresh).startswith("test 0.8600 (95 % interval ") and best["seeds"] == "3 fresh seeds"
    assert separate["gain"].startswith("+0.240 ") and "over 3 pairs of seeds): beyond chance" in separate["verdict"]
    assert "within chance" in common["verdict"]
    assert "--confirm" not in str(summarise(found, "python -m tune_cd.run --study s").get("What to try next"))


def test_without_fresh_seeds_the_summary_says_how_to_get_some():
    found = Findings(table(chosen()))
    said, _ = summarise(found, "python -m tune_cd.run --study s")["What to try next"]
    assert found.fresh is None and "`python -m tune_cd.run --study s --resume --confirm 3`" in said


def beaten():
    """The separate average is better by validation and, with fresh seeds, worse than what the search chose."""
    ahead = (2.0, 2.0)
    rows = [trial("cd", 0, (0.1, 0.1), 0.6, 0.6), trial("cd", 1, BEST, 0.8, 0.8), trial("separate", 0, ahead, 0.9, 0.9)]
    tests = {BEST: (0.78, 0.77, 0.79), ahead: (0.75, 0.74, 0.76)}
    return table(rows + [
        trial("confirm", place, at, 0.5, test, seed)
        for place, at in enumerate(tests) for seed, test in enumerate(tests[at], 1)
    ])  # fmt: skip


def test_a_gain_is_that_of_the_searchs_choice_whichever_is_better_by_validation():
    trials = beaten()
    found = Findings(trials)
    [recipe] = [recipe for recipe in found.recipes if recipe.average == "separate"]
    assert (found.best["search"], found.ahead["search"]) == ("cd", "separate")
    assert found.fresh.value == pytest.approx(0.78) and len(found.alike) == 1
    assert recipe.gain.value == pytest.approx(0.03)
    said, kind = summarise(found)["Better by validation"]
    better = "Λp = 2, Λe = 2, b = 64. Validation r_map 0.9000, test 0.9000, found by separate"
    assert said.startswith(better) and kind == "caution"
    assert worth(found)["rows"][1]["gain"].startswith("+0.0300 ")
    confirming = trials["search"] == "confirm"
    trials.loc[confirming, "test_score"] = 1.5 - trials.loc[confirming, "test_score"]
    assert worth(Findings(trials))["rows"][1]["gain"].startswith("-0.0300 "), "a loss is told as well"


def test_where_the_search_completed_nothing_the_best_is_a_baselines():
    trials = beaten()
    found = Findings(trials[trials["search"] == "separate"])
    assert found.best["search"] == "separate" and found.ahead is None


def test_a_table_of_confirming_trials_alone_chooses_nothing():
    found = Findings(table(confirmed()))
    assert found.best is None and isinstance(found.trials, pd.DataFrame)
