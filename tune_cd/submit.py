"""`python -m tune_cd.submit`: studies on a standing Ray cluster, as jobs of Ray's job server. See `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.submit")

import argparse
import asyncio
import contextlib
import logging
import os
import shlex
import sys
import time
import urllib.error
import urllib.request
import warnings
from datetime import UTC, datetime
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.analysis.runs import runs_of
from tune_cd.results.location import parse as parse_location
from tune_cd.results.terminal import redacted_output
from tune_cd.run.config import Request
from tune_cd.run.lock import user
from tune_cd.run.options import parse, study_name
from tune_cd.run.searches import searches_of, trainings_of

FAILED, BAD_INPUT, INTERRUPTED, STOPPED = 1, 2, 130, 143
MEANINGS = {0: "finished", 1: "broke off, or no trial completed", 2: "refused before the first trial",
            127: "no such Python on the cluster's head, see --python", 130: "interrupted", 143: "stopped"}  # fmt: skip
"""Of the exit statuses of `tune_cd.run`, and of a shell that does not find Python."""
ALIVE = ("PENDING", "RUNNING")
STOP_SECONDS = 120  # for a study to end in good order; Ray's 3 s are too short for its last rows and its report
POLL_SECONDS = 1.0
PROBE_SECONDS = 10.0  # Ray's own requests have no time limit: at an address that never answers they hang for minutes
ADDRESS, VARIABLES = "http://127.0.0.1:8265", ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
PATH_OPTIONS = ("--results", "--data-root", "--weights", "--tune-dir")
CONNECT = (
    "`ray dashboard clusters/gpu.yaml`, left running in another terminal, opens the way from a laptop; on the head "
    'itself Ray has to run with its dashboard (pip install "ray[default]")'
)
GET_TOKEN = (
    "`ray rsync-down clusters/gpu.yaml '~/.ray/auth_token' ~/.ray/tune-cd.token` brings it here; set RAY_AUTH_MODE to "
    "token and RAY_AUTH_TOKEN_PATH to the full path of that file (on the head RAY_AUTH_MODE is enough)"
)
HEADING = ("study", "status", "since (UTC)", "workers", "trials", "best", "user", "how it ended")
EPILOG = """\
The driver runs on the cluster's head, with the software installed there, and takes no trial's place; this machine is
not needed once the study is submitted. Paths are the cluster's. A cluster with a token needs RAY_AUTH_MODE=token and
RAY_AUTH_TOKEN_PATH here. Examples: clusters/README.md.
"""


def check_submission(argv: list[str], python: str = "python", working_dir: str | None = None) -> dict:
    """Check options of `tune_cd.run` as far as possible without the cluster; returns the arguments of `submit_job`.
    Raises ValueError naming what is wrong or missing; options that cannot be read end the process with status 2."""
    made, place = parse(argv), _check_paths(argv)
    if made.call.address is not None:
        raise ValueError(f"--address {made.call.address}: written in full it is the job server's, not the study's")
    if made.call.workers is None:
        shared = "the cluster is shared, and without a limit the first study keeps whatever becomes free to its end"
        raise ValueError(f"--workers is missing, the settings trained at a time: {shared}")
    study, total = _check_study(made)
    argv = list(argv) if made.call.study else [*argv, "--study", study]
    code = {} if working_dir is None else {"working_dir": str(Path(working_dir).resolve())}
    own = ["--python", python] * (python != "python")
    own += ["--working-dir", code["working_dir"]] if code else []
    again = ["python", "-m", "tune_cd.submit", "start", *own, *argv, *["--resume"] * (not made.call.resume)]
    metadata = {
        "study": study, "results": place, "workers": str(made.call.workers), "trials": str(total or "?"),
        "user": user(), "submitted_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", "again": shlex.join(again),
    }  # fmt: skip
    # exec: the study itself gets Ray's signals, and its exit status is the job's
    entrypoint = shlex.join(["exec", python, "-m", "tune_cd.run", "--address", "auto", *argv])
    runtime_env = code | {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}}
    return {"entrypoint": entrypoint, "metadata": metadata, "runtime_env": runtime_env, "entrypoint_num_cpus": 0}


def _check_paths(argv: list[str]) -> str:
    """The place of the results. Raises ValueError for paths that are none of the cluster's. They are read as they were
    typed, since `tune_cd.run` would make them absolute on this machine."""
    reader = argparse.ArgumentParser(add_help=False)
    for option in PATH_OPTIONS:
        reader.add_argument(option, action="append", default=[], dest=option)
    reader.add_argument("--set", nargs="+", action="extend", default=[])
    found = vars(reader.parse_known_args(argv)[0])
    found["--set weights="] = [text.partition("=")[2] for text in found.pop("set") if text.startswith("weights=")]
    for option, text in [(option, text) for option, texts in found.items() for text in texts]:
        if option == "--results":
            parse_location(text)
        known = option in ("--weights", "--set weights=") and text in ("none", "imagenet")
        if not (known or text.startswith(("/", "~")) or "://" in text):
            raise ValueError(f"{option} {text!r}: paths are those of the cluster's nodes: an absolute path or a URI")
    if not found["--results"]:
        where = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or the absolute path of a folder that all nodes mount"
        raise ValueError(f"--results is missing: {where}")
    return found["--results"][-1]


def _check_study(made: Request) -> tuple[str, int | None]:
    """(the study's name, its most trainings, None if the options do not determine them). Raises ValueError as
    `tune_cd.run` does without data and cluster."""
    config, call = made.config, made.call
    _ = config.space  # refuses an impossible box

    def checked(setup):
        name = study_name(call, setup)
        with contextlib.suppress(ImportError):  # the method may be installed on the cluster
            return name, None if call.resume else trainings_of(searches_of(config, setup))
        return name, None

    return config.first_form(checked)


def connect(given: str | None):
    """A client of the job server at the address given, the environment's, or a head's own. Raises ImportError without
    `ray[default]`, ConnectionError saying what to do if there is no server or its token is missing."""
    missing = [name for name in ("ray", "requests", "aiohttp") if find_spec(name) is None]
    if missing:
        raise ImportError(f'{", ".join(missing)} not installed: pip install "ray[default]" brings what jobs need')
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    address = given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ADDRESS)
    try:  # whether anything answers in time; what it answers Ray's client judges
        if address.startswith(("http://", "https://")):
            urllib.request.urlopen(f"{address.rstrip('/')}/api/version", timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, ValueError, HTTPException) as error:
        raise ConnectionError(f"nothing answers at {address} ({getattr(error, 'reason', error)}): {CONNECT}") from None
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(logging.WARNING)  # else a line for each log read
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray prefers this variable to the argument
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise ConnectionError(f"the cluster at {address} asks for a token, and {GET_TOKEN}") from None
    except (RuntimeError, ValueError, OSError) as error:  # another kind of server, or a Ray too old for jobs
        raise ConnectionError(f"{address} cannot be used: {error}") from error


def attempt_of(job) -> tuple[str, int] | None:
    """(study, number of the attempt) of a job, Ray's JobDetails; None if it is no study. A study's name has no ~."""
    prefix, *parts = (job.submission_id or "").split("~")
    return (parts[0], int(parts[1])) if prefix == "tune_cd" and len(parts) == 2 and parts[1].isdecimal() else None


def studies(client) -> dict:
    """Study -> the job of its last attempt; the latest first."""
    last = {attempt_of(job)[0]: job for job in sorted(filter(attempt_of, client.list_jobs()), key=attempt_of)}
    return dict(sorted(last.items(), key=lambda one: -(one[1].start_time or 0)))


def job_of(client, study: str):
    """The job of a study's last attempt. Raises ValueError naming the known studies if there is none."""
    known = studies(client)
    if study not in known:
        raise ValueError(f"no study {study!r} was submitted to this cluster; there are {', '.join(known) or 'none'}")
    return known[study]


def submit(client, request: dict):
    """Submit a study's next attempt; returns its job. Ray accepts a name once, so one of two simultaneous starts fails.
    Raises ValueError naming the owner of a running one, RuntimeError if the cluster refuses."""
    study = request["metadata"]["study"]

    def next_attempt() -> int:
        job = studies(client).get(study)
        if job and job.status in ALIVE:
            owner = "{user}, submitted at {submitted_at}, {workers} workers, ".format(**job.metadata) + str(job.status)
            follow = f"`python -m tune_cd.submit logs {study} -f` follows it, `stop` ends it"
            raise ValueError(f"study {study!r} is running ({owner}): {follow}")
        return attempt_of(job)[1] + 1 if job else 1

    name = f"tune_cd~{study}~{next_attempt()}"
    try:
        client.submit_job(submission_id=name, **request)
    except RuntimeError:
        next_attempt()  # another user may have started it meanwhile
        raise
    return client.get_job_info(name)


def wait(client, job, seconds: float = float("inf")):
    """Wait for a job to end; returns the ended job. Raises TimeoutError after `seconds`."""
    began = time.monotonic()
    while (now := client.get_job_info(job.submission_id)).status in ALIVE:
        if time.monotonic() - began >= seconds:
            raise TimeoutError(f"study {attempt_of(job)[0]!r} has not ended within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
    return now


def exit_status(job) -> int | None:
    """Of `tune_cd.run`; None while it runs, and if Ray does not know it. Ray keeps none of a job that was stopped."""
    return STOPPED if job.driver_exit_code is None and job.status == "STOPPED" else job.driver_exit_code


def ending(job) -> str:
    """How the attempt ended, in a few words; empty while it runs."""
    code = exit_status(job)
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    error = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
    if job.status in ALIVE:
        return ""
    if code is None:
        return error or "lost: the cluster knows no exit status"
    unknown = f"ended by signal {code - 128}" if code > 128 else "no exit status of tune_cd.run"
    return f"{code}: {MEANINGS.get(code, unknown)}{f': {error}' if error and code in (FAILED, BAD_INPUT) else ''}"


def progress(job, unreachable: set[str]) -> tuple[int | None, str]:
    """(full trainings' worth that is done, None if the table cannot be read from here; the best score), from the table.
    unreachable: stores that did not answer. Each is asked once, since it may take seconds to refuse."""
    place = job.metadata["results"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged files are for `python -m tune_cd.results verify` to name
            table = None if place in unreachable else results.read(place, attempt_of(job)[0])
    except FileNotFoundError:  # before the first row, or a folder that this machine does not mount
        table = None
    except (OSError, ValueError):
        unreachable.add(place)
        table = None
    if table is None:
        return None, "-"
    best = best_trial(table)
    done = int(runs_of(table)["share"].sum() + 1e-6)
    return done, "-" if best is None else f"{best['metric_name']} {best['val_score']:.4f}"


def line_of(job, unreachable: set[str]) -> tuple[str, ...]:
    """A study in the columns of HEADING. Of DONE/TOTAL trials, the total is the one at submission."""
    done, best = progress(job, unreachable)
    at = job.start_time if job.status in ALIVE else job.end_time or job.start_time
    since = f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M}" if at else "-"
    trials = f"{'?' if done is None else done}/{job.metadata['trials']}"
    named = since, job.metadata["workers"], trials, best, job.metadata["user"]
    return attempt_of(job)[0], str(job.status), *named, ending(job)


def log_of(client, job) -> str:
    """The job's output; "" if it has not begun, or its log is gone with its machine."""
    try:
        return client.get_job_logs(job.submission_id)
    except RuntimeError:
        return ""


def follow(client, job) -> None:
    """Print the job's output until it ends. Raises ConnectionError if the cluster no longer answers."""
    from aiohttp import ClientError

    async def copy() -> None:
        async for text in client.tail_job_logs(job.submission_id):
            print(text, end="", flush=True)

    try:
        asyncio.run(copy())
    except ClientError as error:
        said = f"the log of study {attempt_of(job)[0]} can no longer be followed ({error!r}); the study may well go on"
        raise ConnectionError(said) from error


def _start(options: argparse.Namespace, argv: list[str]) -> int:
    request = check_submission(argv, options.python, options.working_dir)
    client, said = connect(options.address), request["metadata"]
    job = submit(client, request)
    print(f"study {said['study']} is submitted as {job.submission_id}; results in {said['results']}")
    if not options.follow:
        print(f"follow it with: python -m tune_cd.submit logs {said['study']} -f", flush=True)
        return 0
    follow(client, job)
    return _ended(wait(client, job))


def _ended(job) -> int:
    """Print how a study ended; returns its exit status, FAILED if it has none."""
    print(f"study {attempt_of(job)[0]}: {job.status}, {ending(job)}", flush=True)
    status = exit_status(job)
    return FAILED if status is None else status


def _list(options: argparse.Namespace, _: list[str]) -> int:
    unreachable: set[str] = set()
    lines = [HEADING, *(line_of(job, unreachable) for job in studies(connect(options.address)).values())]
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines]
    print("\n".join(table) if len(lines) > 1 else "no study was submitted to this cluster")
    return 0


def _logs(options: argparse.Namespace, _: list[str]) -> int:
    client = connect(options.address)
    job = job_of(client, options.study)
    if options.follow:
        follow(client, job)
    else:
        print(log_of(client, job), end="")
    return 0


def _stop(options: argparse.Namespace, _: list[str]) -> int:
    client, study = connect(options.address), options.study
    before = job_of(client, study)
    asked, printed, began = before.status in ALIVE, len(log_of(client, before)), time.monotonic()
    if asked:
        client.stop_job(before.submission_id)
        print(f"study {study}: asked to end; running trainings are dropped, the last rows written", flush=True)
    job = wait(client, before, STOP_SECONDS + 30.0)  # by then Ray has killed it
    killed = asked and time.monotonic() - began >= STOP_SECONDS
    print(log_of(client, job)[printed:], end="")
    status = _ended(job)
    if killed:
        print(f"study {study}: killed, it did not end within {STOP_SECONDS} s; finished trials are in the table")
    cut_short = job.status in ("STOPPED", "FAILED") and status != BAD_INPUT and before.status != "PENDING"
    if cut_short and progress(job, set())[0] != 0:
        print(f"continue with: {job.metadata['again']}")
    return FAILED if killed or (asked and status not in (0, STOPPED)) else 0


COMMANDS = {
    "start": (_start, "submit a study: all options of `python -m tune_cd.run`; --results and --workers are required"),
    "list": (_list, "every study that was submitted, the latest first: status, trials, best score, how it ended"),
    "logs": (_logs, "the output of a study's last attempt"),
    "stop": (_stop, "end a study in good order, wait for it, and say how it is continued; also another user's"),
}


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. `start` passes unknown options on to `tune_cd.run`."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.submit", epilog=EPILOG,
        description="Run studies on a standing Ray cluster, several at once, and look after them by name.",
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    usage = "%(prog)s [--address URL] [--follow] [--working-dir DIR] [--python P] OPTIONS OF tune_cd.run"
    made = {}
    for name, (function, text) in COMMANDS.items():
        about = {"help": text, "description": f"{text[0].upper()}{text[1:]}.", "allow_abbrev": False}
        made[name] = commands.add_parser(name, **about, usage=usage if name == "start" else None)
        where = f"of the job server; default: ${', $'.join(VARIABLES)}, {ADDRESS}"
        made[name].add_argument("--address", metavar="URL", help=where)
        made[name].set_defaults(command=function)
        if name in ("logs", "stop"):
            made[name].add_argument("study", metavar="STUDY")
    start, follow = made["start"], "print its log until it ends"
    start.add_argument("--follow", action="store_true", help=f"{follow}; the exit status is its own")
    start.add_argument("--working-dir", metavar="DIR", help="code of this machine to send along; default: none")
    start.add_argument("--python", metavar="P", default="python", help="of the head; default: that of Ray's PATH")
    made["logs"].add_argument("-f", "--follow", action="store_true", help=follow)
    return top


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if a study did not end in good order, 2 for bad input or no
    cluster, 130 after Ctrl-C. `start --follow` returns the study's own."""
    options, unknown = parser().parse_known_args(argv)
    if unknown and options.command is not _start:
        parser().error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return options.command(options, unknown)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\nno longer watching; submitted studies go on")
        return INTERRUPTED
