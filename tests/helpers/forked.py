"""Commands in processes forked from one that has imported what they need: a driver starts without its 7 core-seconds of
imports.

What a process of its own is for stays: a pid, a session, signals, a working directory, an environment, an exit status.
"""

import atexit
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

IMPORTED = ["faulty", "listed", *(f"tune_cd.{name}" for name in ("run.__main__", "run.driver"))]
IMPORTED += ["tune_cd.report.writing"]
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(IMPORTED)


class Forked:
    """A running `main(argv)`; main: "module:function". Both outputs are appended to files; as `subprocess.Popen`
    otherwise."""

    def __init__(
        self, main: str, argv: list[str], out: Path, err: Path | None = None, *, cwd=None, env: Mapping | None = None
    ):
        self.args = [main, *argv]
        streams = [str(Path(path).absolute()) for path in (out, err or out)]
        environment = dict(os.environ if env is None else env)
        arguments = (main, argv, streams, str(cwd or Path.cwd()), environment)
        self._process = FORKSERVER.Process(target=_become, args=arguments, daemon=True)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(main: str, argv: list[str], streams: list[str], cwd: str, environment: dict[str, str]) -> None:
    """What a fresh interpreter finds: a session, outputs, folder and environment of its own, and the usual Ctrl-C."""
    os.setsid()
    for descriptor, path in enumerate(streams, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [main, *argv]
    random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, _, function = main.partition(":")
    try:
        status = getattr(import_module(module), function)(argv)
    except SystemExit as end:
        status = end.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)
