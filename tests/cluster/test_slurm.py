"""clusters/slurm.sh with an imitated `srun` and `scontrol`, and nodes on this machine; under SLURM: `lab/`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from tune_cd import results

SCRIPT = Path(__file__).parents[2] / "clusters/slurm.sh"
SRUN = """
while [[ $1 == -* ]]; do shift; done
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do SLURM_NODEID=$node "$@" & nodes+=($!); done
trap : TERM
wait -n
kill "${nodes[@]}" 2> /dev/null
wait
"""
SEARCH = """
[ "$1" = -c ] && exit  # all nodes are there
echo "$@" >> searches
trap 'exit 143' TERM
while [ -e runs ]; do sleep 0.05; done
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Starts the script in an empty folder; imitate(name, text) puts a command before the real one of its name."""

    def imitate(name: str, text: str) -> None:
        (command := tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        command.chmod(0o755)

    def start(*options: str) -> subprocess.Popen:
        numbers = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "1"}
        return subprocess.Popen(
            ["bash", str(SCRIPT), *options], cwd=tmp_path, env=os.environ | numbers, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}")
    imitate("srun", SRUN)
    imitate("scontrol", 'echo "$@" >> requeued')
    start.imitate = imitate
    return start


@pytest.mark.parametrize("sent, requeued", [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_at_its_time_limit_a_job_ends_in_good_order_and_queues_again(job, tmp_path, sent, requeued):
    """SIGUSR1 comes two minutes before the limit, SIGTERM where somebody cancels the job."""
    job.imitate("ray", "exec sleep 60")
    job.imitate("python", SEARCH)
    (tmp_path / "runs").touch()
    running = job("mine", "--loss", "infonce")
    until((tmp_path / "searches").exists, 60)
    running.send_signal(sent)
    assert running.wait(60) == 128 + signal.SIGTERM
    assert (tmp_path / "requeued").exists() == requeued
    (said,) = (tmp_path / "searches").read_text().splitlines()
    assert said.endswith("--results results --study mine --loss infonce")


def test_a_study_that_exists_goes_on_and_its_exit_status_is_the_jobs(job, tmp_path):
    job.imitate("ray", "exec sleep 60")
    job.imitate("python", SEARCH + "exit 3")
    (tmp_path / "results/studies/mine").mkdir(parents=True)
    (tmp_path / "results/studies/mine/study.json").touch()
    assert job("mine").wait(60) == 3
    assert (tmp_path / "searches").read_text().endswith("--study mine --resume\n")


def test_a_ray_that_does_not_start_is_told(job):
    job.imitate("ray", "exit 1")
    job.imitate("python", "exec sleep 30")  # ray.init() tries for minutes to reach a Ray that is gone
    said, _ = (running := job("mine")).communicate(timeout=60)
    assert running.returncode == 1 and "Ray did not start: see ray-" in said


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_a_study_goes_on_in_the_next_job_over_two_nodes(job, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    options = ["mine", "--setup", "small", "--set", "images_seen=512", "evaluations=2", "--no-baseline"]
    options += ["--full-length", "--num-samples", "3", "--checkpoint-seconds", "0"]
    first = job(*options)
    until(lambda: [*tmp_path.glob("results/trials/mine/*.parquet")], 300)
    first.send_signal(signal.SIGUSR1)
    said, _ = first.communicate(timeout=300)
    assert first.returncode == 143 and said.count("1 CPU, ready") == 2
    assert 1 <= len(results.read(tmp_path / "results", "mine").query("status == 'completed'")) < 3
    said, _ = (second := job(*options)).communicate(timeout=300)
    assert second.returncode == 0 and "report:" in said
    assert len(results.read(tmp_path / "results", "mine").query("status == 'completed'")) == 3
