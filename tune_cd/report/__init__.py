"""`python -m tune_cd.report RESULTS`: a study's findings on one self-contained page."""
