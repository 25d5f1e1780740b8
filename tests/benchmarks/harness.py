"""What the benchmarks of search methods share: their landscapes, and a command line that prints tables."""

import argparse
from collections.abc import Callable, Iterable, Sequence

from boxes import BOXES
from corners import NAME, in_corner

from tune_cd.landscapes.find import find
from tune_cd.landscapes.landscape import Landscape


def found(name: str) -> Landscape:
    """A landscape by its name: a hill of `boxes`, another in a corner of its box (`corners`), or one of the package."""
    if name in BOXES:
        return BOXES[name]
    if at := NAME.fullmatch(name):
        return in_corner(found(at["base"]), name, (at["first"], at["second"]))
    return find(name)


def command(doc: str, parts: Iterable[str], usual: Sequence[str], tables: Callable[..., Iterable[str]]) -> None:
    """Print the tables of the parts that the command line names. tables: (parts, searches, processes) -> texts."""
    top = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}; default: {', '.join(usual)}")
    top.add_argument("--searches", type=int, metavar="N", help="of each method and landscape; default: the part's own")
    top.add_argument("--processes", type=int, metavar="N", help="default: one a core")
    options = top.parse_args()
    if unknown := set(options.parts) - set(parts):
        top.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(parts)}")
    for text in tables(options.parts or usual, options.searches, options.processes):
        print(text, end="\n\n", flush=True)
