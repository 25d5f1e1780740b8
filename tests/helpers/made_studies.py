"""A study as the command line makes it, without a cluster."""

from tune_cd.run.options import parse
from tune_cd.run.preflight import check_study


def study(tmp_path, *argv):
    options, explicit = parse([*argv, "--results", str(tmp_path / "results")])
    return check_study(options, explicit)
