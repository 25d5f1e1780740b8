"""Imported by processes that drivers and workers are forked from: the list of the glyphs takes seconds."""

from trainables.datasets import check_source

check_source("glyphs")
