"""`python -m tune_cd.run`: see `--help`. It is read from here: options -> config (`options`, `config`), checks
(`study`), then `driver`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.run.__main__", "checking the options and the data ...")

import logging
import sys

from tune_cd.results.redaction import redacted_output
from tune_cd.run.options import parse

BAD_INPUT = 2


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run a study; returns the exit status: 0, 1 if no trial completed or the run broke off, 2 for bad input (before
    any trial), 130, 143 or 129 when ended by Ctrl-C, SIGTERM or SIGHUP, 141 where nobody reads the output."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("trainables").setLevel(logging.INFO)  # shows downloads, which take long
    try:
        request = parse(argv)  # before the imports below, which take seconds
    except (ValueError, OSError) as error:
        return _refused(error)
    from tune_cd.run.study import check_study

    try:
        study = check_study(request)
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:  # torch's: it cannot build a network
        return _refused(error)
    from tune_cd.run.driver import drive  # with Ray

    return drive(study)


def _refused(error: Exception) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return BAD_INPUT
