"""`tune-cd`: one name for all commands."""

import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tune_cd.__main__ import COMMANDS, main


def test_it_is_installed_as_tune_cd():
    script = Path(sys.executable).with_name("tune-cd")
    ended = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, version("tune_cd"))


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_without_a_command_it_names_them_all(argv, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tune-cd", *argv])
    assert main() == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)


def test_an_unknown_command_is_refused_with_those_there_are(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tune-cd", "tune"])
    assert main() == 2 and "'tune' is no command" in (said := capsys.readouterr().err) and "  replay" in said


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "balance"])
def test_a_command_has_its_own_usage_and_status(name, monkeypatch, capfd):
    """Its help is read in `test_layers.py`; as processes of their own they run in `test_process.py`."""
    monkeypatch.setattr(sys, "argv", ["tune-cd", name, "--nonsense"])
    for stream in ("stdout", "stderr"):  # a command replaces them, and handlers of Ctrl-C
        monkeypatch.setattr(sys, stream, getattr(sys, stream))
    monkeypatch.setenv("MPLBACKEND", "agg")
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert end.value.code == 2 and "usage:" in capfd.readouterr().err
