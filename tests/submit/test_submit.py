"""`python -m tune_cd.submit` without a cluster: requests, refusals, messages."""

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ray.exceptions import RpcError
from s3 import free_port
from webserver import Page, serve

from tune_cd import submit
from tune_cd.run.options import parse
from tune_cd.submit import STOP_SECONDS, check_submission

ENOUGH = ["--results", "/shared/results", "--workers", "2"]


def request(*argv: str, **others):
    return check_submission([*ENOUGH, *argv], **others)


def inner(entrypoint: str) -> list[str]:
    """The options of `tune_cd.run` in an entrypoint."""
    words = shlex.split(entrypoint)
    assert words[0] == "exec" and words[2:4] == ["-m", "tune_cd.run"]
    return words[4:]


# What is sent


@pytest.mark.parametrize("argv", [
    [], ["--study", "mine"], ["--study", "mine", "--resume"], ["--start", "lr=0.1,average=global,b=128"],
    ["--set", "k=4", "margin=0.3", "--range", "0.001,1"], ["--data-root", "/data/with space;rm -rf $HOME"],
    ["--weights", "imagenet", "--dry-run"], ["--data-root", "s3://bucket/omniglot.zip"], ["--weights", "none"],
    ["--weights", "/w.pt"], ["--set", "weights=imagenet"],
])  # fmt: skip
def test_the_cluster_reads_the_options_that_were_typed(argv):
    made = request(*argv)
    here, there = parse([*ENOUGH, *argv]), parse(inner(made["entrypoint"]))
    study = made["metadata"]["study"]
    assert there.call.address == "auto" and there.call.study == study == (here.call.study or study)
    assert here.call.study or study.startswith("glyphs-margin-"), "one without a name gets one"
    assert inner(made["entrypoint"])[2:][: len(ENOUGH) + len(argv)] == [*ENOUGH, *argv]
    assert there.config == here.config and there.written == here.written
    assert replace(there.call, address=None, study=None) == replace(here.call, study=None)


@pytest.mark.parametrize("argv, said", [
    (["--workers", "2"], "--results 'results': paths are those of the cluster"),
    (["--results", "/r"], "--workers is missing"),
    (["--results", "/r", "--workers", "0"], "workers 0"),
    (["--results", "ftp://x/y", "--workers", "2"], "results at ftp"),
    (["--results", "s3://key:secret@bucket/x", "--workers", "2"], "credentials in a results URI"),
    ([*ENOUGH, "--data-root", "photos"], "--data-root 'photos'"),
    ([*ENOUGH, "--weights", "./w.pt"], "--weights './w.pt'"),
    ([*ENOUGH, "--tune-dir", "../logs"], "--tune-dir"),
    ([*ENOUGH, "--data-root=photos"], "--data-root 'photos'"),
    ([*ENOUGH, "--set", "weights=w.pt", "k=4"], "weights 'w.pt'"),
    ([*ENOUGH, "--set", "margn=3"], "margn=3"),
    ([*ENOUGH, "--study", ".hidden"], "name '.hidden' is not allowed"),
    ([*ENOUGH, "--resume"], "--resume needs the --study"),
    ([*ENOUGH, "--num-samples", "0"], "at least 1"),
    ([*ENOUGH, "--start", "Lambda_p=9e9,Lambda_e=1"], "Lambda_p"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_sent(argv, said):
    with pytest.raises(ValueError, match=said):
        check_submission(argv)


def test_a_method_that_is_not_installed_here_may_be_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert request("--search", "tpe", "--study", "x")["metadata"]["study"] == "x"


def test_the_job_is_a_light_one_with_all_that_is_told_later(tmp_path):
    made = request("--study", "a.2-b")
    assert made["entrypoint_num_cpus"] == 0, "it takes no trial's place"
    assert {type(text) for text in made["metadata"].values()} == {str}, "as Ray wants it"
    assert made["runtime_env"] == {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}}
    assert request(working_dir=str(tmp_path))["runtime_env"]["working_dir"] == str(tmp_path)


def test_the_command_that_goes_on_is_a_whole_one(tmp_path):
    """It repeats what was asked, and asks for its continuation; that one's is itself."""
    made = request("--study", "mine", "--set", "k=4", working_dir=str(tmp_path), python="/opt/venv/bin/python")
    words = shlex.split(made["metadata"]["again"])
    assert words[:4] == ["python", "-m", "tune_cd.submit", "start"]
    options, argv = submit.parser().parse_known_args(words[3:])
    again = check_submission(argv, options.python, options.working_dir)
    assert again["metadata"]["again"] == made["metadata"]["again"] and again["runtime_env"] == made["runtime_env"]
    assert again["entrypoint"] == made["entrypoint"] + " --resume"


class YoungHead:
    """A client of a head that refuses its first jobs with these words."""

    def __init__(self, words: str, refusals: int):
        self.words, self.refusals, self.accepted = words, refusals, []

    def list_jobs(self) -> list:
        return []

    def submit_job(self, submission_id: str, **_) -> str:
        self.refusals -= 1
        if self.refusals >= 0:
            raise RuntimeError(f"Request failed with status code 500: {self.words}.")
        self.accepted.append(submission_id)
        return submission_id

    def get_job_info(self, name: str) -> str:
        return name


def test_a_head_that_has_just_started_is_waited_for(monkeypatch):
    head = YoungHead("No available agent to submit job, please try again later", refusals=2)
    assert submit.submit(head, request("--study", "mine")) == "tune_cd~mine~1" and len(head.accepted) == 1
    with pytest.raises(RuntimeError, match="No space left"):
        submit.submit(other := YoungHead("No space left", refusals=2), request("--study", "mine"))
    monkeypatch.setattr(submit, "AGENT_SECONDS", 0)
    with pytest.raises(RuntimeError, match="No available agent"):
        submit.submit(YoungHead(head.words, refusals=99), request("--study", "mine"))
    assert other.refusals == 1, "what is no matter of time is said at once"


def test_who_follows_a_study_whose_driver_is_killed_is_told_what_continues_it(monkeypatch, capsys):
    told = request("--study", "mine")["metadata"]
    job = SimpleNamespace(submission_id="tune_cd~mine~1", start_time=1, metadata=told, status="FAILED")
    job.driver_exit_code = -signal.SIGKILL
    head = SimpleNamespace(list_jobs=lambda: [job], get_job_info=lambda _: job, get_job_logs=lambda _: "said\n")
    monkeypatch.setattr(submit, "connect", lambda _: head)
    assert submit.main(["logs", "mine", "-f"]) == 137
    said = f"said\nstudy mine: FAILED, 137: ended otherwise\ncontinue with: {told['again']}\n"
    assert capsys.readouterr().out == said and said.endswith(" --study mine --resume\n")


# The study in Ray's shell


def shell(tmp_path: Path, program: str) -> subprocess.Popen:
    """The entrypoint, with a program in its Python's place."""
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{program}")
    (tmp_path / "python").chmod(0o755)
    entrypoint = request(python=str(tmp_path / "python"))["entrypoint"]
    return subprocess.Popen(entrypoint, shell=True, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_a_stopped_study_says_its_last_words_in_the_process_that_ray_watches(tmp_path):
    """No shell is left between Ray and the study: it would end first, and Ray would kill what is left."""
    ends = "def end(*_):\n    time.sleep(1)\n    print('last words', flush=True)\n    sys.exit(143)\n"
    ready = "print(os.getpid(), flush=True)\ntime.sleep(60)"
    process = shell(tmp_path, f"import os, signal, sys, time\n{ends}signal.signal(signal.SIGTERM, end)\n{ready}")
    assert int(process.stdout.readline()) == process.pid
    os.kill(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert said == "last words\n" and process.returncode == 143


@pytest.fixture
def web(monkeypatch):
    """A web server in a cluster's place; the environment names another."""
    pytest.importorskip("aiohttp", reason="ray[default] is not installed")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://another:1")
    with serve() as server:
        yield server


RAY, OLD = (json.dumps({"version": "4", "ray_version": number}) for number in ("2.60.0", "1.8.0"))


@pytest.mark.parametrize("state, text, words", [
    (200, "hello", "cannot be used: "), (404, RAY, "cannot be used: "), (502, "", "cannot be used: "),
    (401, "Unauthorized: Missing authentication token", "asks for a token, and .ray rsync-down"),
    (200, OLD, "cannot be used: .*Ray version 1.8.0 is running on the cluster"),
])  # fmt: skip
def test_a_server_that_cannot_be_used(web, state, text, words):
    web.pages["*"] = Page(text.encode(), code=state)
    with pytest.raises(ConnectionError, match=f"{web.url} {words}"):
        submit.connect(web.url)


def test_an_address_without_http_is_no_missing_token(web, monkeypatch):
    """Ray takes HOST:PORT for its own port, and waits for it in vain where it is the job server's."""
    refuse = Mock(side_effect=RpcError("Timed out while waiting for GCS to become available."))
    monkeypatch.setattr("ray.job_submission.JobSubmissionClient", refuse)
    address = web.url.removeprefix("http://")
    with pytest.raises(ConnectionError, match=f"{address} cannot be used: Timed out .*; a job server's is"):
        submit.connect(address)


def test_the_address_given_comes_before_the_environments(web, monkeypatch, capsys):
    web.pages["*"] = Page(RAY.encode())
    assert submit.connect(web.url).get_address() == web.url
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS")
    monkeypatch.setenv("RAY_ADDRESS", web.url)
    assert submit.connect(None).get_address() == web.url
    assert submit.main(["list", "--address", f"http://127.0.0.1:{free_port()}"]) == 2
    said = capsys.readouterr().err
    assert "nothing answers at http" in said and "`ray dashboard clusters/gpu.yaml`" in said
