"""`python -m tune_cd.run` up to the first trial: options, what is refused, what a resumed study keeps."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datafiles import encoded, photos, write_folder
from made_studies import study
from studies import row

from trainables.models.networks import build_network
from trainables.training import setups
from trainables.training.setups import find_setup
from tune_cd import results
from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.run import cluster, driver
from tune_cd.run.__main__ import main
from tune_cd.run.announcement import announce, estimate
from tune_cd.run.config import WORTH_FROM_KNOWN, StudyConfig
from tune_cd.run.options import parse, parser
from tune_cd.run.resources import Resources, check_resources
from tune_cd.run.searches import groups_of
from tune_cd.run.starts import known
from tune_cd.run.study import store_config, with_form
from tune_cd.run.summary import summarise


def test_the_default_is_the_documented_one(tmp_path):
    made = study(tmp_path)
    assert (made.dataset, made.setup.loss, made.space.names) == ("glyphs", "margin", ("Lambda_p", "Lambda_e"))
    searches = [(search.name, search.num_samples, search.line) for search in made.searches]
    assert searches == [("cd", 5, False), ("separate", 10, True), ("global", 10, True)]
    [start] = made.searches[2].starts
    assert start["Lambda_e"] / start["Lambda_p"] == pytest.approx(62), "the global average at b = 64"
    assert [search.num_samples for search in study(tmp_path, "--full-length").searches] == [20, 20, 20]
    three = study(tmp_path, "--tune-batch-size", "--batch-sizes", "32,16,64")
    assert three.space.names == (*made.space.names, "batch_size")
    assert three.searches[1].make.keywords["directions"] == {"joint": [1, 1, 0]}
    assert [search.num_samples for search in study(tmp_path, "--baseline-trials", "5").searches] == [5, 5, 5]


def test_confirming_comes_after_all_searches_with_seeds_that_none_of_them_saw(tmp_path):
    made = study(tmp_path, "--confirm", "3", "--replicates", "2", "--seed", "5")
    last = made.searches[-1]
    assert (last.name, last.num_samples, last.seeds) == ("confirm", 3, (7, 8, 9))
    assert last.retrains_best_of == ("cd", "separate", "global")
    assert [search.name for search in groups_of(made.searches)[-1]] == ["confirm"]
    assert study(tmp_path, "--confirm", "1", "--no-baseline").searches[-1].retrains_best_of == ("cd",)
    assert all(search.name != "confirm" for search in study(tmp_path).searches)


def test_the_summary_tells_of_the_searchs_choice_where_a_baseline_is_better_by_validation(tmp_path):
    """And how many trainings there are, whatever became of them."""
    sizes = "--tune-batch-size", "--batch-sizes", "64,128"
    made = study(tmp_path, "--loss", "infonce", "--confirm", "3", "--study", "s", "--range", "0.01,4", *sizes)
    for name in ("cd~0.8~cd-00000", "separate~0.9~separate-00000", "confirm~0.95~confirm-00000"):
        made.store.write(made.file(f"networks/{name}.pt"), b"network")
    best, ahead = {"Lambda_p": 1.0, "Lambda_e": 4.0}, {"Lambda_p": 2.0, "Lambda_e": 2.0}
    common = {"loss": "infonce", "batch_size": 64, "config": {"space": made.space.to_json()}}
    rows = [row(0, val=0.8, test_score=0.8, params=best, search="cd", **common),
            row(0, val=0.9, test_score=0.9, params=ahead, search="separate", **common)]  # fmt: skip
    for place, (params, tests) in enumerate(((best, (0.78, 0.77, 0.79)), (ahead, (0.74, 0.75, 0.76)))):
        rows += [row(place, test_score=test, params=params, search="confirm", seed=seed, **common)
                 for seed, test in enumerate(tests, 1)]  # fmt: skip
    for index, status in enumerate(("stopped", "stopped", "diverged", "failed"), 1):
        params = {"Lambda_p": 0.1 * index, "Lambda_e": 0.1}
        rows.append(row(index, status, val=0.1, params=params, search="cd", **common))
    for one in rows:
        results.write_trial(made.results, one)
    said = summarise(made).splitlines()
    assert said[2].split() == ["best", "balance", "found", "1", "4", "64", "0.8000", "0.8000"]
    assert said[3].split()[-2:] == ["0.9000", "0.9000"]
    own, gain = re.findall(r"with fresh seeds, .*?(?=with fresh seeds|$)", " ".join(" ".join(said).split()))
    assert "test 0.7800" in own and "test 0.7500" in gain and "gain +0.0300 (95 % interval +0.0" in gain
    ends = "Λe is at the upper end of its range and b is at the lower end of its range"
    assert f"best balance: {ends}; a wider --batch-sizes or --range may hold better." in gain
    assert max(map(len, said[: said.index("scores are r_map")])) <= 80
    assert "12 trainings: 8 completed, 2 paused, 1 diverged, 1 failed" in said
    assert said[-2].startswith("network: ") and said[-2].endswith("networks/cd~0.8~cd-00000.pt")
    assert said[-1] == f"better by validation: {tmp_path}/results/studies/s/networks/separate~0.9~separate-00000.pt"


@pytest.mark.parametrize(
    "seeds, said", [(((0, 1), (0,)), "means over up to 2 seeds"), (((0, 1),), "means over 2 seeds")]
)
def test_the_summary_tells_where_settings_have_fewer_seeds(seeds, said, tmp_path):
    made = study(tmp_path, "--replicates", "2", "--study", "s")
    for index, ended in enumerate(seeds):
        params = {"Lambda_p": 1.0 + index, "Lambda_e": 4.0}
        for seed in ended:
            results.write_trial(
                made.results, row(index, params=params, seed=seed, config={"space": made.space.to_json()})
            )
    assert f"scores are r_map, {said}" in summarise(made).splitlines()


def test_an_interrupted_study_leaves_ray_before_its_summary(tmp_path, monkeypatch):
    """Ray ends a process whose head is gone after a minute, which a large report takes."""

    def interrupted(_):
        raise KeyboardInterrupt

    done = []
    for name in ("store_config", "groups_of"):
        monkeypatch.setattr(driver, name, lambda _: [])
    monkeypatch.setattr(driver, "tidy", interrupted)
    monkeypatch.setattr(driver.ENDING, "number", None)
    monkeypatch.setattr(driver.ray, "shutdown", lambda: done.append("left"))
    monkeypatch.setattr(driver, "_tell", lambda _: not done.append("told"))
    cluster = SimpleNamespace(study=study(tmp_path), watched=lambda: nullcontext(None), resources=None)
    assert driver._run(cluster, None, SimpleNamespace(lost=None)) == 130 and done == ["left", "told"]


def test_sigterm_while_ray_starts_ends_as_it_does_later(tmp_path, monkeypatch, capsys):
    """Until then Ray's own handler is in place, which exits with the signal's number."""
    monkeypatch.setattr(driver.connection, "connect", lambda *_: sys.exit(signal.SIGTERM))
    assert driver.drive(study(tmp_path)) == 143 and capsys.readouterr().out == "interrupted\n"
    monkeypatch.setattr(driver.connection, "connect", lambda *_: sys.exit(141))
    with pytest.raises(SystemExit, match="141"):
        driver.drive(study(tmp_path))


def test_the_first_line_comes_before_the_imports(tmp_path):
    """Which take ten seconds. Python lists each import on stderr."""
    command = [sys.executable, "-X", "importtime", "-m", "tune_cd.run"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, "--dry-run", "--results", str(tmp_path)], **both) as process:
        imported = set()
        for line in process.stdout:
            if not line.startswith("import time:"):
                break
            imported.add(line.rpartition("|")[2].strip().partition(".")[0])
        process.kill()
    assert line == "checking the options and the data ...\n" and not imported & {"torch", "ray", "scipy", "pandas"}


RECIPE, OMNIGLOTS = {"Lambda_p": 0.1, "Lambda_e": 0.1}, {"Lambda_p": 0.63, "Lambda_e": 8.6}
GLOBAL = "lr=0.1,average=global,b=128"
STARTS = {  # options -> the first setting of the search; None: a random one
    "": OMNIGLOTS,
    "--full-length": OMNIGLOTS,
    "--batch-size 256": {"Lambda_p": 1.0, "Lambda_e": 11.0},
    "--range 1e-4,1": RECIPE,
    "--task ssl --loss siglip": {"Lambda_pos": 0.1, "Lambda_neg": 0.1},
    "--set optimizer=adam learning_rate=1e-4": {"Lambda_p": 1.0, "Lambda_e": 1.0},  # its rate is not in the weights
    "--start blind": None,
    "--start Lambda_p=0.25,Lambda_e=0.5": {"Lambda_p": 0.25, "Lambda_e": 0.5},
    f"--start {GLOBAL}": {"Lambda_p": 0.1 / 127, "Lambda_e": 0.1 * 126 / 127},
    f"--start {GLOBAL} --tune-batch-size": {"Lambda_p": 0.1 / 127, "Lambda_e": 0.1 * 126 / 127, "batch_size": 128},
    "--start lr=0.1,average=global,k=4 --set k=4": {"Lambda_p": 0.1 * 3 / 63, "Lambda_e": 0.1 * 60 / 63},
    "--tune-batch-size": OMNIGLOTS | {"batch_size": 64},
    "--tune-batch-size --batch-sizes 16,32": {"Lambda_p": 0.19, "Lambda_e": 2.1, "batch_size": 32},
    "--search grid --range 1e-6,17": None,
    "--range 0.5,17 --start Lambda_p=1,Lambda_e=5 --no-baseline": {"Lambda_p": 1.0, "Lambda_e": 5.0},
}


@pytest.mark.parametrize("argv", STARTS)
def test_the_search_starts_where_it_is_told_else_at_what_others_found_else_at_the_recipe(tmp_path, argv):
    made = study(tmp_path, *argv.split())
    search, start = made.searches[0], STARTS[argv]
    assert search.starts == ([] if start is None else [pytest.approx(start)])
    sizes = {f"--start {GLOBAL}": 128, "--batch-size 256": 256, "--tune-batch-size --batch-sizes 16,32": 32}
    assert made.config.batch_size == sizes.get(argv, 64)


def test_what_others_found_has_a_smaller_budget(tmp_path):
    assert study(tmp_path).searches[0].num_samples == 5
    for unknown in (["--range", "1e-4,1"], ["--task", "ssl", "--loss", "siglip"]):
        assert study(tmp_path, *unknown).searches[0].num_samples == 10
    pretrained = known(StudyConfig(setup="paper"), find_setup("folder", "paper"))
    assert [row.dataset for row in pretrained] == ["omniglot", "landmarks"], "those of the paper that differ"
    for other in ({"optimizer": "adam"}, {"mining": "hard"}, {"distance": "cosine"}, {"q": 2}):
        assert not known(StudyConfig(), replace(find_setup("folder", "paper"), **other))
    for alike in ({"distance": "euclidean"}, {"temperature": 1.0}, {"margin": 0.3}):
        assert known(StudyConfig(), replace(find_setup("folder", "paper"), **alike))
    infonce = find_setup("folder", "paper", "ssl")
    assert known(StudyConfig(), infonce) and not known(StudyConfig(), replace(infonce, temperature=1.0))


def test_omniglots_own_best_and_the_papers_are_starts(tmp_path, test_data):
    omniglot = "--dataset", "omniglot", "--data-root", str(test_data / "omniglot-small.zip")
    assert study(tmp_path, *omniglot, "--setup", "small").searches[0].starts == [OMNIGLOTS], "its own best, alone"
    assert study(tmp_path, *omniglot, "--start", "paper").searches[0].starts == [{"Lambda_p": 8e-3, "Lambda_e": 2.0}]


MODES = {
    "without": "none", "without-tuned": "none", "S1": "variable", "S1-tuned": "variable", "S2": "fixed", "S3": "fixed",
}  # fmt: skip
"""Searches of `table:xbm` -> `memory` of their set-ups."""
TUNED = ("without-tuned", "S1-tuned", "S3")
XBM = ("--experiment", "xbm")


def test_the_xbm_experiment_has_a_search_for_each_number_of_the_table(tmp_path):
    """The authors' balance once, as they trained it; the tuned rows from there; then each choice once with decay."""
    made = study(tmp_path, *XBM, "--num-samples", "12")
    searches = {search.name: search for search in made.searches}
    assert list(searches) == [*MODES, *(f"{name}-decay" for name in MODES)]
    as_published = {"Lambda_p": 3.0, "Lambda_e": 60.0}  # not a learning rate away
    for name, memory in MODES.items():
        search, decayed = searches[name], searches[f"{name}-decay"]
        assert (search.setup.memory, search.setup.schedule, search.starts) == (memory, "constant", [as_published])
        assert search.num_samples == (12 if name in TUNED else 1) and decayed.num_samples == 1
        assert search.line == (name in TUNED), "under Adam along the balance: test_any_loss.py"
        assert decayed.setup == replace(search.setup, schedule="plateau")
        chosen_of = {"without-tuned": ("without", name), "S1-tuned": ("S1", name), "S3": ("S2", name)}
        assert decayed.retrains_best_of == chosen_of.get(name, (name,))
        under = search.setup.optimizer, search.setup.weight_decay, search.setup.metric
        assert under == ("adam", 5e-4, "recall_at_1")
    assert [[search.name for search in group] for group in groups_of(made.searches)][:4] == [
        ["without", "without-tuned"], ["S1", "S1-tuned"], ["S2", "S3"], ["without-decay", "without-tuned-decay"],
    ]  # fmt: skip
    assert made.config.bounds == (1e-2, 1.7e5), "the paper's, without Adam's rate"


def test_the_xbm_experiment_has_another_decay_start_or_no_baseline_where_it_is_told_so(tmp_path):
    decays = [search.setup.schedule for search in study(tmp_path, *XBM, "--set", "schedule=cosine").searches]
    assert decays == ["constant"] * 6 + ["cosine"] * 6
    assert not any(search.line for search in study(tmp_path, *XBM, "--search", "random").searches)
    untuned = [search.name for search in study(tmp_path, *XBM, "--no-baseline").searches]
    assert untuned == [*TUNED, *(f"{name}-decay" for name in TUNED)]
    own = {search.name: search.starts for search in study(tmp_path, *XBM, "--start", "Lambda_p=1,Lambda_e=5").searches}
    assert {name: own[name][0]["Lambda_p"] for name in MODES} == {name: 1.0 if name in TUNED else 3.0 for name in MODES}


def test_table_xbm_on_sop_is_the_papers():
    config = StudyConfig(dataset="sop", setup="paper", experiment="xbm")
    assert config.setup_for("paper") == replace(find_setup("sop", "paper"), **setups.XBM["paper"])


FIRST_LINES = {  # options -> what the first lines say
    "": "start: Lambda_p=0.63, Lambda_e=8.6, the best known of omniglot at b = 64",
    "--start lr=0.1,average=global": "start: Lambda_p=0.001587, Lambda_e=0.09841 trainings ",
    "--task ssl --loss vicreg": "start: Lambda_sim=0.1, Lambda_std=0.1, Lambda_cov=0.004, since no best is known ",
    "--start blind": "start: a random point ",
    "--experiment xbm": "without (1 training) + without-tuned (up to 20 trainings) + S1 (1 training)",
    "--setup small": "a full training sees 25,600 images",
    "--replicates 2 --confirm 3": "full trainings, each with 2 seeds) + confirm (3 trainings, each with 3 seeds)",
    "--search grid": "from 0.0001 to 1000; for the averages each may grow by 10 octaves running: ",
    "--set optimizer=adam": "under Adam the joint scale of the weights has no effect, and its own rate stays 0.001",
}


@pytest.mark.parametrize("argv", FIRST_LINES)
def test_the_first_lines_say_in_80_columns_what_is_trained_and_where_the_search_starts(argv, tmp_path, capsys):
    announce(study(tmp_path, *argv.split()), Resources(cpus=1, gpus=0.0, workers=1))
    said = capsys.readouterr().out
    assert FIRST_LINES[argv] in " ".join(said.split())
    assert max(len(line) for line in said.splitlines() if str(tmp_path) not in line) <= 80  # paths are not folded


@pytest.mark.parametrize("more, count", [((), 2), (("--full-length",), 1), (("--search", "cd-local"), 1)])
def test_the_first_lines_name_the_known_bests_that_are_tried(more, count, tmp_path, capsys):
    """Where nothing pauses only the first is."""
    of_photos = ("--dataset", "folder", "--data-root", str(photos(tmp_path)), "--batch-size", "8")
    announce(study(tmp_path, *of_photos, *more), Resources(cpus=1, gpus=0.0, workers=1))
    assert capsys.readouterr().out.count("the best known of") == count


def test_the_help_fits_into_80_columns_and_names_the_default_budget(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = parser().format_help()
    assert all(len(line) <= 80 for line in said.splitlines() if not line.strip().startswith("[--"))  # lists of choices
    assert WORTH_FROM_KNOWN == 5 and "glyphs, the images of five whole trainings" in said


def test_a_folders_study_is_continued_with_the_same_images_alone(tmp_path):
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    images = {f"{label}/{number}.png": encoded(pixels + label, "PNG") for label in range(10) for number in range(4)}
    root = write_folder(tmp_path / "photos", images)
    argv = ["--dataset", "folder", "--data-root", str(root), "--batch-size", "8", "--setup", "small", "--study", "mine"]
    made = study(tmp_path, *argv)
    assert re.fullmatch("folder-photos-[0-9a-f]{4}", made.dataset)
    store_config(made)
    for image in root.rglob("*.png"):
        os.utime(image, (0, 0))
    again = study(tmp_path, "--study", "mine", "--resume")
    assert (again.dataset, again.config) == (made.dataset, made.config)

    results.write_trial(made.results, row(0, study="mine", search="cd", dataset=made.dataset))
    (tmp_path / "elsewhere").mkdir()
    moved, other = root.rename(tmp_path / "elsewhere" / "photos"), tmp_path / "pictures"
    again = study(tmp_path, "--study", "mine", "--resume", "--data-root", str(moved))
    assert (again.dataset, again.data_root) == (made.dataset, str(moved))
    moved.rename(other)
    again = study(tmp_path, "--study", "mine", "--resume", "--data-root", str(other))
    assert (again.dataset, again.data_root) == (made.dataset, str(other)), "its rows are of one dataset"
    store_config(again)
    assert study(tmp_path, "--study", "mine", "--resume").dataset == made.dataset, "and stay so"
    other.rename(root)
    store_config(made)

    write_folder(root, {"9/new.png": images["0/0.png"]})
    message = f"--resume: {root} was 40 images of .* and is 41 images of .*; put it back, or name a new"
    with pytest.raises(ValueError, match=message):
        study(tmp_path, "--study", "mine", "--resume")
    (root / "9" / "new.png").unlink()


def test_a_machine_alone_is_checked_for_room_before_its_trials(tmp_path, monkeypatch):
    """It is not asked as the nodes of a cluster are."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cluster, "alive_nodes", lambda: [{"NodeID": "one", "Resources": {"CPU": 2.0}}])
    with pytest.raises(ValueError, match="data: .* cannot be written; TUNE_CD_CACHE names another folder"):
        cluster.Cluster(study(tmp_path, "--address", "local")).check()


@pytest.mark.parametrize(
    "field, before",
    [
        ("margin", 0.4),
        ("coefficients", {"Lambda_pull": 1.0, "Lambda_push": 9.0, "Lambda_all": 0.5}),
        ("coefficients", {"Lambda_pull": 2.0, "Lambda_shove": 3.0, "Lambda_all": 0.5}),
    ],
)
def test_another_set_up_is_not_continued(tmp_path, field, before):
    """As with another release's default, or a loss of one's own that has changed."""
    made = study(tmp_path, "--loss", "own_losses:three_parts", "--task", "ssl", "--study", "own")
    store_config(made)
    assert study(tmp_path, "--study", "own", "--resume").setup == made.setup
    path = made.results / made.file("study.json")
    stored = json.loads(path.read_text())
    stored["setup"][field] = before
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=f"--resume: {field} was .* and is .*, or name a new"):
        study(tmp_path, "--study", "own", "--resume")


def test_weights_whose_file_has_changed_are_not_gone_on_with(tmp_path):
    """Its later trainings would begin elsewhere than its earlier ones."""

    def write(seed):
        network = build_network("small_conv", channels=1, image_size=28, projection=False, seed=seed)
        torch.save(network.state_dict(), tmp_path / "own.pt")

    write(0)
    made = study(tmp_path, "--weights", str(tmp_path / "own.pt"), "--study", "own")
    store_config(made)
    assert study(tmp_path, "--study", "own", "--resume").setup == made.setup
    write(1)
    with pytest.raises(ValueError, match="--resume: content of the weights was .* and is .*; put it back"):
        study(tmp_path, "--study", "own", "--resume")


def test_paths_are_absolute_in_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = parse(["--data-root", "data", "--weights", "w.pt"]).config
    assert (config.data_root, config.weights) == (str(tmp_path / "data"), str(tmp_path / "w.pt"))
    assigned = parse(["--set", "weights=v.pt", "margin=0.3"]).config.assignments
    assert assigned == (f"weights={tmp_path / 'v.pt'}", "margin=0.3")
    assert parse(["--weights", "imagenet"]).config.weights == "imagenet"


IDLE = [
    (("temperature=0.5", "margin=0.3", "learning_rate=0.01"), "temperature=0.5 has no effect with loss = 'ma"),
    (("memory_size=9999",), "memory_size=9999 has no effect with memory = 'none', only with 'variable' or 'fix"),
    (("memory_size=9999", *XBM), None),
    (("learning_rate=0.01",), None),
    (("step=graph",), "step=graph has no effect without a GPU"),
]


@pytest.mark.parametrize("argv, said", IDLE)
def test_fields_without_effect_are_warned_of(tmp_path, capsys, argv, said):
    """SGD's learning rate is where the search starts, and the experiment has a memory in some of its rows."""
    made = with_form(study(tmp_path, "--set", *argv), "small")
    announce(made, Resources(cpus=1, gpus=0.0, workers=1))
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == (said is not None) and all(line.startswith(f"warning: --set {said}") for line in warned)


def test_a_grid_is_whole_unless_told_otherwise(tmp_path):
    papers = "--search", "grid", "--range", "1e-6,17"
    assert study(tmp_path, *papers, "--grid-step", "4").searches[0].num_samples == 13 * 13
    assert study(tmp_path, *papers).searches[0].num_samples == 25 * 25, "the paper's"
    assert study(tmp_path, *papers, "--num-samples", "7").searches[0].num_samples == 7


VICREG, ADAM = "--task ssl --loss vicreg", "--set optimizer=adam --start lr=0.01"
BAD_INPUT = {
    "--search grid --grid-step 1": "--grid-step 1: a finite factor above 1",
    "--dataset cub": "cub", "--batch-size 63": "63 is not a multiple of 2",
    "--dataset omniglot --data-root /nowhere/omniglot.zip": "/nowhere/omniglot.zip", "--set margins=1": "margins",
    "--batch-size 4096": "4096 with 2 per class needs 2048", "--set k=3": "64 is not a multiple of 3",
    "--range 17,1e-6": "--range 17,1e-06: two numbers above 0, the lower one first", "--range 0,17": "range 0,17: two",
    "--range=-1,17": "-1", "--range 1": "invalid LO,HI", "--batch-sizes a": "invalid N,N,...",
    "--batch-sizes 16,32": "16,32: with --tune-batch-size only",
    "--images-seen 640 --set images_seen=320": "--images-seen and --set images_seen=...: one of",
    "--start Lambda_p=9e9,Lambda_e=1": "9000000000.0", "--start somewhere": "'somewhere': 'somewhere' is",
    "--start Lambda_p=a,Lambda_e=1": "'a'", "--start Lambda_p=1": "Lambda_e", "--study ../escape": "../escape",
    "--resume": "--study", "--resume --study never-started": "never-started", "--weights absent.pt": "absent.pt",
    "--tune-batch-size --batch-sizes 32,4096": "4096", "--loss triplet": "'triplet'",
    "--tune-batch-size --batch-sizes 16,32 --batch-size 64": "--batch-size 64: with --tune-batch-size one of [16, 32]",
    "--dataset sop --task ssl": "dml", "--images-seen 0": "images_seen",
    "--images-seen 63": "63: less than one batch of 64", "--weights=": "''", "--data-root=": "''", "--tune-dir=": "''",
    "--search grid --grid-step 1.001": "step 1.001: a grid of 260,080,129 cells", "--budget 0h": "'0h'",
    "--trial-timeout 1e10": "--trial-timeout 10000000000.0: at least 0.001 and at most 1,000,000,000",
    "--trial-timeout soon": "'soon'", "--ondemand-after soon": "SECONDS|never value",
    "--checkpoint-seconds inf": "seconds inf",
    "--seed=-1": "--seed -1", f"--seed {2**63}": f"--seed {2**63}: at least 0, and",
    f"--seed {2**63 - 1} --replicates 2": f"--seed {2**63 - 1}", "--confirm 1e20": "'1e20'",
    **{f"{option} 0": f"{option} 0: at least 1" for option in ("--replicates", "--num-samples", "--workers")},
    f"--max-failures {2**63}": f"--max-failures {2**63}", f"--images-seen {10**20}": f"{10**20}: must be a whole",
    f"--set embedding={10**12}": "embedding = 1000000000000", f"--tune-dir {__file__}/sub": __file__,
    "--loss infonce --start lr=0.1,average=global": "average=global: infonce has only separate",
    "--grid-step 4": "--grid-step 4: with --search grid only", "--retry-failed": "--retry-failed: with --resume only",
    "--experiment xbm --confirm 3": "--confirm 3: with --experiment balance only",
    "--experiment xbm --set memory_size=32": "memory of size 32 does not hold a batch of 64",
    "--experiment xbm --range 0.1,17": "Lambda_e = 60",
    "--experiment xbm --set optimizer=sgd": "weight_decay = 0.0005",
    "--experiment xbm --set optimizer=sgd weight_decay=0 learning_rate=0.1": "--experiment xbm trains under Adam",
    "--experiment xbm --set memory=none": "--set memory=none: --experiment xbm trains with every kind, and none",
    "--experiment xbm --images-seen 640": "memory_start = 50: 640 images at batch_size 64 are only 10 iterations",
    f"--start {GLOBAL},k=4": "k = 4, and the set-up's batches have k = 2; --set k=4",
    f"--start {GLOBAL} --batch-size 64": "two batch sizes",
    "--range 0.5,17 --start Lambda_p=1,Lambda_e=5": "'separate' starts at the usual learning rate: ",
    "--start Lambda_p=1,Lambda_p=2,Lambda_e=1": "Lambda_p",
    "--batch-sizes 64,64 --tune-batch-size": "--batch-sizes 64,64: one of them is there twice",
    "--batch-sizes 64,,128": "'64,,128'", "--batch-sizes 0,64": "--batch-sizes 0",
    **dict.fromkeys((f"{VICREG} --start {at}" for at in ("lr=0", "lr=x", "Lambda_sim=1")), "Lambda_cov"),
    f"{VICREG} --start lr=1,average=global": "'lr=1,average=global': 'average=global' is not one of",
    f"{VICREG} --start paper": "no best balance", "--task dml --loss vicreg": "it trains ssl",
    f"{VICREG} --start lr=1000": "--start lr=1000: Lambda_sim = 25000.0 is outside", "--loss absent:f": "absent",
    f"{VICREG} --experiment xbm": "takes 2 views", "--loss own_losses:returns_a_tuple": "returned tuple",
    "--task ssl --set loss=vicreg": "'loss=vicreg': --loss vicreg", "--data-r x": "unrecognized arguments: --data-r",
    f"--task ssl --loss siglip {ADAM}": "under adam the learning rate is no part of the weights",
    f"{ADAM},average=separate": "under adam the learning rate is no part of the weights",
}  # fmt: skip


def test_bad_input_is_refused_by_value_before_anything_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("a Ray was started"))
    for argv, said in BAD_INPUT.items():
        try:
            status = main([*argv.split(), "--results", str(tmp_path / "results")])
        except SystemExit as refusal:  # argparse's own
            status = refusal.code
        error = capsys.readouterr().err
        assert status == 2 and said in error, (argv, error)
        assert not list(tmp_path.rglob("*.*")), f"{argv} leaves a file behind"
    (tmp_path / "file").touch()
    assert main(["--results", str(tmp_path / "file" / "results")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_an_existing_study_needs_resume_and_stays_what_it_was(tmp_path):
    given = ["--set", "images_seen=640", "evaluations=4"]
    store_config(study(tmp_path, "--study", "mine", "--start", "blind", "--seed", "3", *given))
    with pytest.raises(ValueError, match="exists .*--resume"):
        study(tmp_path, "--study", "mine")
    resumed = "--study", "mine", "--resume"
    again = study(tmp_path, *resumed, "--num-samples", "31", "--no-baseline", "--set", *reversed(given[1:]))
    assert again.searches[0].starts == [] and again.config.seed == 3
    assert [(search.name, search.num_samples) for search in again.searches] == [("cd", 31)]
    same = ("--loss", "margin", "--task", "dml", "--weights", "none", "--set", "k=2", *given[1:])
    assert study(tmp_path, *resumed, *same).config == study(tmp_path, *resumed).config, "what was meant without them"
    for other, said in {
        "--seed 4": "with --seed 3; --resume cannot change it to 4",
        "--set evaluations=4": "with --set images_seen=640 evaluations=4; --resume cannot change it to evaluations=4",
        "--weights w.pt": "without --weights; .* to '.*/w.pt'; of a file that has moved, put a link in the old place",
        "--loss infonce": "without --loss; ", "--range 1e-4,1e3": "without --range; ", "--full-length": "without ",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"'mine' was started {said}"):
            study(tmp_path, *resumed, *other.split())
    rows = tmp_path / "results" / "trials" / "rows"
    rows.mkdir(parents=True)
    (rows / "cd-00000.parquet").touch()
    with pytest.raises(ValueError, match="exists"):
        study(tmp_path, "--study", "rows")  # of which only rows are left


def begun(tmp_path):
    """A study with a row and a curve."""
    made = study(tmp_path, "--study", "mine")
    store_config(made)
    results.write_trial(made.results, row(0, study="mine", search="cd"))
    look = {"attempt": 0, "seed": 0, "images_seen": 64, "train_seconds": 1.0, "val_score": 0.5, "scores": {}}
    results.write_curve(made.results, "mine", "cd-00000", [look])
    return made


def refused(tmp_path, capsys) -> str:
    """The last line of stderr of a command that resumes `mine`."""
    assert main(["--results", str(tmp_path / "results"), "--study", "mine", "--resume"]) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


BROKEN = {
    "not JSON": lambda text: text[:-9],
    "no object": lambda text: "[1]",
    "newer": lambda text: text.replace('"version": 1', '"version": 2, "more": 1').replace('"options"', '"choices"'),
    "no options": lambda text: text.replace('"options"', '"choices"'),
    "set-up": lambda text: re.sub(r'"setup": {.*}', '"setup": 3}', text, flags=re.DOTALL),
    "unknown option": lambda text: text.replace('"seed": 0', '"seed": 0, "colour": "red"'),
    "impossible option": lambda text: text.replace('"seed": 0', '"seed": -1'),
    "option of another type": lambda text: text.replace('"num_samples": null', '"num_samples": "9"'),
    "unknown field": lambda text: text.replace('"setup": {', '"setup": {"colour": "red",'),
    "field gone": lambda text: re.sub(r'"network": ".*?",', "", text),
}
"""Damage to the text of `study.json`."""


@pytest.mark.parametrize("damage", [*BROKEN, "gone"])
def test_the_file_of_a_study_that_cannot_be_used_is_refused(tmp_path, capsys, damage):
    """Gone: as is told from a study that never was."""
    made = begun(tmp_path)
    path = made.results / made.file("study.json")
    path.unlink() if damage == "gone" else path.write_text(BROKEN[damage](path.read_text()))
    said = refused(tmp_path, capsys)
    assert said.startswith("error: ") and ("not there; none can be" if damage == "gone" else "--study") in said
    assert damage in ("unknown field", "field gone") or str(path) in said


@pytest.mark.parametrize("table", ["trials", "curves"])
def test_rows_that_cannot_be_read_are_not_trained_again(tmp_path, capsys, table):
    [path] = begun(tmp_path).results.glob(f"{table}/mine/*.parquet")
    path.write_bytes(path.read_bytes()[:-30])
    said = refused(tmp_path, capsys)
    assert said.startswith(f"error: study 'mine' cannot go on: {path}") and "cannot be read" in said
    path.rename(tmp_path / "aside.parquet")
    study(tmp_path, "--study", "mine", "--resume")


LAPTOP, GPU_NODE = {"CPU": 4.0}, {"CPU": 16.0, "GPU": 4.0}


@pytest.mark.parametrize(
    "argv, alive, to_come, cpus, gpus, workers, pack, processes",
    [
        ([], [LAPTOP], [], 1, 0, 4, 1, 4),
        (["--workers", "2"], [LAPTOP], [], 1, 0, 2, 1, 2),
        (["--cpus-per-trial", "2"], [LAPTOP], [], 2, 0, 2, 1, 2),
        (["--replicates", "3"], [GPU_NODE], [], 1, 1, 4, 1, 4),
        (["--pack", "5", "--replicates", "3", "--workers", "4"], [LAPTOP], [], 1, 0, 4, 5, 4),
        (["--gpus-per-trial", "auto", "--search", "grid"], [LAPTOP], [GPU_NODE], 1, 1, 50, 13, 4),
        (["--pack", "3", "--workers", "6"], [LAPTOP], [], 1, 0, 6, 3, 2),
        ([], [LAPTOP, GPU_NODE], [], 1, 1, 4, 1, 4),
        ([], [LAPTOP], [GPU_NODE], 1, 1, 4, 1, 4),
        (["--gpus-per-trial", "0"], [GPU_NODE], [], 1, 0, 10, 1, 10),
        (["--gpus-per-trial", "0.25"], [GPU_NODE], [], 1, 0.75, 10, 3, 4),
        (["--gpus-per-trial", "0.25", "--pack", "1"], [GPU_NODE], [], 1, 0.25, 10, 1, 10),
        (["--gpus-per-trial", "auto"], [GPU_NODE], [], 1, 1, 10, 3, 4),
        (["--gpus-per-trial", "auto", "--search", "random"], [GPU_NODE], [], 1, 1, 50, 13, 4),
        (["--gpus-per-trial", "auto", "--search", "random", "--replicates", "4"], [GPU_NODE], [], 1, 1, 32, 32, 4),
    ],
)  # fmt: skip
def test_resources(argv, alive, to_come, cpus, gpus, workers, pack, processes):
    growth = Growth(tuple(NodeType("worker", resources, 1) for resources in to_come))
    request = parse(argv)
    found = check_resources(request.config, request.call, alive, growth, trials=50)
    assert (found.cpus, found.gpus, found.workers, found.pack) == (cpus, gpus, workers, pack)
    assert found.processes == processes
    there = sum(node.get("GPU", 0) for node in alive + to_come)
    assert found.processes * found.gpus <= there or "--workers" in argv


TOO_MUCH = {
    "--gpus-per-trial 1.5": "1.5", "--gpus-per-trial=-1": "-1",
    "--gpus-per-trial 2": "one GPU", "--gpus-per-trial nan": "from 0.001 to 1", "--gpus-per-trial inf": "inf",
    "--gpus-per-trial 1e-300": "1e-300", "--gpus-per-trial 0.6 --pack 2": "2 in a process",
}  # fmt: skip


def test_more_than_any_node_will_have():
    for argv, said in TOO_MUCH.items():
        with pytest.raises(ValueError, match=said):
            parse(argv.split())  # before Ray starts
    for argv, said in {"--gpus-per-trial 1": "no node", "--cpus-per-trial 5": "5"}.items():
        with pytest.raises(ValueError, match=said):
            check_resources(StudyConfig(), parse(argv.split()).call, [LAPTOP], Growth(), trials=20)


def test_workers_that_do_not_fit_are_told_and_no_part_of_an_estimate(tmp_path, capsys):
    made = study(tmp_path, "--workers", "99", "--no-baseline")
    found = check_resources(made.config, made.call, [LAPTOP], Growth(), trials=50)
    announce(made, found)
    assert "running: 99 at a time; 4 processes fit the cluster; " in capsys.readouterr().out
    results.write_trial(made.results, row(0, times=(0, 600), config=asdict(made.setup), dataset=made.dataset))
    assert [*estimate(made, found)] == [*estimate(made, replace(found, workers=4))]
    limited = replace(made, call=replace(made.call, budget="2h"))
    assert next(estimate(limited, found)).endswith("; --budget 2h may end it, but for what leads and --confirm")


def test_the_set_up_follows_the_cluster_where_it_was_left_open(tmp_path):
    made = study(tmp_path)
    assert with_form(made, "paper").setup == find_setup("glyphs", "paper")
    fixed = study(tmp_path, "--setup", "small", "--images-seen", "640")
    assert fixed.setup.images_seen == 640 and with_form(fixed, "small") is fixed
