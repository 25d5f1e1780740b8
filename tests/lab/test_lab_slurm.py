"""clusters/slurm.sh for real: the daemons of SLURM, with two nodes that share this machine, each with one GPU to SLURM.

Nothing is timed: limits are an hour. USR1 is sent as at the job's time limit.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from s3 import free_port
from waiting import until

from tune_cd import results

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel")
ABSENT = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin") is None]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="SLURM's daemons need root"),
    pytest.mark.skipif(bool(ABSENT), reason=f"SLURM needs {', '.join(ABSENT)} (Debian: slurm-wlm munge)"),
]

SCRIPT = Path(__file__).parents[2] / "clusters/slurm.sh"
LONG = 3600  # s; a limit, for a busy machine
CONF = """
ClusterName=lab
SlurmctldHost={host}
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmctldPidFile={folder}/controller.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostname={host} Port={first} CPUs=2 Gres=gpu:1
NodeName=n2 NodeHostname={host} Port={second} CPUs=2 Gres=gpu:1
PartitionName=lab Nodes=n1,n2 Default=YES
"""
STUDY = ["mine", "--setup", "small", "--set", "images_seen=512", "evaluations=2", "--no-baseline"]
STUDY += ["--full-length", "--num-samples", "3", "--checkpoint-seconds", "0"]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Runs a command of SLURM in a folder of the test, and returns what it prints."""
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    ports = {name: free_port() for name in ("controller", "first", "second")}
    (folder / "slurm.conf").write_text(CONF.format(host=socket.gethostname(), folder=folder, **ports))
    (folder / "gres.conf").write_text("AutoDetect=off\nNodeName=n[1-2] Name=gpu File=/dev/null\n")
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    munge = [f"--{name}={folder}/munge.{name.removesuffix('-file')}" for name in ("socket", "key-file", "pid-file")]
    munge += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    python = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{python}:{os.environ['PATH']}:/usr/sbin")
    monkeypatch.setenv("SLURM_CONF", f"{folder}/slurm.conf")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    daemons = []

    def start(*command: str) -> None:
        with open(folder / f"{command[0]}.log", "ab") as log:
            daemons.append(subprocess.Popen(command, stdout=log, stderr=log))

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    try:
        start("munged", "--foreground", "--force", *munge)
        until((folder / "munge.socket").exists, 60)
        start("slurmctld", "-D")
        for name in ("n1", "n2"):
            (folder / name).mkdir()
            start("slurmd", "-D", "-N", name)
        until(lambda: run("sinfo", "-h", "-o", "%D %t").strip() == "2 idle")
        yield run
        run("scancel", "--user", "root")
        until(lambda: not run("squeue", "-h"), LONG)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(LONG)


def test_a_study_goes_on_in_the_requeued_job_over_two_nodes(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_CD_SIMULATED_GPUS", "1")
    job = slurm("sbatch", "--parsable", "--nodes=2", "--cpus-per-task=1", str(SCRIPT), *STUDY).strip()
    log = tmp_path / f"slurm-{job}.out"
    until(lambda: [*tmp_path.glob("results/trials/mine/*.parquet")], LONG)
    slurm("scancel", "--batch", "--signal=USR1", job)
    until(lambda: "PENDING" in slurm("squeue", "-h", "-o", "%T"), LONG)
    assert log.read_text().count("1 GPU, 1 CPU, ready") == 2 and "interrupted" in log.read_text()
    assert 1 <= len(results.read(tmp_path / "results", "mine").query("status == 'completed'")) < 3

    slurm("scontrol", "update", f"JobId={job}", "StartTime=now")  # it would wait for two minutes
    until(lambda: not slurm("squeue", "-h"), LONG)
    assert "JobState=COMPLETED" in slurm("scontrol", "show", "job", job), log.read_text()
    trials = results.read(tmp_path / "results", "mine")
    assert len(trials.query("status == 'completed'")) == 3 and set(trials["gpus"]) == {1}
