"""Joins a running Ray cluster, or starts a Ray of the study's own."""

import logging
import os
import re
import socket
import time
from pathlib import Path

from tune_cd.cluster.ray_internals import recorded_cluster
from tune_cd.results.location import is_uri
from tune_cd.run.screen import say

ANSWER = 20.0  # seconds in which a cluster's port must answer, as it may be starting
WORKERS = {"env_vars": {"GOMP_SPINCOUNT": "3000"}}
"""Environment of the trials' processes.

OpenMP threads wait for each other by spinning, by default so long that a training of two threads takes twenty times as
long once another process wants a core (Ray's workers run at a low priority). Yielding earlier costs an idle machine
nothing.
"""
TOO_LONG = "timed out during startup"
"""Of Ray's message that a node's agents did not start within 15 s, as while a disk still writes what was installed."""

REMEDIES = {
    "AF_UNIX": "a shorter TMPDIR or RAY_TMPDIR is needed",
    "denied: '.*/.ray'": "Ray keeps its token there; HOME names another folder",
    "denied: '.*/ray": "RAY_TMPDIR names another folder for Ray's files",
    "Invalid address format": "HOST:PORT, auto and local are allowed",
    TOO_LONG: "the machine may be too busy; try again",
    "AuthToken": "it asks for a token; set RAY_AUTH_MODE to token, the token in ~/.ray/auth_token",
}


def connect(address: str | None, verbose: bool) -> None:
    """Join the Ray cluster at the address, or of RAY_ADDRESS; else the one on this machine, or start one.

    verbose: show Ray's messages. Raises ConnectionError for an address of no cluster, and if Ray refuses to join.
    """
    given = address or os.environ.get("RAY_ADDRESS") or None
    named = f"{given} (RAY_ADDRESS)" if given != address else f"{given} (--address)"
    if given and given.startswith(("http://", "https://")):
        raise ConnectionError(f"{named} is a job server's, for tune_cd.submit; here HOST:PORT or auto is needed")
    if given is None and (recorded := recorded_cluster()) is not None and answers(recorded):
        given, named = "auto", f"{recorded} (of this machine; or --address local)"  # with its token, unlike an address
    if given in (None, "local"):
        say("starting Ray ...")
    else:
        say(f"connecting to Ray at {named} ...")
        end = time.monotonic() + ANSWER
        while not answers(given):  # Ray itself would try for nine minutes
            if time.monotonic() > end:
                raise ConnectionError(
                    f"no Ray cluster answers at {named} within {ANSWER:.0f} s: start it there (`ray start --head`), "
                    "name another, or take a Ray of this study's own with --address local"
                )
            time.sleep(0.5)
    _init(given, verbose)


def _init(address: str | None, verbose: bool) -> None:
    import ray  # not with this module, whose `answers` is used without Ray

    for name in ("TUNE_CD_DATA", "TUNE_CD_CACHE"):  # trials of a Ray started here inherit them, in other folders
        if os.environ.get(name) and not is_uri(os.environ[name]):
            os.environ[name] = str(Path(os.path.expanduser(os.environ[name])).absolute())
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # Ctrl-C ends the study here, after a summary
    usual = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # `Progress` prints where they are
        # nobody reads Tune's log files, and a signal inside tensorboardX's queue makes the driver's exit wait for ever
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "RAY_AIR_NEW_OUTPUT": "0",  # Ray's plain status table, not a box for every trial and result
    }
    os.environ.update({name: value for name, value in usual.items() if name not in os.environ})
    own = own_cpus() if address in (None, "local") else {}
    if address == "local":
        own |= {"include_dashboard": False}
    level = logging.INFO if verbose else logging.ERROR
    for last in (False, True):
        try:
            ray.init(address or "local", **own, runtime_env=WORKERS, log_to_driver=False, logging_level=level)
            return
        except Exception as error:  # RuntimeError: a cluster of another version; Exception: a start that takes too long
            said = f"{error} {error.__cause__}"
            if TOO_LONG in said and not last:
                say("starting Ray again, as it took too long ...")
                continue
            remedy = next((f": {remedy}" for sign, remedy in REMEDIES.items() if re.search(sign, said)), "")
            raise ConnectionError(f"{error}{remedy}") from error


def own_cpus() -> dict[str, int]:
    """{"num_cpus": of a Ray that is started here} where this process may use fewer than the machine has, as under
    taskset or SLURM: Ray counts them all. Else {}: Ray also knows the limits of containers."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"num_cpus": usable} if usable and usable < (os.cpu_count() or 1) else {}


def answers(address: str) -> bool:
    """Whether it accepts a connection; an address without a port, as "auto", is Ray's to understand."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except OSError:
        return False
    return True
