"""Every command ends quietly when it is interrupted, and when nobody reads or can store what it prints."""

import os
import signal
import subprocess
import sys
import time

import pytest

COMMANDS = {
    "run": ["--help"], "report": ["--help"], "results": ["list", "--help"], "replay": ["--help"],
    "landscapes": ["--help"], "balance": ["lr=0.1,average=global,b=128"], "cluster": ["check", "--help"],
    "submit": ["start", "--help"],
}  # fmt: skip


def shell(script: str, *argv: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", script, "bash", *argv], capture_output=True, text=True, timeout=1500)


@pytest.mark.parametrize("command, output", [
    *(pytest.param(name, "", marks=[pytest.mark.slow] * (name not in ("run", "balance"))) for name in COMMANDS),
    ("balance", "2>&1"),
])  # fmt: skip
def test_a_reader_that_goes_ends_it_without_a_word(command, output):
    """Also one that read its errors as well."""
    argv = [sys.executable, "-m", f"tune_cd.{command}", *COMMANDS[command]]
    done = shell(f'"$@" {output} | true; echo "${{PIPESTATUS[0]}}"', *argv)
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize("redirected, status, said", [
    (">/dev/full", "1", "error: the output could not be written: [Errno 28] No space left on device\n"),
    (">&-", "0", ""), (">&- 2>&- <&-", "0", ""), (">/dev/null 2>/dev/full", "0", ""),
])  # fmt: skip
def test_output_that_cannot_be_written(redirected, status, said):
    argv = [sys.executable, "-m", "tune_cd.balance", "lr=0.1,average=global,b=128"]
    done = shell(f'"$@" {redirected}; echo $?', *argv)
    assert (done.stdout, done.stderr) == (f"{status}\n", said)


def test_the_exit_status_is_the_command_s():
    done = shell('"$@" | cat; echo "${PIPESTATUS[0]}"', sys.executable, "-m", "tune_cd.balance", "lr=0")
    assert done.stdout == "2\n" and done.stderr.startswith("error: recipe")


SLOW = """
import os, signal, sys, types
signal.signal(signal.SIGINT, signal.{before})
from tune_cd import process
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "slow":
            {importing}
sys.meta_path.insert(0, Slow())
slow = types.ModuleType("slow")
def main():
    {running}
    return 7
slow.main = main
process.import_module = lambda name: (Slow().find_spec(name), slow)[1]
process.run("slow")
"""


@pytest.mark.parametrize("where", ["importing", "running"])
@pytest.mark.parametrize("before, status, said", [("default_int_handler", 130, "interrupted\n"), ("SIG_IGN", 7, "")])
def test_an_interrupt_is_quiet_during_imports_and_work(where, before, status, said):
    what = {"importing": "pass", "running": "pass"} | {where: "os.kill(os.getpid(), signal.SIGINT)"}
    done = subprocess.run([sys.executable, "-c", SLOW.format(before=before, **what)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)


WARNS = "import warnings; warnings.warn('gone')"
RUNS = {
    "tune_cd.process": SLOW.format(before="SIG_IGN", importing="pass", running=WARNS),
    "trainables.console": f"from trainables.console import run; run(lambda: exec({WARNS!r}) or 0)",
}


@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)
def test_a_warning_is_one_line_without_code(runs):
    assert subprocess.run([sys.executable, "-c", runs], capture_output=True, text=True).stderr == "warning: gone\n"


@pytest.mark.parametrize("command", ["run", "replay"])
def test_ctrl_c_in_the_first_moments_of_a_command(command):
    """At whichever import it is by then."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", f"tune_cd.{command}"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    for line in process.stderr:
        if "tune_cd.process" in line:
            break
    deadline = time.monotonic() + 60
    for line in process.stderr:
        if "numpy" in line or time.monotonic() > deadline:
            break
    os.kill(process.pid, signal.SIGINT)
    rest = [line for line in process.communicate(timeout=1500)[1].splitlines() if not line.startswith("import time:")]
    assert process.returncode == 130 and rest == ["interrupted"]
