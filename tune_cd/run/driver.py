"""Drives a checked study: connects to its cluster, announces it, trains its searches, and prints the summary."""

import shlex
import signal
import sys

import ray
from ray.exceptions import RayError
from ray.tune import TuneError

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.report import writing
from tune_cd.run import connection, summary
from tune_cd.run.announcement import announce, estimate
from tune_cd.run.budget import Meter
from tune_cd.run.cluster import Cluster
from tune_cd.run.ending import ENDING
from tune_cd.run.lock import StudyLock
from tune_cd.run.screen import say
from tune_cd.run.searches import groups_of
from tune_cd.run.study import Study, store_config
from tune_cd.run.trials import run_searches, tidy

FAILED, BAD_INPUT = 1, 2  # exit statuses


def drive(study: Study) -> int:
    """Run a study; with --dry-run say what would be run. Returns the exit status, see `main`."""
    lock, status, call = StudyLock(study.store, study.name), BAD_INPUT, study.call
    with ENDING.heeded():
        try:
            if not call.dry_run:
                lock.acquire()
            connection.connect(call.address, call.verbose)
            ENDING.heed()  # after Ray, which sets a handler of its own
            cluster = Cluster(study)
            meter = Meter(call.budget, cluster.resources.together, cluster.resources.gpus)
            announce(cluster.study, cluster.resources)
            estimated = estimate(cluster.study, cluster.resources) if call.dry_run else ()
            for line in (*estimated, *cluster.check()):
                say(line)
            status = 0 if call.dry_run else _run(cluster, meter, lock)
        except (ValueError, OSError, ImportError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            status = ENDING.status
        except SystemExit as end:
            if end.code != signal.SIGTERM:  # Ray's handler while it starts exits with the signal's number
                raise
            print("interrupted", flush=True)
            status = 128 + signal.SIGTERM
        finally:
            ray.shutdown()
            lock.release()
    return status


def _run(cluster: Cluster, meter: Meter, lock: StudyLock) -> int:
    """Train, print the summary, and say how to continue; returns the exit status."""
    study, status = cluster.study, 0

    def broken() -> str | None:
        return lock.lost or next(iter(cluster.nodes.apart), None)

    try:
        store_config(study)
        with cluster.watched() as load:
            for searches in groups_of(study.searches):
                run_searches(study, searches, cluster.resources, load, meter, broken)
        tidy(study)
        if lock.check() is not None:
            raise OSError(lock.lost)
    except KeyboardInterrupt:
        print("\ninterrupted: every finished trial is in the table", flush=True)
        status = ENDING.status
    except (OSError, TuneError, RayError) as error:
        said = f"error: {lock.lost or error}\nthe study broke off; finished trials are in the table"
        print(said, file=sys.stderr, flush=True)
        status = FAILED
    ray.shutdown()  # without its head, as after `timeout`'s signals to all, Ray ends this process within a minute
    found = _tell(study)
    if status and lock.lost is None:
        again = ["python", "-m", "tune_cd.run", "--results", str(study.results), "--study", study.name, "--resume"]
        print(f"continue with: {shlex.join(again)}", flush=True)
    return status or FAILED * (not found)


def _tell(study: Study) -> bool:
    """Print the summary, draw the picture and write the report, each whether or not the others can be made; returns
    whether a trial has completed."""
    try:
        table = results.read(study.results, study.name)
    except OSError as error:
        print(f"error: the results cannot be used now: {error}", file=sys.stderr)
        return False
    found, made = best_trial(table) is not None, {"": lambda: summary.summarise(study)}
    made |= {"picture: ": lambda: summary.draw(study, table)} if found else {}
    made |= {"report:  ": lambda: writing.write_report(study.results, study.name)}
    for head, make in made.items():
        try:
            print(f"{head}{make()}", flush=True)
        except Exception as error:  # any error
            print(f"{head or 'summary: '}could not be made: {type(error).__name__}: {error}", flush=True)
    return found
