"""`python -m tune_cd.submit`: see `--help`."""

import argparse
import asyncio
import os
import sys

from tune_cd.results.redaction import redact
from tune_cd.submit import jobs as studies
from tune_cd.submit.connection import ADDRESS, connect, version_note
from tune_cd.submit.jobs import Job

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

EPILOG = """\
examples:
  python -m tune_cd.submit start --study mine --dataset omniglot --download --results s3://bucket/prefix --workers 4
  python -m tune_cd.submit list
  python -m tune_cd.submit logs mine -f
  python -m tune_cd.submit stop mine
The driver runs on the cluster's head, with what is installed there and takes no trial's place; nothing of this machine is
needed once it is queued. Paths are the cluster's. A cluster with a token needs RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH here.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 1 if a study did not end in good order, 2 for bad input or no cluster;
    `start --wait` and `--follow` the study's own."""
    options, unknown = parser().parse_known_args(argv)
    if unknown and options.command is not _start:
        parser().error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return options.command(options, unknown)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone, as `| head` does
            return 0
        print(redact(f"error: {error}"), file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("\nno longer watching; what was submitted goes on")
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """The commands. Those of `start` that it does not know are `tune_cd.run`'s."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.submit", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run studies on a standing Ray cluster, several at once, and look after them by name.",
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    described = {
        "start": (
            _start,
            "queue a study: all options of `python -m tune_cd.run`, of which --results and --workers are required",
        ),
        "list": (_status, "every study that was submitted, the latest first: status, trials, best score, how it ended"),
        "status": (_status, "the same of one study, in full"),
        "logs": (_logs, "what a study's last attempt has printed"),
        "stop": (
            _stop,
            "end studies in good order, wait for it, and say how each goes on; other people's are not spared",
        ),
    }
    made = {}
    for name, (command, text) in described.items():
        made[name] = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
        )
        made[name].add_argument(
            "--address",
            metavar="URL",
            help=f"of the job server; default: $RAY_API_SERVER_ADDRESS, $RAY_ADDRESS, {ADDRESS}",
        )
        made[name].set_defaults(command=command, study=None)
    made[
        "start"
    ].usage = "%(prog)s [--address URL] [--wait | --follow] [--working-dir DIR] [--python P] OPTIONS OF tune_cd.run"
    waiting = made["start"].add_mutually_exclusive_group()
    waiting.add_argument("--wait", action="store_true", help="until the study has ended; the exit status is its own")
    waiting.add_argument("--follow", action="store_true", help="the same, and print its log meanwhile")
    made["start"].add_argument(
        "--working-dir", metavar="DIR", help="of this machine, sent along, for --set network=module:function; default: none",
    )  # fmt: skip
    made["start"].add_argument(
        "--python", metavar="P", default="python", help="of the cluster's head; default: the first on the PATH that Ray was started with",
    )  # fmt: skip
    made["status"].add_argument("study", metavar="STUDY", nargs="?", help="default: all, as list")
    made["logs"].add_argument("study", metavar="STUDY")
    made["logs"].add_argument("-f", "--follow", action="store_true", help="and what it prints until it ends")
    made["logs"].add_argument("--tail", metavar="N", type=_lines, help="the last N lines alone")
    made["stop"].add_argument("study", metavar="STUDY", nargs="+")
    return top


def _lines(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: 0, 1, 2, ...")
    return int(text)


def _start(options: argparse.Namespace, argv: list[str]) -> int:
    from tune_cd.submit.request import check_request

    request = check_request(argv, options.python, options.working_dir)
    client = connect(options.address)
    note = version_note(client)
    if note is not None:
        print(f"note: {note}", file=sys.stderr)
    others = [
        job for job in studies.latest_of_each(studies.all_jobs(client)) if job.alive and job.study != request.study
    ]
    job = studies.start(client, request)
    print(
        f"study {job.study} is queued as {job.id}, {_settings(request.workers)} at a time; results in {request.results}"
    )
    for other in others:
        print(
            f"beside it: {other.study} ({other.who}); where there are not places for all, who comes later waits until an earlier one ends"
        )
    if options.follow:
        _follow(client, job)
    elif not options.wait:
        print(f"follow it with: python -m tune_cd.submit logs {job.study} -f", flush=True)
        return 0
    return _ended(client, studies.wait(client, job))


def _ended(client, job: Job) -> int:
    """Say how a study ended; its exit status, and FAILED where it has none."""
    from tune_cd.submit.standing import ending

    log = _log(client, job)
    print(f"study {job.study}: {job.status}, {ending(job, log)}", flush=True)
    code = studies.exit_status(job, log)
    return FAILED if code is None else code


def _status(options: argparse.Namespace, _: list[str]) -> int:
    from tune_cd.submit.standing import aligned, card, rows_of

    client = connect(options.address)
    if options.study is not None:
        found = studies.attempts(client, options.study)
        log = _log(client, found[0])
        print(card(found, log))
        _say_how_it_goes_on(found[0], log)
        return 0
    latest = studies.latest_of_each(studies.all_jobs(client))
    print(
        aligned(rows_of([(job, _log(client, job)) for job in latest]))
        if latest
        else "no study was submitted to this cluster"
    )
    return 0


def _logs(options: argparse.Namespace, _: list[str]) -> int:
    client = connect(options.address)
    job = studies.attempts(client, options.study)[0]
    log = _log(client, job)
    shown = log if options.tail is None else "".join(log.splitlines(keepends=True)[-options.tail or len(log) :])
    print(shown, end="", flush=True)
    if options.follow:
        _follow(client, job, skip=len(log))
    return 0


def _stop(options: argparse.Namespace, _: list[str]) -> int:
    client = connect(options.address)
    found = [studies.attempts(client, study)[0] for study in dict.fromkeys(options.study)]
    said = {job: len(_log(client, job)) for job in found if job.alive}
    for job in said:
        studies.stop(client, job)
        print(f"study {job.study}: asked to end; its running trainings are dropped, its last rows written", flush=True)
    return max(_stopped(client, job, said.get(job)) for job in found)


def _stopped(client, job: Job, said: int | None) -> int:
    """Wait for a study; FAILED if it did not end in good order.

    said: characters of its log when it was asked to end, None for one that had ended before.
    """
    from tune_cd.submit.standing import ending, has_begun

    job = studies.wait(client, job, studies.STOP_PATIENCE)
    log = _log(client, job)
    if said is not None:
        print(log[said:], end="")
    print(f"study {job.study}: {job.status}, {ending(job, log)}")
    _say_how_it_goes_on(job, log)
    return 0 if said is None or not has_begun(log) or studies.exit_status(job, log) in (0, 143) else FAILED


def _say_how_it_goes_on(job: Job, log: str) -> None:
    from tune_cd.submit.standing import has_begun

    if job.status in ("STOPPED", "FAILED") and has_begun(log) and "again" in job.metadata:
        print(f"continue with: {job.metadata['again']}")


def _settings(number: int) -> str:
    return "1 setting" if number == 1 else f"{number} settings"


def _log(client, job: Job) -> str:
    """What a job has printed; nothing where that is gone with its machine, or has not begun."""
    try:
        return client.get_job_logs(job.id)
    except RuntimeError:
        return ""


def _follow(client, job: Job, skip: int = 0) -> None:
    """Print what a job prints, until it ends; not the first characters, which have been seen.

    Raises ConnectionError where the cluster no longer answers."""
    from aiohttp import ClientError

    async def copy() -> None:
        seen = 0
        async for text in client.tail_job_logs(job.id):
            print(text[max(0, skip - seen) :], end="", flush=True)
            seen += len(text)

    try:
        asyncio.run(copy())
    except ClientError as error:
        raise ConnectionError(
            f"the log of study {job.study} can no longer be followed ({error!r}); the study may well go on"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
