"""Secrets in errors and configurations, and that none of them reaches a table or a message."""

import json
import sys
import warnings
from types import SimpleNamespace
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from rows import full
from warned import no_warnings

from tune_cd import CoordinateDescentSearch, Space, results
from tune_cd.results.__main__ import main as results_command
from tune_cd.results.json_text import as_json
from tune_cd.results.redaction import hide, names_secret, redact
from tune_cd.results.terminal import redacted_output
from tune_cd.run.__main__ import main as run_command

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


KEY = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n{SECRET}==\n-----END RSA PRIVATE KEY-----"
ODD = "q\"u\\o t'e\nü-" + SECRET  # what JSON and repr escape

TEXTS = [  # a text, and what stands there instead
    (
        f"GET https://b.s3.amazonaws.com/x?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature={SECRET}&X-Amz-Expires=60",
        "GET https://b.s3.amazonaws.com/x?X-Amz-Credential=***&X-Amz-Signature=***&X-Amz-Expires=60",
    ),
    (
        f"https://b/x?X-Amz-Security-Token={SECRET}&AWSAccessKeyId={SECRET} x",
        "https://b/x?X-Amz-Security-Token=***&AWSAccessKeyId=*** x",
    ),
    (f"https://b.blob.core.windows.net/x?sv=2026&sig={SECRET}", "https://b.blob.core.windows.net/x?sv=2026&sig=***"),
    (f"postgres://user:{SECRET}@host/db refused", "postgres://***@host/db refused"),
    ("s3://user:a/b@c/d@host/db, https://tok@host/x", "s3://***@host/db, https://***@host/x"),
    (f'{{"lr": 0.1, "wandb_api_key": "{SECRET}", "a": 1}}', '{"lr": 0.1, "wandb_api_key": "***", "a": 1}'),
    (f"{{'password': '{SECRET}', 'depth': 3}}", "{'password': '***', 'depth': 3}"),
    (f'{{"secret": "a\\"{SECRET}", "b": 2}}', '{"secret": "***", "b": 2}'),
    ('{"token":[1,{"a":"x]"}],"password":1234,"b":2}', '{"token":"***","password":"***","b":2}'),
    ("{'tokens': ['a b', 'c'], 'n': 1}", "{'tokens': '***', 'n': 1}"),
    (r"{\"password\": \"abc\", \"x\": 1}", r"{\"password\": \"***\", \"x\": 1}"),
    (f"aws_secret_access_key={SECRET}", "aws_secret_access_key=***"),
    ('DB_PASS="my dog" b=1', 'DB_PASS="***" b=1'),
    ("GH_PAT: x1, PASSPHRASE = 'a b'", "GH_PAT: ***, PASSPHRASE = '***'"),
    ("Client(api_key=abc, lr=1)", "Client(api_key=***, lr=1)"),
    ("os.environ['API_KEY'] = 'v'; api key: w", "os.environ['API_KEY'] = '***'; api key: ***"),
    ("train --password hunter2 --lr 3", "train --password *** --lr 3"),
    ("error: password=a,b c", "error: password=*** c"),
    ("Authorization: Basic dTpw and", "Authorization: *** and"),
    ("Authorization: Custom abc", "Authorization: ***"),
    ("Cookie: a=1; session=abc\nnext", "Cookie: ***\nnext"),
    ("['curl', '--token', 'abc']; ('x-api-key', 'abc')", "['curl', '--token', '***']; ('x-api-key', '***')"),
    ("password=SecretStr('abc')", "password=***"),
    ("--password\tabc", "--password\t***"),
    ("Lambda_token=0.1, batch_tokens=4096", "Lambda_token=0.1, batch_tokens=4096"),
    ("{'Authorization': 'Bearer xyz'}", "{'Authorization': '***'}"),
    ("sent Bearer xyz.", "sent Bearer ***"),
    (f"got {KEY} there", "got *** there"),
    (KEY[:60], "***"),
    ("id AKIAIOSFODNN7EXAMPLE", "id ***"),
    ("ghp_abcdefghijklmnop1234 github_pat_11ABCDEFG0abc", "*** ***"),
    ("hf_abcdefghijklmnopqrst glpat-abcdefghij12 xoxb-1234567890-ab", "*** *** ***"),
    ("sk-proj-abc123def456", "***"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ, next", "***, next"),
    (f"said {SECRET}.", "said ***."),
    (" ".join(ODD.split()), "***"),
    (
        f"{ODD!r} {json.dumps(ODD)} {json.dumps(ODD, ensure_ascii=False)} {quote(ODD, safe='')}",
        '\'***\' "***" "***" ***',
    ),
    ("12345678 0.12345678 123456789", "*** 0.*** 123456789"),
]


@pytest.mark.parametrize("text, expected", TEXTS)
def test_secrets_are_hidden(monkeypatch, text, expected):
    for name, value in (("AWS_SECRET_ACCESS_KEY", SECRET), ("MY_PASSPHRASE", ODD), ("DB_PASS", "12345678")):
        monkeypatch.setenv(name, value)
    assert redact(text) == expected and redact(expected) == expected
    assert json.loads(as_json({"a": text, "b": 1})) == {"a": expected, "b": 1}


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: too hot at lr=0.3", '{"tokenizer": "bert", "max_tokens": 4096, "keys": 8}',
        "pad_token='<pad>'",
        "/home/me/data: no such file", "n_tokens: 7, token_dim=64, token_length 5", "use_token=True, password=None",
        "s3://bucket/prefix?region=eu is away", "me@host", "SyntaxError: unexpected token", "the key 'lr'",
        "a pass: ''",
        "http://127.0.0.1:8000/a?b=c", "https://github.com/o/r@v1", "the bearer of bad news",
        "sk-learn, task-1-of-12345678",
    ],
)  # fmt: skip
def test_other_texts_stay(monkeypatch, text):
    monkeypatch.setenv("HF_TOKEN", "data")  # too short to be told from a word
    monkeypatch.setenv("PWD", "/home/me/data")
    assert redact(text) == text


OBJECTS = [  # a configuration, and what is stored of it
    ({"api_key": ["a", "b"], "lr": 0.1}, {"api_key": "***", "lr": 0.1}), ({"password": 12345}, {"password": "***"}),
    ({"a": [{"credentials": {"user": "u", "pw": "x"}}]}, {"a": [{"credentials": "***"}]}),
    ({"headers": {"Authorization": "Basic x"}}, {"headers": {"Authorization": "***"}}),
    ({"h": [["Authorization", "Bearer x"], ["Accept", "y"]]}, {"h": [["Authorization", "***"], ["Accept", "y"]]}),
    ({"argv": ["run", "--db-password", "x", "--lr", "1"]}, {"argv": ["run", "--db-password", "***", "--lr", "1"]}),
    ({"env": [{"name": "HF_TOKEN", "value": "x"}]}, {"env": [{"name": "HF_TOKEN", "value": "***"}]}),
    ({"url": "https://u:p@h/x", "log": ["token=abc"]}, {"url": "https://***@h/x", "log": ["token=***"]}),
    ({"token": 7.5, "secret": 0.5, "api_tokens": ["a"]}, {"token": 7.5, "secret": "***", "api_tokens": "***"}),
    ({"ghp_abcdefghijklmnop1234": 1}, {"***": 1}),
]  # fmt: skip
STAY = {
    "pad_token": "<pad>", "eos_token_id": 2, "max_tokens": 77, "n_tokens": 7, "token_dim": 64, "tokenizer": "bert",
    "tokens": 4096, "special_tokens": ["<a>"], "use_auth_token": True, "api_key": None, "password": "", "sort_key": "a",
    "low_pass": 3, "password_file": "/run/x", "token_length": 9, "pooling": ["token", "mean"], "pattern": "x",
}  # fmt: skip


@pytest.mark.parametrize("config, expected", [*OBJECTS, (STAY, STAY)])
def test_whatever_stands_under_a_secret_s_name_is_hidden(tmp_path, config, expected):
    """`token` is a searched parameter here: its number is what the table is for."""
    assert hide(config, kept=["model/token"]) == expected
    params = {"token": 7.5}
    results.write_trial(tmp_path, full(params=params, config=json.dumps(config)))
    assert json.loads(results.read(tmp_path).config[0]) == expected and results.read(tmp_path).params[0] == params


SECRET_NAMES = """
    HF_TOKEN apiKey APIKey APIkey apikey x-api-key dbPassword PGPASSWORD secret_key SECRET_KEY_BASE AWSAccessKeyId
    GH_PAT DB_PASS passphrase accessToken token2 AZURE_STORAGE_KEY client_secret user_pwd OPENAI_API_KEY_PROD"""
OTHER_NAMES = """
    max_tokens pad_token num_tokens cls_token token_dim tokenizer tokens_per_image PWD forward_pass compass keys key
    sort_key public_key_path secretary_size patience path author pass_rate"""


def test_names_are_told_by_their_words():
    assert [name for name in SECRET_NAMES.split() if not names_secret(name)] == []
    assert [name for name in OTHER_NAMES.split() if names_secret(name)] == []


PIECES = [
    "a", "a-", "://", "://a:", "a:b@", "token=", "token='", "token=[", "token=['", "password: ", "-----", "sk-a", "\\",
    "-----BEGIN PRIVATE KEY-----", "eyJaaaaa.", "--token ", "Bearer ", "key ", "?sig=", "'", '{"', "token=[\\\\",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_the_time_grows_as_the_length_of_a_text(piece):
    """Were it the square, 500 kB would take half an hour."""
    text = "token=[" * (piece == "\\") + piece * (500_000 // len(piece))
    assert len(redact(text)) <= 2 * len(text)


def test_all_that_a_command_prints_is_redacted(capsys):
    @redacted_output()
    def command():
        print("pass", "word=", SECRET, sep="", end="")
        print("", KEY, flush=True)
        print("token:", SECRET, file=sys.stderr)
        print("ends without a line, GH_PAT=x", end="")
        warnings.showwarning("password=hunter2", UserWarning, "x.py", 1)

    command()
    said = "".join(capsys.readouterr())
    assert SECRET not in said and "hunter2" not in said and "password=*** ***" in said and "GH_PAT=***" in said


def failed_trial(**fields):
    usual = {"trial_id": "a", "config": {"lr": 0.1}, "evaluated_params": {"lr": 0.1}, "last_result": {},
             "experiment_tag": "0", "pickled_error_file": None, "error_file": None}  # fmt: skip
    return SimpleNamespace(**usual | fields)


def test_errors_and_configurations_reach_the_table_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (tmp_path / "error.txt").write_text(f"Traceback\nOSError: https://b/x?X-Amz-Signature=abcdefgh, key {SECRET}\n")
    trial = failed_trial(config={"lr": 0.1, "api_key": "hidden-too"}, error_file=str(tmp_path / "error.txt"))
    search = CoordinateDescentSearch(Space(lr=(0.01, 1.0)), "score", "max")
    callback = search.callback(tmp_path / "results", "mine")
    callback.setup()
    callback.on_trial_error(0, [trial], trial)
    with no_warnings():
        callback.on_experiment_end([trial])
    (row,) = pq.read_table(next((tmp_path / "results").rglob("*.parquet"))).to_pylist()
    assert SECRET not in str(row) and "abcdefgh" not in str(row) and "hidden-too" not in str(row)
    assert row["error"] == "OSError: https://b/x?X-Amz-Signature=***, key ***"
    assert json.loads(row["config"])["api_key"] == "***"


def test_what_a_store_says_is_told_without_secrets(tmp_path, capsys):
    place = tmp_path / f"X-Amz-Signature={SECRET}"
    place.write_text("a file, where a folder is needed")
    assert results_command(["list", str(place)]) == 2
    assert run_command(["--results", str(place)]) == 2
    said = "".join(capsys.readouterr())
    assert said.count("Signature=***") >= 2 and SECRET not in said
