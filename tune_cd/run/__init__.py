"""`python -m tune_cd.run`: parse, wire, fit. The one place that knows both packages."""
