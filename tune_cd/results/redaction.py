"""Removes secrets from texts: messages of stores and of other people's code may repeat a key or a signed address."""

import os
import re

HIDDEN = "***"
SHORTEST = 8  # characters; shorter values of environment variables may be ordinary words
NAME = r"[\w-]*(?:secret|passw(?:or)?d|credentials?|tokens?(?![a-z])|api_?key|access_?key|private_?key|signature)[\w-]*"

_NAMED = re.compile(NAME, re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")
_QUOTED = re.compile(
    rf"(?P<before>(?P<quote>[\"']){NAME}(?P=quote)\s*:\s*(?P<open>[\"']))(?:\\.|(?!(?P=open)).)*", re.IGNORECASE
)
_ASSIGNED = re.compile(rf"(?P<before>\b(?:{NAME}|sig|AWSAccessKeyId)=)[^&\s'\"<>,]+", re.IGNORECASE)


def redact(text: str) -> str:
    """Replace secrets in a text by HIDDEN: the user in a URI, and the values of parameters, JSON fields and environment
    variables whose names look like secrets. JSON stays valid."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and value in text and _NAMED.search(name):  # cheap tests first
            text = text.replace(value, HIDDEN)
    text = _USER.sub(HIDDEN, text)
    for pattern in (_QUOTED, _ASSIGNED):
        text = pattern.sub(rf"\g<before>{HIDDEN}", text)
    return text
