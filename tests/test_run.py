"""`python -m tune_cd.run` up to the first trial: options, what is refused, what a resumed study keeps."""

import subprocess
import sys

import pytest
import torch

from tune_cd import results
from tune_cd.cluster.growth import Growth, NodeType, cluster_growth
from tune_cd.run import preflight
from tune_cd.run.__main__ import _on_cluster, main
from tune_cd.run.options import parse, space_of
from tune_cd.run.preflight import check_study
from tune_cd.run.study import store_options
from tune_cd.run.resources import check_resources
from tune_cd.run.searches import searches_of
from trainables.models import build_network
from trainables.tasks import find_setup


def study(tmp_path, *argv):
    options, explicit = parse([*argv, "--results", str(tmp_path / "results")])
    return check_study(options, explicit)


def test_the_default_is_the_documented_one(tmp_path):
    made = study(tmp_path)
    assert (made.dataset, made.setup.loss, made.space.names) == ("glyphs", "margin", ("Lambda_p", "Lambda_e"))
    assert [(search.name, search.num_samples) for search in made.searches] == [("cd", 20), ("separate", 12), ("global", 11)]
    assert made.searches[0].start == {"Lambda_p": 0.1, "Lambda_e": 0.1}
    start = made.searches[2].start
    assert start["Lambda_e"] / start["Lambda_p"] == pytest.approx(62), "the global average at b = 64"


def test_infonce_has_one_conventional_balance(tmp_path):
    assert [search.name for search in study(tmp_path, "--loss", "infonce").searches] == ["cd", "separate"]


@pytest.mark.parametrize("text, expected", [("blind", None), ("Lambda_p=0.25,Lambda_e=0.5", {"Lambda_p": 0.25, "Lambda_e": 0.5})])
def test_starts(tmp_path, text, expected):
    start = study(tmp_path, "--start", text).searches[0].start
    assert start is expected if expected is None else {name: start[name] for name in expected} == expected


def test_the_papers_best_is_a_start(tmp_path, test_data):
    made = study(tmp_path, "--dataset", "omniglot", "--data-root", str(test_data / "omniglot-small.zip"), "--start", "paper")
    assert made.searches[0].start == {"Lambda_p": 8e-3, "Lambda_e": 2.0}


def test_a_recipe_is_a_start_and_names_the_batch_size(tmp_path):
    made = study(tmp_path, "--start", "lr=0.1,average=global,b=128")
    assert made.options.batch_size == 128 and made.searches[0].start == pytest.approx({"Lambda_p": 0.1 / 127, "Lambda_e": 0.1 * 126 / 127})
    searched = study(tmp_path, "--start", "lr=0.1,average=global,b=128", "--tune-batch-size")
    assert searched.searches[0].start["batch_size"] == 128 and searched.options.batch_size == 64
    with pytest.raises(ValueError, match="two batch sizes"):
        study(tmp_path, "--start", "lr=0.1,average=global,b=128", "--batch-size", "64")


def test_the_xbm_experiment_has_a_search_for_each_row_of_the_table(tmp_path):
    made = study(tmp_path, "--experiment", "xbm", "--num-samples", "12")
    assert [(search.name, search.setup.memory, search.num_samples, search.knows) for search in made.searches] == [
        ("without", "none", 11, None), ("S1", "variable", 11, None), ("S2", "fixed", 11, None),
        ("without-tuned", "none", 12, "without"), ("S3", "fixed", 12, "S2"),
    ]  # fmt: skip
    assert {(search.setup.k, search.setup.embedding, search.setup.loss_distance) for search in made.searches} == {(4, 128, "cosine")}
    for search in made.searches[:3]:
        assert search.start["Lambda_e"] / search.start["Lambda_p"] == pytest.approx(20), "the XBM authors' 3 to 60"
    assert [search.name for search in study(tmp_path, "--experiment", "xbm", "--no-baseline").searches] == ["without-tuned", "S3"]
    with pytest.raises(ValueError, match="memory of size 32 does not hold a batch of 64"):
        study(tmp_path, "--experiment", "xbm", "--set", "memory_size=32")


def test_weights_of_the_papers_network_wait_for_the_cluster_to_be_known(tmp_path):
    """Without --setup the form follows the cluster: weights that fit either form's network are not refused before."""
    weights = build_network("resnet18_gem", channels=1, image_size=64, projection=False, seed=0).state_dict()
    torch.save(weights, tmp_path / "w.pt")
    made = study(tmp_path, "--weights", str(tmp_path / "w.pt"))
    assert made.setup.network == "resnet18_gem" and made.options.setup is None
    assert preflight.with_form(made, "paper").setup.weights == str(tmp_path / "w.pt")
    for refused in (lambda: preflight.with_form(made, "small"), lambda: study(tmp_path, "--weights", str(tmp_path / "w.pt"), "--setup", "small")):
        with pytest.raises(ValueError, match="w.pt"):
            refused()


def test_paths_are_absolute_in_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, _ = parse(["--data-root", "data", "--weights", "w.pt", "--set", "weights=v.pt", "margin=0.3"])
    assert (options.data_root, options.weights) == (str(tmp_path / "data"), str(tmp_path / "w.pt"))
    assert options.assignments == [f"weights={tmp_path / 'v.pt'}", "margin=0.3"]
    assert parse(["--weights", "imagenet"])[0].weights == "imagenet"


def test_a_memory_that_would_never_be_used_is_refused(tmp_path):
    with pytest.raises(ValueError, match="memory_start = 50: 640 images at batch_size 64 are only 10 iterations"):
        study(tmp_path, "--experiment", "xbm", "--images-seen", "640")


def test_a_start_of_ones_own_is_the_tuned_searches(tmp_path):
    searches = study(tmp_path, "--experiment", "xbm", "--start", "Lambda_p=1,Lambda_e=5").searches
    assert [search.start for search in searches[3:]] == [{"Lambda_p": 1.0, "Lambda_e": 5.0}] * 2
    assert [search.start for search in study(tmp_path, "--experiment", "xbm").searches[3:]] == [None, None]


def test_a_baseline_outside_of_the_range_is_named(tmp_path):
    with pytest.raises(ValueError, match="'separate' starts at the usual learning rate: Lambda_p = 0.1 .*--no-baseline"):
        study(tmp_path, "--range", "0.5,17", "--start", "Lambda_p=1,Lambda_e=5")
    assert len(study(tmp_path, "--range", "0.5,17", "--start", "Lambda_p=1,Lambda_e=5", "--no-baseline").searches) == 1


def test_a_baseline_ends_when_its_line_is_exhausted_or_sooner_if_one_says_so(tmp_path):
    whole, cut = study(tmp_path), study(tmp_path, "--baseline-trials", "5")
    assert [(search.name, search.num_samples, search.line) for search in whole.searches] == [("cd", 20, False), ("separate", 12, True), ("global", 11, True)]
    assert [search.num_samples for search in cut.searches] == [20, 5, 5]


@pytest.mark.parametrize("option", ["--replicates", "--pack", "--baseline-trials"])
def test_numbers_below_one_are_refused_before_a_ray_is_started(tmp_path, option, capsys, monkeypatch):
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("a Ray was started"))
    assert main(["--results", str(tmp_path), option, "0"]) == 2
    assert f"{option} 0: at least 1" in capsys.readouterr().err


def test_adams_learning_rate_is_not_in_the_weights_as_well(tmp_path):
    made = study(tmp_path, "--set", "optimizer=adam", "learning_rate=1e-4")
    assert made.searches[0].start == {"Lambda_p": 1.0, "Lambda_e": 1.0}


def test_data_that_cannot_be_had_on_the_cluster_is_an_error_not_a_traceback(tmp_path, monkeypatch, capsys):
    def gone(*arguments):
        raise FileNotFoundError("no weights here")

    monkeypatch.setattr("tune_cd.cluster.growth.alive_nodes", lambda: [{"NodeID": "a", "Resources": {"CPU": 4.0}}])
    monkeypatch.setattr("tune_cd.run.cluster.growth_of", lambda address: Growth())
    monkeypatch.setattr(preflight, "with_form", gone)
    made = study(tmp_path)
    assert _on_cluster(made, None) == 2 and "no weights here" in capsys.readouterr().err


def test_weights_reach_the_set_up_and_are_checked(tmp_path):
    with pytest.raises((ValueError, OSError), match="absent.pt"):
        study(tmp_path, "--weights", str(tmp_path / "absent.pt"))


def test_three_parameters(tmp_path):
    made = study(tmp_path, "--tune-batch-size", "--batch-sizes", "32,16,64")
    assert made.space.names == ("Lambda_p", "Lambda_e", "batch_size")
    assert made.searches[0].start["batch_size"] == 64 and made.searches[1].make.keywords["direction"] == [1, 1, 0]


def test_a_grid_is_whole_unless_told_otherwise(tmp_path):
    grid = study(tmp_path, "--search", "grid", "--grid-step", "4", "--no-baseline").searches[0]
    assert (grid.num_samples, grid.start) == (13 * 13, None)
    assert study(tmp_path, "--search", "grid").searches[0].num_samples == 25 * 25, "the paper's"
    assert study(tmp_path, "--search", "grid", "--num-samples", "7").searches[0].num_samples == 7


BAD_INPUT = [
    (["--search", "grid", "--grid-step", "1"], "step 1.0"),
    (["--dataset", "cub"], "cub"),
    (["--dataset", "omniglot", "--data-root", "/nowhere/omniglot.zip"], "/nowhere/omniglot.zip"),
    (["--batch-size", "63"], "63 is not a multiple of 2"),
    (["--batch-size", "4096"], "4096 with 2 per class needs 2048"),
    (["--set", "k=3"], "64 is not a multiple of 3"),
    (["--set", "margins=1"], "margins"),
    (["--range", "17,1e-6"], "17.0, 1e-06"),
    (["--range", "0,17"], "0.0"),
    (["--range=-1,17"], "-1"),
    (["--range", "1"], "LO,HI"),
    (["--start", "Lambda_p=99,Lambda_e=1"], "99"),
    (["--start", "somewhere"], "somewhere"),
    (["--start", "Lambda_p=a,Lambda_e=1"], "'a'"),
    (["--start", "Lambda_p=1"], "Lambda_e"),
    (["--num-samples", "0"], "--num-samples 0"),
    (["--study", "../escape"], "../escape"),
    (["--resume"], "--study"),
    (["--resume", "--study", "never-started"], "never-started"),
    (["--tune-batch-size", "--batch-sizes", "32,4096"], "4096"),
    (["--tune-batch-size", "--batch-sizes", "16,32"], "64"),
    (["--task", "ssl"], "dml"),
    (["--images-seen", "0"], "images_seen"),
]


@pytest.mark.parametrize("argv, said", BAD_INPUT)
def test_bad_input_is_refused_by_value_before_anything_starts(tmp_path, capsys, argv, said):
    try:
        status = main([*argv, "--results", str(tmp_path / "results")])
    except SystemExit as refusal:  # argparse's own
        status = refusal.code
    assert status == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "results" / "studies").exists() and not (tmp_path / "results" / "trials").exists()


def test_results_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["--results", str(tmp_path / "file" / "results")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.slow
def test_bad_input_costs_no_ray(tmp_path):
    code = "import sys\nsys.modules['ray'] = None\nfrom tune_cd.run.__main__ import main\nsys.exit(main(['--batch-size', '63', '--results', %r]))" % str(tmp_path)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2 and "63" in finished.stderr


def test_an_existing_study_needs_resume_and_stays_what_it_was(tmp_path):
    store_options(study(tmp_path, "--study", "mine", "--start", "blind", "--seed", "3"))
    with pytest.raises(ValueError, match="--resume"):
        study(tmp_path, "--study", "mine")
    again = study(tmp_path, "--study", "mine", "--resume", "--num-samples", "31", "--no-baseline")
    assert again.searches[0].start is None and again.options.seed == 3
    assert [(search.name, search.num_samples) for search in again.searches] == [("cd", 31)]
    with pytest.raises(ValueError, match="seed = 3.*4"):
        study(tmp_path, "--study", "mine", "--resume", "--seed", "4")


def test_a_study_of_which_only_rows_are_left_is_not_overwritten(tmp_path):
    (tmp_path / "results" / "trials" / "mine").mkdir(parents=True)
    (tmp_path / "results" / "trials" / "mine" / "cd-00000.parquet").touch()
    with pytest.raises(ValueError, match="exists"):
        study(tmp_path, "--study", "mine")


LAPTOP, GPU_NODE = {"CPU": 4.0}, {"CPU": 16.0, "GPU": 4.0}


@pytest.mark.parametrize(
    "argv, alive, to_come, cpus, gpus, workers, pack, processes",
    [
        ([], [LAPTOP], [], 1, 0, 4, 1, 4),
        (["--workers", "2"], [LAPTOP], [], 2, 0, 2, 1, 2),
        (["--workers", "1"], [LAPTOP], [], 4, 0, 1, 1, 1),
        (["--cpus-per-trial", "2"], [LAPTOP], [], 2, 0, 2, 1, 2),
        (["--replicates", "3"], [LAPTOP], [], 1, 0, 4, 1, 4),
        (["--replicates", "3"], [GPU_NODE], [], 1, 1, 4, 1, 4),
        (["--pack", "5", "--replicates", "3", "--workers", "4"], [LAPTOP], [], 1, 0, 4, 5, 4),
        (["--gpus-per-trial", "auto", "--search", "grid"], [LAPTOP], [GPU_NODE], 1, 1, 50, 13, 4),
        (["--pack", "3", "--workers", "6"], [LAPTOP], [], 2, 0, 6, 3, 2),
        (["--gpus-per-trial", "auto"], [LAPTOP], [], 1, 0, 4, 1, 4),
        ([], [LAPTOP, GPU_NODE], [], 1, 1, 4, 1, 4),
        ([], [LAPTOP], [GPU_NODE], 1, 1, 4, 1, 4),
        (["--workers", "7"], [LAPTOP], [GPU_NODE], 1, 1, 7, 1, 7),
        (["--gpus-per-trial", "0"], [GPU_NODE], [], 1, 0, 10, 1, 10),
        (["--gpus-per-trial", "0.25"], [GPU_NODE], [], 1, 0.75, 10, 3, 4),
        (["--gpus-per-trial", "0.25", "--pack", "1"], [GPU_NODE], [], 1, 0.25, 10, 1, 10),
        (["--gpus-per-trial", "auto"], [GPU_NODE], [], 1, 1, 10, 3, 4),
        (["--gpus-per-trial", "auto", "--search", "random"], [GPU_NODE], [], 1, 1, 50, 13, 4),
        (["--gpus-per-trial", "auto", "--search", "random", "--replicates", "4"], [GPU_NODE], [], 1, 1, 50, 52, 4),
        (["--pack", "8", "--workers", "16"], [GPU_NODE], [], 1, 1, 16, 8, 2),
    ],
)  # fmt: skip
def test_resources(argv, alive, to_come, cpus, gpus, workers, pack, processes):
    growth = Growth(tuple(NodeType("worker", resources, 1) for resources in to_come))
    resources = check_resources(parse(argv)[0], alive, growth, trials=50)
    assert (resources.cpus, resources.gpus, resources.workers, resources.pack, resources.processes) == (cpus, gpus, workers, pack, processes)
    assert resources.processes * resources.gpus <= sum(node.get("GPU", 0) for node in alive + to_come) or "--workers" in argv


def test_workers_are_checked_before_anything_starts(tmp_path):
    with pytest.raises(ValueError, match="workers 0"):
        study(tmp_path, "--workers", "0")


@pytest.mark.parametrize("argv, said", [(["--gpus-per-trial", "1"], "1.*no node"), (["--gpus-per-trial", "1.5"], "1.5"), (["--gpus-per-trial", "-1"], "-1"),
                                        (["--cpus-per-trial", "5"], "5"), (["--cpus-per-trial", "0"], "0"),
                                        (["--gpus-per-trial", "2", "--pack", "2"], "2 in a process")])  # fmt: skip
def test_more_than_any_node_will_have(argv, said):
    with pytest.raises(ValueError, match=said):
        check_resources(parse(argv)[0], [LAPTOP], Growth(), trials=20)


def test_gpus_the_cluster_may_still_grow_count(tmp_path, monkeypatch):
    bootstrap = tmp_path / "ray_bootstrap_config.yaml"
    bootstrap.write_text("available_node_types:\n  head: {resources: {CPU: 2}, max_workers: 0}\n  spot: {resources: {CPU: 8, GPU: 1}, max_workers: 4}\n")
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: None)
    head = [{"CPU": 2.0, "node:__internal_head__": 1.0}]
    grown = check_resources(parse([])[0], head, cluster_growth(bootstrap), trials=20)
    assert (grown.gpus, grown.workers) == (1, 4)
    assert check_resources(parse([])[0], head, cluster_growth(tmp_path / "absent"), trials=20).gpus == 0


def test_the_set_up_follows_the_cluster_where_it_was_left_open(tmp_path):
    made = study(tmp_path)
    assert preflight.with_form(made, "paper").setup == find_setup("glyphs", "paper")
    fixed = study(tmp_path, "--setup", "small", "--images-seen", "640")
    assert fixed.setup.images_seen == 640 and preflight.with_form(fixed, "small") is fixed


def test_searches_are_checked_with_the_space():
    options, _ = parse(["--start", "Lambda_p=1,Lambda_e=1"])
    setup = find_setup("glyphs", "small")
    assert len(searches_of(options, setup, space_of(options))) == 3
    assert results.check_name("glyphs-margin-1") == "glyphs-margin-1"
