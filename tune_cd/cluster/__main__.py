"""`python -m tune_cd.cluster`: check cluster files before anything is billed; wait for the notice that a node goes."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.cluster.__main__")

import argparse
import logging

from . import check, preemption


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tune_cd.cluster", description=__doc__)
    commands, form = top.add_subparsers(metavar="COMMAND", required=True), argparse.RawDescriptionHelpFormatter
    text = "check cluster files before anything is started or billed"
    files = commands.add_parser("check", help=text, description=check.__doc__, formatter_class=form)
    files.add_argument("files", nargs="+", metavar="FILE")
    template = "the files are templates: what is still to be edited is no finding"
    files.add_argument("--template", action="store_true", help=template)
    text = "on a cloud's worker, beside Ray: wait for the notice that the machine is taken away, and drain the node"
    watch = commands.add_parser("watch", help=text, description=preemption.__doc__, formatter_class=form)
    watch.add_argument("--address", required=True, metavar="HOST:PORT", help="of the cluster of this machine")
    return top


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    if "files" in args:
        return max(check.check(file, args.template) for file in dict.fromkeys(args.files))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    preemption.watch(args.address)
    return 0
