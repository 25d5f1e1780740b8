"""Conventional recipes and the balance they amount to (`ssec:ctrm_norm`).

python -m tune_cd.balance lr=0.1,average=global,b=128        the weights of a recipe, and its place on the map
python -m tune_cd.balance Lambda_p=0.7,Lambda_e=17,b=64      the recipes for these weights, for your own loop
CoordinateDescent(space, **balance.of(space))                directions and prior for the weights of a loss
balance.known("margin", "dml")                               the best weights that others found: starts of a search
balance.terms("sim", "std", "cov", learning_rate=0.1)        space, start, directions and prior of a sum of terms
"""

from tune_cd.balance.directions import A_O, A_TH, SPACES, TERM, WEIGHT, WIDE, directions_over, of, weights_among
from tune_cd.balance.known_bests import Known, known, published
from tune_cd.balance.recipes import (
    AVERAGES,
    PUBLISHED,
    Recipe,
    assignments,
    average_weights,
    averages_of,
    from_recipe,
    off_diagonal,
    parse_recipe,
    ratio,
    recipes,
)
from tune_cd.balance.sums import MULTIPLIED, RATE_FACTOR, RATIO, SCALE_FREE, WEIGHT_FACTOR, Terms, terms
from tune_cd.search.single_line import RATE_RESOLUTION

__all__ = [
    "AVERAGES", "A_O", "A_TH", "MULTIPLIED", "PUBLISHED", "RATE_FACTOR", "RATE_RESOLUTION", "RATIO", "SCALE_FREE",
    "SPACES", "TERM", "WEIGHT", "WEIGHT_FACTOR", "WIDE", "Known", "Recipe", "Terms", "assignments", "average_weights",
    "averages_of", "directions_over", "from_recipe", "known", "of", "off_diagonal", "parse_recipe", "published",
    "ratio", "recipes", "terms", "weights_among",
]  # fmt: skip
