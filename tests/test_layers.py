"""Who may import whom, proved in fresh interpreters."""

import subprocess
import sys

import pytest

WITHOUT_RAY_AND_TORCH = [
    "tune_cd", "tune_cd.search.golden_section", "tune_cd.search.space", "tune_cd.search.protocol", "tune_cd.search.coordinate_descent", "tune_cd.balance",
    "tune_cd.results.schema", "tune_cd.results", "tune_cd.results.__main__", "tune_cd.results.formatting", "tune_cd.results.verification", "tune_cd.analysis", "tune_cd.analysis.tables", "tune_cd.analysis.memory_table", "tune_cd.report.__main__", "tune_cd.report.figures", "tune_cd.plots", "tune_cd.results.provenance", "tune_cd.run.options", "tune_cd.cluster.capacity", "tune_cd.cluster.spot", "tune_cd.cluster.autoscaler", "tune_cd.cluster.node_requests", "tune_cd.cluster.watch", "tune_cd.cluster.nodes", "tune_cd.cluster.ray_internals",
    "tune_cd.search.line_search", "tune_cd.search.speculative", "tune_cd.search.model_guided", "tune_cd.search.lines", "tune_cd.search.gaussian_process", "tune_cd.search.baselines", "tune_cd.landscapes.landscape", "tune_cd.landscapes.formulas", "tune_cd.replay", "tune_cd.replay.__main__", "tune_cd.replay.ablation", "tune_cd.replay.benchmark", "tune_cd.replay.fits", "tune_cd.replay.orientation", "tune_cd.replay.paper_tables", "tune_cd.replay.stored", "tune_cd.results.bulk",
    "tune_cd.submit.__main__", "tune_cd.submit.connection", "tune_cd.submit.request", "tune_cd.submit.jobs", "tune_cd.submit.status",
]  # fmt: skip
WITHOUT_RAY = [
    "trainables", "trainables.losses.terms", "trainables.data.sampling", "trainables.data.augmentation", "trainables.models.networks", "trainables.datasets",
    "trainables.metrics.retrieval", "trainables.metrics.linear_probe", "trainables.training.evaluation", "trainables.training.setups", "trainables.training.loop", "trainables.train",
    "trainables.losses.memory", "trainables.models.weights", "trainables.data.resident", "trainables.training.assembly", "trainables.training.cuda_graphs", "trainables.training.outcome", "trainables.training.errors", "trainables.training.watchdog", "trainables.training.parallel", "trainables.training.checks", "trainables.training.checkpoint", "trainables.metrics.revisited", "trainables.datasets.download",
    "trainables.training.paper",
]  # fmt: skip
BLOCKED = """
import sys
blocked = {blocked!r}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{{name}} is not installed")
sys.meta_path.insert(0, Absent())
"""


def run(code: str) -> None:
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr


def imports(modules: list[str], blocked: list[str]) -> None:
    """Import the modules in an interpreter where importing a blocked one is an error."""
    run(BLOCKED.format(blocked=blocked) + "".join(f"import {module}\n" for module in modules))


def test_the_core_needs_neither_ray_nor_torch():
    imports(WITHOUT_RAY_AND_TORCH, ["ray", "torch", "torchvision"])


@pytest.fixture(scope="module")
def without_tune_cd():
    """What one interpreter without tune_cd, and for its first two thirds without ray, has printed: importing torch takes long."""
    code = (
        BLOCKED.format(blocked=["ray", "tune_cd"])
        + "import runpy\n"
        + "".join(f"import {module}\n" for module in WITHOUT_RAY)
    )
    code += "print('trainables are imported', flush=True)\nsys.argv = ['trainables.train', '--help']\n"
    code += "try:\n    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\nexcept SystemExit as end:\n    print(f'help ends with {end.code}', flush=True)\n"
    code += "assert not {'ray', 'tune_cd'} & set(sys.modules)\nblocked.remove('ray')\nimport trainables.trial\nprint('trainables.trial is imported')\n"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_trainables_need_no_ray_and_know_nothing_of_tune_cd(without_tune_cd):
    assert "trainables are imported" in without_tune_cd.stdout, without_tune_cd.stderr


def test_training_works_where_ray_is_not_installed(without_tune_cd):
    assert "--Lambda_p" in without_tune_cd.stdout and "help ends with 0" in without_tune_cd.stdout, (
        without_tune_cd.stderr
    )


def test_trainables_trial_knows_nothing_of_tune_cd(without_tune_cd):
    assert "trainables.trial is imported" in without_tune_cd.stdout and without_tune_cd.returncode == 0, (
        without_tune_cd.stderr
    )


def test_the_searcher_needs_no_torch():
    imports(
        ["tune_cd.tune.searcher", "tune_cd.tune.optimiser_search", "tune_cd.tune.callback", "tune_cd.tune.packed"],
        ["torch", "trainables"],
    )


def test_importing_tune_cd_loads_neither_ray_nor_torch_nor_pandas():
    run("import sys, tune_cd\nassert not {'ray', 'torch', 'pandas', 'numpy'} & set(sys.modules), sorted(sys.modules)")


def test_golden_is_standard_library_only():
    run(
        "import sys\nbefore = set(sys.modules)\nimport tune_cd.search.golden_section\nassert not {'numpy'} & set(sys.modules)"
    )
