"""Secrets in errors and configurations, and that none of them reaches a table or a message."""

import json
import sys
import warnings

import pytest
from rows import full

from tune_cd import results
from tune_cd.results.__main__ import main as results_command
from tune_cd.results.redaction import hide, redact, redacted_output
from tune_cd.run.__main__ import main as run_command

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

TEXTS = [  # a text, and what stands there instead
    (
        f"GET https://b.s3.amazonaws.com/x?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature={SECRET}&X-Amz-Expires=60",
        "GET https://b.s3.amazonaws.com/x?X-Amz-Credential=***&X-Amz-Signature=***&X-Amz-Expires=60",
    ),
    ("b/x?X-Amz-Security-Token=abc&AWSAccessKeyId=def x", "b/x?X-Amz-Security-Token=***&AWSAccessKeyId=*** x"),
    ("https://b.blob.core.windows.net/x?sv=2026&sig=abc", "https://b.blob.core.windows.net/x?sv=2026&sig=***"),
    ("postgres://user:abc@host/db refused, https://tok@host/x", "postgres://***@host/db refused, https://***@host/x"),
    ('{"lr": 0.1, "wandb_api_key": "abc", "a": 1}', '{"lr": 0.1, "wandb_api_key": "***", "a": 1}'),
    ("{'password': 'my dog', 'depth': 3}", "{'password': '***', 'depth': 3}"),
    (r"{\"password\": \"abc\", \"x\": 1}", r"{\"password\": \"***\", \"x\": 1}"),
    ("aws_secret_access_key=abc DB_PASS=def", "aws_secret_access_key=*** DB_PASS=***"),
    ("Client(api_key=abc, lr=1), password=1234", "Client(api_key=*** lr=1), password=***"),
    ("os.environ['API_KEY'] = 'v'; api key: w", "os.environ['API_KEY'] = '***'; api key: ***"),
    ("Authorization: Basic dTpw and", "Authorization: Basic *** and"),
    ("id AKIAIOSFODNN7EXAMPLE", "id ***"),
    ("ghp_abcdefghijklmnop1234 github_pat_11ABCDEFG0abc", "*** ***"),
    ("hf_abcdefghijklmnopqrst glpat-abcdefghij12 xoxb-1234567890-ab", "*** *** ***"),
    ("sk-proj-abc123def456 eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ, next", "*** ***, next"),
    (f"said {SECRET}.", "said ***."),
    ("12345678 0.12345678 123456789", "*** 0.*** 123456789"),
]  # fmt: skip
OTHER = [
    "RuntimeError: too hot at lr=0.3", '{"tokenizer": "bert", "max_tokens": 4096, "keys": 8}', "the key 'lr'",
    "/home/me/data: no such file", "Lambda_token=0.1, batch_tokens=4096", "use_token=True, password=None",
    "s3://bucket/prefix?region=eu is away", "me@host", "http://127.0.0.1:8000/a?b=c", "https://github.com/o/r@v1",
    "the bearer of bad news", "sk-learn, task-1-of-12345",
]  # fmt: skip


@pytest.mark.parametrize("text, expected", [*TEXTS, *((text, text) for text in OTHER)])
def test_secrets_in_texts_are_hidden_and_nothing_else(monkeypatch, text, expected):
    for name, value in (("AWS_SECRET_ACCESS_KEY", SECRET), ("DB_PASS", "12345678"), ("HF_TOKEN", "data")):
        monkeypatch.setenv(name, value)
    assert redact(text) == expected and redact(expected) == expected


OBJECTS = [  # a configuration, and what is stored of it
    ({"api_key": ["a", "b"], "lr": 0.1}, {"api_key": ["***", "***"], "lr": 0.1}),
    ({"password": 12345}, {"password": "***"}),
    ({"a": [{"credentials": {"user": "u", "pw": "x"}}]}, {"a": [{"credentials": {"user": "***", "pw": "***"}}]}),
    ({"headers": {"Authorization": "Basic x"}}, {"headers": {"Authorization": "***"}}),
    ({"url": "https://u:p@h/x", "log": ["token=abc"]}, {"url": "https://***@h/x", "log": ["token=***"]}),
    ({"token": 7.5, "secret": 0.5, "api_tokens": ["a"]}, {"token": 7.5, "secret": "***", "api_tokens": ["***"]}),
    ({"ghp_abcdefghijklmnop1234": 1}, {"***": 1}),
]  # fmt: skip
STAY = {
    "pad_token": "<pad>", "eos_token_id": 2, "max_tokens": 77, "n_tokens": 7, "token_dim": 64, "tokenizer": "bert",
    "tokens": [1, 2.5], "token_type": "word", "special_tokens": ["<a>"], "use_auth_token": True, "api_key": None,
    "password": "", "sort_key": "a", "low_pass": 3, "pooling": ["token", "mean"], "pattern": "x", "Lambda_token": 0.5,
}  # fmt: skip
SECRET_NAMES = """
    HF_TOKEN apiKey APIKey apikey x-api-key dbPassword PGPASSWORD secret_key SECRET_KEY_BASE AWSAccessKeyId
    GH_PAT DB_PASS passphrase accessToken token2 AZURE_STORAGE_KEY client_secret user_pwd OPENAI_API_KEY_PROD"""
OTHER_NAMES = """
    pad_token cls_token tokenizer PWD compass keys key sort_key public_key_path secretary_size patience path author
    pass_rate"""


@pytest.mark.parametrize("config, expected", [
    *OBJECTS, (STAY, STAY), *(({name: "a text"}, {name: "***"}) for name in SECRET_NAMES.split()),
    *(({name: "a text"}, {name: "a text"}) for name in OTHER_NAMES.split()),
])  # fmt: skip
def test_whatever_stands_under_a_secret_s_name_is_hidden(tmp_path, config, expected):
    assert hide(config) == expected
    error = "GET https://b/x?X-Amz-Signature=abcdefgh: 403"
    results.write_trial(tmp_path, full(config=json.dumps(config), error=error))
    [row] = results.read(tmp_path).to_dict("records")
    assert json.loads(row["config"]) == expected and row["error"] == "GET https://b/x?X-Amz-Signature=*** 403"


PIECES = [
    "a", "a-", "://", "://a:", "a:b@", "token=", "token='", "token=[", "password: ", "-----", "sk-a", "\\",
    "eyJaaaaa.", "Bearer ", "key ", "?sig=", "'", '{"', "token=[\\\\",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_the_time_grows_as_the_length_of_a_text(piece):
    """Were it the square, 500 kB would take half an hour."""
    text = piece * (500_000 // len(piece))
    assert len(redact(text)) <= 2 * len(text)


def test_all_that_a_command_prints_is_redacted(capsys):
    @redacted_output()
    def command():
        print(f"password={SECRET}", flush=True)
        print("token: abc", file=sys.stderr)
        print("ends without a line, DB_PASS=x", end="")
        warnings.showwarning("password=hunter2", UserWarning, "x.py", 1)

    command()
    said = "".join(capsys.readouterr())
    assert SECRET not in said and "hunter2" not in said and "token: ***" in said and "DB_PASS=***" in said


def test_what_a_store_says_is_told_without_secrets(tmp_path, capsys):
    place = tmp_path / f"X-Amz-Signature={SECRET}"
    place.write_text("a file, where a folder is needed")
    assert results_command(["list", str(place)]) == 2
    assert run_command(["--results", str(place)]) == 2
    said = "".join(capsys.readouterr())
    assert said.count("Signature=***") >= 2 and SECRET not in said
