"""`python -m tune_cd.report`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.report.__main__")

import argparse
import os
import sys
import warnings
from pathlib import Path

from tune_cd.report.payload import unshown
from tune_cd.report.words import counted
from tune_cd.report.writing import content, read, render
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
parameters, which of them matter, all curves and every trial. A study whose rows cannot be shown is named in its place;
the exit status is then 1.
"""
FIGURES = """also write figures (SVG, PNG) and tables (Markdown, LaTeX) of each study there; exit status 1 where some
could not be made"""


def parser() -> argparse.ArgumentParser:
    """The command line's options, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.report",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("results", metavar="RESULTS", help="a results folder, or s3://BUCKET/PREFIX or gs://BUCKET/PREFIX")
    top.add_argument("--study", nargs="+", action="extend", metavar="NAME", help="default: every study there is")
    top.add_argument("-o", "--output", type=Path, default="report.html", metavar="FILE", help="default: %(default)s")
    top.add_argument("--figures", type=Path, metavar="DIR", help=FIGURES)
    return top


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Write the page; returns the exit status.

    0; 1 if a study could not be shown, or figures or tables could not be made (they are named on stderr); 2 with a
    message for bad input.
    """
    options = parser().parse_args(argv)
    try:
        output = Path(os.path.expanduser(options.output))
        if not output.parent.is_dir() or (output.exists() and not output.is_file()):
            raise ValueError(f"-o {options.output}: a file in a folder that exists, not a folder or a device")
        if options.figures and (folder := Path(os.path.expanduser(options.figures))).exists() and not folder.is_dir():
            raise ValueError(f"--figures {options.figures}: a folder, not a file")
        failed = _write_page(options, output)
        drawn = options.figures is None or _write_figures(options, failed)
        return INCOMPLETE if failed or not drawn else 0
    except (ValueError, OSError) as error:
        print(redact(f"error: {error}"), file=sys.stderr)
        return BAD_INPUT


def _write_page(options: argparse.Namespace, output: Path) -> list[str]:
    """Write the page; returns the names of the studies that could not be shown."""
    found = content(options.results, options.study)
    for note in found["notes"]:
        print(f"warning: {note}", file=sys.stderr)
    if not found["studies"] and options.study is None:
        required = "RESULTS is the folder that holds trials/, or one .parquet file"
        raise ValueError(f"there are no trials below {options.results}: {required}")
    publish(output, render(found).encode())
    failed = unshown(found["studies"])
    for name, reason in failed.items():
        print(redact(f"error: study {name} could not be shown: {reason}"), file=sys.stderr)
    shown = [study for study in found["studies"] if "failed" not in study]
    trials = sum(len(study["trials"]["trial_id"]) for study in shown)
    studies = len({study["study"] for study in shown})  # a study may be shown in several parts
    named = "1 study" if studies == 1 else f"{studies} studies"
    print(f"{counted(trials, 'trial')} of {named}: {options.output}", flush=True)
    return list(failed)


def _write_figures(options: argparse.Namespace, without: list[str]) -> bool:
    """Write figures and tables of all studies but some; returns whether all could be made."""
    from tune_cd.report.figures import write_figures  # matplotlib is slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are left out, which the page has named
        trials = read(options.results, options.study)
    shown = trials[~trials["study"].isin(without)].reset_index(drop=True)
    written = write_figures(shown, Path(os.path.expanduser(options.figures)))
    print(f"{len(written.files)} files of figures and tables: {options.figures}")
    for name, reason in written.failed.items():
        print(redact(f"error: {name} could not be made: {reason}"), file=sys.stderr)
    return not written.failed
