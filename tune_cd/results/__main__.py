"""Command line of the results, `python -m tune_cd.results`; see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.results.__main__")

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.results.clean import leftovers, remove
from tune_cd.results.json_text import as_json
from tune_cd.results.rows import choices_in, sign_of
from tune_cd.results.terminal import redacted_output

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
JSON_FIELDS = ("config", "software")
NO_SCORE: Mapping[Any, Any] = {"val_score": None, "test_score": None, "metric_name": "-"}
LEFT = ("study", "trial", "status", "metric", "error")  # columns of text in the tables


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if `compact` names a file or `clean` is answered no, 2 for bad
    input."""
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
    clean = add("clean", _clean, CLEAN)
    clean.add_argument("study", metavar="STUDY", help="name of the study, as `list` gives it")
    clean.add_argument("--yes", action="store_true", help="do not ask")
    clean.add_argument("--tune-dir", metavar="DIR", help="the run's --tune-dir (default: the temporary folder)")
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


def _clean(options: argparse.Namespace) -> int:
    found = leftovers(options.results, options.study, options.tune_dir)
    for file, size in [*found.states.items(), *found.folders.items()]:
        print(f"{size / 1e6:10.1f} MB  {file}")
    if not (found.states or found.folders):
        print("there is nothing to remove")
        return 0
    said = "trainings that are paused begin again if the study goes on" if found.states else "the study needs none"
    if not (options.yes or _agreed(f"{said}. Remove all of these? [y/N] ")):
        print("nothing is removed")
        return FOUND
    remove(options.results, options.study, found)
    return 0


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:  # nobody is there to answer
        return False


def _some(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    return (", ".join(known[:10]) or "none") + (f" and {len(known) - 10} more" if len(known) > 10 else "")


def studies_table(trials: pd.DataFrame) -> str:
    """One line a study: how many trials, and how they ended; the best completed one, and when the study ran (UTC)."""
    lines = []
    for study, rows in trials.groupby("study"):
        number, done = rows["status"].value_counts(), rows[rows["status"] == "completed"]
        best = done.iloc[[int(_worth(done).argmax())]].to_dict("records")[0] if len(done) else NO_SCORE
        lines.append(
            {"study": str(study), "trials": str(len(rows))}
            | {name: str(number.get(name, 0)) for name in results.STATUSES}
            | {"best val": _number(best["val_score"]), "its test": _number(best["test_score"])}
            | {"metric": best["metric_name"], "from": _minute(rows["started_at"].min())}
            | {"to": _minute(rows["ended_at"].max())}
        )
    return _aligned(lines)


def trials_table(trials: pd.DataFrame) -> str:
    """One line a trial: completed ones first, then the others, the best first, else in the order of asking."""
    ordered = trials.assign(_completed=trials["status"] == "completed", _worth=_worth(trials)).sort_values(
        ["_completed", "_worth", "search", "trial_index"], ascending=[False, False, True, True], na_position="last"
    )
    rows: list[dict[Any, Any]] = ordered.to_dict("records")
    settings = [{**row["params"], **choices_in(row)} for row in rows]
    names = sorted(set().union(*settings))
    lines = []
    for row, setting in zip(rows, settings):
        scores = {"val": _number(row["val_score"]), "test": _number(row["test_score"])}
        taken = {"seconds": _number(row["train_seconds"])}
        searched = {f"{name} ": _number(setting.get(name)) for name in names}  # a name may be that of a column
        ended = {"trial": row["trial_id"], "status": row["status"]}
        lines.append({**ended, **scores, **taken, **searched, "error": _short(row["error"])})
    return _aligned(lines)


def _aligned(rows: Sequence[Mapping[str, str]]) -> str:
    """A table of texts below its heading, a line a row."""
    table = [{name: name for name in rows[0]}, *rows]
    widths = {name: max(len(row[name]) for row in table) for name in rows[0]}
    cells = ([f"{row[name]:{'<' if name in LEFT else '>'}{width}}" for name, width in widths.items()] for row in table)
    return "\n".join("  ".join(line).rstrip() for line in cells)


def trial_card(trial: Mapping[Any, Any]) -> str:
    """All fields of one trial that are not empty, one a line, with units."""
    lines: list[str] = []
    for field in results.TRIALS:
        value, unit = trial[field.name], field.metadata[b"unit"].decode()
        if field.name in JSON_FIELDS:
            kept = [*trial["params"], *choices_in(trial)]
            content = as_json(json.loads(value), kept=kept, indent=1).splitlines()[1:-1]
            lines += [f"{field.name}:", *(f"    {line}" for line in content)]
        elif isinstance(value, dict):
            lines += [f"{field.name}:", *(f"    {name} = {_number(number)}" for name, number in value.items())]
        elif pd.notna(value) or field.name in ("val_score", "test_score"):
            shown = _number(value) if isinstance(value, float) else value
            lines.append(f"{field.name}: {shown}" + (f"   [{unit}]" if unit not in ("none", "UTC") else ""))
    return "\n".join(lines)


def _worth(trials: pd.DataFrame) -> pd.Series:
    """Validation scores [n_trials], larger is better."""
    return trials["val_score"].astype(float) * trials["mode"].map(sign_of).astype(float)


def _number(value: Any) -> str:
    return value if isinstance(value, str) else "-" if pd.isna(value) else f"{value:.4g}"


def _minute(time: Any) -> str:
    return "-" if pd.isna(time) else f"{time:%Y-%m-%d %H:%M}"


def _short(error: Any) -> str:
    text = "" if pd.isna(error) else " ".join(error.split())
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1] + "…"
