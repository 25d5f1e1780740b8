"""Studies on a standing cluster: queued, watched and stopped from a laptop, by name. See `python -m tune_cd.submit --help`."""
