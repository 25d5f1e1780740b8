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
from tune_cd.report.words import counted
from tune_cd.report.writing import content, read
from tune_cd.results import publish
from tune_cd.results.redaction import redact, redacted_output

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
    try:
        output, folder = _places(options)
        complete = _write_page(options, output)
        if folder is not None:
            complete &= _write_figures(options, folder)
    except (ValueError, OSError) as error:
        print(redact(f"error: {error}"), file=sys.stderr)
        return BAD_INPUT
    return 0 if complete else INCOMPLETE


def _places(options: argparse.Namespace) -> tuple[Path, Path | None]:
    """The page's file and the figures' folder. Raises ValueError for places that cannot be written to."""
    output = Path(os.path.expanduser(options.output))
    if not output.parent.is_dir() or (output.exists() and not output.is_file()):
        raise ValueError(f"-o {options.output}: a file in a folder that exists, not a folder or a device")
    folder = None if options.figures is None else Path(os.path.expanduser(options.figures))
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"--figures {options.figures}: a folder, and there is a file of that name")
    return output, folder


def _write_page(options: argparse.Namespace, output: Path) -> bool:
    """Write the page; returns whether every study is shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = content(options.results, options.study)
    for warning in caught:
        print(redact(f"warning: {warning.message}"), file=sys.stderr)
    if not found["studies"] and not found["left_out"] and options.study is None:
        required = "RESULTS is the folder that holds trials/, or one .parquet file"
        raise ValueError(f"there are no trials below {options.results}: {required}")
    publish(output, render(found).encode())
    trials = sum(len(study["trials"]["trial_id"]) for study in found["studies"])
    studies = len({study["study"] for study in found["studies"]})  # a study may be shown in several parts
    named = "1 study" if studies == 1 else f"{studies} studies"
    print(f"{counted(trials, 'trial')} of {named}: {options.output}", flush=True)
    return not found["left_out"]


def _write_figures(options: argparse.Namespace, folder: Path) -> bool:
    """Write figures and tables; returns whether all could be made."""
    from tune_cd.report.figures import write_figures  # matplotlib is slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are left out, which the page has named
        trials = read(options.results, options.study)
    written = write_figures(trials, folder)
    print(f"{len(written.files)} files of figures and tables: {options.figures}")
    for name, reason in written.failed.items():
        print(redact(f"error: {name} could not be made: {reason}"), file=sys.stderr)
    return not written.failed
