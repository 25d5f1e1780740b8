"""`python -m tune_cd.report`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.report.__main__")

import argparse
import os
import sys
import warnings
from pathlib import Path

from tune_cd.report.page import render
from tune_cd.report.writing import content, read
from tune_cd.results import publish
from tune_cd.results.redaction import redact
from tune_cd.results.terminal import redacted_output

INCOMPLETE, BAD_INPUT = 1, 2

EPILOG = """\
examples:
  python -m tune_cd.report results                              every study, in report.html
  python -m tune_cd.report s3://bucket/prefix -o ~/report.html  from an object store
  python -m tune_cd.report results --study grid --figures out   also the paper's figures (SVG, PNG) and tables
"""

DESCRIPTION = """\
One self-contained page of what studies found: the best setting, its worth, how to use it; the landscape over any two
parameters, which of them matter, all curves and every trial.
"""


def parser() -> argparse.ArgumentParser:
    """The command line's options, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.report",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("results", metavar="RESULTS", help="a results folder, or s3://BUCKET/PREFIX or gs://BUCKET/PREFIX")
    top.add_argument("--study", nargs="+", metavar="NAME", help="default: every study there is")
    top.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="default: %(default)s"
    )
    figures = """also write figures (SVG, PNG) and tables (Markdown, LaTeX) of each study there; exit status 1 where
some could not be made"""
    top.add_argument("--figures", type=Path, metavar="DIR", help=figures)
    return top


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Write the page; returns the exit status.

    0; 1 if a study could not be shown, or figures or tables could not be made (they are named on stderr); 2 with a
    message for bad input.
    """
    options = parser().parse_args(argv)
    missing: dict[str, str] = {}
    left_out: dict[str, str] = {}
    try:
        _check(options)
        missing, left_out = _write(options)
    except (ValueError, OSError) as error:
        print(redact(f"error: {error}"), file=sys.stderr)
        return BAD_INPUT
    for name, reason in missing.items():
        print(redact(f"error: {name} could not be made: {reason}"), file=sys.stderr)
    return INCOMPLETE if missing or left_out else 0


def _check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that cannot be carried out."""
    output = Path(os.path.expanduser(options.output))
    if not output.parent.is_dir() or (output.exists() and not output.is_file()):
        why = ", not a folder or a device" if output.exists() else f"; there is no folder {output.parent}"
        raise ValueError(f"-o {options.output}: a file in a folder that exists{why}")
    folder = None if options.figures is None else Path(os.path.expanduser(options.figures))
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"--figures {options.figures}: a folder, and there is a file of that name")


def _write(options: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Write page, figures and tables; returns the figures and tables that failed, and the studies that could not be
    shown, each with its reason."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = content(options.results, options.study)
    for warning in caught:
        print(redact(f"warning: {warning.message}"), file=sys.stderr)
    if not found["studies"] and not found["left_out"] and options.study is None:
        required = "RESULTS is the folder that holds trials/, or one .parquet file"
        raise ValueError(f"there are no trials below {options.results}: {required}")
    publish(Path(os.path.expanduser(options.output)), render(found).encode())
    number = sum(len(study["trials"]["trial_id"]) for study in found["studies"])
    count = len({study["study"] for study in found["studies"]})  # a study may be shown in several parts
    studies = "1 study" if count == 1 else f"{count} studies"
    print(f"{number} trial{'s' * (number != 1)} of {studies}: {options.output}", flush=True)
    if options.figures is None:
        return {}, found["left_out"]
    from tune_cd.report.figures import write_figures  # matplotlib is slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are left out, which the page has named
        trials = read(options.results, options.study)
    written = write_figures(trials, Path(os.path.expanduser(options.figures)))
    print(f"{len(written.files)} files of figures and tables: {options.figures}")
    return written.failed, found["left_out"]
