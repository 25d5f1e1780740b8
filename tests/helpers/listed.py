"""Imported by the process that drivers are forked from: the list of the glyphs, which takes seconds, is made there."""

from trainables.datasets import check_source

check_source("glyphs")
