"""`python -m tune_cd.submit`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.submit.__main__")

import argparse
import asyncio
import sys

from tune_cd.results.terminal import redacted_output
from tune_cd.submit import jobs as studies
from tune_cd.submit.connection import ADDRESS, VARIABLES, connect
from tune_cd.submit.jobs import STOPPED_STATUS, Job

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

EPILOG = """\
examples:
  python -m tune_cd.submit start --study mine --dataset omniglot --download --results s3://bucket/prefix --workers 4
  python -m tune_cd.submit list
  python -m tune_cd.submit logs mine -f
  python -m tune_cd.submit stop mine
The driver runs on the cluster's head, with the software installed there, and takes no trial's place; this machine is
not needed once the study is submitted. Paths are the cluster's. A cluster with a token needs RAY_AUTH_MODE=token and
RAY_AUTH_TOKEN_PATH here.
"""
START = "submit a study: all options of `python -m tune_cd.run`, of which --results and --workers are required"
HELP = {
    "start": START,
    "list": "every study that was submitted, the latest first: status, trials, best score, how it ended",
    "status": "the same of one study, in full",
    "logs": "the output of a study's last attempt",
    "stop": "end studies in good order, wait for it, and say how each is continued; also those of other users",
}
START_USAGE = "%(prog)s [--address URL] [--follow] [--working-dir DIR] [--python P] OPTIONS OF tune_cd.run"


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


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. `start` passes unknown options on to `tune_cd.run`."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.submit", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run studies on a standing Ray cluster, several at once, and look after them by name.",
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    functions = {"start": _start, "list": _list, "status": _status, "logs": _logs, "stop": _stop}
    made = {}
    for name, text in HELP.items():
        made[name] = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False,
            usage=START_USAGE if name == "start" else None,
        )  # fmt: skip
        made[name].add_argument(
            "--address", metavar="URL", help=f"of the job server; default: ${', $'.join(VARIABLES)}, {ADDRESS}"
        )  # fmt: skip
        made[name].set_defaults(command=functions[name])
    start, logs = made["start"], made["logs"]
    start.add_argument("--follow", action="store_true", help="print its log until it ends; the exit status is its own")
    start.add_argument("--working-dir", metavar="DIR", help="code of this machine to send along; default: none")
    start.add_argument("--python", metavar="P", default="python", help="of the head; default: that of Ray's PATH")
    for one in (made["status"], logs):
        one.add_argument("study", metavar="STUDY")
    logs.add_argument("-f", "--follow", action="store_true", help="go on printing until it ends")
    made["stop"].add_argument("study", metavar="STUDY", nargs="+")
    return top


def _start(options: argparse.Namespace, argv: list[str]) -> int:
    from tune_cd.submit.submission import check_submission

    submission = check_submission(argv, options.python, options.working_dir)
    client = connect(options.address)
    latest = studies.latest_of_each(studies.all_jobs(client))
    job = studies.start(client, submission)
    settings = f"{submission.workers} setting{'s' * (submission.workers != 1)} at a time"
    print(f"study {job.study} is submitted as {job.id}, {settings}; results in {submission.results}")
    for other in latest:
        if other.alive and other.study != job.study:
            print(f"running as well: {other.study} ({other.owner}); trials without a free place wait for theirs")
    if not options.follow:
        print(f"follow it with: python -m tune_cd.submit logs {job.study} -f", flush=True)
        return 0
    _follow(client, job)
    return _ended(studies.wait(client, [job])[job][0])


def _ended(job: Job) -> int:
    """Print how a study ended; returns its exit status, FAILED if it has none."""
    from tune_cd.submit.status import ending

    print(f"study {job.study}: {job.status}, {ending(job)}", flush=True)
    return FAILED if job.exit_status is None else job.exit_status


def _list(options: argparse.Namespace, _: list[str]) -> int:
    from tune_cd.submit.status import HEADING, aligned, overview

    latest = studies.latest_of_each(studies.all_jobs(connect(options.address)))
    print(aligned([HEADING, *overview(latest)]) if latest else "no study was submitted to this cluster")
    return 0


def _status(options: argparse.Namespace, _: list[str]) -> int:
    from tune_cd.submit.status import aligned, details

    found = studies.attempts(connect(options.address), options.study)
    print(aligned(details(found)))
    _say_how_to_continue(found[0])
    return 0


def _logs(options: argparse.Namespace, _: list[str]) -> int:
    client = connect(options.address)
    job = studies.attempts(client, options.study)[0]
    if options.follow:
        _follow(client, job)
    else:
        print(_log(client, job), end="")
    return 0


def _stop(options: argparse.Namespace, _: list[str]) -> int:
    from tune_cd.submit.submission import STOP_SECONDS

    client = connect(options.address)
    found = [studies.attempts(client, study)[0] for study in dict.fromkeys(options.study)]
    printed = {job: len(_log(client, job)) for job in found if job.alive}
    for job in printed:
        client.stop_job(job.id)
        print(f"study {job.study}: asked to end; running trainings are dropped, the last rows written", flush=True)
    ended = studies.wait(client, found, STOP_SECONDS + 30.0)  # by then Ray has killed them
    statuses = [0]
    for before in found:
        job, seconds = ended[before]
        print(_log(client, job)[printed.get(before, 0) :] if before in printed else "", end="")
        status = _ended(job)
        killed = before in printed and seconds >= STOP_SECONDS
        if killed:
            print(
                f"study {job.study}: killed, it did not end within {STOP_SECONDS} s; finished trials are in the table"
            )
        if before.status != "PENDING":
            _say_how_to_continue(job)
        statuses.append(FAILED if killed or (before in printed and status not in (0, STOPPED_STATUS)) else 0)
    return max(statuses)


def _say_how_to_continue(job: Job) -> None:
    """Print the command that continues a study which was cut short, unless its table is known to be empty."""
    from tune_cd.submit.status import progress_of

    cut_short = job.status in ("STOPPED", "FAILED") and job.code != BAD_INPUT and "again" in job.metadata
    if cut_short and progress_of(job, set()).done != 0:
        print(f"continue with: {job.metadata['again']}")


def _log(client, job: Job) -> str:
    """The job's output; "" if it has not begun, or its log is gone with its machine."""
    try:
        return client.get_job_logs(job.id)
    except RuntimeError:
        return ""


def _follow(client, job: Job) -> None:
    """Print the job's output until it ends. Raises ConnectionError if the cluster no longer answers."""
    from aiohttp import ClientError

    async def copy() -> None:
        async for text in client.tail_job_logs(job.id):
            print(text, end="", flush=True)

    try:
        asyncio.run(copy())
    except ClientError as error:
        raise ConnectionError(
            f"the log of study {job.study} can no longer be followed ({error!r}); the study may well go on"
        ) from error
