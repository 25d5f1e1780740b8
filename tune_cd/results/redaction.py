"""Hides secrets in configurations, by their names, and in texts: of rows, of what the commands print, of the page; and
writes and reads strict JSON (RFC 8259), as DuckDB, Polars and browsers do.

A name is a secret's by its words: `api_key`, `dbPassword` and `HF_TOKEN` are, `tokenizer` and `pad_token` are not.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any, NoReturn, TextIO

HIDDEN = "***"
LONGEST = 10_000  # largest number of values in a list, array or object of a configuration that is stored whole
DEEPEST = 20  # levels of lists and objects; what lies below is text
TEXT = 1000  # characters of an object's text
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


def hide(value: Any, longest: float = LONGEST) -> Any:
    """A copy of a value in JSON's types: HIDDEN stands for each text below a secret's name, other texts are redacted.

    Truth values, null and empty texts stay, and numbers below other names than a password's. Numbers and truth values
    of numpy, arrays and tensors become JSON's numbers and lists. What JSON does not have is text: NaN and infinity, an
    integer beyond 64 bits, any other object, and a list, array or object of more than `longest` values.
    """
    environment = _environment()

    def hidden(value: Any, secret: str = "", level: int = 0) -> Any:
        """secret: the secret's name that the value stands below, or "". level: how many lists and objects hold it."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Real):
            return HIDDEN if _OF_DIGITS.search(secret.lower()) else _number(value)
        if hasattr(value, "tolist") and prod(getattr(value, "shape", ())) <= longest:  # of numpy, torch and pandas
            return hidden(value.tolist(), secret, level)
        if isinstance(value, Mapping) and level < DEEPEST and len(value) <= longest:
            named = ((_text(name), inner) for name, inner in value.items())
            return {
                _redact(name, environment): hidden(inner, name if names_secret(name) else secret, level + 1)
                for name, inner in named
            }
        if isinstance(value, (list, tuple)) and level < DEEPEST and len(value) <= longest:
            return [hidden(item, secret, level + 1) for item in value]
        text = _text(value)
        return HIDDEN if secret and text else _redact(text, environment)

    return hidden(value)


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a parameter, field or variable of this name may hold a secret."""
    words = "_".join(_WORDS.findall(name)).lower()
    return _SECRET.search(words) is not None and _PIECE.search(words) is None


def _number(value: Real) -> int | float | str:
    if isinstance(value, Integral):
        return int(value) if -(2**63) <= int(value) < 2**64 else _text(value)
    return float(value) if isfinite(value) else _text(value)


def _text(value: Any) -> str:
    """A text, or the beginning of an object's, without lone surrogates, which have no UTF-8."""
    text = value if isinstance(value, str) else str(value)[:TEXT]
    return text.encode("utf-8", "replace").decode()


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


def as_json(fields: Mapping[Any, Any]) -> str:
    """A mapping as strict JSON, without secrets (`redaction.hide`)."""
    return json.dumps(hide(fields), allow_nan=False)


def json_of(text: str | bytes) -> Any:
    """Parse strict JSON. Raises ValueError for anything else, also for NaN and for lists nested too deep for Python."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None


def json_object(text: str) -> dict[str, Any]:
    """The inverse of `as_json`. Raises ValueError for a text that is no strict JSON object."""
    found = json_of(text)
    if not isinstance(found, dict):
        raise ValueError("JSON, but no object")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


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
