"""One-hot coordinates of categories, as the Gaussian process is told them, and their length scales."""

from collections.abc import Callable
from functools import partial
from math import sqrt

import numpy as np

from tune_cd.search.space import NEGLIGIBLE, Array, Space


def features_of(space: Space) -> Callable[[Array], Array]:
    """The map from coordinates [n, n_axes] to those of the process [n, n_features]: the numeric axes', then of every
    category one coordinate a value, such that two values are 1 apart. It can be pickled."""
    return partial(_features, space)


def _features(space: Space, points: Array) -> Array:
    places = zip(np.flatnonzero(~space.ordered), space.categories)
    hot = [(np.round(points[:, [at]]) == np.arange(len(axis.values))) / sqrt(2) for at, axis in places]
    return np.concatenate([points[:, space.ordered], *hot], axis=1)


def widths_of(space: Space) -> Array:
    """The width of the box along every feature [n_features], two values of a category being 1 apart."""
    widths = np.maximum((space.high - space.low)[space.ordered], NEGLIGIBLE)
    return np.append(widths, np.ones(sum(len(axis.values) for axis in space.categories)))


def with_categories(space: Space, maps: Array, lengths: Array) -> Array:
    """The maps from features to units of length scales [n_draws, n_features, n_features], from those of the numeric
    axes [n_draws, n_numeric, n_numeric] and of the categories, lengths [n_draws, n_categories or 1]."""
    counts = [len(axis.values) for axis in space.categories]
    n, lengths = maps.shape[1], np.broadcast_to(lengths, (len(maps), len(counts)))
    whole = np.zeros((len(maps), n + sum(counts), n + sum(counts)))
    whole[:, :n, :n] = maps
    every = np.arange(n, n + sum(counts))
    whole[:, every, every] = 1 / np.repeat(lengths, counts, axis=1)
    return whole
