"""Roles of the measured landscapes: in view while a search is changed, or only its judge. Split once."""

IN_VIEW = ("glyphs-infonce", "glyphs-margin", "omniglot-242-infonce", "omniglot-242-margin")
"""Constants of a search may be chosen on these. Results on them do not judge it."""

JUDGES = ("glyphs-ssl-margin", "glyphs-ssl-siglip", "omniglot-infonce")
"""No constant of a search is chosen on these, and no search is run on them while it is changed. Each run on one is a
line of `tests/benchmarks/judged.jsonl`."""
