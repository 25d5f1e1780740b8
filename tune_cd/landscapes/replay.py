"""`python -m tune_cd.replay`: search methods compared on landscapes, as tables, and as rows of a results folder."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.replay.__main__")

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tune_cd.analysis import summary
from tune_cd.analysis.tables import CELLS, compared, markdown
from tune_cd.balance import SPACES
from tune_cd.landscapes import paper_tables
from tune_cd.landscapes.ablation import ABLATION, ABLATION_3D, notes_of
from tune_cd.landscapes.find import find
from tune_cd.landscapes.formulas import FITTED, LANDSCAPES
from tune_cd.landscapes.landscape import DURATIONS, Landscape
from tune_cd.landscapes.measured import IN_VIEW
from tune_cd.landscapes.simulation import Method, Trajectory, replay_all
from tune_cd.landscapes.stored import check_stored, store
from tune_cd.search.methods import OPTIMISERS

EPILOG = """\
examples:
  python -m tune_cd.replay --table hp_res                        tab:hp_res, on the fitted ridges and on measured grids
  python -m tune_cd.replay --table ablation                      tab:ablation, likewise
  python -m tune_cd.replay --table ablation --start near:4       the same from starts 4 octaves off the optimum
  python -m tune_cd.replay --landscapes batch --ablation         the appendix's A_th
  python -m tune_cd.replay --landscapes rotated narrow --noise 0 0.02 0.05 --methods cd-paper tpe cmaes
  python -m tune_cd.replay --landscapes results/mine --start conventional
"""


METHODS = ("random", "cd-paper")  # by default

TRIALS, TRAJECTORIES, OF_MEASURED = 50, 80, 200
"""Default trials per trajectory, and trajectories per method and landscape, as in the paper. OF_MEASURED: trajectories
with --table on measured grids, where differences are smaller."""

LIMITS = {
    "trajectories": (1, 10**5), "trials": (1, 10**5), "workers": (1, 10**4), "processes": (1, 1000), "failures": (0, 1),
    "seed": (0, 2**62),
}  # fmt: skip

DESCRIPTION = """Compare search methods on landscapes: formulas (models fitted to the paper's tables) or measured grids.
"""

HELP = {
    "--methods": f"of {', '.join(OPTIMISERS)}; default: {' '.join(METHODS)}",
    "--ablation": "instead of methods: the variants of the paper's search in tab:ablation and the appendix",
    "--table": "instead: tab:hp_res or tab:ablation, with the printed numbers, and with what holds and what reverses",
    "--reference": """method that the others are subtracted from, in pairs; default: the last one, with --ablation the
first""",
    "--landscapes": f"""of {", ".join(LANDSCAPES)}, measured: {", ".join(IN_VIEW)}; or a results folder, a study
RESULTS/STUDY, also s3://BUCKET/RESULTS/STUDY, or a Parquet file, with a full grid of one set-up;
default: {" ".join(FITTED)}, with --table the measured ones as well""",
    "--noise": "standard deviations of the validation score, as shares of a landscape's range; default: 0",
    "--failures": "probability that a trial fails; default: %(default)s",
    "--durations": "of trials; default: %(default)s",
    "--trajectories": f"""a method and landscape; default: {TRAJECTORIES}, as in the paper; with --table
{OF_MEASURED} on measured grids""",
    "--trials": f"a trajectory; default: {TRIALS}, as in the paper; 20 with --table ablation",
    "--workers": "trials at a time, on a simulated clock; default: %(default)s",
    "--start": """blind (drawn in the box; the default), conventional (equal weights of 0.1), near:OCTAVES from the
optimum, or NAME=VALUE,...""",
    "--seed": "of the first trajectory; the others count on from it; default: %(default)s",
    "--processes": "default: one a core",
    "--results": "also store every trial there, a study and a file a landscape; nothing stored is replaced",
}


def parser() -> argparse.ArgumentParser:
    """All options, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.replay",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what, where, how = map(top.add_argument_group, ("what is compared", "on what", "how"))
    _add(what, "--methods", nargs="+", metavar="NAME", choices=list(OPTIMISERS))
    _add(what, "--ablation", action="store_true")
    _add(what, "--table", choices=list(paper_tables.TABLES))
    _add(what, "--reference", metavar="NAME")
    _add(where, "--landscapes", nargs="+", metavar="NAME")
    _add(where, "--noise", nargs="+", type=float, default=[0.0], metavar="F")
    _add(where, "--failures", type=float, default=0.0, metavar="P")
    _add(where, "--durations", choices=list(DURATIONS), default="equal")
    _add(how, "--trajectories", type=int, metavar="N")
    _add(how, "--trials", type=int, metavar="N")
    _add(how, "--workers", type=int, default=1, metavar="N")
    _add(how, "--start", default="blind", metavar="H")
    _add(how, "--seed", type=int, default=0)
    _add(how, "--processes", type=int, metavar="N")
    _add(how, "--results", metavar="DIR")
    return top


def _add(group: Any, option: str, **how: Any) -> None:
    group.add_argument(option, help=HELP[option], **how)


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns 0, or 2 with a message for invalid options, a missing package or a file error."""
    options = parser().parse_args(argv)
    try:
        for text in _asked(options):
            print(text, end="\n\n", flush=True)
    except (ValueError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _asked(options: argparse.Namespace) -> Iterable[str]:
    """Texts to print. Raises ValueError for options that exclude each other, and for less than one trajectory."""
    given = [f"--{name}" for name in ("methods", "ablation", "table", "reference") if getattr(options, name)]
    if len(given) > 1 and given not in (["--methods", "--reference"], ["--ablation", "--reference"]):
        raise ValueError(f"{' and '.join(given)}: one of them at a time")
    for name, (least, most) in LIMITS.items():
        value = getattr(options, name)
        if value is not None and not (isinstance(value, (int, float)) and least <= value <= most):
            raise ValueError(f"--{name} {value}: at least {least} is required, and at most {most:,}")
    return tabled(options) if options.table else compare(options)


def compare(options: argparse.Namespace) -> Iterable[str]:
    """Tables of methods or the ablation. Raises ValueError for options that do not fit, ImportError without Optuna."""
    for methods, group in _groups(_landscapes(options, FITTED), options):
        reference = options.reference or list(methods)[0 if options.ablation else -1]
        if reference not in methods:
            raise ValueError(f"reference {reference!r}: one of {list(methods)} is required")
        trajectories = _replayed(methods, group, _seeds(options), options)
        yield from _tables(trajectories, reference, timed=options.workers > 1 or options.durations != "equal")
        yield from notes_of(methods)
        _store(trajectories, group, options)


def tabled(options: argparse.Namespace) -> Iterable[str]:
    """One of the paper's tables. Raises ValueError for landscapes without Lambda_p and Lambda_e and for options that do
    not fit, ImportError without Optuna."""
    table, landscapes = paper_tables.TABLES[options.table], _landscapes(options, paper_tables.LANDSCAPES)
    others = [landscape.name for landscape in landscapes if landscape.space.names != SPACES[0]]
    if others or options.workers > 1:
        where = f"--workers {options.workers} on {others or 'its landscapes'}"
        raise ValueError(f"--table {options.table} with {where}: one worker, on axes {SPACES[0]}")
    if options.start != "blind" and not options.start.startswith("near:") and not all(options.noise):
        said = "without --noise a search of lines has one trajectory from there; its interval would be of nothing"
        raise ValueError(f"--table {options.table} --start {options.start}: {said}")
    trajectories: list[Trajectory] = []
    for many in (False, True):
        group = [one for one in landscapes if (one.curves is not None) == many]  # with curves: measured
        trajectories += _replayed(table.methods, group, _seeds(options, OF_MEASURED if many else TRAJECTORIES), options)
    yield from paper_tables.sections(table, trajectories, options.start)
    _store(trajectories, landscapes, options)


def _landscapes(options: argparse.Namespace, default: Iterable[str]) -> list[Landscape]:
    """Raises ValueError for two of one name, whose trajectories would be taken for those of one landscape."""
    found = []
    for one, noise in product(map(find, options.landscapes or default), options.noise):
        name = f"{one.name}-noise{noise:g}" if noise else one.name
        found.append(replace(one, name=name, noise=noise, durations=options.durations, failures=options.failures))
    names = [landscape.name for landscape in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"landscapes {twice}: each name once, with each noise once; rename one of two files")
    return found


def _seeds(options: argparse.Namespace, default: int = TRAJECTORIES) -> range:
    return range(options.seed, options.seed + (options.trajectories or default))


def _how(options: argparse.Namespace) -> dict:
    trials = paper_tables.TABLES[options.table].trials if options.table and options.trials is None else options.trials
    return {"trials": TRIALS if trials is None else trials, "workers": options.workers, "start": options.start}


def _replayed(
    methods: dict[str, Method], landscapes: Sequence[Landscape], seeds: range, options: argparse.Namespace
) -> list[Trajectory]:
    """All trajectories. Raises ValueError, before any replay, if the results folder has conflicting ones."""
    if options.results:
        check_stored(options.results, methods, landscapes, seeds, _how(options))
    return replay_all(methods, landscapes, seeds, **_how(options), processes=options.processes) if landscapes else []


def _store(trajectories: list[Trajectory], landscapes: Sequence[Landscape], options: argparse.Namespace) -> None:
    if options.results:
        store(options.results, trajectories, landscapes, _how(options))


def _groups(
    landscapes: list[Landscape], options: argparse.Namespace
) -> list[tuple[dict[str, Method], list[Landscape]]]:
    """(methods, their landscapes); the ablation's variants depend on whether a batch size is searched."""
    if not options.ablation:
        return [({name: OPTIMISERS[name] for name in options.methods or METHODS}, landscapes)]
    groups = []
    for names, variants in zip(SPACES, (ABLATION, ABLATION_3D)):
        groups.append((variants, [landscape for landscape in landscapes if landscape.space.names == names]))
    others = [landscape.name for landscape in landscapes if landscape.space.names not in SPACES]
    if others:
        raise ValueError(f"--ablation on {others}: the axes must be {' or '.join(map(str, SPACES))}")
    return [group for group in groups if group[1]]


def _tables(trajectories: list[Trajectory], reference: str, timed: bool) -> Iterable[str]:
    table = summary([trajectory.as_curve() for trajectory in trajectories], reference)
    count = table["trajectories"].max()
    head = f"Means over {count} trajectories ± half the 95 % interval; n-95: trials to 95 % of the best reached"
    yield f"{head}\n\n{markdown(compared(table))}"
    columns = [name for name in CELLS if name[0] == "Δ" or name == "stuck" or (timed and name == "t-95")]
    head = f"In pairs of equal seeds less {reference}; stuck: below 95 % at the end"
    head += "; t-95: n-95 in durations of a typical trial" * timed
    yield f"{head}\n\n{markdown(compared(table, columns))}"
