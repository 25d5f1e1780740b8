"""`python -m tune_cd.submit` without a cluster: requests, refusals, messages. The job server is a double."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from studies import row

from tune_cd import results
from tune_cd import submit as command
from tune_cd.run.options import parse
from tune_cd.submit import STOP_SECONDS, check_submission

ENOUGH = ["--results", "/shared/results", "--workers", "2"]


@dataclass
class Server:
    """What Ray's job server does, at once and in memory. delay: looks at which a job that was stopped still runs."""

    jobs: dict = field(default_factory=dict)
    logs: dict = field(default_factory=dict)
    hidden: int = 0  # listings that do not show what there is yet
    delay: int = 0
    clock: int = 1_760_000_000_000  # ms

    def list_jobs(self) -> list:
        self.hidden -= 1
        return [] if self.hidden >= 0 else list(self.jobs.values())

    def submit_job(self, *, entrypoint, submission_id, runtime_env, metadata, entrypoint_num_cpus) -> str:
        if submission_id in self.jobs:
            raise RuntimeError(f"Request failed with status code 500: Job {submission_id} already exists.")
        self.clock += 1000
        self.jobs[submission_id] = SimpleNamespace(
            submission_id=submission_id, status="PENDING", start_time=self.clock, end_time=None, driver_exit_code=None,
            message="", metadata=metadata, entrypoint=entrypoint, runtime_env=runtime_env, num_cpus=entrypoint_num_cpus,
        )  # fmt: skip
        return submission_id

    def get_job_info(self, name: str):
        job = self.jobs[name]
        if job.status == "STOPPING":
            self.delay -= 1
            if self.delay < 0:
                self.end(name, "STOPPED", said="last words\n")
        return SimpleNamespace(**{**vars(job), "status": "RUNNING" if job.status == "STOPPING" else job.status})

    def stop_job(self, name: str) -> bool:
        self.jobs[name].status = "STOPPING"
        return True

    def get_job_logs(self, name: str) -> str:
        if name not in self.logs:
            raise RuntimeError(f"Request failed with status code 500: no log of {name}")
        return self.logs[name]

    async def tail_job_logs(self, name: str):
        text = self.get_job_logs(name)
        for begin in range(0, len(text), 7):
            yield text[begin : begin + 7]

    def end(self, name: str, status: str, code: int | None = None, said: str = "") -> None:
        self.clock += 1000
        job = self.jobs[name]
        job.status, job.end_time, job.driver_exit_code = status, self.clock, code
        self.logs[name] = self.logs.get(name, "") + said


@pytest.fixture
def server(monkeypatch) -> Server:
    """The double, where every command looks for a cluster."""
    made = Server()
    monkeypatch.setattr(command, "connect", lambda address: made)
    monkeypatch.setattr(command, "POLL_SECONDS", 0.0)
    return made


def request(*argv: str, **others):
    return check_submission([*ENOUGH, *argv], **others)


def inner(entrypoint: str) -> list[str]:
    """The options of `tune_cd.run` in an entrypoint."""
    words = shlex.split(entrypoint)
    assert words[0] == "exec" and words[2:4] == ["-m", "tune_cd.run"]
    return words[4:]


# What is sent


@pytest.mark.parametrize(
    "argv",
    [
        [], ["--study", "mine"], ["--study", "mine", "--resume"], ["--start", "lr=0.1,average=global,b=128"],
        ["--set", "k=4", "margin=0.3", "--range", "0.001,1"], ["--data-root", "/data/with space;rm -rf $HOME"],
        ["--weights", "imagenet", "--dry-run"], ["--data-root", "s3://bucket/omniglot.zip"], ["--weights", "none"],
        ["--weights", "/w.pt"], ["--set", "weights=imagenet"],
    ],
)  # fmt: skip
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
    (["--workers", "2"], "--results is missing"),
    (["--results", "/r"], "--workers is missing"),
    (["--results", "/r", "--workers", "0"], "workers 0"),
    (["--results", "results", "--workers", "2"], "--results 'results': paths are those of the cluster"),
    (["--results", "ftp://x/y", "--workers", "2"], "results at ftp"),
    (["--results", "s3://key:secret@bucket/x", "--workers", "2"], "credentials in a results URI"),
    ([*ENOUGH, "--data-root", "photos"], "--data-root 'photos'"),
    ([*ENOUGH, "--weights", "./w.pt"], "--weights './w.pt'"),
    ([*ENOUGH, "--set", "k=4", "weights=w.pt"], "--set weights= 'w.pt'"),
    ([*ENOUGH, "--tune-dir", "../logs"], "--tune-dir"),
    ([*ENOUGH, "--set", "margn=3"], "margn=3"),
    ([*ENOUGH, "--study", ".hidden"], "name '.hidden' is not allowed"),
    ([*ENOUGH, "--resume"], "--resume needs the --study"),
    ([*ENOUGH, "--num-samples", "0"], "at least 1"),
    ([*ENOUGH, "--start", "Lambda_p=9e9,Lambda_e=1"], "Lambda_p"),
    ([*ENOUGH, "--addr", "local"], "written in full"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_sent(argv, said):
    with pytest.raises(ValueError, match=said):
        check_submission(argv)


def test_typos_end_as_in_tune_cd_run(capsys):
    with pytest.raises(SystemExit) as ended:
        request("--nun-samples", "3")
    assert ended.value.code == 2 and "--nun-samples" in capsys.readouterr().err


def test_a_method_that_is_not_installed_here_may_be_there(monkeypatch):
    def absent(*_):
        raise ImportError("optuna")

    monkeypatch.setattr("tune_cd.submit.searches_of", absent)
    assert request("--search", "tpe", "--study", "x")["metadata"]["study"] == "x"


def test_a_working_directory_is_sent_only_where_asked_for(tmp_path):
    (tmp_path / "file").touch()
    assert "working_dir" not in request()["runtime_env"]
    assert request(working_dir=str(tmp_path))["runtime_env"]["working_dir"] == str(tmp_path)


def test_the_command_that_goes_on_is_a_whole_one(tmp_path):
    """It repeats what was asked, and asks for its continuation; that one's is itself."""
    made = request("--study", "mine", "--set", "k=4", working_dir=str(tmp_path), python="/opt/venv/bin/python")
    words = shlex.split(made["metadata"]["again"])
    assert words[:4] == ["python", "-m", "tune_cd.submit", "start"]
    options, argv = command.parser().parse_known_args(words[3:])
    again = check_submission(argv, options.python, options.working_dir)
    assert again["metadata"]["again"] == made["metadata"]["again"] and again["runtime_env"] == made["runtime_env"]
    assert again["entrypoint"] == made["entrypoint"] + " --resume"


# The study in Ray's shell


def shell(tmp_path: Path, program: str) -> subprocess.Popen:
    """The entrypoint, with a program in its Python's place."""
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{program}")
    (tmp_path / "python").chmod(0o755)
    entrypoint = request(python=str(tmp_path / "python"))["entrypoint"]
    return subprocess.Popen(entrypoint, shell=True, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_the_exit_status_of_a_study_is_its_jobs(tmp_path, code):
    assert shell(tmp_path, f"raise SystemExit({code})").wait(60) == code


def test_a_stopped_study_says_its_last_words_in_the_process_that_ray_watches(tmp_path):
    """No shell is left between Ray and the study: it would end first, and Ray would kill what is left."""
    ends = "def end(*_):\n    time.sleep(1)\n    print('last words', flush=True)\n    sys.exit(143)\n"
    ready = "print(os.getpid(), flush=True)\ntime.sleep(60)"
    process = shell(tmp_path, f"import os, signal, sys, time\n{ends}signal.signal(signal.SIGTERM, end)\n{ready}")
    assert int(process.stdout.readline()) == process.pid
    os.kill(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert said == "last words\n" and process.returncode == 143


# Names, attempts, doubles


def test_a_study_is_one_job_and_keeps_its_name(server):
    made = request("--study", "a.2-b")
    job = command.submit(server, made)
    sent = server.jobs[job.submission_id]
    assert command.attempt_of(job) == ("a.2-b", 1) and job.status == "PENDING"
    assert sent.num_cpus == 0, "it takes no trial's place"
    assert int(sent.runtime_env["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) == STOP_SECONDS
    assert {type(text) for text in sent.metadata.values()} == {str}, "as Ray wants it"
    assert sent.metadata == made["metadata"]


def test_a_study_under_way_is_refused_with_who_runs_it(server):
    command.submit(server, request("--study", "mine"))
    with pytest.raises(ValueError, match="'mine' is running.*2 workers, PENDING"):
        command.submit(server, request("--study", "mine", "--resume"))
    command.submit(server, request("--study", "other"))
    assert sorted(server.jobs) == ["tune_cd~mine~1", "tune_cd~other~1"]


def test_of_two_that_start_a_study_at_the_same_moment_one_gets_it(server):
    command.submit(server, request("--study", "mine"))
    server.hidden = 1
    with pytest.raises(ValueError, match="'mine' is running"):
        command.submit(server, request("--study", "mine"))
    assert len(server.jobs) == 1


def test_what_else_the_cluster_refuses_is_said_as_it_is(server):
    def full(**_):
        raise RuntimeError("no room")

    server.submit_job = full
    with pytest.raises(RuntimeError, match="no room"):
        command.submit(server, request())


def test_an_ended_study_goes_on_as_its_next_attempt(server):
    for attempt in (1, 2, 3):
        job = command.submit(server, request("--study", "mine", "--resume"))
        assert command.attempt_of(job) == ("mine", attempt)
        server.end(job.submission_id, "STOPPED")
    command.submit(server, request("--study", "other"))
    last = [command.attempt_of(job) for job in command.studies(server).values()]
    assert last == [("other", 1), ("mine", 3)], "the latest first"
    with pytest.raises(ValueError, match="no study 'nobody'.*other, mine"):
        command.job_of(server, "nobody")


def test_jobs_of_others_are_no_studies(server):
    for name in (None, "raysubmit_4Lam", "tune_cd", "tune_cd~x", "tune_cd~x~y", "other~x~1"):
        server.jobs[name] = SimpleNamespace(submission_id=name)
    assert command.studies(server) == {}


# How far, and how it ended


@pytest.mark.parametrize(
    "argv, most",
    [
        ("--no-baseline", "10"), ("--no-baseline --full-length", "20"), ("--no-baseline --num-samples 7", "7"),
        ("--no-baseline --replicates 3", "30"), ("--baseline-trials 5", "20"),  # two averages beside the search
        ("--search grid --range 0.01,1 --grid-step 100 --no-baseline", "4"),
        ("--resume", "?"),  # the options of its first attempt hold
    ],
)  # fmt: skip
def test_the_job_knows_how_many_trainings_the_study_has_at_most(argv, most):
    assert request("--study", "s", *argv.split())["metadata"]["trials"] == most


def job_at(place="", status="RUNNING", code=None, message="", trials="?"):
    ended = None if status in command.ALIVE else 60_000
    metadata = {"results": str(place), "trials": trials, "workers": "2", "user": "me"}
    return SimpleNamespace(
        submission_id="tune_cd~s~1", status=status, start_time=1, end_time=ended, driver_exit_code=code,
        message=message, metadata=metadata,
    )  # fmt: skip


def test_the_table_tells_how_far_a_study_is(tmp_path):
    def shown(job):
        return command.line_of(job, set())[4:6]

    place = tmp_path / "results"
    assert shown(job_at(place, trials="43")) == ("?/43", "-"), "there is no table yet, or not on this machine"
    results.write_trial(place, row(0, "completed", 0.25) | {"study": "another"})
    assert shown(job_at(place, trials="43")) == ("0/43", "-")
    for index, score in enumerate([0.25, 0.875, None]):
        results.write_trial(place, row(index, "completed" if score else "failed", score))
    assert shown(job_at(place, trials="43")) == ("3/43", "r_map 0.8750")
    assert shown(job_at("ftp://no/where")) == ("?/?", "-")


def test_a_store_that_does_not_answer_is_asked_once(monkeypatch):
    asked, unreachable = [], set()

    def away(place, study):
        asked.append(place)
        raise OSError("timed out")

    monkeypatch.setattr(results, "read", away)
    places = ("s3://one/x", "s3://one/x", "s3://two/x")
    assert [command.line_of(job_at(place), unreachable)[4] for place in places] == ["?/?"] * 3
    assert asked == ["s3://one/x", "s3://two/x"]


FAILURE = "Job entrypoint command failed with exit code {}, last available logs (truncated to 20,000 chars):\n"


@pytest.mark.parametrize(
    "said, status, code, message",
    [
        ("", "RUNNING", None, ""),
        ("0: finished", "SUCCEEDED", 0, ""),
        ("2: refused .*: error: no such data$", "FAILED", 2, FAILURE + "error: no such data\n"),
        ("1: .*: error: disk full$", "FAILED", 1, FAILURE + "error: disk full\ncontinue with: x\n"),
        ("1: .*: python: No module", "FAILED", 1, FAILURE + "python: No module named tune_cd\n"),
        ("127: no such Python", "FAILED", 127, ""),
        ("126: no exit status of tune_cd.run", "FAILED", 126, ""),
        ("130: interrupted", "FAILED", 130, ""),
        ("137: ended by signal 9", "FAILED", 137, ""),
        ("143: stopped$", "STOPPED", None, "Job was intentionally stopped."),
        ("more$", "FAILED", None, "\nruntime_env setup failed: x\nmore"),
        ("lost: ", "FAILED", None, ""),
    ],
)
def test_how_a_study_ended_is_explained(said, status, code, message):
    assert re.match(said or "$", command.ending(job_at(status=status, code=code, message=message)))


# The commands


def test_start_list_logs_and_stop(server, capsys, tmp_path):
    place = tmp_path / "results"
    enough = ["--results", str(place), "--workers", "2", "--num-samples", "5", "--no-baseline"]
    assert command.main(["start", "--study", "mine", *enough]) == 0
    assert "submitted as tune_cd~mine~1; results in " in capsys.readouterr().out
    assert command.main(["start", "--study", "other", *enough]) == 0
    capsys.readouterr()
    results.write_trial(place, row(0, "completed", 0.5) | {"study": "mine"})
    server.logs["tune_cd~mine~1"] = "first line\nsecond line\n"
    assert command.main(["list"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["study", "status"] and [line.split()[0] for line in lines] == ["other", "mine"]
    assert "0/5" in lines[0] and "1/5" in lines[1] and "r_map 0.5000" in lines[1]
    assert command.main(["logs", "mine"]) == 0 and capsys.readouterr().out == "first line\nsecond line\n"
    assert [line.index("PENDING") for line in lines] == [heading.index("status")] * 2
    server.jobs["tune_cd~mine~1"].status = "RUNNING"
    server.delay = 3
    assert command.main(["stop", "mine"]) == 0
    said = capsys.readouterr().out
    assert "first line" not in said
    assert said.index("last words") < said.index("STOPPED, 143: stopped") < said.index("continue with: ")
    assert command.main(["stop", "mine"]) == 0, "it has ended already"
    assert server.jobs["tune_cd~other~1"].status == "PENDING"


def test_a_study_that_had_to_be_killed_is_no_good_order(server, capsys, monkeypatch):
    clock = iter(range(0, 10**6, STOP_SECONDS))
    monkeypatch.setattr(command.time, "monotonic", lambda: float(next(clock)))
    command.main(["start", "--study", "mine", *ENOUGH])
    assert command.main(["stop", "mine"]) == 1 and "killed, it did not end within 120 s" in capsys.readouterr().out


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_study_that_ends_by_itself_while_it_is_stopped(server, capsys, code):
    command.main(["start", "--study", "mine", *ENOUGH])
    server.stop_job = lambda name: server.end(name, "FAILED" if code else "SUCCEEDED", code)
    assert command.main(["stop", "mine"]) == (1 if code == 1 else 0)


@pytest.mark.parametrize("begun", [False, True])
def test_a_study_without_a_row_is_stopped_without_loss(server, capsys, tmp_path, begun):
    (tmp_path / "results").mkdir()
    command.main(["start", "--study", "mine", "--results", str(tmp_path / "results"), "--workers", "1"])
    server.jobs["tune_cd~mine~1"].status = "RUNNING" if begun else "PENDING"
    assert command.main(["stop", "mine"]) == 0
    said = capsys.readouterr().out
    assert "STOPPED, 143: stopped" in said and "continue with" not in said


@pytest.mark.parametrize("code", [0, 1, 2])
def test_who_follows_gets_the_studys_log_and_exit_status(server, code, capsys):
    pytest.importorskip("aiohttp", reason="ray[default] is not installed")

    def at_once(*_):
        server.end("tune_cd~mine~1", "FAILED" if code else "SUCCEEDED", code, "one line\nanother\n")

    server.get_job_info = lambda name, plain=server.get_job_info: (at_once(), plain(name))[1]
    assert command.main(["start", "--follow", "--study", "mine", *ENOUGH]) == code
    assert f"one line\nanother\nstudy mine: {server.jobs['tune_cd~mine~1'].status}, {code}: " in capsys.readouterr().out
    assert command.main(["logs", "mine", "-f"]) == 0 and capsys.readouterr().out.startswith("one line\nanother\n")


@pytest.mark.parametrize("argv", [["logs", "nobody"], ["stop", "nobody"], ["start", "--study", "x"]])
def test_what_cannot_be_done_is_an_error(server, capsys, argv):
    assert command.main(argv) == 2 and capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("argv", [["list", "--nun"], ["logs"], ["stop"], ["stop", "a", "b"], []])
def test_a_line_that_cannot_be_read_ends_with_2(server, argv, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(argv)
    assert ended.value.code == 2


def test_nothing_submitted_is_said(server, capsys):
    assert command.main(["list"]) == 0 and capsys.readouterr().out == "no study was submitted to this cluster\n"


# The way there


@pytest.fixture
def web(monkeypatch):
    """A web server whose every answer is (state, text), set by the test; its address."""
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://another:1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state, text = made.answer
            self.send_response(state)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


RAY, OLD = (json.dumps({"version": "4", "ray_version": number}) for number in ("2.60.0", "1.8.0"))


@pytest.mark.parametrize(
    "state, text, words",
    [
        (200, "hello", "cannot be used: "), (404, RAY, "cannot be used: "), (502, "", "cannot be used: "),
        (401, "Unauthorized: Missing authentication token", "asks for a token, and .ray rsync-down"),
        (200, OLD, "cannot be used: .*Ray version 1.8.0 is running on the cluster"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_used(web, state, text, words):
    pytest.importorskip("aiohttp", reason="ray[default] is not installed")
    web.answer = state, text
    with pytest.raises(ConnectionError, match=f"{web.url} {words}"):
        command.connect(web.url)


def test_a_server_that_is_none(web, monkeypatch):
    pytest.importorskip("aiohttp", reason="ray[default] is not installed")
    web.answer = 200, RAY
    assert command.connect(web.url).get_address() == web.url, "the address given comes before the environment's"
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS")
    monkeypatch.setenv("RAY_ADDRESS", web.url)
    assert command.connect(None).get_address() == web.url
    web.shutdown()
    web.server_close()
    with pytest.raises(ConnectionError, match="nothing answers.*ray dashboard clusters/gpu.yaml"):
        command.connect(web.url)
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "aiohttp" else object())
    with pytest.raises(ImportError, match=r"aiohttp not installed: pip install \"ray\[default\]\""):
        command.connect(None)
