"""Connects to a cluster's job server, or says how to reach one."""

import logging
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from importlib.util import find_spec

ADDRESS = "http://127.0.0.1:8265"
"""The job server's address on a head, and where `ray dashboard CLUSTER.yaml` forwards it."""

VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
PROBE_SECONDS = 10.0  # Ray's own requests have no time limit: at an address that never answers they hang for minutes

HOW_TO_CONNECT = (
    "`ray dashboard clusters/gpu.yaml`, left running in another terminal, opens the way from a laptop; on the head "
    'itself Ray has to run with its dashboard (pip install "ray[default]")'
)
HOW_TO_GET_THE_TOKEN = (
    "`ray rsync-down clusters/gpu.yaml '~/.ray/auth_token' ~/.ray/tune-cd.token` brings it here; set RAY_AUTH_MODE to "
    "token and RAY_AUTH_TOKEN_PATH to the full path of that file (on the head RAY_AUTH_MODE is enough)"
)


def address_of(given: str | None) -> str:
    """The address given, else the environment's, else ADDRESS."""
    return given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ADDRESS)


def connect(given: str | None):
    """A client of the cluster's job server. Raises ImportError if `ray[default]` is absent, ConnectionError saying what
    to do if there is no server or its token is missing."""
    missing = [name for name in ("ray", "requests", "aiohttp") if find_spec(name) is None]
    if missing:
        raise ImportError(f'{", ".join(missing)} not installed: pip install "ray[default]" brings what jobs need')
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    address = address_of(given)
    if address.startswith(("http://", "https://")):
        _probe(address)
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(logging.WARNING)  # else a line for each log read
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray prefers this variable to the argument
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise ConnectionError(f"the cluster at {address} asks for a token, and {HOW_TO_GET_THE_TOKEN}") from None
    except (RuntimeError, ValueError, OSError) as error:  # another kind of server, or a Ray too old for jobs
        raise ConnectionError(f"{address} cannot be used: {error}") from error


def _probe(address: str) -> None:
    """Raise ConnectionError if nothing answers in time. Any answer will do, since Ray's client judges it."""
    try:
        urllib.request.urlopen(f"{address.rstrip('/')}/api/version", timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"nothing answers at {address} ({reason}): {HOW_TO_CONNECT}") from None
