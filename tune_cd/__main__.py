"""All commands under one name: `tune-cd run ...` is `python -m tune_cd.run ...`."""

import runpy
import sys
from importlib.metadata import version
from importlib.util import find_spec

COMMANDS = {
    "run": "search a built-in training, on this machine or a cluster",
    "report": "the page, figures and tables of stored studies",
    "results": "list, merge, compact and clean stored studies",
    "balance": "recipes into weights, and back",
    "cluster": "check a cluster file, and what a cluster can hold",
    "submit": "run a study on a standing cluster",
    "landscapes": "the measured landscapes",
    "replay": "compare search methods on landscapes",
}

HELP = "\n".join([
    "usage: tune-cd COMMAND ...\n",
    *(f"  {name:<11} {what}" for name, what in COMMANDS.items()),
    "\ntune-cd COMMAND --help tells a command's options; tune-cd --version the version.",
])  # fmt: skip


def main() -> int:
    """Run a command. Returns 0, or 2 with a message for an unknown one, or one whose libraries are missing."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(HELP)
        return 0
    if name == "--version":
        print(version("tune_cd"))
        return 0
    if name not in COMMANDS:
        print(f"error: {name!r} is no command\n\n{HELP}", file=sys.stderr)
        return 2
    try:
        find_spec(f"tune_cd.{name}")
    except ModuleNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sys.argv = [f"tune-cd {name}", *sys.argv[2:]]
    runpy.run_module(f"tune_cd.{name}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
