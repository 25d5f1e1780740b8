"""`python -m tune_cd.run`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.run.__main__", "checking the options and the data ...")

import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path

from tune_cd.process import UNREAD
from tune_cd.results.location import is_uri
from tune_cd.results.redaction import redact, redacted_output
from tune_cd.run.config import Call, Request
from tune_cd.run.ending import ENDING
from tune_cd.run.options import idle_options, parse

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
LEAVING = 15.0  # seconds that a run which did not come to its end waits for Ray to disconnect


@redacted_output()
def main(argv: list[str] | None = None) -> int:
    """Run a study; returns the exit status: 0, 1 if no trial completed or the run broke off, 2 for bad input (before
    any trial), 130, 143 or 129 when ended by Ctrl-C, SIGTERM or SIGHUP, 141 where nobody reads the output."""
    try:
        request = parse(argv)  # before the imports below, which take seconds
        absent = _absent(request.call)
    except (ValueError, OSError) as error:
        return _refuse(error)
    with ENDING.heeded():
        try:
            return _checked(request)
        except KeyboardInterrupt:  # before the trials; `_run` prints more
            print("interrupted", flush=True)
            return ENDING.status
        finally:
            for folder in absent:
                with suppress(OSError):  # there may be something in it by now
                    folder.rmdir()


def _absent(call: Call) -> list[Path]:
    """The folders that this call would be the first to need, inner ones first. They are removed if they stay empty."""
    places = [Path(os.path.expanduser(place)) for place in (call.results, call.tune_dir) if place and not is_uri(place)]
    return [folder for place in places for folder in (place / "studies", place, *place.parents) if not folder.exists()]


def _checked(request: Request) -> int:
    with ENDING.at_once():
        from tune_cd.results.study_files import DRIVER
        from tune_cd.run import preflight
        from tune_cd.run.lock import StudyLock

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("trainables").setLevel(logging.INFO)  # shows downloads, which take long
    logging.getLogger("tensorboardX").setLevel(logging.ERROR)  # `Progress` reports diverged trials
    try:
        study = preflight.check_study(request)
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:  # torch's: it cannot build a network
        return _refuse(error)
    for warning in idle_options(request):
        print(f"warning: {warning}", file=sys.stderr)
    with ENDING.at_once():
        import tune_cd.run.trials  # noqa: F401  with Ray, which takes long
    lock, status = StudyLock(study.store, study.file(DRIVER)), EXIT_BAD_INPUT
    try:
        try:
            study, train = _prepared(study, lock)
        except (ValueError, OSError, ImportError) as error:
            return _refuse(error)
        status = 0 if train is None else _run(study, lock, train)
        return status
    finally:
        _leave(status, lock)
        lock.release()
        if isinstance(study.results, Path):
            with suppress(OSError):  # it holds nothing if the study was refused
                study.store.where(study.file("")).rmdir()


def _prepared(study, lock) -> tuple:
    """Connect to the cluster and check it, and announce the study; returns it with its set-up there, and what trains
    it, None for --dry-run. Raises ValueError, OSError or ImportError."""
    from tune_cd.cluster.capacity import alive_nodes
    from tune_cd.run import cluster, preflight
    from tune_cd.run.announcement import announce
    from tune_cd.run.budget import Meter
    from tune_cd.run.connection import connect
    from tune_cd.run.estimate import estimate
    from tune_cd.run.resources import check_resources
    from tune_cd.run.screen import fold

    call = study.call
    if not call.dry_run:
        lock.acquire()
    connect(call.address, call.verbose, lambda said: _end_now(lock, _refuse(said)))
    alive, growth = alive_nodes(), cluster.growth_of(call.address)
    here = [node["Resources"] for node in alive]
    most = max(search.num_samples for search in study.searches)
    resources = check_resources(study.config, call, here, growth, most)
    meter = Meter(call.budget, resources.processes, resources.gpus)
    study = preflight.with_form(study, study.config.setup or ("paper" if resources.gpus else "small"))
    announce(study, resources)
    if call.dry_run:
        types = [*here, *(kind.resources for kind in growth.types)]
        print("\n".join(map(fold, estimate(study, resources, types))), flush=True)
    nodes = cluster.nodes_of(study, resources)
    for line in cluster.look_at(nodes, alive, growth, study.results):
        print(fold(redact(line)), flush=True)
    watching = partial(cluster.watching, study, resources, growth, nodes)
    return study, None if call.dry_run else partial(_train, study, lock, resources, meter, watching)


def _train(study, lock, resources, meter, watching) -> None:
    from tune_cd.run.cluster import guarded
    from tune_cd.run.searches import groups_of
    from tune_cd.run.study import store_config, tidy
    from tune_cd.run.trials import run_searches

    def give_up() -> None:
        _break_off(study, lock, ENDING.reason)
        _said(study)
        _end_now(lock, EXIT_FAILED)

    store_config(study)
    with guarded(give_up), watching() as load:
        for searches in groups_of(study.searches):
            run_searches(study, searches, resources, load, meter)
    tidy(study)
    lock.check()


def _run(study, lock, train: Callable[[], None]) -> int:
    """Train, print the summary, and say how to continue; returns the exit status."""
    try:
        return _ended(study, lock, _trained(study, lock, train))
    except SystemExit:  # nobody reads stdout
        with redirect_stdout(sys.stderr):
            print("nobody reads the output: interrupted; every finished trial is in the table")
            return _ended(study, lock, UNREAD)


def _trained(study, lock, train: Callable[[], None]) -> int:
    from ray.exceptions import RayError
    from ray.tune import TuneError

    error: Exception | str | None = None
    try:
        train()
    except KeyboardInterrupt:
        if ENDING.reason is None:
            print("\ninterrupted: every finished trial is in the table", flush=True)
            return ENDING.status
    except (OSError, TuneError, RayError) as broken:
        error = broken
    error = lock.lost or ENDING.reason or error
    return 0 if error is None else _break_off(study, lock, error)


def _break_off(study, lock, error: Exception | str | None) -> int:
    print(redact(f"error: {error}\nthe study broke off; finished trials are in the table"), file=sys.stderr)
    if ENDING.reason and not lock.lost:
        _say_continue(study)  # at once, since Ray may end this process any moment
    return EXIT_FAILED


def _ended(study, lock, status: int) -> int:
    """Print the summary, write the report, and say how to continue; returns the exit status."""
    try:
        found = _said(study)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        status, found = status or ENDING.status, True
    if status and not (lock.lost or ENDING.reason):
        _say_continue(study)
    return status or EXIT_FAILED * (not found)


def _say_continue(study) -> None:
    named = [f"--study={study.name}"] if study.name.startswith("-") else ["--study", study.name]
    again = ["python", "-m", "tune_cd.run", "--results", str(study.results), *named, "--resume"]
    print(f"continue with: {shlex.join(again)}", flush=True)


def _said(study) -> bool:
    """Print the summary, draw the picture and write the report, each whether or not the others can be made; returns
    whether a trial has completed."""
    from tune_cd import results
    from tune_cd.analysis import best_trial
    from tune_cd.report.writing import write_report
    from tune_cd.run import summary

    try:
        table = results.read(study.results, study.name)
    except OSError as error:
        print(redact(f"error: the results cannot be used now: {error}"), file=sys.stderr)
        return False
    found = best_trial(table) is not None
    made = {"": lambda: summary.summarise(study), "picture: ": lambda: summary.draw(study, table)}
    made |= {"report:  ": lambda: write_report(study.results, study.name)}
    for head, make in made.items():
        if found or head != "picture: ":
            try:
                print(f"{head}{make()}", flush=True)
            except Exception as error:  # any error
                print(redact(f"{head or 'summary: '}could not be made: {type(error).__name__}: {error}"), flush=True)
    return found


def _refuse(error: Exception | str) -> int:
    print(redact(f"error: {error}"), file=sys.stderr, flush=True)
    return EXIT_BAD_INPUT


def _leave(status: int, lock) -> None:
    """Disconnect from Ray. Unless all went well, end the process if that takes longer than LEAVING: a signal to the
    process group, as by `timeout`, also ends a Ray that was started here. All results are written by then."""
    import ray

    late = threading.Timer(LEAVING, _end_now, (lock, status))
    late.daemon = True
    if status != 0:
        late.start()
    ray.shutdown()
    late.cancel()


def _end_now(lock, status: int) -> None:
    lock.release()
    sys.stdout.flush()
    os._exit(status)
