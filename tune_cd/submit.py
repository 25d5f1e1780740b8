"""`python -m tune_cd.submit`: studies on a standing Ray cluster, as jobs of Ray's job server. See `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.submit")

import argparse
import logging
import os
import shlex
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from tune_cd.results.location import check_location
from tune_cd.results.redaction import redacted_output
from tune_cd.run.connection import answers
from tune_cd.run.fields import WEIGHTS
from tune_cd.run.lock import user
from tune_cd.run.options import parse, study_name
from tune_cd.run.searches import searches_of

FAILED, BAD_INPUT, STOPPED = 1, 2, 143
MEANINGS = {0: "finished", 1: "broke off, or no trial completed", 2: "refused before the first trial", 143: "stopped"}
"""Of the exit statuses of `tune_cd.run`."""
PREFIX, ALIVE = "tune_cd~", ("PENDING", "RUNNING")
PATHS = ("--results", "--data-root", "--weights", "weights", "--tune-dir")
AGENT_SECONDS = 60  # that a head may take after its start until it accepts jobs; Ray itself waits 10 s for it
STOP_SECONDS = 120  # for a study to end in good order; Ray's 3 s are too short for its last rows and its report
ADDRESS, VARIABLES = "http://127.0.0.1:8265", ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
CONNECT = "`ray dashboard clusters/gpu.yaml`, left running elsewhere, opens the way from a laptop; on the head itself "
CONNECT += 'Ray has to run with its dashboard (pip install "ray[default]")'
TOKEN = "`ray rsync-down clusters/gpu.yaml '~/.ray/auth_token' FILE` brings it here; set RAY_AUTH_MODE to token and "
TOKEN += "RAY_AUTH_TOKEN_PATH to the full path of FILE (on the head RAY_AUTH_MODE is enough)"
HEADING = ("study", "status", "since (UTC)", "workers", "user", "results", "how it ended")
EPILOG = """\
The driver runs on the cluster's head, with the software installed there, and takes no trial's place; this machine is
not needed once the study is submitted. Paths are the cluster's. A cluster with a token needs RAY_AUTH_MODE=token and
RAY_AUTH_TOKEN_PATH here. Examples: clusters/README.md.
"""


def check_submission(argv: list[str], python: str = "python", working_dir: str | None = None) -> dict:
    """Check options of `tune_cd.run` as far as possible without the cluster; returns the arguments of `submit_job`.
    Raises ValueError naming what is wrong or missing; options that cannot be read end the process with status 2."""
    made = parse(argv)
    place = made.call.results
    pairs = (*pairwise(argv), *(text.split("=", 1) for text in argv if "=" in text))  # `parse` makes paths absolute
    for option, text in (("--results", place), *pairs):
        there = text in WEIGHTS or text.startswith(("/", "~")) or "://" in text
        if option in PATHS and not there:
            said = "paths are those of the cluster's nodes: an absolute path or a URI such as s3://BUCKET/PREFIX"
            raise ValueError(f"{option} {text!r}: {said}")
    check_location(place)
    if made.call.workers is None:
        shared = "the cluster is shared, and without a limit the first study keeps whatever becomes free to its end"
        raise ValueError(f"--workers is missing, the settings trained at a time: {shared}")
    with suppress(ImportError):  # the method may be installed on the cluster
        made.config.first_form(lambda setup: searches_of(made.config, setup))
    study = made.config.first_form(lambda setup: study_name(made.call, setup))
    argv = list(argv) if made.call.study else [*argv, "--study", study]
    code = {} if working_dir is None else {"working_dir": str(Path(working_dir).resolve())}
    own = ["--python", python, *(["--working-dir", code["working_dir"]] if code else [])]
    again = ["python", "-m", "tune_cd.submit", "start", *own, *argv, *["--resume"] * (not made.call.resume)]
    metadata = {"study": study, "results": place, "user": user(), "workers": str(made.call.workers)}
    # exec: the study itself gets Ray's signals, and its exit status is the job's
    entrypoint = shlex.join(["exec", python, "-m", "tune_cd.run", "--address", "auto", *argv])
    runtime_env = code | {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}}
    return {
        "entrypoint": entrypoint, "metadata": metadata | {"again": shlex.join(again)}, "runtime_env": runtime_env,
        "entrypoint_num_cpus": 0,
    }  # fmt: skip


def connect(given: str | None):
    """A client of the job server at the address given, the environment's, or a head's own. Raises ConnectionError
    saying what to do if there is no server or its token is missing."""
    from ray import exceptions
    from ray.job_submission import JobSubmissionClient

    address = given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ADDRESS)
    if not answers(urlsplit(address).netloc or address):  # Ray would try for minutes
        raise ConnectionError(f"nothing answers at {address}: {CONNECT}")
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(logging.WARNING)  # else a line for each log read
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray prefers this variable to the argument
    try:
        return JobSubmissionClient(address)
    except (exceptions.RayError, RuntimeError, ValueError, OSError) as error:
        refusal = getattr(exceptions, "AuthenticationError", ())  # older releases of Ray have no tokens
        if isinstance(error, refusal) or "Unauthorized" in str(error):
            raise ConnectionError(f"the cluster at {address} asks for a token, and {TOKEN}") from None
        # another kind of server, or a Ray too old for jobs
        raise ConnectionError(f"{address} cannot be used: {error}; a job server's is such as {ADDRESS}") from error


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
        owner = "{user}, {workers} workers".format(**job.metadata)
        follow = f"`python -m tune_cd.submit logs {study} -f` follows it, `stop` ends it"
        raise ValueError(f"study {study!r} is running ({owner}, {job.status}): {follow}")
    attempt = int(job.submission_id.rpartition("~")[2]) + 1 if job else 1
    deadline = time.monotonic() + AGENT_SECONDS
    while True:
        try:
            return client.get_job_info(client.submit_job(submission_id=f"{PREFIX}{study}~{attempt}", **request))
        except RuntimeError as error:
            if "No available agent" not in str(error) or time.monotonic() > deadline:
                raise


def ending(job) -> tuple[int | None, str]:
    """(exit status of `tune_cd.run`, how the attempt ended in a few words). The status is None, and the text empty,
    while it runs; FAILED if Ray does not know it, as of a lost machine. Ray keeps none of a job that was stopped."""
    if job.status in ALIVE:
        return None, ""
    code = STOPPED if job.status == "STOPPED" else job.driver_exit_code
    if code is None:
        return FAILED, f"lost: {' '.join((job.message or 'the cluster knows no exit status').split())[-200:]}"
    code = 128 - code if code < 0 else code  # Ray's of a process that a signal ended
    return code, f"{code}: {MEANINGS.get(code, 'ended otherwise')}"


def watch(client, job, address: str | None, output: bool = False) -> int | None:
    """Wait for a job to end, with its output as it comes; prints how it ended and what continues it, and returns the
    exit status."""
    shown = 0
    while True:
        now = client.get_job_info(job.submission_id)
        text = client.get_job_logs(job.submission_id) if output else ""
        print(text[shown:], end="", flush=True)
        shown = len(text)
        if now.status not in ALIVE:
            break
        time.sleep(1.0)
    status, said = ending(now)
    print(f"study {job.metadata['study']}: {now.status}, {said}", flush=True)
    if status not in (0, BAD_INPUT):
        print(f"continue with: {job.metadata['again']}{typed(address)}", flush=True)
    return status


def typed(address: str | None) -> str:
    """The address given, for commands that are printed."""
    return f" --address {shlex.quote(address)}" if address else ""


def start(options: argparse.Namespace, argv: list[str]) -> int:
    request = check_submission(argv, options.python, options.working_dir)
    client, said = connect(options.address), request["metadata"]
    job = submit(client, request)
    print(f"study {said['study']} is submitted as {job.submission_id}; results in {said['results']}")
    print(f"follow it with: python -m tune_cd.submit logs {said['study']} -f{typed(options.address)}", flush=True)
    return 0


def list_studies(options: argparse.Namespace, _: list[str]) -> int:
    lines = [HEADING]
    for study, job in studies(connect(options.address)).items():
        since = f"{datetime.fromtimestamp((job.end_time or job.start_time) / 1000, UTC):%Y-%m-%d %H:%M}"
        said = (job.metadata[name] for name in ("workers", "user", "results"))
        lines.append((study, str(job.status), since, *said, ending(job)[1]))
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines]
    print("\n".join(table) if len(lines) > 1 else "no study was submitted to this cluster")
    return 0


def logs(options: argparse.Namespace, _: list[str]) -> int | None:
    """Print what a study has printed, with --follow until its end; the exit status is then the study's."""
    client = connect(options.address)
    job = job_of(client, options.study)
    if options.follow:
        return watch(client, job, options.address, output=True)
    print(client.get_job_logs(job.submission_id), end="")
    return 0


def stop(options: argparse.Namespace, _: list[str]) -> int | None:
    """Ask a study to end, and wait for it. Returns FAILED if it ended otherwise than asked."""
    client = connect(options.address)
    job = job_of(client, options.study)
    if asked := job.status in ALIVE:
        client.stop_job(job.submission_id)
        print(f"study {options.study}: asked to end; running trainings are dropped, the last rows written", flush=True)
    status = watch(client, job, options.address)
    return FAILED if asked and status not in (0, STOPPED) else 0


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. `start` passes unknown options on to `tune_cd.run`."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.submit", epilog=EPILOG,
        description="Run studies on a standing Ray cluster, several at once, and look after them by name.",
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    usage = "%(prog)s [--address URL] [--working-dir DIR] [--python P] OPTIONS OF tune_cd.run"
    for name, (function, text) in {
        "start": (start, "submit a study: all options of `tune_cd.run`; --results and --workers are required"),
        "list": (list_studies, "every submitted study, the latest first: status, results, how it ended"),
        "logs": (logs, "the output of a study's last attempt"),
        "stop": (stop, "end a study, also another user's, in good order, and say how it is continued"),
    }.items():
        one = commands.add_parser(name, help=text, allow_abbrev=False, usage=usage if name == "start" else None)
        where = f"of the job server; default: ${', $'.join(VARIABLES)}, {ADDRESS}"
        one.add_argument("--address", metavar="URL", help=where)
        one.set_defaults(command=function)
        if name in ("logs", "stop"):
            one.add_argument("study", metavar="STUDY")
    of_start, of_logs = commands.choices["start"], commands.choices["logs"]
    of_logs.add_argument("-f", "--follow", action="store_true", help="until it ends, with its exit status")
    of_start.add_argument("--working-dir", metavar="DIR", help="code of this machine to send along; default: none")
    of_start.add_argument("--python", metavar="P", default="python", help="of the head; default: that of Ray's PATH")
    return top


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if a study did not end in good order, 2 for bad input or no
    cluster. `logs -f` returns the study's own."""
    options, unknown = parser().parse_known_args(argv)
    if unknown and options.command is not start:
        parser().error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return options.command(options, unknown)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
