"""What the default search believes of parameters that are no balance: everything is relative to the box."""

import numpy as np
import pytest
from contract import advance
from hills import HILLS
from searches import descent

from tune_cd import Space
from tune_cd.landscapes.simulation import replay_all
from tune_cd.search.directions import Plan, directions_of
from tune_cd.search.lines import random_lines
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.prior import BALANCE, DRAWS, GENERAL, NOISE, NOISES, along_rows, draws_of


def plan(n_axes, side=8.0, directions=None):
    """Of a search of n axes of so many octaves."""
    space = Space(**{f"p{i}": (2.0**-side, 1.0) for i in range(n_axes)})
    return Plan(space, *directions_of(space, directions))


@pytest.mark.slow
def test_on_ridges_of_three_weights_contrasts_are_ahead_of_the_axes():
    """AUC@20 over 12 ridges along the joint direction, from a start some octaves away."""
    space = Space(**dict.fromkeys(("Lambda_a", "Lambda_b", "Lambda_c"), (2.0**-20, 1.0)))
    middle, reached = dict.fromkeys(space.names, 2.0**-10), {"contrasts": 0.0, "axes": 0.0}
    for seed in range(12):
        centre = -10 + 3 * np.random.default_rng(seed).normal(size=3)

        def ridge(h, centre=centre):
            away = space.to_coordinates(h) - centre
            return float(np.exp(-((away - away.mean()) ** 2).sum() / 9 - away.mean() ** 2 / 16))

        for name, known in (("contrasts", {}), ("axes", {"directions": None, "prior": None})):
            search = descent(space, start=middle, **known)
            advance(search, 20, ridge)
            reached[name] += np.maximum.accumulate([value for _, value in search.history]).sum() / 240
    assert reached["contrasts"] > reached["axes"] + 0.02, reached


def test_small_weights_that_change_nothing_are_found_from_larger_ones_that_do_harm():
    """An untrained network may be better than a badly trained one: a plateau in a corner, far from the start, beside a
    ridge that ends lower."""

    def grows(octaves, at):
        return 1 / (1 + np.exp(-(octaves - at) / 1.2))

    def score(h):
        on, off = np.log2(h["Lambda_on"]), np.log2(h["Lambda_off"])
        trained = 1 - (1 - grows(on, -10.5)) * (1 - grows(off, -15.0))
        return 0.74 - trained * (0.55 - 0.4 * np.exp(-(((on - off + 8) / 5) ** 2) / 2))

    best = []
    for seed, shift in enumerate(np.linspace(-2, 2, 8)):
        start = {"Lambda_on": 0.1 * 2**shift, "Lambda_off": 0.00051 * 2**-shift}
        search = descent(Space(Lambda_on=(5e-7, 10.0), Lambda_off=(5e-7, 10.0)), start=start, seed=seed)
        best.append(max(map(score, advance(search, 20, score))))
    assert np.mean(best) > 0.7


@pytest.mark.parametrize("n_axes", [1, 2, 3, 6])
def test_length_scales_are_shares_of_the_box(n_axes):
    small, large = (GENERAL.draws(plan(n_axes, side)) for side in (4.0, 20.0))
    assert small.maps.shape == (DRAWS, n_axes, n_axes)
    assert np.allclose(small.maps, 5 * large.maps) and np.array_equal(small.noises, large.noises)
    assert NOISE[0] <= small.noises.min() < small.noises.max() <= NOISE[1]


@pytest.mark.parametrize("prior, draws", [(BALANCE, len(NOISES) + 1), (GENERAL, DRAWS)])
def test_every_draw_has_each_length_scale_of_the_training_length(prior, draws):
    drawn = plan(2)
    one, several = (draws_of(prior, drawn, lengths) for lengths in ((1.0,), (0.5, 1.0)))
    assert len(one.maps) == len(one.noises) == draws
    assert len(several.maps) == len(several.noises) == draws * len(prior.alike)
    assert np.allclose(1 / several.maps[:, 2, 2], np.tile(prior.alike, draws))
    assert np.allclose(one.maps[:, :2, :2], prior.draws(drawn).maps) and np.allclose(one.maps[:, 2, :2], 0)


def test_without_directions_the_axes_and_turned_pairs_of_them_are_believed_in():
    """Each draw's rows are orthogonal; half of them lie along the axes of a plane."""
    maps = GENERAL.draws(plan(2)).maps
    products = maps @ maps.transpose(0, 2, 1)
    assert np.allclose(products[:, 0, 1], 0)
    assert sum(np.count_nonzero(np.abs(one) > 1e-12) == 2 for one in maps) == DRAWS // 2


def test_given_directions_are_the_only_ones():
    given = plan(2, directions=[[-1, 1], [1, 1]])
    rows = along_rows(given, 1.0, 1.0)
    for one in GENERAL.draws(given).maps:
        assert np.allclose(one @ rows.T, np.diag(np.diag(one @ rows.T)))


@pytest.mark.parametrize("n_axes, lines", [(1, 0), (2, 4), (3, 6), (8, 16)])
def test_random_lines_run_from_end_to_end_of_the_box_in_every_direction(n_axes, lines):
    drawn = plan(n_axes)
    middle = dict.fromkeys(drawn.space.names, 2.0 ** (-4))
    found = random_lines(drawn.space, middle, turn=3)
    assert len(found) == lines == len(random_lines(drawn.space, middle, turn=4))
    for line in found:
        assert np.count_nonzero(line.direction) == n_axes
        ends = line.x + line.positions[[0, -1], None] * line.direction
        for x in ends:
            assert np.isclose(np.minimum(x - drawn.space.low, drawn.space.high - x), 0, atol=1e-9).any()
    again = random_lines(drawn.space, middle, turn=3)
    assert [line.direction.tolist() for line in again] == [line.direction.tolist() for line in found]


@pytest.mark.slow
def test_a_ridge_beside_axes_without_effect_is_found():
    """Where single axes alone lead nowhere: four of eight parameters have no effect; the mean of 8 searches."""
    space = Space(**{f"x{i}": (1e-4, 1.0) for i in range(4)}, **{f"idle{i}": (1e-4, 1.0) for i in range(4)})
    best = np.log2([3e-3, 0.2, 0.05, 1e-3])

    def ridge(h):
        return float(np.exp(-(((np.log2([h[f"x{i}"] for i in range(4)]) - best) / [2.5, 5, 5, 8]) ** 2).sum()))

    reached = {}
    for method in ("cd", "random", "cmaes"):
        searches = [OPTIMISERS[method](space, seed=seed) for seed in range(8)]
        for search in searches:
            advance(search, 30, ridge)
        reached[method] = np.mean([search.best[1] for search in searches])
    assert reached["cd"] > max(reached["random"], reached["cmaes"]) + 0.1, reached


@pytest.mark.slow
def test_it_is_ahead_of_random_search_and_of_the_papers_from_the_first_trials_on():
    """In boxes of any size: on bowls after 5 trials, on ridges after 20; the mean over landscapes and 6 searches."""
    methods = {name: OPTIMISERS[name] for name in ("cd", "cd-paper", "random")}
    for kind, trials in (("bowl", 5), ("ridge", 20)):
        landscapes = [landscape for name, landscape in HILLS.items() if name.endswith(kind)]
        reached: dict[str, list[float]] = {name: [] for name in methods}
        for trajectory in replay_all(methods, landscapes, range(6), trials=trials, processes=1):
            reached[trajectory.method].append(1 - trajectory.curve[-1])
        regret = {name: float(np.mean(values)) for name, values in reached.items()}
        assert regret["cd"] < 0.6 * min(regret["random"], regret["cd-paper"]), (kind, regret)
