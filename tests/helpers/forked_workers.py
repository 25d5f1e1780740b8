"""Ray's workers forked from one process that has imported what trials need: a worker starts without its 2 core-seconds
of starting twice, and a trial's without 5 more of imports.

This file is the `setup_worker_path` of a Ray node: Ray runs it for every worker. It hands its arguments, environment,
directory and outputs to the process of `serving`, and ends; the process that is forked there is the worker. Whatever
else a worker is stays: a pid, a process group, signals, its log. A runtime environment that has a command or another
Python of its own is started as Ray does it.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

SETUP = str(Path(__file__).absolute())
SOCKET = "FORKED_WORKERS"
"""The environment variable that names the socket, of a Ray node and of what it starts."""

READY = b"ready\n"
IMPORTED = ["torch", "pandas", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset"]
IMPORTED += [f"trainables.{name}" for name in ("data.resident", "training.parallel", "training.watchdog")]
IMPORTED += ["tune_cd.analysis", "tune_cd.cluster.nodes", "tune_cd.results.attempts", "listed", "hypothesis", "pytest"]
OF_RAY = ["aiohttp", "fsspec", "google.protobuf.json_format", "grpc.aio", "jsonschema", "opentelemetry.sdk.metrics"]
OF_RAY += ["pydantic", "requests", "tensorboardX", "yaml"]
"""What some release of Ray imports. Ray itself reads the worker's job from the environment when it is imported."""


@contextmanager
def serving() -> Iterator[None]:
    """Workers of Ray nodes begun in this context with `setup_worker_path=SETUP` are forked; it ends after them."""
    with TemporaryDirectory(prefix="workers-") as folder:
        path = os.environ[SOCKET] = f"{folder}/socket"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(64)
        command = [sys.executable, "-c", f"import forked_workers; forked_workers.serve({listener.fileno()})"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with listener, subprocess.Popen(command, **pipes, pass_fds=[listener.fileno()]) as server:
            try:
                assert server.stdout.readline() == READY, "its error is above"
                yield
            finally:
                server.stdin.close()
                del os.environ[SOCKET]


def serve(descriptor: int) -> None:
    """Fork a worker for everyone who connects, until the standard input is closed."""
    import gc
    import select
    import signal
    from importlib import import_module

    for name in IMPORTED:
        import_module(name)
    for name in OF_RAY:
        with suppress(ModuleNotFoundError):
            import_module(name)
    assert "ray" not in sys.modules, "it would take the job of its workers from this process"
    gc.freeze()
    os.write(1, READY)
    listener = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return _become(connection)
        connection.close()


def _become(connection: socket.socket) -> None:
    """What a fresh interpreter finds: a session, outputs, directory, environment and arguments of its own."""
    import random
    import runpy

    import numpy as np

    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    with connection, connection.makefile("rb") as rest:
        asked = json.loads(message + rest.read())
    os.setsid()
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
        os.close(given)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    random.seed()
    np.random.seed()
    _prepare(asked["context"], asked["argv"])
    sys.argv = asked["argv"]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _prepare(serialized: str, argv: list[str]) -> None:
    """Apply a runtime environment, as Ray's setup_worker.py does. Ray is imported now that the environment names the
    job."""
    from ray._private.runtime_env.context import RuntimeEnvContext, update_envs
    from ray.core.generated.common_pb2 import Language

    context = RuntimeEnvContext.deserialize(serialized)
    if context.command_prefix[::2] == ["cd", "&&"] and len(context.command_prefix) == 3:  # a `working_dir`
        [folder] = shlex.split(context.command_prefix.pop(1))
        os.chdir(folder)
        sys.path.insert(0, folder)
        context.command_prefix.clear()
    if context.command_prefix or context.py_executable != sys.executable or context.override_worker_entrypoint:
        context.exec_worker(argv, Language.PYTHON)
    update_envs(context.env_vars)


def hand_over(argv: list[str]) -> None:
    """As Ray's setup_worker.py, which takes a runtime environment and a language, and hands the rest on."""
    own = {"--serialized-runtime-env-context": "{}", "--language": ""}
    own |= dict(word.split("=", 1) for word in argv if word.partition("=")[0] in own)
    assert own["--language"] == "PYTHON", argv
    asked = {
        "argv": [word for word in argv if word.partition("=")[0] not in own],
        "context": own["--serialized-runtime-env-context"], "environ": dict(os.environ), "cwd": os.getcwd(),
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        message = json.dumps(asked).encode()
        sent = socket.send_fds(connection, [message], [0, 1, 2])
        connection.sendall(message[sent:])


if __name__ == "__main__":
    hand_over(sys.argv[1:])
