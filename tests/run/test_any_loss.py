"""`python -m tune_cd.run` with losses of any terms, up to the first trial: axes, starts, range, baseline."""

import re

import pytest
from made_studies import study
from studies import VICREG as VICREGS
from studies import searched_terms

from tune_cd import results
from tune_cd.run.config import ABOVE, BELOW
from tune_cd.run.summary import summarise
from tune_cd.search.space import Space

SSL = ("--dataset", "glyphs", "--task", "ssl", "--setup", "small")
VICREG = (*SSL, "--loss", "vicreg")
UNEQUAL = {"Lambda_p": 1.0, "Lambda_e": 4.0}
SIGLIP = Space(Lambda_pos=(1e-3, 1e3), Lambda_neg=(1e-3, 1e3))


def start(made):
    return next(iter(made.searches[0].starts), None)


TWINS, ADAM = "--task ssl --loss barlow_twins", "--set optimizer=adam learning_rate="
AXES = {  # options -> the axes, and where the search starts: at the published ratios
    "--task ssl --loss vicreg": {"Lambda_sim": 0.1, "Lambda_std": 0.1, "Lambda_cov": 0.1 / 25},
    "--task ssl --loss alignment_uniformity": {"Lambda_align": 0.1, "Lambda_uniform": 0.1},
    "--task ssl --loss siglip": {"Lambda_pos": 0.1, "Lambda_neg": 0.1},
    "--loss own_losses:three_parts": {"Lambda_pull": 0.2 / 3, "Lambda_push": 0.1, "Lambda_all": 0.05 / 3},
    "--loss own_losses:unequal": {"Lambda_p": 0.025, "Lambda_e": 0.1},
    TWINS: {"Lambda_on": 0.1, "Lambda_off": 0.00051},
    f"{TWINS} {ADAM}0.001": {"Lambda_on": 1.0, "Lambda_off": 0.0051},
    f"{TWINS} {ADAM}0.1": {"Lambda_on": 1.0, "Lambda_off": 0.0051},
}


@pytest.mark.parametrize("argv", AXES)
def test_the_axes_are_the_terms_and_the_start_the_published_ratios(tmp_path, argv):
    """Which are the baseline too. Adam's rate is no part of start and range."""
    made, expected = study(tmp_path, *argv.split()), AXES[argv]
    assert made.space.names == tuple(expected) and start(made) == pytest.approx(expected)
    assert [search.name for search in made.searches] == (["cd"] if ADAM in argv else ["cd", "published"])
    assert all(search.starts == [start(made)] for search in made.searches)
    low, high = made.config.bounds
    least, most = min(expected.values()), max(expected.values())
    assert (low, high) == pytest.approx((least / BELOW, most * ABOVE))
    assert made.searches[0].make(made.space, start=start(made)).ask() == start(made)
    assert re.match(f"glyphs-{made.setup.loss.removeprefix('own_losses:')}-", made.name)


@pytest.mark.parametrize(
    "loss, names, searches",
    [
        ("pairwise", ("Lambda_p", "Lambda_e"), ["cd", "separate"]),
        ("entropy_first", ("Lambda_p", "Lambda_e"), ["cd", "separate"]),
        ("drawing", ("Lambda_noisy",), ["cd"]),  # there is no balance, and no recipe to compare with
    ],
)
def test_the_usual_recipe_is_the_baseline_where_there_is_one(tmp_path, loss, names, searches):
    made = study(tmp_path, "--loss", f"own_losses:{loss}")
    assert made.space.names == names and [search.name for search in made.searches] == searches


@pytest.mark.parametrize("more", [(), ("--full-length",)])
def test_under_adam_two_weights_are_searched_along_their_balance(tmp_path, more):
    """Their joint scale does nothing."""
    [search] = study(tmp_path, *SSL, "--loss", "siglip", "--set", "optimizer=adam", *more).searches
    line = search.make(SIGLIP, start=search.starts)
    assert search.line and search.pauses == (not more)
    for _ in range(4):
        h = line.ask()
        assert h["Lambda_pos"] * h["Lambda_neg"] == pytest.approx(1.0)
        line.tell(h, 0.5, line.until(h))


STARTS = {
    "lr=0.01": {"Lambda_sim": 0.25, "Lambda_std": 0.25, "Lambda_cov": 0.01},
    "lr=0.01,b=32": {"Lambda_sim": 0.25, "Lambda_std": 0.25, "Lambda_cov": 0.01},
    "Lambda_sim=0.5,Lambda_std=0.2,Lambda_cov=0.1": {"Lambda_sim": 0.5, "Lambda_std": 0.2, "Lambda_cov": 0.1},
    "blind": None,
}


@pytest.mark.parametrize("text", STARTS)
def test_starts(tmp_path, text):
    made = study(tmp_path, *VICREG, "--start", text)
    assert start(made) is None if STARTS[text] is None else start(made) == pytest.approx(STARTS[text])
    assert made.config.batch_size == (32 if "b=32" in text else 64)


WIDE = 1.234e-05


@pytest.mark.parametrize(
    "argv, published", [(["--loss", "own_losses:unequal"], UNEQUAL), (VICREG, VICREGS)], ids=["two", "three"]
)
def test_the_summary_has_their_line_and_fits_into_80_columns(tmp_path, argv, published):
    """The best has the widest text that a weight may have."""
    made = study(tmp_path, *argv, "--study", "terms", "--batch-size", "32")
    trials = searched_terms(published, batch_size=32)
    trials.loc[0, ["val_score", "test_score"]] = 0.99
    trials.at[0, "params"] = dict.fromkeys(published, WIDE)
    trials.loc[0, list(UNEQUAL)] = WIDE if published == UNEQUAL else None
    for _, trial in trials.iterrows():
        results.write_trial(made.results, trial.where(trial.notna(), None).to_dict())
    said = summarise(made).splitlines()
    assert said[2].startswith("best balance found") and said[2].count(f"{WIDE:.4g}") == len(published)
    assert said[3].startswith("published weights ") and "no completed trial" not in said[3]
    assert any(line.startswith("published weights: ") for line in said) and not any("separate" in line for line in said)
    assert max(len(line) for line in said if str(tmp_path) not in line) <= 80
