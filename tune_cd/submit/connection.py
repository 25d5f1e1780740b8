"""The way to a cluster's job server, and what to do where there is none."""

import logging
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from importlib.util import find_spec

ADDRESS = "http://127.0.0.1:8265"
"""Where `ray dashboard CLUSTER.yaml` puts a cluster's job server, and where a head has it itself."""

VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
PROBE_SECONDS = 10.0  # Ray's own requests have no limit: an address that swallows them would hang for minutes

OPEN_THE_WAY = (
    "`ray dashboard clusters/gpu.yaml`, left running in another terminal, opens the way from a laptop; on the head itself Ray has to run "
    'with its dashboard (pip install "ray[default]")'
)
BRING_THE_TOKEN = (
    "`ray rsync-down clusters/gpu.yaml '~/.ray/auth_token' ~/.ray/tune-cd.token` brings it here; set RAY_AUTH_MODE to token and "
    "RAY_AUTH_TOKEN_PATH to the full path of that file (on the head the former is enough)"
)


def address_of(given: str | None) -> str:
    """The address given, else the environment's, else ADDRESS."""
    return given or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), ADDRESS)


def connect(given: str | None):
    """A client of the cluster's job server. Raises ImportError where Ray cannot be one, ConnectionError saying what opens the way."""
    missing = [name for name in ("ray", "requests", "aiohttp") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f'{", ".join(missing)} not installed: pip install "ray[default]" brings what job submission needs'
        )
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    address = address_of(given)
    if address.startswith(("http://", "https://")):
        probe(address)
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(
        logging.WARNING
    )  # tells of every log that has been read to its end
    os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray takes the variable where argument and variable differ
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise ConnectionError(f"the cluster at {address} wants its token: {BRING_THE_TOKEN}") from None
    except (RuntimeError, ValueError, OSError) as error:  # a Ray too old for jobs, an address that Ray cannot read
        raise ConnectionError(f"{address} cannot be used: {error}") from error


def probe(address: str) -> None:
    """Raises ConnectionError where nothing answers, or something else than Ray."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/api/version", timeout=PROBE_SECONDS) as answer:
            is_ray = b"ray_version" in answer.read(10_000)
    except urllib.error.HTTPError as error:
        is_ray = error.code in (401, 403)  # it wants a token
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"nothing answers at {address} ({reason}): {OPEN_THE_WAY}") from None
    if not is_ray:
        raise ConnectionError(f"what answers at {address} is no Ray: {OPEN_THE_WAY}")


def version_note(client) -> str | None:
    """What is to be said of two Rays of different versions; None where they are the same."""
    import ray

    there = getattr(client, "_server_ray_version", None)  # Ray has asked for it and has no public name for it
    if there in (None, ray.__version__):
        return None
    return f"the cluster runs Ray {there}, this is {ray.__version__}: studies run with the cluster's; should a request fail, install that one here"
