"""Command line of the results, `python -m tune_cd.results`; see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.results.__main__")

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable

from tune_cd import results
from tune_cd.results.formatting import studies_table, trial_card, trials_table
from tune_cd.results.terminal import redacted_output

FOUND = 1
BAD_INPUT = 2
COMPACT = (
    "merge each study's files into one, which is read much faster. `tune_cd.run` does it at a study's end; one with a "
    "driver at work is left out. Plain Parquet readers may see rows twice until it is done"
)
RESULTS = "the results: a folder, or an object store's s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if `compact` names a file, 2 for bad input."""
    options = _parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said: set[str] = set()  # a file may be read several times
        warnings.showwarning = lambda message, *_: _warn(str(message), said)
        try:
            return int(options.command(options))
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return BAD_INPUT


def _warn(message: str, said: set[str]) -> None:
    if message not in said:
        said.add(message)
        print(f"warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tune_cd.results", description="Look after a results folder.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.add_argument("results", metavar="RESULTS", help=RESULTS)
        added.set_defaults(command=command)
        return added

    add("list", _list, "the studies: how many trials, how they ended, the best score, when")
    show = add("show", _show, "a study's trials, the best first; or one trial with its configuration and error")
    show.add_argument("study", metavar="STUDY", help="name of the study, as `list` gives it")
    show.add_argument("trial", metavar="TRIAL", nargs="?", help="trial_id of one trial (default: a table of all)")
    compact = add("compact", _compact, COMPACT)
    compact.add_argument("study", metavar="STUDY", nargs="?", help="one study alone (default: all)")
    return parser


def _list(options: argparse.Namespace) -> int:
    trials = results.read(options.results)
    print(studies_table(trials) if len(trials) else f"there are no trials in {results.check_location(options.results)}")
    return 0


def _show(options: argparse.Namespace) -> int:
    trials = results.read(options.results, options.study)
    if trials.empty:
        place, known = results.check_location(options.results), _some(results.read(options.results)["study"])
        raise ValueError(f"there is no study {options.study!r} in {place}; there are {known}")
    if options.trial is None:
        print(trials_table(trials))
        return 0
    chosen = trials[trials["trial_id"] == options.trial]
    if chosen.empty:
        raise ValueError(f"study {options.study} has no trial {options.trial!r}; it has {_some(trials['trial_id'])}")
    print(trial_card(chosen.to_dict("records")[0]))
    return 0


def _compact(options: argparse.Namespace) -> int:
    done = results.compact(options.results, options.study)
    for one in (one for one in done if one.before):
        print(f"{one.table}/{one.study}: {one.before} files, now {one.after}")
    problems = [problem for one in done for problem in one.problems]
    for problem in problems:
        print(f"{problem}; left as it is", file=sys.stderr)
    return FOUND if problems else 0


def _some(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    return (", ".join(known[:10]) or "none") + (f" and {len(known) - 10} more" if len(known) > 10 else "")
