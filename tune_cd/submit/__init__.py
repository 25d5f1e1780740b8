"""Submits studies to a standing Ray cluster and looks after them by name: `python -m tune_cd.submit --help`."""
