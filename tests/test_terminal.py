"""Commands under terminals of other encodings, and under matplotlib settings that are not theirs to heed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from studies import on_gpus, row, store, table

ROOT = Path(__file__).parents[1]
FOREIGN = {
    "a notebook's": {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYTHONIOENCODING": "latin-1"},
    "no backend": {"MPLBACKEND": "garbage", "PYTHONIOENCODING": "ascii:strict"},
    "the C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "MPLCONFIGDIR": "/proc/none"},
    "a Western one": {"PYTHONIOENCODING": "cp1252"},
}
"""Name -> variables of an environment."""


def python(*argv: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    return subprocess.run([sys.executable, *argv], cwd=cwd, env=environ, capture_output=True, timeout=1500)


@pytest.mark.parametrize("environ", FOREIGN.values(), ids=FOREIGN)
def test_a_command_prints_all_it_has_to_say_in_any_encoding(tmp_path, environ):
    """What the encoding lacks is escaped."""
    store(tmp_path / "results", table([row(0, "failed", trial_id="t", error="Λp ± 1 is 漢, Ü")]))
    done = python("-m", "tune_cd.results", "show", "results", "s", "t", cwd=tmp_path, **environ)
    assert (done.returncode, done.stderr) == (0, b"")
    latin = b"\xdc" if b"\xdc" in done.stdout else b"\\xdc"
    assert re.search(rb"error: \\u039bp (\xb1|\\xb1) 1 is \\u6f22, " + re.escape(latin), done.stdout), done.stdout


@pytest.mark.slow
def test_figures_are_drawn_whatever_matplotlib_is_told(tmp_path):
    """No backend of that name, a display that is not there, LaTeX that is not installed, a font that is not either."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nbackend: TkAgg\nfont.family: None such\n")
    store(tmp_path / "results", on_gpus())
    environ = FOREIGN["a notebook's"] | {"PATH": "/none", "DISPLAY": ""}
    done = python("-m", "tune_cd.report", "results", "--figures", "out", cwd=tmp_path, **environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out/glyphs-margin/sub-losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_glyphs_are_read_where_matplotlib_refuses_the_backend_and_nobodys_backend_is_switched(tmp_path):
    """In a trial's process no command has run; the fonts are matplotlib's."""
    read = "from trainables.datasets.glyphs import plan; plan([]); import os; print(os.environ['MPLBACKEND'])"
    done = python("-c", read, cwd=tmp_path, MPLBACKEND="garbage")
    assert (done.returncode, done.stdout.strip()) == (0, b"garbage"), done.stderr
    switched = (
        "from tune_cd import plots; plots.constraints_figure(); import matplotlib; print(matplotlib.get_backend())"
    )
    done = python("-c", switched, cwd=tmp_path, MPLBACKEND="svg")
    assert (done.returncode, done.stdout.strip()) == (0, b"svg"), done.stderr
