"""Hides secrets in configurations, by their names, and in texts: of rows, of what the commands print, of the page.

A name is a secret's by its words: `api_key`, `dbPassword` and `HF_TOKEN` are, `tokenizer` and `pad_token` are not.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TextIO

HIDDEN = "***"
SHORTEST = 8  # characters; shorter values of environment variables may be ordinary words

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET = re.compile(
    r"(^|_)(secrets?|\w*passw(or)?d|passphrase|passcode|credentials?|auth|authorization|bearer|jwt|cookies?|signature|"
    r"pat|apikey|[a-z]+_(pass|pwd)|(api|access|private|secret|signing|encryption|account|storage|master|ssh|"
    r"license|client|session|openai|anthropic|wandb|azure|aws)_keys?)(_|$)|(^|_)tokens?(_\d+)?$"
)
_PIECE = re.compile(r"(^|_)(pad|bos|eos|sep|cls|mask|unk|sos|special|class)_tokens?(_|$)")  # of a sequence
_OF_DIGITS = re.compile(r"secret|passw(or)?d|passcode")  # under other names, such as max_tokens, a number is none

_ASSIGNED = re.compile(
    r"((?:secret|passw(?:or)?d|passphrase|_pass|token(?!iz)|credential|(?:api|access|private|account)[_ -]?key|"
    r"signature|authorization|[?&]sig)[\w-]{0,40}(?:\\{0,3}[\"'])?\]?\s{0,3}[:=]\s{0,3}(?:\\{0,3}[\"'])?"
    r"(?:(?:basic|bearer|token) )?)((?<=[\"'])[^\"'\\\n]+|[^\s&\"'\\]+)", re.IGNORECASE,
)  # fmt: skip
_HARMLESS = re.compile(r"(true|false|none|null|\*\*\*|[\d.]+)[\])},;.]*", re.IGNORECASE)
_SHAPES = re.compile(  # a user and a password in a URI, and tokens
    r"(?<=://)[^\s/:'\"<>@]{1,200}(:[^\s'\"<>@]{0,200})?(?=@)|"
    r"(?<![\w-])(A(KIA|SIA)[A-Z0-9]{12,}|gh[pousr]_\w{10,}|github_pat_\w{10,}|hf_\w{16,}|glpat-[\w-]{10,}|"
    r"sk-(?=[A-Za-z_-]{0,80}\d)[\w-]{10,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{30,}|eyJ[\w-]{5,}\.[\w-]+(\.[\w-]*)?)"
)


def redact(text: str) -> str:
    """Replace secrets in a text by HIDDEN, in a time linear in its length: the values of secret environment variables,
    what is assigned to a secret's name, the user in a URI, and tokens of a known shape."""
    return _redact(text, _environment())


def hide(value: Any) -> Any:
    """A copy of a JSON value in which HIDDEN stands for each text below a secret's name, and other texts are redacted.

    Truth values, null and empty texts stay, and numbers below other names than a password's.
    """
    return _hide(value, "", _environment())


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a parameter, field or variable of this name may hold a secret."""
    words = "_".join(_WORDS.findall(name)).lower()
    return _SECRET.search(words) is not None and _PIECE.search(words) is None


def _hide(value: Any, secret: str, environment: re.Pattern[str] | None) -> Any:
    """secret: the secret's name that the value stands below, or ""."""
    if isinstance(value, str):
        return HIDDEN if secret and value else _redact(value, environment)
    if isinstance(value, list):
        return [_hide(item, secret, environment) for item in value]
    if isinstance(value, dict):
        return {
            _redact(name, environment): _hide(inner, name if names_secret(name) else secret, environment)
            for name, inner in value.items()
        }
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return HIDDEN if number and _OF_DIGITS.search(secret.lower()) else value


def _environment() -> re.Pattern[str] | None:
    """The values of secret environment variables, as whole words; None without any."""
    values = {value for name, value in os.environ.items() if len(value) >= SHORTEST and names_secret(name)}
    listed = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.compile(rf"(?<!\w)({listed})(?!\w)") if values else None


def _redact(text: str, environment: re.Pattern[str] | None) -> str:
    text = environment.sub(HIDDEN, text) if environment is not None else text
    return _SHAPES.sub(HIDDEN, _ASSIGNED.sub(_without_value, text))


def _without_value(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    stays = _HARMLESS.fullmatch(value) and not (value.isdigit() and _OF_DIGITS.search(name.lower()))
    return found[0] if stays else name + HIDDEN


@contextmanager
def redacted_output() -> Iterator[None]:
    """Redact what is written to standard output and error within, each text by itself; also a decorator."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Redacted(before[0]), _Redacted(before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Redacted:
    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._stream.write(redact(text))
        return len(text)
