"""Checks addresses of results, a folder or an object store's prefix, without accessing the place."""

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl

OPTIONS = {
    "s3": ("region", "endpoint_override", "scheme"),
    "gs": ("endpoint_override", "scheme", "retry_limit_seconds"),
}
"""Query parameters that a URI may have, with the meaning of `pyarrow.fs.FileSystem.from_uri`."""

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)(.*)", re.DOTALL)  # a single letter would be a Windows drive
BUCKET = r"[a-z0-9][a-z0-9._-]{1,200}[a-z0-9]"
SEGMENT = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~=-]+"  # of the prefix; excludes . and .. and escaped characters
PLACE = re.compile(rf"({BUCKET}(?:/{SEGMENT})*)/*")
VALUE = re.compile(r"[A-Za-z0-9._:/\[\]-]+")  # decoded: excludes a user and further parameters


def check_location(results: str | Path) -> Path | str:
    """Return the folder that `results` names, or the object store's URI, without checking that it exists.

    Raises ValueError for any other location, and for credentials in a URI; the message does not repeat them.
    """
    text = os.fspath(results)
    match = URI.fullmatch(text)
    if not text or (match and not (match[2] and match[1] in OPTIONS)):
        at = f"at {match[1]}:/{match[2]}" if match else repr(text)
        raise ValueError(f"results {at} are not allowed; a local path, s3://BUCKET/PREFIX and gs://BUCKET/PREFIX are")
    if match is None:
        return Path(os.path.expanduser(text))
    scheme, (path, _, query) = match[1], match[3].partition("?")
    place, options = PLACE.fullmatch(path), parse_qsl(query, keep_blank_values=True)
    if place is None or not all(name in OPTIONS[scheme] and VALUE.fullmatch(value) for name, value in options):
        allowed = f"{scheme}://BUCKET/PREFIX is, BUCKET of 3 or more of a-z 0-9 . _ -, PREFIX of names of A-Z a-z 0-9"
        allowed += f" . _ ~ = - except . and .., ?NAME=VALUE&… behind it, NAME of {', '.join(OPTIONS[scheme])}"
        own = "the store's own environment variables, its configuration file or the machine's role"
        refused = f"credentials in a results URI are refused, give them as {own}"
        raise ValueError(f"results {scheme}://… is not allowed; {allowed}; {refused}")
    return f"{scheme}://{place[1]}{f'?{query}' if query else ''}"


def is_uri(place: str | Path) -> bool:
    """Whether a place is given as a URI of any scheme, not as a path."""
    return URI.fullmatch(os.fspath(place)) is not None
