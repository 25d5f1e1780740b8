"""A study to be submitted: options of `tune_cd.run`, checked as far as possible without the cluster."""

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tune_cd.results.location import parse as parse_location
from tune_cd.run.config import Request
from tune_cd.run.lock import user
from tune_cd.run.options import parse, study_name
from tune_cd.run.searches import searches_of, trainings_of

STOP_SECONDS = 120
"""Time a study has to end in good order; Ray's default of 3 s is too short for its last rows and its report."""

PATH_OPTIONS = ("--results", "--data-root", "--weights", "--tune-dir")


@dataclass(frozen=True)
class Submission:
    """A study to be run on a cluster. argv: options of `tune_cd.run` as they were typed, with the study's name."""

    study: str
    argv: tuple[str, ...]
    results: str
    workers: int
    python: str = "python"
    working_dir: str | None = None

    @property
    def entrypoint(self) -> str:
        """The command that Ray runs in a shell. `exec`: the study itself gets Ray's signals, and its exit status is the
        job's."""
        return shlex.join(["exec", self.python, "-m", "tune_cd.run", "--address", "auto", *self.argv])

    @property
    def runtime_env(self) -> dict:
        own = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}}
        return own if self.working_dir is None else own | {"working_dir": self.working_dir}

    def metadata(self, attempt: int, earlier: Sequence[str] = ()) -> dict[str, str]:
        """The job's metadata, which `list`, `status` and `stop` read. earlier: options of the study's earlier
        attempts."""
        trials = _trials([*earlier, *self.argv]) if earlier or "--resume" not in self.argv else None
        return {
            "study": self.study, "attempt": str(attempt), "results": self.results, "workers": str(self.workers),
            "trials": "" if trials is None else str(trials), "options": json.dumps(self.argv),
            "again": self._again(), "user": user(),
            "submitted_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        }  # fmt: skip

    def _again(self) -> str:
        """The command that continues the study."""
        where = [] if self.working_dir is None else ["--working-dir", self.working_dir]
        where += [] if self.python == "python" else ["--python", self.python]
        resume = [] if "--resume" in self.argv else ["--resume"]
        return shlex.join(["python", "-m", "tune_cd.submit", "start", *where, *self.argv, *resume])


def check_submission(argv: list[str], python: str = "python", working_dir: str | None = None) -> Submission:
    """Check options of `tune_cd.run` and make a submission of them. Raises ValueError naming what is wrong or missing;
    options that cannot be read end the process with status 2."""
    made = parse(argv)
    if made.call.address is not None:
        raise ValueError(
            f"--address {made.call.address}: written in full it is the job server's; the study joins the cluster "
            "it is on"
        )
    paths = _paths(argv)
    for option, text in paths:
        _check_path(option, text)
    if not any(option == "--results" for option, _ in paths):
        raise ValueError(
            "--results is missing: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or the absolute path of a folder that all "
            "nodes mount"
        )
    if made.call.workers is None:
        raise ValueError(
            "--workers is missing: settings trained at a time. The cluster is shared: without a limit the first study "
            "takes whatever becomes free and keeps it to its end"
        )
    if working_dir is not None and not Path(working_dir).is_dir():
        raise ValueError(f"--working-dir {working_dir}: no folder of this machine")
    study, _ = _check_study(made)
    named = argv if made.call.study else [*argv, "--study", study]
    results = [text for option, text in paths if option == "--results"][-1]
    folder = None if working_dir is None else str(Path(working_dir).resolve())
    return Submission(study, tuple(named), results, made.call.workers, python, folder)


def _paths(argv: list[str]) -> list[tuple[str, str]]:
    """(option, text) of every file or folder, as it was typed: `tune_cd.run` would make the paths absolute on this
    machine."""
    reader = argparse.ArgumentParser(add_help=False)
    for option in PATH_OPTIONS:
        reader.add_argument(option, action="append", default=[], dest=option)
    reader.add_argument("--set", nargs="+", action="extend", default=[])
    found = vars(reader.parse_known_args(argv)[0])
    weights = [("--set weights=", text.partition("=")[2]) for text in found["set"] if text.startswith("weights=")]
    return [(option, text) for option in PATH_OPTIONS for text in found[option]] + weights


def _check_path(option: str, text: str) -> None:
    if option in ("--weights", "--set weights=") and text in ("none", "imagenet"):
        return
    if option == "--results":
        parse_location(text)
    if not (text.startswith(("/", "~")) or "://" in text):
        raise ValueError(f"{option} {text!r}: paths are those of the cluster's nodes; give an absolute path or a URI")


def _check_study(made: Request) -> tuple[str, int | None]:
    """(the study's name, its most trainings or None if unknown). Raises ValueError as `tune_cd.run` does without data
    and cluster."""
    config, call = made.config, made.call
    _ = config.space  # refuses an impossible box

    def checked(setup):
        name = study_name(call, setup)
        try:
            return name, None if call.resume else trainings_of(config, searches_of(config, setup))
        except ImportError:  # the method may be installed on the cluster
            return name, None

    return config.first_form(checked)


def _trials(argv: list[str]) -> int | None:
    """The most trainings of the study; None if the options do not determine it."""
    try:
        return _check_study(parse([text for text in argv if text != "--resume"]))[1]
    except (ValueError, SystemExit):
        return None
