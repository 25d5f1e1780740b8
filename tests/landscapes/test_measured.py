"""Grids of trainings with their curves: what is written is what is loaded, with labels, noise and a card."""

from itertools import product

import numpy as np
import pytest
from grids_of import LOOKS, TICKS, hill, made, made_tables

from tune_cd import landscapes, results
from tune_cd.analysis import grid
from tune_cd.landscapes.find import plane
from tune_cd.landscapes.measured import MEASURED, load, write

CENTRE = np.log2([TICKS[8], TICKS[10]])


def cliff(x: np.ndarray) -> float | None:
    """A hill, with divergence at the largest Lambda_p."""
    return None if x[0] > 4 else hill(CENTRE)(x) + x[2] / 100


@pytest.fixture(scope="module")
def landscape(tmp_path_factory):
    return made(tmp_path_factory.mktemp("made"), cliff, batch_sizes=(16, 64))


def test_values_are_labelled(landscape):
    """An oracle cell by cell; the seeds differ by twice the noise, and the last look has the score."""
    assert landscape.validation.shape == (13, 13, 2, 2, LOOKS) and landscape.trained.all()
    assert [len(values) for values in landscape.axes.values()] == [13, 13, 2, 2]
    assert landscape.axes["Lambda_p"].tolist() == TICKS and landscape.axes["batch_size"].tolist() == [16, 64]
    for p, e, b, seed in product((0, 5, 11), (0, 10), range(2), range(2)):
        score = cliff(np.log2([TICKS[p], TICKS[e], (16, 64)[b]])) + (0.01 if seed else -0.01)
        assert landscape.validation[p, e, b, seed] == pytest.approx(score - 0.1 * np.arange(LOOKS)[::-1], abs=1e-4)
        assert landscape.test[p, e, b, seed] == pytest.approx(score, abs=1e-4)
    assert landscape.term("positive_term")[3, 4, 0, 0] == pytest.approx([2, 3, 4, 5])
    assert landscape.term("entropy_term")[3, 4, 0, 0] == pytest.approx([1, 1, 1, 1])
    assert landscape.images.tolist() == [[6400, 12800, 19200, 25600]] * 2


def test_diverged_trainings_are_not_a_number_from_where_they_diverge(landscape):
    assert np.isnan(landscape.test[12]).all() and np.isfinite(landscape.test[:12]).all()
    assert np.isfinite(landscape.validation[12, :, :, :, 0]).all() and np.isnan(landscape.validation[12, ..., 1:]).all()


def test_a_training_that_does_not_exist_is_not_trained(tmp_path):
    trials, curves = made_tables(cliff)
    alone = ~((trials["seed"] == 1) & (trials["Lambda_e"] < 1))
    write(tmp_path / "some.parquet", trials[alone], curves, {})
    some = load("some", tmp_path)
    assert some.trained[..., 0].all() and not some.trained[:, 0, :, 1].any() and some.trained[:, 12, :, 1].all()
    assert np.isnan(some.validation[:, 0, :, 1]).all()


def test_the_frame_has_a_row_a_look(landscape):
    frame = landscape.frame()
    assert len(frame) == 2 * 2 * (12 * 13 * LOOKS + 13 * 2)
    one = frame[(frame["Lambda_p"] == TICKS[5]) & (frame["Lambda_e"] == TICKS[3])]
    one = one[(one["batch_size"] == 64) & (one["seed"] == 1)]
    assert one["images_seen"].tolist() == [6400, 12800, 19200, 25600]
    assert one["validation"].to_numpy() == pytest.approx(landscape.validation[5, 3, 1, 1])
    assert frame.dtypes[["images_seen", "validation"]].astype(str).tolist() == ["int64", "float64"]


def test_the_rows_are_a_results_table(landscape):
    """What `analysis` makes of them is what it makes of the trials that were written."""
    trials, _ = made_tables(cliff, batch_sizes=(16, 64))
    ours, theirs = grid(landscape.rows(), "test_score"), grid(trials, "test_score")
    assert ours.values == pytest.approx(theirs.values, abs=1e-5, nan_ok=True) and (ours.lost == theirs.lost).all()
    assert [tick.tolist() for tick in ours.ticks] == [tick.tolist() for tick in theirs.ticks]


def test_a_loss_of_other_terms_has_its_own_axes_and_terms(tmp_path):
    """Two seeds, one batch size; as a study of a results folder and back it is the same."""
    peak = hill(CENTRE)
    ours = made(tmp_path, peak, loss="siglip", task="ssl", terms=lambda x: (x[0], x[1]))
    assert ours.weights == ("Lambda_pos", "Lambda_neg") and ours.terms == ("term_pos", "term_neg")
    assert list(ours.axes) == ["Lambda_pos", "Lambda_neg", "batch_size", "seed"]
    assert ours.validation.shape == (13, 13, 1, 2, LOOKS) and ours.trained.all()
    assert ours.term("term_pos")[3, 4, 0, 1] == pytest.approx(np.log2(TICKS[3]) + np.arange(1, LOOKS + 1), rel=1e-3)
    assert ours.term("term_neg")[3, 4, 0, 1] == pytest.approx([np.log2(TICKS[4])] * LOOKS, rel=1e-3)
    assert {"Lambda_neg", "term_neg", "validation"} <= set(ours.frame())
    with pytest.raises(ValueError, match=r"term 'positive_term': made has \['term_pos', 'term_neg'\]"):
        ours.term("positive_term")
    ours.store(tmp_path / "results")
    trials, curves = (read(tmp_path / "results", "made") for read in (results.read, results.read_curves))
    assert ours.about["published"] == {"Lambda_pos": 1, "Lambda_neg": 1} and "published" not in ours.about["setup"]
    assert trials["Lambda_p"].isna().all() and set(trials["scores"][0]) == set(ours.terms)
    write(tmp_path / "again.parquet", trials, curves, {})
    again = load("again", tmp_path)
    assert (again.weights, again.terms) == (ours.weights, ours.terms)
    for values in ("validation", "test"):
        assert getattr(again, values) == pytest.approx(getattr(ours, values), abs=1e-6)
    assert again.term("term_pos") == pytest.approx(ours.term("term_pos"), rel=1e-3)
    space = plane(ours).space
    assert space.names == ours.weights
    assert plane(ours).score(dict(zip(ours.weights, (TICKS[8], TICKS[10])))) == pytest.approx(0.8, abs=1e-3)


def test_of_one_term_there_is_no_landscape(tmp_path):
    trials, curves = made_tables(cliff, seeds=(0,))
    one = trials.assign(Lambda_e=np.nan, params=[{"Lambda_p": params["Lambda_p"]} for params in trials["params"]])
    with pytest.raises(ValueError, match=r"one: weights \[\]: those of two terms at least"):
        write(tmp_path / "one.parquet", one, curves, {})


def test_what_no_commit_trained_is_not_written(tmp_path):
    trials, curves = made_tables(cliff, seeds=(0,))
    trials.loc[3, "git_commit"] = "c0ffee-dirty"
    with pytest.raises(ValueError, match=r"two: trained by \['c0ffee-dirty'\], with changes"):
        write(tmp_path / "two.parquet", trials, curves, {})
    assert not list(tmp_path.iterdir())


def test_every_data_card_has_commits_that_anybody_can_check_out():
    assert not [name for name in MEASURED if any(one.endswith("-dirty") for one in load(name).about["commits"])]


def test_noise_is_that_between_seeds_near_the_best(tmp_path):
    """Two seeds at ±0.01 have a standard deviation of 0.01·√2. Far from the best it is not asked for."""
    far = made(tmp_path, lambda x: 0.8 if x[0] < -5 else 0.1, noise=0.01)
    assert far.noise() == pytest.approx(0.01 * np.sqrt(2), rel=1e-3) == far.noise(64, score="test_score")
    trials, curves = made_tables(lambda x: 0.8 if x[0] < -5 else 0.1, noise=0.01)
    loud = trials["Lambda_p"] > 2.0**-5
    trials.loc[loud, "val_score"] += np.where(trials.loc[loud, "seed"] == 0, 0.3, -0.01)
    write(tmp_path / "loud.parquet", trials, curves, {})
    assert load("loud", tmp_path).noise() == pytest.approx(far.noise())
    assert load("loud", tmp_path).noise(near=0.0) > 5 * far.noise()
    alone = made(tmp_path, lambda x: 0.5, name="alone", seeds=(0,))
    assert np.isnan(alone.noise()) and alone.noise_and_freedom()[1] == 0


def test_what_was_trained_is_read_from_the_rows(landscape):
    about = landscape.about
    assert about["commits"] == ["c0ffee"] and about["software"] == {"torch": "2"} and about["command"] == "make it"
    assert about["trainings"] == 2 * 2 * 169 and about["hours"] == pytest.approx(2 * 2 * 169 * 8 / 3600, abs=0.01)
    assert about["setup"]["network"] == "small_conv" and not {"Lambda_p", "batch_size"} & set(about["setup"])
    assert (about["dataset"], about["loss"], about["metric"]) == ("glyphs", "margin", "r_map")


def test_members_of_a_pack_share_its_hours(tmp_path):
    trials, curves = made_tables(cliff)
    together = trials.assign(started_at=trials["started_at"].min())
    write(tmp_path / "pack.parquet", together, curves, {})
    seconds = (trials["ended_at"].max() - trials["started_at"].min()).total_seconds()
    assert load("pack", tmp_path).about["hours"] == pytest.approx(seconds / 3600, abs=0.01)


def test_what_is_no_landscape_is_refused(tmp_path):
    trials, curves = made_tables(cliff, seeds=(0,))
    path = tmp_path / "bad.parquet"
    with pytest.raises(ValueError, match=r"bad: \['0-0'\] neither completed nor diverged"):
        write(path, trials.assign(status=["failed", *trials["status"][1:]]), curves, {})
    with pytest.raises(ValueError, match=r"bad: \['0-0'\] have no curve"):
        write(path, trials, curves[curves["trial_id"] != "0-0"], {})
    with pytest.raises(ValueError, match=r"more than one problem"):
        write(path, trials.assign(loss=["infonce", *trials["loss"][1:]]), curves, {})
    with pytest.raises(ValueError, match=r"repeat a setting and seed"):
        write(path, trials.assign(Lambda_p=TICKS[0], Lambda_e=TICKS[0]), curves, {})
    with pytest.raises(ValueError, match="bad: no trials"):
        write(path, trials[:0], curves, {})
    assert not path.exists()
    with pytest.raises(ValueError, match=r"landscape 'bad': one of \[\]"):
        load("bad", tmp_path)
    with pytest.raises(ValueError, match=r"batch_size 32: made has \[64\]"):
        made(tmp_path, cliff).at(32)


@pytest.mark.parametrize("name", MEASURED)
def test_those_of_the_package_are_whole_and_small(name):
    """Older: 13 x 13 settings at each batch size over the paper's range, a second seed near the best. New: 7 x 7
    settings over 24 octaves, at most 80 cells of two seeds in the band, 20 settings held back."""
    landscape = landscapes.load(name)
    older = landscape.held_back.empty
    (low, high), step, ticks = ((1e-6, 16.777216), 2, 13) if older else ((2.0**-14, 2.0**10), 4, 7)
    assert landscape.about["commits"] and landscape.about["command"] and landscape.about["images"]["test"]["images"]
    for b in landscape.axes["batch_size"]:
        part = landscape.at(b)
        lattice = [np.isin(np.round(np.log2(part.axes[axis] / low), 6) % step, 0) for axis in landscape.weights]
        assert [int(at.sum()) for at in lattice] == [ticks, ticks]
        assert older or (60 < part.trained.all(-1).sum() <= 80 and len(part.held_back) == 20)
        assert part.trained.any(-1)[np.ix_(*lattice)].all()
        assert np.isfinite(part.noise()) and 0 < part.noise() < 0.1
    for weight in landscape.weights:
        assert landscape.axes[weight][[0, -1]] == pytest.approx([low, high])
    assert landscape.looks == 16
    assert landscape.test[np.isfinite(landscape.test)].max() <= 1
