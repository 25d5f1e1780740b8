"""Texts without their secrets: messages of stores and of other people's code may repeat a key or a signed address."""

import os
import re

HIDDEN = "***"
SHORTEST = 8  # characters: shorter values are words like any other
NAME = r"[\w-]*(?:secret|passw(?:or)?d|credentials?|tokens?(?![a-z])|api_?key|access_?key|private_?key|signature)[\w-]*"

_NAMED = re.compile(NAME, re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")
_QUOTED = re.compile(
    rf"(?P<before>(?P<quote>[\"']){NAME}(?P=quote)\s*:\s*(?P<open>[\"']))(?:\\.|(?!(?P=open)).)*", re.IGNORECASE
)
_ASSIGNED = re.compile(rf"(?P<before>\b(?:{NAME}|sig|AWSAccessKeyId)=)[^&\s'\"<>,]+", re.IGNORECASE)


def redact(text: str) -> str:
    """The text with HIDDEN in place of a URI's user, of parameters and JSON fields that are named as secrets are, and
    of the values of such environment variables. JSON stays JSON."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and value in text and _NAMED.search(name):  # the cheap questions first
            text = text.replace(value, HIDDEN)
    text = _USER.sub(HIDDEN, text)
    for pattern in (_QUOTED, _ASSIGNED):
        text = pattern.sub(rf"\g<before>{HIDDEN}", text)
    return text
