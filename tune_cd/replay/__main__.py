"""`python -m tune_cd.replay`: search methods compared on landscapes, as tables, and as rows of a results folder."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping

import numpy as np

from tune_cd import results
from tune_cd.analysis import summary
from tune_cd.replay.ablation import ABLATION, ABLATION_3D
from tune_cd.baselines import OPTIMISERS
from tune_cd.descent import BALANCE_SPACES
from tune_cd.formulas import LANDSCAPES, PRINTED
from tune_cd.landscape import DURATIONS, Landscape
from tune_cd.replay.benchmark import PARTS, USUAL, benchmark
from tune_cd.replay.find import MEASURED, find, varied
from tune_cd.replay.simulation import Method, Trajectory, Trial, replay_all
from tune_cd.tables import CELLS, compared, markdown

EPILOG = """\
examples:
  python -m tune_cd.replay                                       tab:hp_res on the four fitted landscapes
  python -m tune_cd.replay --ablation                            tab:ablation
  python -m tune_cd.replay --landscapes batch --ablation         the appendix's A_th
  python -m tune_cd.replay --landscapes rotated narrow --noise 0 0.02 0.05 --methods cd-paper tpe cmaes
  python -m tune_cd.replay --landscapes results/mine --start conventional
  python -m tune_cd.replay --benchmark                           every claim of the README, about 20 minutes on two cores
"""


TRAJECTORIES = 80


def parser() -> argparse.ArgumentParser:
    """All options, each with its default."""
    top = argparse.ArgumentParser(
        prog="python -m tune_cd.replay",
        description="Compare search methods on landscapes: formulas (models fitted to the paper's tables) or measured grids.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = top.add_argument_group("what is compared")
    what.add_argument("--methods", nargs="+", choices=list(OPTIMISERS), default=["random", "cd-paper"], metavar="NAME", help=f"of {', '.join(OPTIMISERS)}; default: random cd-paper")
    what.add_argument("--ablation", action="store_true", help="instead of methods: the variants of the paper's search in tab:ablation and the appendix")
    what.add_argument("--benchmark", nargs="*", choices=list(PARTS), metavar="PART", help=f"instead: every claim about the methods, or parts of {', '.join(PARTS)}; default: all but gp. Takes --trajectories and --processes only")
    what.add_argument("--reference", metavar="NAME", help="method that the others are subtracted from, in pairs; default: the last one, with --ablation the first")
    where = top.add_argument_group("on what")
    where.add_argument("--landscapes", nargs="+", default=list(PRINTED), metavar="NAME", help=f"of {', '.join(LANDSCAPES)}, measured: {', '.join(MEASURED)}; or a results folder or Parquet file with a full grid; default: {' '.join(PRINTED)}")
    where.add_argument("--noise", nargs="+", type=float, default=[0.0], metavar="F", help="standard deviations of the validation score, as shares of a landscape's range; default: 0")
    where.add_argument("--failures", type=float, default=0.0, metavar="P", help="probability that a trial fails; default: %(default)s")
    where.add_argument("--durations", choices=list(DURATIONS), default="equal", help="of trials; default: %(default)s")
    how = top.add_argument_group("how")
    how.add_argument("--trajectories", type=int, metavar="N", help=f"a method and landscape; default: {TRAJECTORIES}, as in the paper, or the part's own")
    how.add_argument("--trials", type=int, default=50, metavar="N", help="a trajectory; default: %(default)s, as in the paper")
    how.add_argument("--workers", type=int, default=1, metavar="N", help="trials at a time, on a simulated clock; default: %(default)s")
    how.add_argument("--start", default="blind", metavar="H", help="blind (drawn in the box; the default), conventional (equal weights of 0.1), near:OCTAVES from the optimum, or NAME=VALUE,...")
    how.add_argument("--seed", type=int, default=0, help="of the first trajectory; the others count on from it; default: %(default)s")
    how.add_argument("--processes", type=int, metavar="N", help="default: one a core")
    how.add_argument("--results", metavar="DIR", help="also store every trial there, in the results schema: a study a landscape")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0, or 2 with a message for options that cannot be answered for."""
    options = parser().parse_args(argv)
    try:
        for table in compare(options) if options.benchmark is None else claims(options):
            print(table, end="\n\n", flush=True)
    except (ValueError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def compare(options: argparse.Namespace) -> Iterable[str]:
    """The tables that the options ask for. Raises ValueError for what does not fit, ImportError without Optuna."""
    landscapes = [varied(find(name), noise, options.durations, options.failures) for name in options.landscapes for noise in options.noise]
    count = TRAJECTORIES if options.trajectories is None else options.trajectories
    if count < 1:
        raise ValueError(f"--trajectories {count}: at least 1 is required")
    seeds = range(options.seed, options.seed + count)
    how = {"trials": options.trials, "workers": options.workers, "start": options.start}
    for methods, group in _groups(landscapes, options):
        trajectories = replay_all(methods, group, seeds, **how, processes=options.processes)
        if options.results:
            store(options.results, trajectories, {landscape.name: landscape for landscape in group}, how)
        reference = options.reference or list(methods)[0 if options.ablation else -1]
        yield from _tables(trajectories, reference, timed=options.workers > 1 or options.durations != "equal")


def claims(options: argparse.Namespace) -> Iterable[str]:
    """The benchmark's tables. Raises ImportError without the rivals' packages."""
    return benchmark(options.benchmark or USUAL, options.trajectories, options.processes)


def store(folder: str, trajectories: list[Trajectory], landscapes: Mapping[str, Landscape], how: Mapping) -> None:
    """Write every trial as a row of the results table: a study a landscape, the method as search. Errors: `write_trial`."""
    for trajectory in trajectories:
        landscape = landscapes[trajectory.landscape]
        for trial in trajectory.trials:
            results.write_trial(folder, _row(trajectory, trial, landscape, how))


def _groups(landscapes: list[Landscape], options: argparse.Namespace) -> list[tuple[dict[str, Method], list[Landscape]]]:
    """(methods, the landscapes they are compared on); the ablation has other variants where a batch size is searched."""
    if not options.ablation:
        return [({name: OPTIMISERS[name] for name in options.methods}, landscapes)]
    groups = []
    for names, methods in zip(BALANCE_SPACES, (ABLATION, ABLATION_3D)):
        groups.append((methods, [landscape for landscape in landscapes if landscape.space.names == names]))
    others = [landscape.name for landscape in landscapes if landscape.space.names not in BALANCE_SPACES]
    if others:
        raise ValueError(f"--ablation on {others}: the axes must be {' or '.join(map(str, BALANCE_SPACES))}")
    return [group for group in groups if group[1]]


def _row(trajectory: Trajectory, trial: Trial, landscape: Landscape, how: Mapping) -> dict:
    config = {"landscape": landscape.name, "noise": landscape.noise, "durations": landscape.durations}
    config |= {"failures": landscape.failures, "started": trial.started, "ended": trial.ended, **how}
    search = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in trajectory.method)
    return {
        "study": f"replay-{landscape.name}",
        "dataset": landscape.name,
        "search": trajectory.method,
        "search_seed": trajectory.seed,
        "trial_id": f"{search}-{trajectory.seed:05d}-{trial.index:04d}",
        "trial_index": trial.index,
        "attempt": 0,
        "direction": trial.direction,
        "line_position": trial.line_position,
        "params": trial.h,
        **{name: trial.h.get(name) for name in ("Lambda_p", "Lambda_e", "batch_size")},
        "status": trial.status,
        "metric_name": "M(h)",
        "val_score": trial.value,
        "test_score": trial.test,
        "scores": {"reached": trial.reached},
        "config": json.dumps(config),
        "software": json.dumps({"numpy": np.__version__}),
    }


def _tables(trajectories: list[Trajectory], reference: str, timed: bool) -> Iterable[str]:
    table = summary([trajectory.as_curve() for trajectory in trajectories], reference)
    count = table["trajectories"].max()
    yield f"Means over {count} trajectories ± half the 95 % interval; n-95: trials to 95 % of the best reached\n\n{markdown(compared(table))}"
    columns = [name for name in CELLS if name[0] == "Δ" or name == "stuck" or (timed and name == "t-95")]
    yield f"In pairs of equal seeds less {reference}; stuck: below 95 % at the end\n\n{markdown(compared(table, columns))}"


if __name__ == "__main__":
    sys.exit(main())
