"""Drives a checked study: connects to its cluster, announces it, trains its searches, and prints the summary."""

import shlex
import sys

import ray
from ray.exceptions import RayError
from ray.tune import TuneError

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.cluster import capacity
from tune_cd.cluster.nodes import Nodes
from tune_cd.report import writing
from tune_cd.run import cluster, connection, summary
from tune_cd.run.announcement import announce, estimate
from tune_cd.run.budget import Meter
from tune_cd.run.ending import ENDING
from tune_cd.run.lock import StudyLock
from tune_cd.run.resources import Resources, check_resources
from tune_cd.run.screen import fold
from tune_cd.run.searches import groups_of
from tune_cd.run.study import Study, store_config, with_form
from tune_cd.run.trials import run_searches, tidy

FAILED, BAD_INPUT = 1, 2  # exit statuses


def drive(study: Study) -> int:
    """Run a study; with --dry-run say what would be run. Returns the exit status, see `main`."""
    lock, status = StudyLock(study.store, study.name), BAD_INPUT
    with ENDING.heeded():
        try:
            if not study.call.dry_run:
                lock.acquire()
            connection.connect(study.call.address, study.call.verbose)
            ENDING.heed()  # after Ray, which sets a handler of its own
            study, *job = _prepared(study)
            status = 0 if study.call.dry_run else _run(study, *job, lock)
        except (ValueError, OSError, ImportError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            status = ENDING.status
        finally:
            ray.shutdown()
            lock.release()
    return status


def _prepared(study: Study) -> tuple[Study, Resources, Meter, capacity.Growth, Nodes]:
    """Check the study on its cluster and announce it; returns it with its set-up there. Raises ValueError, OSError or
    ImportError naming what is wrong."""
    call, alive, growth = study.call, capacity.alive_nodes(), cluster.growth_of(study.call.address)
    most = max(search.num_samples for search in study.searches)
    resources = check_resources(study.config, call, [node["Resources"] for node in alive], growth, most)
    meter = Meter(call.budget, resources.processes, resources.gpus)
    study = with_form(study, study.config.setup or ("paper" if resources.gpus else "small"))
    announce(study, resources)
    nodes = cluster.nodes_of(study, resources)
    estimated = estimate(study, resources) if call.dry_run else ()
    for line in (*estimated, *cluster.look_at(nodes, alive, growth, study.results)):
        print(fold(line), flush=True)
    return study, resources, meter, growth, nodes


def _run(
    study: Study, resources: Resources, meter: Meter, growth: capacity.Growth, nodes: Nodes, lock: StudyLock
) -> int:
    """Train, print the summary, and say how to continue; returns the exit status."""

    def broken() -> str | None:
        return lock.lost or next(iter(nodes.apart), None)

    status = 0
    try:
        store_config(study)
        with cluster.watching(study, resources, growth, nodes) as load:
            for searches in groups_of(study.searches):
                run_searches(study, searches, resources, load, meter, broken)
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
