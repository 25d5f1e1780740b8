"""The command `python -m tune_cd.run`: wires trainings of `trainables` to searches, Ray Tune and the results."""
