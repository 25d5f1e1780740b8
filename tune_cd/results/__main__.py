"""Command line of the results, `python -m tune_cd.results`; see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.results.__main__")

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.redaction import redacted_output
from tune_cd.results.rows import choices_in, length_in, reached_in, sign_of
from tune_cd.results.study_files import leftovers, remove, require_study

FOUND = 1
BAD_INPUT = 2
COMPACT = (
    "merge each study's files into one, which is read much faster. `tune_cd.run` does it at a study's end; one with a "
    "driver at work is left out. Plain Parquet readers may see rows twice until it is done"
)
CLEAN = (
    "remove what only the continuation of a study needs: states of its paused trainings, which then begin again, and "
    "Ray Tune's own files on this machine. Rows, curves, reports and networks stay. Asks before; a study with a driver "
    "at work is refused"
)
RESULTS = "the results: a folder, or an object store's s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"
ERROR_LENGTH = 60  # longest error in the table of trials, in characters
NO_SCORE: Mapping[Any, Any] = {"val_score": None, "test_score": None, "metric_name": None}


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 1 if `compact` names a file or `clean` is answered no, 2: bad input."""
    options = _parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        try:
            return int(options.command(options))
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return BAD_INPUT


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
    clean = add("clean", _clean, CLEAN)
    clean.add_argument("study", metavar="STUDY", help="name of the study, as `list` gives it")
    clean.add_argument("--yes", action="store_true", help="do not ask")
    clean.add_argument("--tune-dir", metavar="DIR", help="the run's --tune-dir (default: the temporary folder)")
    return parser


def _list(options: argparse.Namespace) -> int:
    print(studies_table(_trials(options.results)))
    return 0


def _trials(place: str, study: str | None = None) -> pd.DataFrame:
    trials = results.read(place, study)
    if trials.empty:
        raise ValueError(f"there are no trials of {study or 'any study'} in {results.check_location(place)}")
    return trials


def _show(options: argparse.Namespace) -> int:
    trials = _trials(options.results, options.study)
    chosen = trials if options.trial is None else trials[trials["trial_id"] == options.trial]
    if chosen.empty:
        raise ValueError(f"study {options.study} has no trial {options.trial!r}; `show` without it names them")
    print(trials_table(trials) if options.trial is None else trial_card(chosen.to_dict("records")[0]))
    return 0


def _compact(options: argparse.Namespace) -> int:
    merge(options.results)
    if options.study is not None:
        require_study(options.results, options.study)
    left = results.compact(options.results, options.study)
    for sentence in left:
        print(f"{sentence}; left as it is", file=sys.stderr)
    print(f"{options.study or 'all studies'} in {options.results}: one file of trials and one of curves a study")
    return FOUND if left else 0


def _clean(options: argparse.Namespace) -> int:
    states, folders = leftovers(options.results, options.study, options.tune_dir)
    print("\n".join(map(str, [*states, *folders])) or "there is nothing to remove")
    if not (states or folders):
        return 0
    said = "trainings that are paused begin again if the study goes on" if states else "the study needs none"
    try:
        agreed = options.yes or input(f"{said}. Remove all of these? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, RuntimeError):  # the input is at its end, or closed
        raise ValueError("nobody answers here: nothing is removed; --yes removes without asking") from None
    if not agreed:
        print("nothing is removed")
        return FOUND
    remove(options.results, options.study, states, folders)
    return 0


def studies_table(trials: pd.DataFrame) -> str:
    """One line a study: how many trials, and how they ended; the best completed one if all are of one metric, and when
    the study ran (UTC)."""
    lines = []
    for study, rows in trials.groupby("study"):
        done = rows[rows["status"] == "completed"]
        best = done.iloc[int(_worth(done).argmax())] if done["metric_name"].nunique() == 1 else NO_SCORE
        number = {status: (rows["status"] == status).sum() for status in results.STATUSES}
        scores = {"best val": best["val_score"], "its test": best["test_score"], "metric": best["metric_name"]}
        times = {"from": rows["started_at"].min().floor("s"), "to": rows["ended_at"].max().floor("s")}
        lines.append({"study": study, "trials": len(rows), **number, **scores, **times})
    return _text_of(pd.DataFrame(lines))


def trials_table(trials: pd.DataFrame) -> str:
    """One line a trial: completed ones first, then the others, of each metric the best first, or as they were asked."""
    by, ascending = ["_completed", "metric_name", "_worth", "search", "trial_index"], [False, True, False, True, True]
    ordered = trials.assign(_completed=trials["status"] == "completed", _worth=_worth(trials))
    ordered = ordered.sort_values(by, ascending=ascending, na_position="last")
    rows = ordered.to_dict("records")
    searched = pd.DataFrame([{**row["params"], **choices_in(row)} for row in rows])
    errors = ordered["error"].fillna("").map(lambda error: " ".join(error.split())[:ERROR_LENGTH])
    metric = ["metric_name"] * (trials["metric_name"].nunique() > 1)
    lines = ordered[["trial_id", "status", *metric, "val_score", "test_score", "train_seconds"]].reset_index(drop=True)
    lines["status"] = [_end(row) for row in rows]
    return _text_of(pd.concat([lines, searched, errors.reset_index(drop=True)], axis=1))


def _end(trial: Mapping[Any, Any]) -> str:
    """A trial's status; of a stopped one also the share of its full length, where it is known."""
    name, whole = length_in(trial["config"])
    status, share = str(trial["status"]), reached_in(trial, name) / whole
    return f"stopped at {100 * share:.3g} %" if status == "stopped" and share == share else status


def _text_of(table: pd.DataFrame) -> str:
    shown = table.astype(object).where(table.notna(), "-")  # pandas 2 would print None as such
    return shown.to_string(index=False, float_format="{:.4g}".format)


def trial_card(trial: Mapping[Any, Any]) -> str:
    """All fields of one trial that are not empty, one a line."""
    return "\n".join(f"{name}: {value}" for name, value in trial.items() if isinstance(value, dict) or pd.notna(value))


def _worth(trials: pd.DataFrame) -> pd.Series:
    """Validation scores [n_trials], larger is better."""
    return trials["val_score"].astype(float) * trials["mode"].map(sign_of).astype(float)
