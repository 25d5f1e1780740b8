"""`--figures`: every figure and table of the paper that a results table gives, as files, for every kind of study there
is."""

import json
import re
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import studies
from figure_checks import laid_out_alone, touched
from odd_studies import odd
from PIL import Image
from studies import TWINS, VICREG, full_grid, gridded_terms, plain, search_study, searched_terms, store, table

from tune_cd import analysis, plots
from tune_cd.landscapes.measured import load
from tune_cd.report import figures
from tune_cd.report.__main__ import main
from tune_cd.report.figures import write_figures
from tune_cd.report.printed import methods, printed
from tune_cd.results.rows import DIGEST

pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

volume = partial(full_grid, 6, (16, 32, 64))
THEORY = {"directions", "constraints", "pipeline"}
CURVES = {"curves-trials", "curves-seconds"}
COMPARED = {"methods", "best-values"}
SLICES = {"s/landscape", "s/landscape-16", "s/landscape-32", "s/landscape-64", "s/balance-gain"}

OF_A_JOB = CURVES | THEORY | {"glyphs-margin/sub-losses"}, COMPARED
OF_MEMORY = {f"xbm/{mode}/sub-losses" for mode in ("1-memory=fixed", "2-memory=none", "3-memory=variable")}


def of_landscape(name):
    figures = {f"{name}/{one}" for one in ("landscape", "landscape-64", "sub-losses")}
    return lambda: load(name).at(64).rows(), THEORY | figures


KINDS = {
    "main job": (studies.main_job, *OF_A_JOB),
    "lost trials": (studies.lost_trials, *OF_A_JOB),
    "on GPUs": (studies.on_gpus, *OF_A_JOB),
    "three axes": (studies.three_axes, CURVES | THEORY | {"three/sub-losses"}, COMPARED),
    "memory": (studies.memory, CURVES | THEORY | OF_MEMORY, {"best-values", "memory"}),
    "grid over three axes": (volume, THEORY | SLICES, {"best-values"}),
    "three terms": (
        partial(searched_terms, VICREG, study="three-terms"), CURVES | {"three-terms/sub-losses"}, {"methods"},
    ),
    "two terms on a grid": (
        partial(gridded_terms, TWINS, study="twins"), {"twins/landscape", "twins/sub-losses"}, set(),
    ),
    "a pair of published weights": (
        partial(searched_terms, {"Lambda_p": 1.0, "Lambda_e": 4.0}, study="pair"), CURVES | THEORY, COMPARED,
    ),
    "own tuner": (lambda: studies.own_tuner()[0], CURVES, set()),
    "own grid": (studies.own_grid, set(), set()),
    "written rows": (studies.written, {"curves-trials"}, set()),
} | {
    name: (*of_landscape(name), {"best-values"})
    for name in ("glyphs-margin", "omniglot-242-margin", "omniglot-242-infonce")
}  # fmt: skip
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


def names(folder: Path, *endings: str) -> set[str]:
    """What lies below a folder with each of these endings, without them."""
    found = [{str(file.relative_to(folder).with_suffix("")) for file in folder.rglob(f"*{end}")} for end in endings]
    assert all(one == found[0] for one in found)
    return found[0]


def check(written, folder: Path, pictures: set[str], tables: set[str]):
    """These figures and tables were written, and nothing else."""
    assert written.failed == {} and sorted(written.files) == sorted(filter(Path.is_file, folder.rglob("*")))
    assert names(folder, ".svg", ".png") == pictures and names(folder, ".md", ".tex") == tables


ALONE = ("lost trials", "own tuner")
"""On their own in the short run too: the main job is drawn for real, the others are made in a folder of all kinds."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.faults] * (kind not in ALONE)) for kind in KINDS]
)
def test_every_kind_of_study_gives_all_its_figures_and_tables(kind, tmp_path, undrawn, monkeypatch):
    monkeypatch.setattr(plots, "save", laid_out_alone)
    make, expected, printed = KINDS[kind]
    trials = make()
    before = trials.copy()
    check(write_figures(trials, tmp_path), tmp_path, expected, printed)
    assert trials.equals(before)


@pytest.mark.slow
def test_a_folder_of_all_kinds_gives_what_each_gives(tmp_path, undrawn):
    """Several studies of one dataset and other set-ups, grids, replays, a user's own, all as pandas.read_parquet reads
    them: nothing is mixed, nothing is missing."""
    alike = ("lost trials", "on GPUs", "glyphs-margin")
    kinds = {name: kind for name, kind in KINDS.items() if name not in alike}
    trials = studies.several([*(make() for make, *_ in kinds.values()), studies.replays(tmp_path / "replays")])
    written = write_figures(plain(trials), tmp_path / "out")
    expected = {name for _, figures, _ in kinds.values() for name in figures if "/" in name}
    check(written, tmp_path / "out", expected | CURVES | THEORY, COMPARED | {"memory"})
    text = (tmp_path / "out/methods.md").read_text()
    titles = re.findall(r"^Search methods on (.+?)\. ", text, re.MULTILINE)
    assert len(titles) == len(set(titles)) and {"omniglot", "sop"} <= set(titles) and "xbm" not in text
    assert "a full training's worth of images counts as a trial" in text


BEYOND = {"values far apart", "weights far apart", "a grid far apart", "scores far apart", "scores of 1e308"}
BEYOND |= {"scores of both signs", "numbers"}
"""Studies with numbers at the ends of what a float holds: a figure of these may fail on its own."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize(
    "chosen", [slice(0, None, 2), pytest.param(slice(1, None, 2), marks=pytest.mark.faults)], ids=["even", "odd"]
)
def test_no_row_that_the_schema_allows_costs_a_figure(chosen, tmp_path, drawn):
    for name, trials in list(odd().items())[chosen]:
        failed = write_figures(trials, tmp_path / name).failed
        assert not failed or name in BEYOND, (name, failed)


@pytest.mark.slow
def test_pictures_are_pictures_and_tables_are_tables(tmp_path, monkeypatch):
    """The main job's, as they are for a user, but for two figures that need nothing."""
    elsewhere(monkeypatch, "constraints_figure", "pipeline_figure")
    written = write_figures(studies.main_job(), tmp_path)
    check(written, tmp_path, *KINDS["main job"][1:])
    for file in (file for file in written.files if file.stem not in ("constraints", "pipeline")):
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert min(image.size) > 300 and len(image.convert("RGB").getcolors(10**7)) > 10
        elif file.suffix == ".svg":
            assert ElementTree.parse(file).getroot().tag.endswith("svg")
        elif file.suffix == ".md":
            rows = [line for line in file.read_text().splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in rows}) == 1 and len(rows) > 2


def command(folder: Path) -> list[str]:
    return [str(folder / "r"), "--figures", str(folder / "out"), "-o", str(folder / "report.html")]


def test_a_study_whose_name_is_not_allowed_is_shown_and_drawn_under_one_that_is(tmp_path, capsys, undrawn):
    terms = {"positive_term": 1.0, "entropy_term": 2.0}
    studies.foreign(tmp_path / "r", "my study", **terms)
    assert main(command(tmp_path)) == 0 and "3 trials of 1 study" in capsys.readouterr().out
    assert "my-study/sub-losses" in names(tmp_path / "out", ".png")


def test_a_figure_that_cannot_be_drawn_costs_no_other_and_is_named(tmp_path, capsys, monkeypatch, drawn):
    """Neither one that fails as it is made, nor as it is drawn, nor what is computed before; nor a damaged study."""
    from matplotlib.figure import Figure

    class Unfit(Figure):
        def draw(self, renderer):
            raise RuntimeError("no room")

    store(tmp_path / "r", studies.main_job())
    studies.foreign(tmp_path / "r", "hurt", software="{damaged")
    monkeypatch.setattr(plots, "directions_figure", Unfit)
    monkeypatch.setattr(figures, "sublosses", lambda trials, score: 1 / 0)
    monkeypatch.setattr("tune_cd.analysis.tables.best_values", lambda trials: [][0])
    assert main(command(tmp_path)) == 1
    *figure_errors, page_error = sorted(capsys.readouterr().err.splitlines())
    assert page_error.startswith("error: study hurt could not be shown: ")
    assert figure_errors == [
        "error: best-values could not be made: IndexError: list index out of range",
        "error: directions could not be made: RuntimeError: no room",
        "error: glyphs-margin/sub-losses could not be made: ZeroDivisionError: division by zero",
    ]
    missing = {"glyphs-margin/sub-losses", "directions"}
    assert names(tmp_path / "out", ".svg", ".png") == KINDS["main job"][1] - missing
    assert (tmp_path / "report.html").is_file()


@pytest.mark.slow
def test_drawing_ten_times_the_trials_lays_out_no_more_texts_and_no_more_artists(tmp_path, monkeypatch):
    """matplotlib's layout compares texts with one another: of as many as there are trials it took minutes."""
    drawn: dict[str, list[int]] = {}

    def count(figure, stem):
        figure.draw_without_rendering()
        drawn.setdefault(stem.name, []).append(len(figure.findobj()))
        return touched(figure, stem)

    monkeypatch.setattr(plots, "save", count)
    elsewhere(monkeypatch, "directions_figure", "constraints_figure", "pipeline_figure")
    base = studies.searched(15)
    for times in (1, 10):
        rows = [
            one | {"trial_id": f"cd-{n}-{place}", "trial_index": 15 * n + place, "seed": n}
            for n in range(times) for place, one in enumerate(base)
        ]  # fmt: skip
        assert not write_figures(table(rows), tmp_path / str(times)).failed
        picture = plots.search_figure(table(rows), ("separate",), 64, 2, (1e-6, 17.0))
        count(picture, tmp_path / "search")
    for name in ("curves-trials", "curves-seconds", "sub-losses", "search"):
        few, many = drawn[name]
        assert many < few + 60, (name, few, many)  # ticks differ


def test_a_grids_cells_are_no_curve_and_its_best_is_what_searches_are_measured_by():
    grid = load("glyphs-margin").at(64).rows()
    grid["test_score"] += 0.2  # better than any of the job's
    job = json.loads(studies.main_job()["config"].iloc[0])
    alike = {DIGEST: job[DIGEST]}  # else these would be two landscapes
    grid["config"] = [json.dumps(json.loads(config) | alike) for config in grid["config"]]
    assert dict(figures.figures_of_all(grid))["curves-trials"]() is None and methods(analysis.curves_of(grid)) is None
    job, best = studies.several([studies.main_job().assign(study="job"), grid]), grid["test_score"].max()
    axes = dict(figures.figures_of_all(job))["curves-trials"]().axes[0]
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert set(drawn) == {"cd", "global", "separate", "within 5 % of the best"}
    assert drawn["within 5 % of the best"].get_ydata()[0] == pytest.approx(0.95 * best), "the set-up is the same"
    assert list(methods(analysis.curves_of(job)).index) == ["cd", "global", "separate"]


def test_the_target_of_a_loss_is_above_its_best():
    losses = studies.own_tuner()[0].assign(mode="min")
    best = losses.loc[losses["status"] == "completed", "val_score"].min()
    axes = dict(figures.figures_of_all(losses))["curves-trials"]().axes[0]
    [target] = [line for line in axes.get_lines() if line.get_label() == "within 5 % of the best"]
    assert target.get_ydata()[0] == pytest.approx(1.05 * best)


def test_time_is_drawn_where_it_is_known():
    """A study without times costs no other's curves over time."""
    on_gpus = studies.on_gpus().assign(study="gpus", dataset="other")
    made = dict(figures.figures_of_all(studies.several([studies.own_tuner()[0], studies.written(), on_gpus])))
    panels = {"trials": ["my-net", "other", "written"], "seconds": ["my-net", "other"]}
    for over, expected in panels.items():
        assert [axes.get_title().split(":")[0] for axes in made[f"curves-{over}"]().axes] == expected


def of_seeds(scores, seeds, test):
    return pd.concat(
        search_study(scores(seed), search, seed, test=test(seed)) for search in ("cd", "random") for seed in seeds
    )


def test_columns_that_say_nothing_are_left_out():
    """One search each has no interval, a search of few trials no AUC@k nor a difference of it."""
    cells = methods(analysis.curves_of(studies.main_job()))
    assert list(cells) == ["searches", "AUC@5", "AUC@10", "AUC@20", "n-95"]
    assert cells.loc["separate", "AUC@10"] == "-" and "±" not in cells.to_string()
    several = of_seeds(lambda seed: [0.1 * seed, 0.5], range(9), lambda seed: [0.1 * seed, 0.4 + 0.01 * seed])
    cells = methods(analysis.curves_of(several))
    assert list(cells) == ["searches", "n-95"] and "to" in cells.loc["cd", "n-95"]
    grows = [[0.01 * seed + 0.02 * n for n in range(20)] for seed in range(3)]
    cells = methods(analysis.curves_of(of_seeds(grows.__getitem__, range(3), grows.__getitem__)))
    assert {"AUC@20", "ΔAUC@20"} <= set(cells) and "±" in cells.loc["cd", "AUC@5"]
    assert methods(analysis.curves_of(studies.memory())) is None, "the experiment's searches know each other's trials"


def test_several_datasets_have_memory_tables_of_their_own():
    """Two studies of the experiment: no number of one stands for the other's."""
    photos = studies.memory("sop", "xbm-sop", network="resnet50")
    photos["scores"] = [scores | {"test_precision_at_1": 0.25} for scores in photos["scores"]]
    table = studies.several([studies.memory(), photos])
    text = printed("memory", table)["md"]
    assert "0.25 / -" not in text.split("Cross-batch memory on ")[0] and text.count("| (S1) Original") == 2
    assert re.findall(r"Cross-batch memory on (\w+)", text) == ["glyphs", "sop"]
    numbers = printed("base-numbers", table)["md"]
    own = [line for line in numbers.splitlines() if line.startswith("|") and "this table" in line]
    assert len(own) == 3 and "memory=variable" in numbers
    assert all(line.startswith("| sop ") for line in own), "nothing is published of glyphs"
