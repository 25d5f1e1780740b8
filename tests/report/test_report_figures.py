"""`--figures`: every figure and table of the paper that a results table gives, as files, for every kind of study there
is."""

import json
import re
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import kinds
import pandas as pd
import pytest
from figure_checks import laid_out_alone, touched
from PIL import Image
from studies import full_grid, lost, plain, row, search_study, store, table

from tune_cd import analysis, plots, results
from tune_cd.analysis.tables import best_values
from tune_cd.report import figures
from tune_cd.report.__main__ import main
from tune_cd.report.figures import figures_of, write_figures
from tune_cd.report.printed import methods, readable, tables_of

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

THEORY = {"directions", "constraints", "pipeline"}
CURVES = {"curves-trials", "curves-seconds"}
PATH = {"path", "sub-losses"}


def below(study: str, *names: str) -> set[str]:
    return {f"{study}/{name}" for name in names}


def timed(name: str) -> list[str]:
    """The figure that trials with times give."""
    return ["timeline"] * bool(kinds.landscape(name)["started_at"].notna().any())


KINDS = {
    "main job": (
        kinds.main_job,
        CURVES | THEORY | below("glyphs-margin", "timeline", *PATH),
        {"methods", "best-values", "gains"},
    ),
    "lost trials": (
        kinds.lost_trials,
        CURVES | THEORY | below("glyphs-margin", "timeline", *PATH),
        {"methods", "best-values", "gains"},
    ),
    "replicates": (
        kinds.replicates,
        CURVES | THEORY | below("glyphs-margin", "timeline", *PATH),
        {"methods", "best-values", "gains"},
    ),
    "on GPUs": (
        kinds.on_gpus,
        CURVES | {"curves-gpu-seconds"} | THEORY | below("glyphs-margin", "timeline", *PATH),
        {"methods", "best-values", "gains"},
    ),
    "three axes": (
        kinds.three_axes,
        CURVES | THEORY | below("three", "timeline", *PATH),
        {"methods", "best-values", "gains"},
    ),
    "memory": (
        kinds.memory,
        CURVES
        | THEORY
        | below(
            "xbm", "timeline", *(f"memory={mode}/{name}" for mode in ("none", "variable", "fixed") for name in PATH)
        ),
        {"best-values", "memory"},
    ),
    "grid over three axes": (
        kinds.volume,
        THEORY | below("s", "landscape", "landscape-16", "landscape-32", "landscape-64", "balance-gain"),
        {"best-values"},
    ),
    "own parameters": (kinds.own_parameters, CURVES | below("my-study", "timeline", "path"), set()),
    "own grid": (kinds.own_grid, below("sweep", "landscape"), set()),
    "written rows": (kinds.written, {"curves-trials"} | below("written", "path"), set()),
} | {
    name: (
        lambda name=name: kinds.landscape(name),
        THEORY | below(name, *timed(name), "landscape", "landscape-64", "sub-losses"),
        {"best-values"},
    )
    for name in ("glyphs-margin", "omniglot-242-margin", "omniglot-242-infonce")
}
"""Kind of study -> its table, the figures and the tables that it gives, and no others."""


def elsewhere(monkeypatch, *figures):
    """Figures that need no trial are drawn in tests/plots."""
    for name in figures:
        monkeypatch.setattr(plots, name, lambda *given: plots.style.empty_figure("drawn elsewhere"))


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are made; those that need no trial are made elsewhere."""
    monkeypatch.setattr(plots, "save", touched)
    elsewhere(monkeypatch, "directions_figure", "constraints_figure", "pipeline_figure")


@pytest.fixture
def drawn(monkeypatch, undrawn):
    """Every artist is asked to draw itself as well: all but the layout and the pixels."""

    def save(figure, stem):
        figure.set_layout_engine("none")
        figure.draw_without_rendering()
        return touched(figure, stem)

    monkeypatch.setattr(plots, "save", save)


@pytest.fixture
def laid_out(monkeypatch, undrawn):
    """Figures are drawn with their layout: all but the pixels."""

    monkeypatch.setattr(plots, "save", laid_out_alone)


def names(files, folder: Path, *endings: str) -> set[str]:
    """What was written with each of these endings, without them."""
    found = [
        {str(file.relative_to(folder).with_suffix("")) for file in files if file.suffix == ending} for ending in endings
    ]
    assert all(one == found[0] for one in found)
    return found[0]


ALONE = ("lost trials", "own parameters")
"""On their own in the short run too: the main job is drawn for real, the others are made in a folder of all kinds."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.faults] * (kind not in ALONE)) for kind in KINDS]
)
def test_every_kind_of_study_gives_all_its_figures_and_tables(kind, tmp_path, laid_out):
    make, expected, printed = KINDS[kind]
    trials = make()
    before = trials.copy()
    written = write_figures(trials, tmp_path)
    assert written.failed == {} and trials.equals(before)
    assert (
        names([file for file in written.files if file.suffix in (".svg", ".png")], tmp_path, ".svg", ".png") == expected
    )
    assert names([file for file in written.files if file.suffix in (".md", ".tex")], tmp_path, ".md", ".tex") == printed
    assert sorted(written.files) == sorted(file for file in tmp_path.rglob("*") if file.is_file())


@pytest.mark.slow
def test_a_folder_of_all_kinds_gives_what_each_gives(tmp_path, undrawn):
    """Several studies of one dataset and other set-ups, grids, replays, a user's own, all as pandas.read_parquet reads
    them: nothing is mixed, nothing is missing."""
    tables = {
        name: make()
        for name, (make, *_) in KINDS.items()
        if name not in ("lost trials", "replicates", "on GPUs", "glyphs-margin")
    }
    trials = kinds.several([*tables.values(), kinds.replays(tmp_path / "replays")])
    written = write_figures(plain(trials), tmp_path / "out")
    assert written.failed == {}
    expected = (
        {name for kind in tables for name in KINDS[kind][1] if "/" in name}
        | CURVES
        | THEORY
        | {"replay-omniglot/path", "replay-sop/path"}
    )
    assert (
        names([file for file in written.files if file.suffix in (".svg", ".png")], tmp_path / "out", ".svg", ".png")
        == expected
    )
    assert names(
        [file for file in written.files if file.suffix in (".md", ".tex")], tmp_path / "out", ".md", ".tex"
    ) == {"methods", "best-values", "memory", "gains"}
    text = (tmp_path / "out/methods.md").read_text()
    titles = re.findall(r"^Search methods on (.+?)\. ", text, re.MULTILINE)
    assert len(titles) == len(set(titles)) and {"omniglot", "sop"} <= set(titles) and "xbm" not in text


def batchless(trials):
    return trials.assign(batch_size=pd.array([pd.NA] * len(trials), dtype="Int64"))


LACKING = {
    "no test scores": lambda t: t.assign(test_score=float("nan")),
    "some test scores": lambda t: t.assign(test_score=t["test_score"].where(t["trial_index"] > 3)),
    "no times": lambda t: t.assign(started_at=pd.NaT, ended_at=pd.NaT),
    "ends alone": lambda t: t.assign(started_at=pd.NaT),
    "some times": lambda t: t.assign(ended_at=t["ended_at"].where(t["trial_index"] != 2)),
    "equal scores": lambda t: t.assign(val_score=0.5, test_score=0.5),
    "scores of zero": lambda t: t.assign(val_score=0.0, test_score=0.0),
    "negative scores": lambda t: t.assign(val_score=-1 - t["val_score"], test_score=-1 - t["test_score"]),
    "no seeds": lambda t: t.assign(seed=pd.NA, search_seed=pd.NA),
    "objects": lambda t: t.astype(
        dict.fromkeys(("batch_size", "gpus", "val_score", "Lambda_p", "test_score", "seed"), object)
    ),
    "no batch sizes": batchless,
    "one setting": lambda t: t.assign(Lambda_p=1.0, Lambda_e=1.0, params=[{"Lambda_p": 1.0, "Lambda_e": 1.0}] * len(t)),
    "two search seeds": lambda t: kinds.several([t, t.assign(search_seed=1)]),
    "several seeds of some": lambda t: kinds.several([t, t.query("trial_index < 3").assign(seed=1, test_score=0.4)]),
    "stopped": lambda t: t.assign(status=t["status"].where(t["trial_index"] % 2 == 0, "stopped")),
}
"""What is done to the main job's table."""

TOGETHER = (
    ("no test scores", "no seeds", "no batch sizes", "ends alone"),
    ("negative scores", "some test scores", "some times", "stopped", "objects"),
    ("scores of zero", "one setting", "no times"),
    ("two search seeds", "several seeds of some"),
)
"""In the short run several at once, in the long run each on its own."""


def lacking(*names):
    trials = kinds.main_job()
    for name in names:
        trials = LACKING[name](trials)
    return trials


ODD = {
    "no completed trial": lambda: kinds.main_job().assign(
        status="failed", val_score=float("nan"), test_score=float("nan"), positive_term=float("nan")
    ),
    "lost": lost,
    "one trial": lambda: kinds.main_job().iloc[:1],
    "one trial that failed": lambda: table([row(0, "failed")]),
    "grid of one column": lambda: table(
        row(n, val=0.1 * n, params={"Lambda_p": 1.0, "Lambda_e": 2.0**n, "batch_size": 64}) for n in range(5)
    ),
    "grid without a score": lambda: kinds.volume().assign(status="diverged", val_score=float("nan")),
    "grid without a batch size": lambda: table(
        row(n, val=0.1 * n, test_score=0.1, params={"Lambda_p": 2.0 ** (n // 4), "Lambda_e": 2.0 ** (n % 4)})
        for n in range(16)
    ),
    "grid with a test score at one size": lambda: kinds.volume().assign(
        test_score=lambda t: t["test_score"].where(t["batch_size"] == 16)
    ),
    "one own parameter": lambda: table(row(n, val=0.1 * n, search="cd", params={"lr": 2.0**n}) for n in range(5)),
    "own parameters of zero": lambda: table(
        row(n, val=0.1 * n, search="cd", params={"lr": 2.0**n, "momentum": 0.9 * (n % 2), "warm": 1.0 + n})
        for n in range(5)
    ),
    "no parameter": lambda: table(row(n, val=0.1 * n, search="cd", params={}) for n in range(5)),
    "whole table of nothing": lambda: table([]),
}


ODD |= {", ".join(names): partial(lacking, *names) for names in TOGETHER}
SINGLY = {name: partial(lacking, name) for name in LACKING}


@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name) for name, make in ODD.items()]
    + [pytest.param(make, id=name, marks=pytest.mark.faults) for name, make in SINGLY.items()],
)
def test_tables_that_lack_something_cost_no_figure(make, tmp_path, drawn):
    written = write_figures(make(), tmp_path)
    assert written.failed == {} and all(file.is_file() for file in written.files)


BEYOND = {"values far apart", "weights far apart", "a grid far apart", "scores far apart", "scores of 1e308"}
BEYOND |= {"scores of both signs", "numbers"}
"""Studies with numbers at the ends of what a float holds: a figure of these may fail on its own."""


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize(
    "chosen", [slice(0, None, 2), pytest.param(slice(1, None, 2), marks=pytest.mark.faults)], ids=["even", "odd"]
)
def test_no_row_that_the_schema_allows_costs_a_figure(chosen, tmp_path, drawn):
    for name, trials in list(kinds.odd().items())[chosen]:
        failed = write_figures(trials, tmp_path / name).failed
        assert not failed or name in BEYOND, (name, failed)


# For real -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def main_job(tmp_path_factory):
    """(what was written of the main job, its folder), as it is for a user, but for two figures that need nothing."""
    folder = tmp_path_factory.mktemp("figures")
    trials = kinds.main_job()
    before = trials.copy()
    with pytest.MonkeyPatch.context() as patched:
        elsewhere(patched, "constraints_figure", "pipeline_figure")
        written = write_figures(trials, folder)
    assert trials.equals(before)
    return written, folder


def test_pictures_are_pictures_and_tables_are_tables(main_job):
    written, folder = main_job
    _, expected, printed = KINDS["main job"]
    pictures = [file for file in written.files if file.suffix in (".svg", ".png")]
    assert written.failed == {} and names(pictures, folder, ".svg", ".png") == expected
    tables = [file for file in written.files if file.suffix in (".md", ".tex")]
    assert names(tables, folder, ".md", ".tex") == printed
    assert sorted(written.files) == sorted(file for file in folder.rglob("*") if file.is_file())
    for file in (file for file in written.files if file.stem not in ("constraints", "pipeline")):
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert min(image.size) > 300 and len(image.convert("RGB").getcolors(10**7)) > 10
        elif file.suffix == ".svg":
            assert ElementTree.parse(file).getroot().tag.endswith("svg")
        elif file.suffix == ".md":
            rows = [line for line in file.read_text().splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in rows}) == 1 and len(rows) > 2
        else:
            text = file.read_text()
            assert text.count(r"\begin{") == text.count(r"\end{") == 2 and re.search(
                r"\\caption\{.+\}\n\\label\{tab(le)?:\w+\}", text
            )


def test_the_command_writes_them_and_says_how_many(tmp_path, capsys, undrawn):
    store(tmp_path / "r", kinds.main_job())
    assert main([str(tmp_path / "r"), "--figures", str(tmp_path / "out"), "-o", str(tmp_path / "report.html")]) == 0
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    said = capsys.readouterr()
    assert f"{len(files)} files of figures and tables: {tmp_path / 'out'}" in said.out and said.err == ""
    assert names([file for file in files if file.suffix == ".png"], tmp_path / "out", ".png") == KINDS["main job"][1]


def test_a_figure_that_cannot_be_drawn_costs_no_other_and_is_named(tmp_path, capsys, monkeypatch, drawn):
    """Neither one that fails as it is made, nor as it is drawn, nor what is computed before; none of an earlier run is
    left in its place."""
    from matplotlib.figure import Figure

    class Unfit(Figure):
        def draw(self, renderer):
            raise RuntimeError("no room")

    store(tmp_path / "r", kinds.main_job())
    command = [str(tmp_path / "r"), "--figures", str(tmp_path / "out"), "-o", str(tmp_path / "report.html")]
    (tmp_path / "out/glyphs-margin").mkdir(parents=True)
    for name in ("sub-losses", "timeline"):
        touched(None, tmp_path / "out/glyphs-margin" / name)
    monkeypatch.setattr(plots, "timeline_figure", lambda trials: Unfit())
    monkeypatch.setattr(figures, "sublosses", lambda trials, score: 1 / 0)
    monkeypatch.setattr("tune_cd.analysis.tables.best_values", lambda trials: [][0])
    assert main(command) == 1
    said = capsys.readouterr()
    lines = sorted(said.err.splitlines())
    assert lines == [
        "error: best-values could not be made: IndexError: list index out of range",
        "error: glyphs-margin/sub-losses could not be made: ZeroDivisionError: division by zero",
        "error: glyphs-margin/timeline could not be made: RuntimeError: no room",
    ]
    missing = {"glyphs-margin/sub-losses", "glyphs-margin/timeline"}
    pictures = [file for file in (tmp_path / "out").rglob("*") if file.suffix in (".svg", ".png")]
    assert (
        names(pictures, tmp_path / "out", ".svg", ".png") == KINDS["main job"][1] - missing
        and (tmp_path / "report.html").is_file()
    )


def test_what_cannot_be_written_ends_the_command(tmp_path, capsys, undrawn):
    results.write_trial(tmp_path / "r", {name: value for name, value in row(0).items() if value is not None})
    (tmp_path / "out").mkdir()
    (tmp_path / "out/s").write_text("a file where a folder should be")
    assert main([str(tmp_path / "r"), "--figures", str(tmp_path / "out"), "-o", str(tmp_path / "report.html")]) == 2
    assert "error: " in capsys.readouterr().err


# What is in them ----------------------------------------------------------------------------------------------


def test_the_path_is_the_searchs_own_and_not_a_baselines():
    """Also where a baseline found the best; of a study of lines alone the best is drawn."""
    trials = kinds.main_job().assign(val_score=lambda t: t["val_score"].where(t["search"] == "cd", 0.99))
    path = dict(figures_of(trials))["path"]()
    assert path.axes[0].get_title().startswith("cd, study glyphs-margin")
    alone = dict(figures_of(trials[trials["search"] != "cd"].reset_index(drop=True)))["path"]()
    assert "(the best of 2 searches)" in alone.axes[0].get_title()


def test_axes_say_the_metric():
    made = dict(figures_of(kinds.main_job()))
    bar = made["sub-losses"]().axes[-1]
    assert bar.get_ylabel() == "test r_map"
    own = dict(figures.figures_of_all(kinds.own_parameters()))["curves-trials"]().axes[0]
    assert (
        own.get_ylabel() == "validation accuracy of the best so far"
        and own.get_xlabel() == "trials (whole training runs)"
    )
    paths = dict(figures_of(kinds.own_parameters()))["path"]().axes[0]
    assert (paths.get_xlabel(), paths.get_ylabel()) == ("lr", "weight_decay")
    both = kinds.several([kinds.main_job(), kinds.own_parameters()])
    panels = dict(figures.figures_of_all(both))["curves-trials"]().axes
    assert [axes.get_title() for axes in panels] == ["glyphs: test r_map", "my-study: validation accuracy"] and panels[
        0
    ].get_ylabel() == "score of the best so far"


def test_a_grids_cells_are_no_curve_and_its_best_is_what_searches_are_measured_by():
    grid = kinds.landscape("glyphs-margin")
    looks = json.loads(kinds.main_job()["config"].iloc[0])["evaluations"]  # of another number, set-ups would differ
    grid["config"] = [json.dumps(json.loads(config) | {"evaluations": looks}) for config in grid["config"]]
    assert dict(figures.figures_of_all(grid))["curves-trials"]() is None and methods(analysis.curves_of(grid)) is None
    job = kinds.several([kinds.main_job().assign(study="job"), grid])
    axes = dict(figures.figures_of_all(job))["curves-trials"]().axes[0]
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert set(drawn) == {"cd", "global", "separate", "95 % of the best"}
    assert drawn["95 % of the best"].get_ydata()[0] == pytest.approx(0.95 * grid["test_score"].max()), (
        "the set-up is the same"
    )
    cells, words = methods(analysis.curves_of(job))
    assert (
        list(cells.index) == ["cd", "global", "separate"]
        and f"at {0.95 * grid['test_score'].max():.4f}, 95 % of the best that any reached, the grid's cells included"
        in words
    )


def test_time_is_drawn_where_it_is_known():
    """A study without times costs no other's curves over time; one that used no GPU has none over GPU time."""
    trials = kinds.several(
        [kinds.own_parameters(), kinds.written(), kinds.on_gpus().assign(study="gpus", dataset="other")]
    )
    made = dict(figures.figures_of_all(trials))
    titles = {
        over: [axes.get_title().split(":")[0] for axes in made[f"curves-{over}"]().axes]
        for over in ("trials", "seconds", "gpu-seconds")
    }
    assert titles == {
        "trials": ["my-study", "other", "written"],
        "seconds": ["my-study", "other"],
        "gpu-seconds": ["other"],
    }


def test_columns_that_say_nothing_are_left_out():
    cells, words = methods(analysis.curves_of(kinds.main_job()))
    assert list(cells) == ["AUC@5", "AUC@10", "AUC@20", "n-95"], (
        "one search each: nothing is paired, no number has an interval"
    )
    assert (
        cells.loc["separate", "AUC@10"] == "-"
        and "±" not in cells.to_string()
        and "(" not in cells.loc["cd", "n-95"]
        and "of one search each" in words
    )
    several = pd.concat(
        [
            search_study([0.1 * seed, 0.5], search, seed, test=[0.1 * seed, 0.4 + 0.01 * seed])
            for search in ("cd", "random")
            for seed in range(9)
        ]
    )
    cells, words = methods(analysis.curves_of(several))
    assert list(cells) == ["searches", "n-95"] and "to" in cells.loc["cd", "n-95"] and "bootstrap" in words, (
        "two trials have no AUC@5, nor a difference of it"
    )
    long = pd.concat(
        [
            search_study(
                [0.01 * seed + 0.02 * n for n in range(20)],
                search,
                seed,
                test=[0.01 * seed + 0.02 * n for n in range(20)],
            )
            for search in ("cd", "random")
            for seed in range(3)
        ]
    )
    cells, words = methods(analysis.curves_of(long))
    assert {"AUC@20", "ΔAUC@20"} <= set(cells) and "±" in cells.loc["cd", "AUC@5"] and "less cd's" in words
    assert methods(analysis.curves_of(kinds.memory())) is None, "the experiment's searches know each other's trials"


def test_intervals_stand_beside_their_means():
    best = readable(best_values(kinds.replicates()))
    assert (
        re.fullmatch(r"0\.\d{4} ±0\.\d{4}", best.loc[0, "test"])
        and best.loc[0, "seeds"] == 3
        and re.fullmatch(r"0\.\d{4}", best.loc[0, "validation"])
    )
    once = readable(best_values(kinds.main_job()))
    assert "±" not in once.loc[0, "test"] and "set-up" not in once and "test_ci" not in once


def test_several_datasets_have_memory_tables_of_their_own():
    """Two studies of the experiment: no number of one stands for the other's."""
    both = kinds.several(
        [
            kinds.memory(),
            kinds.memory("sop", "xbm-sop", network="resnet50").assign(
                scores=lambda t: [scores | {"test_precision_at_1": 0.25} for scores in t["scores"]]
            ),
        ]
    )
    made = tables_of(both)
    text = made["memory"]()["md"]
    first = text.split("Cross-batch memory on ")[0]
    assert "0.25 / -" not in first and text.count("| (S1) Original") == 2
    captions = re.findall(r"Cross-batch memory on (\w+)", text)
    assert captions == ["glyphs", "sop"]
    numbers = made["base-numbers"]()["md"]
    own = [line for line in numbers.splitlines() if line.startswith("|") and "this table" in line]
    assert len(own) == 3 and all(line.startswith("| sop ") for line in own) and "memory=variable" in numbers, (
        "nothing is published of glyphs"
    )


def test_long_and_equal_names_of_set_ups_have_folders_of_their_own(tmp_path, undrawn):
    configs = [{"network": f"module{separator}net" + "x" * 90, "k": 2} for separator in ":/"]
    trials = table(
        row(n, val=0.5, study="s", search="cd", config=configs[n % 2], params={"Lambda_p": 2.0**n, "Lambda_e": 1.0})
        for n in range(6)
    )
    written = write_figures(trials, tmp_path)
    folders = {file.parent.name for file in written.files if file.name == "path.png"}
    assert written.failed == {} and len(folders) == 2 and all(len(name) < 90 for name in folders)


@pytest.mark.faults
def test_a_grid_over_three_axes_for_real(tmp_path):
    searches = [
        search_study([0.2, 0.3 + seed / 50, 0.5], search, seed, study="lines", dataset="sop-12")
        for search in ("cd", "random")
        for seed in range(5)
    ]
    lines = pd.concat(searches).assign(scores=lambda t: [{"test_r_map": score} for score in t["test_score"]])
    written = write_figures(pd.concat([full_grid(6, (16, 64)), lines], ignore_index=True), tmp_path)
    expected = {
        "curves-trials",
        "directions",
        "constraints",
        "pipeline",
        "s/landscape",
        "s/landscape-16",
        "s/landscape-64",
        "s/balance-gain",
    }
    assert (
        names([file for file in written.files if file.suffix == ".png"], tmp_path, ".png") >= expected
        and written.failed == {}
    )
    assert {"methods", "best-values", "base-numbers"} == names(
        [file for file in written.files if file.suffix == ".md"], tmp_path, ".md"
    )
