"""Clusters: what is done with them from the command line, `python -m tune_cd.cluster COMMAND`."""
