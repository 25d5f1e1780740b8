"""What is asked of a cluster: one study, with options of `tune_cd.run` that were checked as far as they can be from afar."""

import argparse
import json
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tune_cd.results.location import parse as parse_location
from tune_cd.run.config import Request as StudyRequest
from tune_cd.run.lock import user
from tune_cd.run.options import parse, study_name
from tune_cd.run.searches import searches_of

STOP_SECONDS = 120
"""That a study gets to end in good order; Ray's own 3 s are too few for its last rows and its report."""

ENDED = "tune_cd.run ended with exit status"
"""In the log, since Ray forgets the exit status of a job that was stopped."""


@dataclass(frozen=True)
class Request:
    """A study to be run on a cluster. argv: options of `tune_cd.run` as they were typed, the study's name among them."""

    study: str
    argv: tuple[str, ...]
    results: str
    workers: int
    dry_run: bool = False
    python: str = "python"
    working_dir: str | None = None

    @property
    def entrypoint(self) -> str:
        """A shell's line. Ray sends SIGTERM to the shell as well, which has to outlive what it has started to say how that ended."""
        command = shlex.join([self.python, "-m", "tune_cd.run", "--address", "auto", *self.argv])
        return f'trap : TERM; {command}; status=$?; echo "{ENDED} $status"; exit $status'

    @property
    def runtime_env(self) -> dict:
        own = {
            "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}
        }  # read by the process that starts and stops the job
        return own if self.working_dir is None else own | {"working_dir": self.working_dir}

    def metadata(self, attempt: int) -> dict[str, str]:
        """What `list` and `stop` know of the study, kept by the cluster."""
        return {
            "study": self.study, "attempt": str(attempt), "results": self.results, "workers": str(self.workers),
            "options": json.dumps(self.argv), "again": self._again(), "dry_run": str(self.dry_run), "user": user(),
            "submitted_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        }  # fmt: skip

    def _again(self) -> str:
        """The command that goes on where this one stops."""
        where = [] if self.working_dir is None else ["--working-dir", self.working_dir]
        where += [] if self.python == "python" else ["--python", self.python]
        argv = [text for text in self.argv if text != "--dry-run"]
        return shlex.join(
            ["python", "-m", "tune_cd.submit", "start", *where, *argv, *([] if "--resume" in argv else ["--resume"])]
        )


def check_request(argv: list[str], python: str = "python", working_dir: str | None = None) -> Request:
    """The request that options of `tune_cd.run` make. Raises ValueError naming what is wrong or missing; a line that cannot
    be read ends the process with 2, as it does there."""
    made = parse(argv)
    if made.call.address is not None:
        raise ValueError(
            f"--address {made.call.address}: written in full it is the job server's; the study itself runs inside the cluster"
        )
    raw = _paths(argv)
    for option, text in raw:
        _check_path(option, text)
    if not any(option == "--results" for option, _ in raw):
        raise ValueError(
            "--results is missing: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or the absolute path of a folder that all nodes mount"
        )
    if made.call.workers is None:
        raise ValueError(
            "--workers is missing: settings this study may train at a time. The cluster is shared: the first study would take "
            "whatever becomes free and keep it to its end. Give each study its part of the places"
        )
    if working_dir is not None and not Path(working_dir).is_dir():
        raise ValueError(f"--working-dir {working_dir}: no folder of this machine")
    study = _check_study(made)
    named = argv if made.call.study else [*argv, "--study", study]
    results = [text for option, text in raw if option == "--results"][-1]
    folder = None if working_dir is None else str(Path(working_dir).resolve())
    return Request(study, tuple(named), results, made.call.workers, made.call.dry_run, python, folder)


def _paths(argv: list[str]) -> list[tuple[str, str]]:
    """(option, text) of all that names a file or folder, as it was typed: `tune_cd.run` makes it absolute, with this machine's folders."""
    reader = argparse.ArgumentParser(add_help=False)
    plain = ("--results", "--data-root", "--weights", "--tune-dir")
    for option in plain:
        reader.add_argument(option, action="append", default=[])
    reader.add_argument("--set", nargs="+", action="extend", default=[])
    found, _ = reader.parse_known_args(argv)
    named = [(option, text) for option in plain for text in getattr(found, option[2:].replace("-", "_"))]
    return named + [("--set weights=", text.partition("=")[2]) for text in found.set if text.startswith("weights=")]


def _check_path(option: str, text: str) -> None:
    if option in ("--weights", "--set weights=") and text in ("none", "imagenet"):
        return
    if option == "--results":
        parse_location(text)
    if not (text.startswith(("/", "~")) or "://" in text):
        raise ValueError(
            f"{option} {text!r}: paths are those of the cluster's nodes, so an absolute one or a URI is required"
        )


def _check_study(made: StudyRequest) -> str:
    """The study's name, after the checks of `tune_cd.run` that need neither data nor cluster. Raises ValueError likewise."""
    config, errors = made.config, []
    _ = config.space  # refuses an impossible box
    for form in config.forms:  # which it is follows from the cluster; either may do
        try:
            setup = config.setup_for(form)
            if not made.call.resume:
                searches_of(config, setup)
            return study_name(made.call, setup)
        except ImportError:  # what is installed there is not known here
            return study_name(made.call, setup)
        except ValueError as error:
            errors.append(error)
    raise errors[0]
