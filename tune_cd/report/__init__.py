"""`python -m tune_cd.report RESULTS`: what a study found, on one page that needs nothing else."""
