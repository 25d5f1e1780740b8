"""Rules for the commands of `ray up` files: what is run on the nodes, and how Ray is started there."""

import functools
import re
import shlex
import subprocess
from collections.abc import Iterator

from .documents import Document, at
from .findings import Finding, Place, suggestion
from .launcher import node_types

COMMANDS = [
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands", "head_start_ray_commands",
    "worker_start_ray_commands",
]  # fmt: skip
START = re.compile(r"\bray start\b")
TOKEN_FILE = ".ray/auth_token"


def commands(document: Document) -> list[tuple[Place, str]]:
    """Every command of the file with its place, those of node types included."""
    places = [(name,) for name in COMMANDS]
    places += [("available_node_types", kind, name) for kind in node_types(document) for name in COMMANDS]
    found = []
    for place in places:
        listed = at(document.data, *place, default=[])
        found += [((*place, index), text) for index, text in enumerate(listed) if isinstance(text, str)]
    return found


def starts(document: Document, name: str) -> list[tuple[Place, str]]:
    return [(place, text) for place, text in commands(document) if place[0] == name and START.search(text)]


def shell_is_valid(document: Document) -> Iterator[Finding]:
    """A missing quote shows when the node that runs the command is up and billed."""
    for place, text in commands(document):
        if wrong := shell_trouble(text):
            yield Finding(place, wrong)


@functools.cache
def shell_trouble(text: str) -> str | None:
    """What bash says of a command without running it, or None."""
    if text.lstrip().startswith("("):
        return "begins with a parenthesis, before which Ray puts another: (( is arithmetic to bash"
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    return (
        f"no valid shell: {checked.stderr.strip().splitlines()[0].removeprefix('bash: ')}"
        if checked.returncode
        else None
    )


def ray_is_started(document: Document) -> Iterator[Finding]:
    """Without commands of its own the file gets Ray's defaults: no token, and pip's Ray in whatever Python comes first."""
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        if not starts(document, name):
            yield Finding(
                (name,), "no `ray start` here: Ray's default commands have no token and no environment of yours"
            )


def head_scales(document: Document) -> Iterator[Finding]:
    """A head started without this file never starts a worker, and says nothing."""
    for place, text in starts(document, "head_start_ray_commands"):
        if "--autoscaling-config" not in text:
            yield Finding(
                place, "--autoscaling-config=~/ray_bootstrap_config.yaml is missing: no worker would ever be started"
            )


def start_options_exist(document: Document) -> Iterator[Finding]:
    """`ray start` ends at an option that it does not know, after the node was set up."""
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        for place, text in starts(document, name):
            for option in _options(text):
                if option not in start_options():
                    yield Finding(place, f"`ray start` has no option {option}{suggestion(option, start_options())}")


@functools.cache
def start_options() -> frozenset[str]:
    """The options of the installed `ray start`."""
    from ray.scripts.scripts import start

    return frozenset(name for option in start.params for name in (*option.opts, *option.secondary_opts))


def _options(text: str) -> list[str]:
    after = re.split(r"[;&|]", START.split(text, maxsplit=1)[1])[0]
    try:
        words = shlex.split(after)
    except ValueError:  # a quote is missing: said elsewhere
        words = after.split()
    return [word.partition("=")[0] for word in words if word.startswith("--")]


def token_is_asked_for(document: Document) -> Iterator[Finding]:
    """Without token authentication whoever reaches the port runs code on every node."""
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        for place, text in starts(document, name):
            if not re.search(r"\bRAY_AUTH_MODE=['\"]?token\b", START.split(text, maxsplit=1)[0]):
                yield Finding(
                    place,
                    "RAY_AUTH_MODE=token is missing before `ray start`: whoever reaches the port may run anything",
                )


def token_reaches_the_nodes(document: Document) -> Iterator[Finding]:
    """Nodes with different tokens, or none, refuse each other; workers are started and billed but never join."""
    asked = [text for _, text in commands(document) if "RAY_AUTH_MODE" in text and START.search(text)]
    mounts = at(document.data, "file_mounts", default={})
    mounted = any(TOKEN_FILE in str(remote) for remote in mounts)
    if not asked or mounted:
        return
    if not any(TOKEN_FILE in str(path) for path in at(document.data, "cluster_synced_files", default=[])):
        yield Finding(
            ("cluster_synced_files",),
            f"~/{TOKEN_FILE} is missing here (or in file_mounts): workers would lack the head's token",
        )
    if not any("get-auth-token --generate" in text or TOKEN_FILE in text for _, text in commands(document)):
        yield Finding(
            ("head_setup_commands",), "nothing makes the token: add `ray get-auth-token --generate > /dev/null`"
        )


def dashboard_is_private(document: Document) -> Iterator[Finding]:
    """The dashboard runs jobs; `ray dashboard FILE` reaches it through SSH without any open port."""
    for place, text in commands(document):
        if re.search(r"--dashboard-host[= ]['\"]?(0\.0\.0\.0|::)", text):
            yield Finding(
                place,
                "the dashboard is open on every interface: --dashboard-host=127.0.0.1, and `ray dashboard` to see it",
            )


RULES = [
    shell_is_valid, ray_is_started, head_scales, start_options_exist, token_is_asked_for, token_reaches_the_nodes, dashboard_is_private,
]  # fmt: skip
