"""The searches of a study as Ray Tune runs: trials wired to their trainable and to the results table."""

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from math import nan
from pathlib import Path

import pandas as pd
from ray import tune
from ray.tune.search import Searcher

from trainables.trial import TrainTrial
from tune_cd import balance, results
from tune_cd.analysis import best_trial, means_over_seeds, on_diagonal
from tune_cd.analysis.scores import searching
from tune_cd.cluster.watch import Load
from tune_cd.results.attempts import to_retry
from tune_cd.results.rows import trial_name
from tune_cd.run.cluster import Counting
from tune_cd.run.lock import user
from tune_cd.run.options import ORIGIN
from tune_cd.run.progress import Progress
from tune_cd.run.recorder import Recorder, fixed_fields
from tune_cd.run.resources import Resources
from tune_cd.run.searches import Search, alike
from tune_cd.run.streak import LossesInARow
from tune_cd.run.study import Study
from tune_cd.run.together import Member, Together
from tune_cd.search.registry import given
from tune_cd.tune.callback import ResultsCallback
from tune_cd.tune.optimiser_search import OptimiserSearch
from tune_cd.tune.packed import PACK, PackedSearch

STATUS_SECONDS = 60  # between two tables of Ray's reporter
PATIENCE = 10.0  # seconds that rows are waited for which the store does not take, where the run was interrupted


def run_searches(study: Study, searches: list[Search], resources: Resources, load: Load) -> None:
    """Train what is left of searches that share a set-up. Trainings whose rows exist are not repeated. load: kept up to
    date."""
    table = results.read(study.results, study.name)
    again = table[to_retry(table, failed=study.call.retry_failed)]
    members = _members(study, searches, table, table.drop(again.index), resources)
    if not members:
        return
    recorder = Recorder(study, searches[0], resources, again)
    _tune(study, searches, members, resources, table.drop(again.index), recorder, Counting(load))
    table = results.read(study.results, study.name)
    for search in searches:
        done = _done(table, search)
        if search.name in members and members[search.name].searcher.finished and done < search.num_samples:
            print(_stopped(search, done))


def _members(
    study: Study, searches: list[Search], table: pd.DataFrame, ended: pd.DataFrame, resources: Resources
) -> dict[str, Member]:
    """The searches with something left to train, by name. ended: the table without trials that are run again."""
    members: dict[str, Member] = {}
    for search in searches:
        if search.make is given:
            search = replace(search, start=_chosen(study, search, ended)) if search.repeats else search
            final = _whole(ended, len(seeds_of(study, search)))
            if (reason := _needless(study, search, final)) is not None:
                print(f"[{search.name}]  {reason}")
                continue
        searcher, done = _searcher(study, search, table, ended, resources)
        if done >= search.num_samples:
            print(f"[{search.name}]  all {done} trials are in the table already")
        elif searcher.finished:
            print(_stopped(search, done))
        else:
            members[search.name] = Member(searcher, search.num_samples - done)
    return members


def _tune(
    study: Study,
    searches: list[Search],
    members: dict[str, Member],
    resources: Resources,
    ended: pd.DataFrame,
    recorder: Recorder,
    counting: Counting,
) -> None:
    """One Tune run, from the first suggestion to the last trial. Nothing that it keeps itself is needed to go on."""
    key = partial(_key, study)
    searcher: Searcher = Together(members, key, resources.workers)
    seeds = seeds_of(study, searches[0])
    if packed := resources.packed or seeds != [study.config.seed]:
        searcher = PackedSearch(
            searcher, resources.pack, metric="val_score", mode="max", packs=resources.processes,
            seeds=seeds, known=partial(_measured, _values(study, ended, searches[0]), key),
        )  # fmt: skip
    failures = ResultsCallback(
        study.results, study.name, metric="val_score", fields=fixed_fields(study),
        identify=recorder.identity, annotate=ORIGIN, record="failures",
    )  # fmt: skip
    progress = Progress({search.name: search.num_samples for search in searches}, ended, study.setup.metric, len(seeds))
    losses = LossesInARow(resources.processes)
    tuner = tune.Tuner(
        trainable(study, searches[0], resources, recorder),
        param_space={"batch_size": study.config.batch_size, "seed": study.config.seed},
        tune_config=tune.TuneConfig(
            metric="val_score",
            mode="max",
            num_samples=-1,  # the searches have budgets of their own
            search_alg=searcher,
            max_concurrent_trials=resources.processes,
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name="-".join(members),
            storage_path=tempfile.mkdtemp(prefix=f"{study.name}-", dir=tune_folder(study.call.tune_dir)),
            callbacks=[progress, failures, counting, losses],
            stop=losses,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=study.call.max_failures),
            progress_reporter=tune.CLIReporter(
                metric_columns=["images_seen", "val_score", "time_total_s"],
                parameter_columns=[] if packed else ["Lambda_p", "Lambda_e", "batch_size"],
                max_report_frequency=STATUS_SECONDS,
            ),
            verbose=int(study.call.verbose),
        ),
    )
    try:
        tuner.fit()
    finally:
        failures.close(PATIENCE)
    if losses.broken is not None:
        raise OSError(losses.broken)


def tune_folder(given: str | None) -> Path:
    """Where Ray Tune keeps files of its own: beside the results they could fill the disk, and fail with the store."""
    folder = Path(given) if given is not None else Path(tempfile.gettempdir(), f"tune_cd-{user()}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def seeds_of(study: Study, search: Search) -> list[int]:
    """Of every setting's trainings."""
    if search.seeds is not None:
        return list(search.seeds)
    return [study.config.seed + n for n in range(study.config.replicates)]


def _searcher(
    study: Study, search: Search, table: pd.DataFrame, ended: pd.DataFrame, resources: Resources,
) -> tuple[OptimiserSearch, int]:  # fmt: skip
    """The search as it goes on from its rows, and how many of its settings are done with."""
    searcher = OptimiserSearch(
        study.space, "val_score", "max", make=search.make, points_to_evaluate=search.starts, annotate=ORIGIN
    )
    searcher.set_max_concurrency(resources.workers if search.workers is None else search.workers)
    seeds = len(seeds_of(study, search))
    final = _whole(ended, seeds)
    for told in results.history(final[final["search"] == search.knows]):
        searcher.add_evaluated_point(told.h, told.value, pruned=told.censored)
    others = [other.name for other in study.searches if alike(other, search) and other.name != search.name]
    searcher.reuse(final[final["search"].isin(others)])
    begun, whole = table[table["search"] == search.name], _whole(table, seeds)
    again = begun[~begun.index.isin(ended.index)]
    searcher.recall(begun, whole[whole["search"] == search.name], again)
    return searcher, 0 if search.make is given else _done(final, search)


def _chosen(study: Study, search: Search, ended: pd.DataFrame) -> list[dict] | None:
    """The best settings of the searches that this one repeats, by validation, means over seeds; None without any."""
    final = _whole(ended, study.config.replicates)
    groups = [[name] for name in search.repeats] if search.each else [list(search.repeats)]
    bests = [best_trial(means_over_seeds(_asked_by(study, names, final))) for names in groups]
    chosen = [study.space.check(best["params"]) for best in bests if best is not None]
    return list({study.space.key(h): h for h in chosen}.values()) or None


def _asked_by(study: Study, names: list[str], final: pd.DataFrame) -> pd.DataFrame:
    """The rows of some searches. A recipe's are all on its diagonal: it is told what others trained there."""
    if len(names) == 1 and names[0] in balance.AVERAGES:
        return on_diagonal(searching(final), names[0], study.setup.k)
    return final[final["search"].isin(names)]


def _needless(study: Study, search: Search, final: pd.DataFrame) -> str | None:
    """Why a search of one given setting has nothing to train, if so."""
    if search.start is None:
        return f"nothing to train: no trial of {' or '.join(search.repeats)} has completed"
    rows, key = _rows_alike(study, final, search), study.space.key
    trained = {key(params) for params in rows["params"]} >= {key(start) for start in search.starts}
    return "its setting is in the table already" if trained else None


def _whole(table: pd.DataFrame, replicates: int) -> pd.DataFrame:
    """The rows of settings all of whose trainings have ended."""
    if replicates == 1 or table.empty:
        return table
    return table[table.groupby(["search", "trial_index"])["seed"].transform("nunique") >= replicates]


def _done(table: pd.DataFrame, search: Search) -> int:
    return table.loc[table["search"] == search.name, "trial_index"].nunique()


def _key(study: Study, config: Mapping) -> tuple:
    """Equal for settings that are one training apart from the seed."""
    return study.space.key({name: config[name] for name in study.space.names})


def _values(study: Study, table: pd.DataFrame, search: Search) -> dict[tuple, float]:
    """What came of settings with one seed, NaN for no number: their other trainings may be missing, these are not
    repeated."""
    rows = _rows_alike(study, table, search)
    return {
        (_key(study, row.params), int(row.seed)): row.val_score if row.status == "completed" else nan
        for row in rows.itertuples()
    }


def _rows_alike(study: Study, table: pd.DataFrame, search: Search) -> pd.DataFrame:
    """The rows of trainings that stand for those of this search."""
    return table[table["search"].isin([other.name for other in study.searches if alike(other, search)])]


def _measured(values: dict[tuple, float], key, config: Mapping, seed: int) -> float | None:
    return values.get((key(config), seed))


def _stopped(search: Search, done: int) -> str:
    if search.make is given:
        return f"[{search.name}]  its setting was trained by another search"
    if search.line:
        bracketed = "the best of its line is bracketed within a third of an octave"
        return f"[{search.name}]  exhausted after {done} trials: {bracketed}"
    return f"[{search.name}]  ended by itself after {done} of {search.num_samples} trials: no line promises more"


def _trial_name(trial) -> str:
    members = trial.config.get(PACK, [trial.config])
    names = [trial_name(member[ORIGIN]["search"], member[ORIGIN]["trial_index"]) for member in members]
    return names[0] if len(set(names)) == 1 else f"{names[0]}-to-{names[-1]}"


def trainable(study: Study, search: Search, resources: Resources, recorder: Recorder):
    """The trainable class with its fixed parameters and resources bound."""
    bound = tune.with_parameters(
        TrainTrial,
        setup_fields=asdict(search.setup),
        data_root=study.data_root,
        threads=resources.cpus,
        recorder=recorder,
        download=study.call.download,
        gpus=resources.gpus,
        limit=study.call.trial_timeout,
        checkpoint_seconds=study.call.checkpoint_seconds,
    )
    return tune.with_resources(bound, {"cpu": resources.cpus, "gpu": resources.gpus})
