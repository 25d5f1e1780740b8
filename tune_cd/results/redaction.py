"""Hides secrets in texts and in configurations: of rows, of what the commands print, and of the report's page.

A name is a secret's by its words: `api_key`, `dbPassword` and `HF_TOKEN` are, `max_tokens` and `pad_token` are not.
"""

import os
import re
from collections.abc import Collection
from functools import lru_cache
from json import dumps
from typing import Any
from urllib.parse import quote

HIDDEN = "***"
SHORTEST = 8  # characters; shorter values of environment variables may be ordinary words
UNIQUE = 16  # characters; shorter values count only as whole words

SECRETS = """
    secret secrets password passwords passwd passwort passphrase passphrases passcode credential credentials
    creds psk pat pats     apikey apikeys auth authorization bearer jwt cookie cookies signature""".split()  # noqa: SIM905
KEYS = """
    api access private secret signing signature encryption ssh auth account storage master deploy service subscription
    license consumer client session shared app hmac pgp gpg rsa ssl tls openai anthropic wandb azure aws
    """.split()  # noqa: SIM905
BEHIND = """
    prod production dev test staging live read write value values text base base64 b64 header
    headers""".split()  # noqa: SIM905
"""Words that a secret's name may have at its end, as in SECRET_KEY_BASE; any other, as in token_length, tells of it."""
TOKENS = """
    pad bos eos sep cls mask unk oov sos go additional special class image images audio video text stop start end begin
    prefix suffix next prev previous first last per by each every new word sub subword latent prompt blank dist
    distillation register reg query patch max min num n nb no total count mean avg average sum input output context
    train training generated target source global local time""".split()  # noqa: SIM905
"""Words before `token` or `tokens` that make it a piece of a sequence."""
HEADERS = ("cookie", "authorization")
"""What stands behind these is a secret up to the end of its line, or the quote that closes it."""
PASSES = "forward backward low high band first second last single two multi by per all".split()  # noqa: SIM905

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GLUED = re.compile(r"(?:password|passwd|passphrase|dbpass|secret|credentials?|apikeys?|(?:access|auth|refresh)token)$")
_ASSIGNED = re.compile(
    r"(?<![\w-])(?:(?P<option>--[\w-]{2,80}+)[ \t]+|"
    r"[\"'](?P<first>[\w-]{2,80}+)[\"']\s{0,3},\s{0,3}(?=[bBrRuUfF]{0,2}[\"'])|"
    r"(?P<name>[\w-]{2,80}+(?: [Kk]ey(?: [Ii][Dd])?)?)(?P<close>\\*[\"'])?\]?[ \t]{0,3}[:=]{1,2}>?\s{0,3})"
)
_SCHEME = re.compile(r"(?:Basic|Bearer|Token|Negotiate|ApiKey)[ \t]+", re.IGNORECASE)
_QUOTED = re.compile(r"[bBrRuUfF]{0,2}(?P<open>\\*[\"'])(?P<value>(?:(?!(?P=open))(?:\\[^\n]|[^\n]))*)")
_BARE = re.compile(r"(?:[^\s&'\"<>\\]|\\(?![\"'nrt]))+")
_PARTS = re.compile(
    r"[\[{(]|(?P<close>[\]})])|(?<!\\)(?P<open>\\{0,3}[\"'])(?:(?!(?P=open))(?:\\.|[^\\]))*(?P=open)", re.DOTALL
)
_HARMLESS = re.compile(r"(?:true|false|none|null|\*\*\*)?", re.IGNORECASE)
_CALL = re.compile(r"[A-Za-z_]\w{0,40}(?=[(\[])")
_LINE = re.compile(r"[^\n'\"]*")
_ADDRESS = re.compile(r"(?<=://)[^\s'\"<>]+")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,9}-----"
    r"[^-\"']*(?:-(?!----(?:BEGIN|END))[^-\"']*)*(?:-----END[^-]*-----)?"
)
_SHAPES = {  # a part that every secret of the shape has -> the shape
    "AKIA": r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{12,}", "ASIA": r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{12,}",
    "github_pat_": r"github_pat_\w{10,}", "gh": r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{10,}",
    "hf_": r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}", "glpat-": r"glpat-[\w-]{10,}",
    "sk-": r"(?<![\w-])sk-(?=[A-Za-z_-]{0,80}\d)[\w-]{10,}", "xox": r"(?<![A-Za-z0-9])xox[a-z]-[\w-]{8,}",
    "eyJ": r"(?<![\w.-])eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?", "AIza": r"(?<![\w-])AIza[\w-]{30,}",
    "Bearer ": r"(?<=\bBearer )(?!tokens?\b|auth)[\w.~+/=-]{3,}", "bearer ": r"(?<=\bbearer )[\w.~+/=-]{16,}",
    "sig=": r"(?<=[?&;]sig=)[^&\s'\"<>\\]+",
}  # fmt: skip
_SHAPED = {part: re.compile(shape) for part, shape in _SHAPES.items()}


def redact(text: str) -> str:
    """Replace secrets in a text by HIDDEN; JSON stays valid, and the time is linear in the text's length.

    Secrets are the values of environment variables, assignments, parameters and JSON fields with a secret's name, the
    user in a URI, private keys, and tokens of a known shape.
    """
    return _redact(text, _environment())


def hide(value: Any, kept: Collection[str] = ()) -> Any:
    """A copy of a JSON value in which HIDDEN stands for whatever a secret's name holds, and texts are redacted.

    Truth values, null and empty texts stay. kept: names under which numbers stay, those of searched parameters.
    """
    own = frozenset(part for name in kept for part in (name, name.rpartition("/")[2]))  # Tune's names of nested ones
    return _hide(value, own, _environment())


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a parameter, field or variable of this name holds a secret; Lambda_token, a loss's weight, does not."""
    if name.rpartition("/")[2].startswith(("Lambda_", "ratio_")):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in BEHIND):
        words.pop()
    if words[-3:] == ["access", "key", "id"]:
        return True
    *before, last = words or [""]
    word = before[-1] if before else ""
    if last in ("token", "tokens"):
        return word not in TOKENS
    if last == "pass":
        return word not in PASSES
    if last == "pwd":
        return word != ""  # the variable PWD is a folder
    return (last in ("key", "keys") and word in KEYS) or last in SECRETS or bool(_GLUED.search("".join(words)))


def _hide(value: Any, kept: frozenset[str], environment: list[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, environment)
    if isinstance(value, dict):
        return {_redact(name, environment): _field(name, value, kept, environment) for name in value}
    if not isinstance(value, list):
        return value
    made = [_hide(item, kept, environment) for item in value]
    for n, item in enumerate(value):
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and names_secret(item[0]):
            made[n] = [made[n][0], HIDDEN]  # headers as pairs
        elif isinstance(item, str) and item.startswith("-") and names_secret(item) and n + 1 < len(value):
            made[n + 1] = HIDDEN  # an option and its value
    return made


def _field(name: str, fields: dict[str, Any], kept: frozenset[str], environment: list[str]) -> Any:
    value, number = fields[name], isinstance(fields[name], (int, float))
    lower = {other.lower(): text for other, text in fields.items()} if name.lower() == "value" else {}
    named = str(lower.get("name", lower.get("key", ""))) if lower else name
    if value is None or value == "" or isinstance(value, bool) or not names_secret(named):
        return _hide(value, kept, environment)
    if number and (name in kept or name.lower().endswith("tokens")):  # a count of tokens
        return value
    return HIDDEN


def _environment() -> list[str]:
    """The values of secret environment variables as they may stand in texts, the longest first."""
    values = {value for name, value in os.environ.items() if len(value) >= SHORTEST and names_secret(name)}
    values |= {line for value in values for line in value.splitlines() if len(line) >= UNIQUE}
    values |= {" ".join(value.split()) for value in values}
    forms = {form for value in values for form in (value, dumps(value)[1:-1], dumps(value, ensure_ascii=False)[1:-1],
                                                   repr(value)[1:-1], quote(value, safe=""), quote(value))}  # fmt: skip
    return sorted(forms, key=lambda form: (-len(form), form))


def _redact(text: str, environment: list[str]) -> str:
    for value in environment:
        if value in text:  # a short one may be a part of a word or a number
            alone = len(value) < UNIQUE
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text) if alone else text.replace(value, HIDDEN)
    if "-----BEGIN " in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if "://" in text:
        text = _ADDRESS.sub(lambda found: "://".join(map(_without_user, found[0].split("://"))), text)
    text = _without_assigned(text)
    for part, shape in _SHAPED.items():
        if part in text:
            text = shape.sub(HIDDEN, text)
    return text


def _without_user(address: str) -> str:
    """An address without its user and password, which may hold any character."""
    user, at, host = address.rpartition("@")
    authority = re.split(r"[/?#]", user, maxsplit=1)[0]
    return f"{HIDDEN}@{host}" if at and (":" in authority or "@" in authority or authority == user) else address


def _without_assigned(text: str) -> str:
    """The text without the values behind secrets' names."""
    parts, done = [], 0
    for found in _ASSIGNED.finditer(text):
        if found.start() < done or not names_secret(found["name"] or found["option"] or found["first"]):
            continue
        begin, end, quotes = _value_at(text, found.end(), found["close"] or "")
        if (found["name"] or "").lower() in HEADERS and not (
            quotes or text.startswith(HIDDEN, begin) or _SCHEME.match(text, found.end())
        ):
            line = _LINE.match(text, begin)
            end = max(end, line.end() if line else end)
        counted = (found["name"] or "").lower().endswith("tokens") and text[begin:end].isdigit()
        if not counted and not _HARMLESS.fullmatch(text, begin, end):
            parts += [text[done:begin], quotes, HIDDEN, quotes]
            done = end
    return "".join([*parts, text[done:]])


def _value_at(text: str, at: int, quotes: str) -> tuple[int, int, str]:
    """(begin, end) of the value at a place, and the quotes that its replacement needs."""
    if quoted := _QUOTED.match(text, at):
        return *quoted.span("value"), ""
    called = _CALL.match(text, at)
    if called or text[at : at + 1] in ("[", "{", "("):
        depth = 0
        for part in _PARTS.finditer(text, called.end() if called else at):
            depth += (part[0] in "[{(") - (part["close"] is not None)
            if depth == 0:
                return at, part.end(), quotes
        return at, len(text), quotes
    scheme = _SCHEME.match(text, at)
    bare = _BARE.match(text, scheme.end() if scheme else at)
    return at, at if bare is None else bare.start() + len(bare[0].rstrip(",;.)]}")), quotes
