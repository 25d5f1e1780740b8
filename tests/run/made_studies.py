"""A study as the command line makes it, without a cluster."""

from tune_cd.run.options import parse
from tune_cd.run.study import check_study


def study(tmp_path, *argv):
    return check_study(parse([*argv, "--results", str(tmp_path / "results")]))
