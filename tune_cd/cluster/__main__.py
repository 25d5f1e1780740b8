"""`python -m tune_cd.cluster COMMAND ...`.

A command is a module with `HELP` (a line), `add_arguments(parser)` and `run(args) -> exit status`, and an entry of
COMMANDS. It imports other packages inside its functions, so that it starts on a machine that has only what it needs.
"""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.cluster.__main__")

import argparse

from . import preemption
from .check import command as check

COMMANDS = {"check": check, "watch": preemption}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tune_cd.cluster", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        own = commands.add_parser(
            name, help=module.HELP, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(own)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    return COMMANDS[args.command].run(args)
