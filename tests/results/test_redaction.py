"""Secrets in errors and configurations, and that none of them reaches a table or a message."""

import json
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from warned import no_warnings

from tune_cd import ResultsCallback
from tune_cd.results.__main__ import main as results_command
from tune_cd.results.redaction import redact
from tune_cd.results.store import Folder

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            f"GET https://b.s3.amazonaws.com/x?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature={SECRET}&X-Amz-Expires=60",
            "GET https://b.s3.amazonaws.com/x?X-Amz-Credential=***&X-Amz-Signature=***&X-Amz-Expires=60",
        ),
        (
            f"https://b.blob.core.windows.net/x?sv=2026&sig={SECRET}",
            "https://b.blob.core.windows.net/x?sv=2026&sig=***",
        ),
        (f"postgres://user:{SECRET}@host/db refused", "postgres://***@host/db refused"),
        (f'{{"lr": 0.1, "wandb_api_key": "{SECRET}", "a": 1}}', '{"lr": 0.1, "wandb_api_key": "***", "a": 1}'),
        (f"{{'password': '{SECRET}', 'depth': 3}}", "{'password': '***', 'depth': 3}"),
        (f'{{"secret": "a\\"{SECRET}", "b": 2}}', '{"secret": "***", "b": 2}'),
        (f"aws_secret_access_key={SECRET}", "aws_secret_access_key=***"),
        (f"said {SECRET}.", "said ***."),
    ],
)
def test_secrets_are_hidden(monkeypatch, text, expected):
    if text.startswith("said"):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: too hot at lr=0.3", '{"tokenizer": "bert", "max_tokens": 4096, "keys": 8}',
        "/home/me/data: no such file",
        "s3://bucket/prefix?region=eu is away", "me@host", "SyntaxError: unexpected token", "the key 'lr'",
    ],
)  # fmt: skip
def test_other_texts_stay(monkeypatch, text):
    monkeypatch.setenv("HF_TOKEN", "data")  # too short to be told from a word
    assert redact(text) == text


def test_errors_and_configurations_reach_the_table_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (tmp_path / "error.txt").write_text(f"Traceback\nOSError: https://b/x?X-Amz-Signature=abcdefgh, key {SECRET}\n")
    trial = SimpleNamespace(
        trial_id="a",
        config={"lr": 0.1, "api_key": "hidden-too"},
        evaluated_params={"lr": 0.1},
        last_result={},
        experiment_tag="0",
        pickled_error_file=None,
        error_file=str(tmp_path / "error.txt"),
    )
    callback = ResultsCallback(tmp_path / "results", "mine", metric="score")
    callback.setup()
    callback.on_trial_error(0, [trial], trial)
    with no_warnings():
        callback.on_experiment_end([trial])
    (row,) = pq.read_table(next((tmp_path / "results").rglob("*.parquet"))).to_pylist()
    assert SECRET not in str(row) and "abcdefgh" not in str(row) and "hidden-too" not in str(row)
    assert (
        row["error"] == "OSError: https://b/x?X-Amz-Signature=***, key ***"
        and json.loads(row["config"])["api_key"] == "***"
    )


def test_what_a_store_says_is_told_without_secrets(tmp_path, monkeypatch, capsys):
    def refuse(self, name, data):
        raise OSError(f"PUT https://b/x?X-Amz-Signature={SECRET}: denied")

    monkeypatch.setattr(Folder, "write", refuse)
    monkeypatch.setattr(Folder, "require", lambda self: refuse(self, "", b""))
    assert results_command(["list", str(tmp_path)]) == 2
    from tune_cd.run.__main__ import main as run_command

    assert run_command(["--results", str(tmp_path)]) == 2
    trial = SimpleNamespace(
        trial_id="a",
        config={"lr": 0.1},
        evaluated_params={"lr": 0.1},
        last_result={},
        experiment_tag="0",
        pickled_error_file=None,
        error_file=None,
    )
    callback = ResultsCallback(tmp_path, "mine", metric="score", patience=0)
    callback.setup()
    callback.on_trial_error(0, [trial], trial)
    with pytest.warns(UserWarning, match="1 of 1 result rows were not written.*denied") as caught:
        callback.on_experiment_end([trial])
    said = "".join(capsys.readouterr()) + str(caught[0].message)
    assert said.count("denied") >= 3 and SECRET not in said
