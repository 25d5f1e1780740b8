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
import warnings
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.analysis.runs import runs_of
from tune_cd.results.redaction import redacted_output
from tune_cd.run.config import Request
from tune_cd.run.connection import answers
from tune_cd.run.lock import user
from tune_cd.run.options import parse, study_name
from tune_cd.run.searches import searches_of, trainings_of

FAILED, BAD_INPUT, INTERRUPTED, STOPPED = 1, 2, 130, 143
MEANINGS = {0: "finished", 1: "broke off, or no trial completed", 2: "refused before the first trial",
            127: "no such Python on the cluster's head, see --python", 130: "interrupted", 143: "stopped"}  # fmt: skip
"""Of the exit statuses of `tune_cd.run`, and of a shell that does not find Python."""
PREFIX, ALIVE = "tune_cd~", ("PENDING", "RUNNING")
STOP_SECONDS = 120  # for a study to end in good order; Ray's 3 s are too short for its last rows and its report
ADDRESS, VARIABLES = "http://127.0.0.1:8265", ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
CONNECT = "`ray dashboard clusters/gpu.yaml`, left running elsewhere, opens the way from a laptop; on the head itself "
CONNECT += 'Ray has to run with its dashboard (pip install "ray[default]")'
TOKEN = "`ray rsync-down clusters/gpu.yaml '~/.ray/auth_token' FILE` brings it here; set RAY_AUTH_MODE to token and "
TOKEN += "RAY_AUTH_TOKEN_PATH to the full path of FILE (on the head RAY_AUTH_MODE is enough)"
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
    study, total = made.config.first_form(lambda setup: _study(made, setup))
    argv = list(argv) if made.call.study else [*argv, "--study", study]
    code = {} if working_dir is None else {"working_dir": str(Path(working_dir).resolve())}
    own = ["--python", python, *(["--working-dir", code["working_dir"]] if code else [])]
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
    for option in ("--results", "--data-root", "--weights", "--tune-dir"):
        reader.add_argument(option, dest=option)
    reader.add_argument("--set", nargs="+", action="extend", default=[])
    found = vars(reader.parse_known_args(argv)[0])
    for field, _, text in (one.partition("=") for one in found.pop("set")):
        found |= {"--set weights=": text} if field == "weights" else {}
    if not found["--results"]:
        where = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or the absolute path of a folder that all nodes mount"
        raise ValueError(f"--results is missing: {where}")
    for option, text in found.items():
        known = text is None or ("weights" in option and text in ("none", "imagenet"))
        if not (known or text.startswith(("/", "~")) or "://" in text):
            raise ValueError(f"{option} {text!r}: paths are those of the cluster's nodes: an absolute path or a URI")
    results.check_location(found["--results"])
    return found["--results"]


def _study(made: Request, setup) -> tuple[str, int | None]:
    """(the study's name, its most trainings, None if the options do not determine them). Raises ValueError as
    `tune_cd.run` does without data and cluster."""
    _, name = made.config.space, study_name(made.call, setup)  # refuses an impossible box
    with contextlib.suppress(ImportError):  # the method may be installed on the cluster
        return name, None if made.call.resume else trainings_of(searches_of(made.config, setup))
    return name, None


def connect(given: str | None):
    """A client of the job server at the address given, the environment's, or a head's own. Raises ConnectionError
    saying what to do if there is no server or its token is missing."""
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    address = given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ADDRESS)
    if not answers(urlsplit(address).netloc or address):  # Ray would try for minutes
        raise ConnectionError(f"nothing answers at {address}: {CONNECT}")
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(logging.WARNING)  # else a line for each log read
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray prefers this variable to the argument
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise ConnectionError(f"the cluster at {address} asks for a token, and {TOKEN}") from None
    except (RuntimeError, ValueError, OSError) as error:  # another kind of server, or a Ray too old for jobs
        raise ConnectionError(f"{address} cannot be used: {error}") from error


def studies(client) -> dict:
    """Study -> the job of its last attempt, Ray's JobDetails; the latest first."""
    jobs = [job for job in client.list_jobs() if (job.submission_id or "").startswith(PREFIX)]
    last: dict = {}
    for job in sorted(jobs, key=lambda job: job.start_time or 0, reverse=True):
        last.setdefault(job.metadata["study"], job)
    return last


def job_of(client, study: str):
    """The job of a study's last attempt. Raises ValueError naming the known studies if there is none."""
    known = studies(client)
    if study not in known:
        raise ValueError(f"no study {study!r} was submitted to this cluster; there are {', '.join(known) or 'none'}")
    return known[study]


def submit(client, request: dict):
    """Submit a study's next attempt; returns its job. Raises ValueError naming the owner of a running one, RuntimeError
    if the cluster refuses: Ray accepts a name once, so one of two simultaneous starts fails."""
    study = request["metadata"]["study"]
    job = studies(client).get(study)
    if job and job.status in ALIVE:
        owner = "{user}, submitted at {submitted_at}, {workers} workers".format(**job.metadata)
        follow = f"`python -m tune_cd.submit logs {study} -f` follows it, `stop` ends it"
        raise ValueError(f"study {study!r} is running ({owner}, {job.status}): {follow}")
    attempt = int(job.submission_id.rpartition("~")[2]) + 1 if job else 1
    return client.get_job_info(client.submit_job(submission_id=f"{PREFIX}{study}~{attempt}", **request))


def ending(job) -> tuple[int | None, str]:
    """(exit status of `tune_cd.run`, how the attempt ended in a few words). The status is None, and the text empty,
    while it runs; FAILED if Ray does not know it, as of a lost machine. Ray keeps none of a job that was stopped."""
    if job.status in ALIVE:
        return None, ""
    code = STOPPED if job.status == "STOPPED" else job.driver_exit_code
    lines = [line.strip() for line in (job.message or "").splitlines() if line.strip()]
    error = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
    if code is None:
        return FAILED, error or "lost: the cluster knows no exit status"
    code = 128 - code if code < 0 else code  # Ray's of a process that a signal ended
    meaning = MEANINGS.get(code, f"ended by signal {code - 128}" if code > 128 else "no exit status of tune_cd.run")
    return code, f"{code}: {meaning}{f': {error}' if error and code in (FAILED, BAD_INPUT) else ''}"


def wait(client, job) -> tuple[int | None, str]:
    """Wait for a job to end; prints and returns its `ending`."""
    while (now := client.get_job_info(job.submission_id)).status in ALIVE:
        time.sleep(1.0)
    print(f"study {job.metadata['study']}: {now.status}, {ending(now)[1]}", flush=True)
    return ending(now)


def progress(job) -> tuple[str, str]:
    """(full trainings' worth that is done, the best score), from the table, if it can be read from here."""
    with contextlib.suppress(OSError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged files are for `python -m tune_cd.results compact` to name
        table = results.read(job.metadata["results"], job.metadata["study"])
        best, done = best_trial(table), int(runs_of(table)["share"].sum() + 1e-6)
        return f"{done}", "-" if best is None else f"{best['metric_name']} {best['val_score']:.4f}"
    return "?", "-"


def follow(client, job) -> None:
    """Print the job's output until it ends. Raises ConnectionError if the cluster no longer answers."""
    from aiohttp import ClientError

    async def copy() -> None:
        async for text in client.tail_job_logs(job.submission_id):
            print(text, end="", flush=True)

    try:
        asyncio.run(copy())
    except ClientError as error:
        said = f"the log can no longer be followed ({error!r}); the study may well go on"
        raise ConnectionError(said) from error


def start(options: argparse.Namespace, argv: list[str]) -> int | None:
    request = check_submission(argv, options.python, options.working_dir)
    client, said = connect(options.address), request["metadata"]
    job = submit(client, request)
    print(f"study {said['study']} is submitted as {job.submission_id}; results in {said['results']}")
    if options.follow:
        follow(client, job)
        return wait(client, job)[0]
    print(f"follow it with: python -m tune_cd.submit logs {said['study']} -f", flush=True)
    return 0


def list_studies(options: argparse.Namespace, _: list[str]) -> int:
    """Of DONE/TOTAL trials, the total is the one at submission."""
    lines = [HEADING]
    for study, job in studies(connect(options.address)).items():
        (done, best), said = progress(job), job.metadata
        since = f"{datetime.fromtimestamp((job.end_time or job.start_time) / 1000, UTC):%Y-%m-%d %H:%M}"
        numbers = since, said["workers"], f"{done}/{said['trials']}", best
        lines.append((study, str(job.status), *numbers, said["user"], ending(job)[1]))
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines]
    print("\n".join(table) if len(lines) > 1 else "no study was submitted to this cluster")
    return 0


def logs(options: argparse.Namespace, _: list[str]) -> int:
    """Print what a study has printed, with --follow until its end."""
    client = connect(options.address)
    job = job_of(client, options.study)
    if options.follow:
        follow(client, job)
    else:
        print(client.get_job_logs(job.submission_id), end="")
    return 0


def stop(options: argparse.Namespace, _: list[str]) -> int | None:
    """Ask a study to end, and wait for it. Returns FAILED if it had to be killed, or ended otherwise than asked."""
    client, study = connect(options.address), options.study
    before, began = job_of(client, study), time.monotonic()
    asked = before.status in ALIVE
    if asked:
        client.stop_job(before.submission_id)
        print(f"study {study}: asked to end; running trainings are dropped, the last rows written", flush=True)
    status, _ = wait(client, before)
    if killed := asked and time.monotonic() - began >= STOP_SECONDS:
        print(f"study {study}: killed, it did not end within {STOP_SECONDS} s; finished trials are in the table")
    if status not in (0, BAD_INPUT) and before.status != "PENDING" and progress(before)[0] != "0":
        print(f"continue with: {before.metadata['again']}")
    return FAILED if killed or (asked and status not in (0, STOPPED)) else 0


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. `start` passes unknown options on to `tune_cd.run`."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.submit", epilog=EPILOG,
        description="Run studies on a standing Ray cluster, several at once, and look after them by name.",
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    usage = "%(prog)s [--address URL] [--follow] [--working-dir DIR] [--python P] OPTIONS OF tune_cd.run"
    for name, function, text in (
        ("start", start, "submit a study: all options of `tune_cd.run`; --results and --workers are required"),
        ("list", list_studies, "every submitted study, the latest first: status, trials, best score, how it ended"),
        ("logs", logs, "the output of a study's last attempt"),
        ("stop", stop, "end a study, also another user's, in good order, and say how it is continued"),
    ):
        one = commands.add_parser(name, help=text, allow_abbrev=False, usage=usage if name == "start" else None)
        where = f"of the job server; default: ${', $'.join(VARIABLES)}, {ADDRESS}"
        one.add_argument("--address", metavar="URL", help=where)
        one.set_defaults(command=function)
        if name in ("logs", "stop"):
            one.add_argument("study", metavar="STUDY")
    commands.choices["logs"].add_argument("-f", "--follow", action="store_true", help="print it until it ends")
    of_start = commands.choices["start"]
    of_start.add_argument("--follow", action="store_true", help="print its log; the exit status is the study's")
    of_start.add_argument("--working-dir", metavar="DIR", help="code of this machine to send along; default: none")
    of_start.add_argument("--python", metavar="P", default="python", help="of the head; default: that of Ray's PATH")
    return top


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if a study did not end in good order, 2 for bad input or no
    cluster, 130 after Ctrl-C. `start --follow` returns the study's own."""
    options, unknown = parser().parse_known_args(argv)
    if unknown and options.command is not start:
        parser().error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return options.command(options, unknown)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\nno longer watching; submitted studies go on")
        return INTERRUPTED
