"""The first hour on a GPU: everything that only a card can tell, in pieces, on one page.

    python tests/benchmarks/gpu.py --minutes 30 [--out .] [--device cuda|cpu]
        [--pieces machine tests small_conv resnet18 resnet32 resnet50 time setups grid]

From the repository's root; needs torch, torchvision, numpy, scipy, pandas and pyarrow (and pytest for the piece tests,
which else says that it was left out). The pieces are in order of what teaches most:

    machine    card, driver, versions; memory's and matrix products' rates
    tests      tests/test_on_a_gpu.py
    small_conv, resnet18, resnet32, resnet50
               images/s of the usual trainer, eager, a graph, packs of 4 to 64; share of the roofline (`training.py`)
    time       host µs and kernels a step, the batch's share, cudnn.benchmark; probe, retrieval, evaluation
    setups     steps of every set-up of the paper
    grid       lists of configurations in packs with measured memory, and one by one

Each piece is a process with a share of the time left; one that fails or is out of time keeps the rows it has, and the
others go on. Images are made up. After every piece OUT/gpu.json and OUT/gpu.md are written, with the pieces of an
earlier run that this one does not repeat. With --device cpu all is small: it shows that the command works, no more.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESERVE = 5.0  # seconds for what is not a piece: imports, and the page
TAIL = 3000  # characters of a piece's output that are kept


@dataclass(frozen=True)
class Piece:
    """weight: its share of the time.  command: None, this file with --piece; its last argument will be the file that it
    adds rows to, a JSON object a line."""

    name: str
    title: str
    weight: float = 1.0
    command: tuple[str, ...] | None = None


PIECES = (
    Piece("machine", "The machine", 1), Piece("tests", "Tests that need a GPU", 5),
    Piece("small_conv", "Images per second, small network", 3), Piece("resnet18", "Images per second, ResNet-18", 3),
    Piece("resnet32", "Images per second, ResNet-32 on SimCLR views", 3),
    Piece("resnet50", "Images per second, ResNet-50", 2), Piece("time", "Where the time goes", 4),
    Piece("setups", "Steps of the paper's set-ups", 4), Piece("grid", "Packs with measured memory", 4),
)  # fmt: skip


def run_all(pieces: Sequence[Piece], report: dict, options: argparse.Namespace, deadline: float) -> None:
    """Run them one after the other, each with its share of what is left until the deadline (`time.monotonic`)."""
    for index, piece in enumerate(pieces):
        shares = sum(other.weight for other in pieces[index:])
        limit = max(1.0, (deadline - time.monotonic()) * piece.weight / shares)
        print(f"{piece.name}: at most {limit:.0f} s", flush=True)
        report["pieces"][piece.name] = run(piece, limit, options)
        print(f"{piece.name}: {report['pieces'][piece.name]['ended']}", flush=True)
        write(report, options.out)


def run(piece: Piece, limit: float, options: argparse.Namespace) -> dict:
    """{"title", "command", "limit_s", "seconds", "ended", "rows", "output"} of a piece in a process of its own."""
    own = (sys.executable, __file__, "--device", options.device, "--seconds", f"{limit:.0f}", "--piece", piece.name)
    folders = str(ROOT), str(ROOT / "tests" / "helpers"), *filter(None, [os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    with tempfile.TemporaryDirectory() as folder:
        rows, output = Path(folder, "rows"), Path(folder, "output")
        rows.touch()
        command, begun = [*(piece.command or own), str(rows)], time.monotonic()
        with output.open("wb") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(limit)
                ended = "ok" if status == 0 else f"failed with status {status}"
            except subprocess.TimeoutExpired:
                ended = "out of time"
            finally:
                with contextlib.suppress(ProcessLookupError):  # with the workers that it has started
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = rows.read_text(encoding="utf-8").splitlines()
        return {
            "title": piece.title, "command": shlex.join(["python", *command[1:-1]]).replace(f"{ROOT}/", ""),
            "limit_s": round(limit, 1), "seconds": round(time.monotonic() - begun, 1), "ended": ended,
            "rows": [row for line in lines if (row := _whole(line)) is not None],
            "output": output.read_text(encoding="utf-8", errors="replace")[-TAIL:],
        }  # fmt: skip


def _whole(line: str) -> dict | None:
    try:
        return json.loads(line)
    except ValueError:  # the piece was ended while it wrote
        return None


def write(report: dict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "gpu.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    Path(folder, "gpu.md").write_text(page(report), encoding="utf-8")


def page(report: dict) -> str:
    """The report in Markdown."""
    lines = ["# What a GPU tells", "", f"`{report['command']}`, {report['started']}, on {report['device']}."]
    for piece in report["pieces"].values():
        lines += ["", f"## {piece['title']}", "", f"`{piece['command']}`: {piece['ended']}, {piece['seconds']} s."]
        lines += ["", *table(piece["rows"])] if piece["rows"] else []
        if piece["output"].strip() and (piece["ended"] != "ok" or not piece["rows"]):
            lines += ["", "```text", *piece["output"].strip().splitlines()[-12:], "```"]
    return "\n".join(lines) + "\n"


def table(rows: list[dict]) -> list[str]:
    """Markdown's lines: a column for every key of any row, in the order of their appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *cells)]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")[:300]


def previous(folder: Path) -> dict:
    """The pieces of an earlier report in the folder; none where there is no whole one."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return json.loads(Path(folder, "gpu.json").read_text(encoding="utf-8"))["pieces"]
    return {}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [piece.name for piece in PIECES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="for all pieces together; default: %(default)g")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of gpu.json and gpu.md; default: this one")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--pieces", nargs="+", choices=names, default=names)
    parser.add_argument("--piece", nargs=2, metavar=("NAME", "ROWS"), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.minutes > 0:
        parser.error(f"--minutes {options.minutes:g}: more than 0")
    return options


def main(arguments: Sequence[str] | None = None, pieces: Sequence[Piece] = PIECES) -> int:
    deadline = time.monotonic() - RESERVE
    options = parsed(arguments)
    if options.piece:
        import gpu_pieces

        name, rows = options.piece
        return gpu_pieces.work(name, Path(rows), options.device, time.monotonic() + options.seconds)
    argv = sys.argv[1:] if arguments is None else arguments
    report = {"command": shlex.join(["python", "tests/benchmarks/gpu.py", *argv]), "device": options.device}
    report |= {"started": datetime.now(UTC).isoformat(timespec="seconds"), "pieces": previous(options.out)}
    wanted = [piece for piece in pieces if piece.name in options.pieces or pieces is not PIECES]
    run_all(wanted, report, options, deadline + 60 * options.minutes)
    print(f"{options.out / 'gpu.md'}\n{options.out / 'gpu.json'}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the piece that runs is ended as well
    sys.exit(main())
