"""Checks addresses of results, a folder or an object store's prefix, without accessing the place."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from urllib.request import url2pathname

ALLOWED = "a local path, file:///FOLDER, s3://BUCKET/PREFIX and gs://BUCKET/PREFIX are"
OPTIONS = {
    "s3": ("region", "endpoint_override", "scheme"),
    "gs": ("endpoint_override", "scheme", "retry_limit_seconds"),
}
"""Query parameters that a URI may have, with the meaning of `pyarrow.fs.FileSystem.from_uri`."""

HOST = r"(https?://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?"
CHECKED = {
    "scheme": ("https?", "http or https"),
    "retry_limit_seconds": (r"\d{1,6}(\.\d+)?", "a number of seconds"),
    "endpoint_override": (HOST, "[http[s]://]HOST[:PORT]"),
    "region": (r"[A-Za-z0-9_-]+", "of letters, digits, _ and -"),
}
"""Patterns of decoded query parameters, strict enough to exclude secrets and further parameters."""

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)(.*)", re.DOTALL)  # a single letter would be a Windows drive
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,200}[a-z0-9]")
SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~=-]+")  # of the prefix; excludes . and .. and escaped characters


@dataclass(frozen=True)
class ObjectStore:
    """A prefix of a bucket.  options: the URI's query parameters.  anonymous: without credentials (gs alone)."""

    scheme: str
    bucket: str
    prefix: str  # without leading or trailing slashes; "" for the whole bucket
    options: tuple[tuple[str, str], ...] = ()
    anonymous: bool = False

    @property
    def path(self) -> str:
        """BUCKET/PREFIX"""
        return f"{self.bucket}/{self.prefix}".rstrip("/")


def check_location(results: str | Path) -> Path | str:
    """Return the folder that `results` names, or the object store's URI, without checking that it exists.

    Raises ValueError for any other location, and for credentials in a URI; the message does not repeat them.
    """
    place = parse(results)
    if isinstance(place, Path):
        return place
    query = "&".join(f"{name}={value}" for name, value in place.options)
    return f"{place.scheme}://{'anonymous@' * place.anonymous}{place.path}{f'?{query}' if query else ''}"


def parse(results: str | Path) -> Path | ObjectStore:
    """Parse the location that `results` names. Raises ValueError as `check_location` does."""
    text = os.fspath(results)
    if not text:
        raise ValueError(f"results {text!r} is not allowed; {ALLOWED}")
    match = URI.fullmatch(text)
    if not match:
        return Path(os.path.expanduser(text))
    scheme, slash, rest = match[1].lower(), match[2], match[3]
    if scheme not in ("file", *OPTIONS):
        raise ValueError(f"results at {scheme}:// are not allowed; {ALLOWED}")
    if not slash:
        said = "give a URI as text with two slashes, pathlib.Path takes one out"
        raise ValueError(f"results at {scheme}:/ are not allowed: {said}")
    return _folder(rest) if scheme == "file" else _object_store(scheme, rest)


def is_uri(place: str | Path) -> bool:
    """Whether a place is given as a URI of any scheme, not as a path."""
    return URI.fullmatch(os.fspath(place)) is not None


def _folder(rest: str) -> Path:
    parts = urlsplit(f"file://{rest}")
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        allowed = "file:///FOLDER: an absolute path of this machine and nothing else"
        raise ValueError(f"results at file:// are not allowed but as {allowed}")
    return Path(url2pathname(parts.path))


def _object_store(scheme: str, rest: str) -> ObjectStore:
    anonymous = scheme == "gs" and rest.startswith("anonymous@")
    rest = rest.removeprefix("anonymous@") if anonymous else rest
    path, _, query = rest.partition("?")
    if "@" in rest or ":" in path:  # a secret may hold any character, so the message repeats no part of the URI
        instead = "the store's own environment variables, its configuration file, or the machine's role"
        refused = f"credentials in a results URI ({scheme}://…@…) are refused, they would end up in logs and files"
        raise ValueError(f"{refused}; give them as {instead}")
    path = path.partition("#")[0]  # the fragment is refused below
    place, (bucket, _, prefix) = f"{scheme}://{path}", path.partition("/")
    if not BUCKET.fullmatch(bucket):
        raise ValueError(f"results {place}: bucket {bucket!r} is not allowed; 3 or more of a-z 0-9 . _ - are")
    segments = prefix.strip("/").split("/") if prefix.strip("/") else []
    for segment in segments:
        if not SEGMENT.fullmatch(segment):
            allowed = "A-Z a-z 0-9 . _ ~ = - are, but not . and .."
            raise ValueError(f"results {place}: {segment!r} is not allowed in a prefix; {allowed}")
    options = parse_qsl(query, keep_blank_values=True)
    unknown = any(name not in OPTIONS[scheme] or not value for name, value in options) or (query and not options)
    if "#" in rest or unknown:
        allowed = f"{', '.join(OPTIONS[scheme])} are, each with a value"
        raise ValueError(f"results {place}?…: a query parameter is not allowed; {allowed}")
    for name, value in options:
        pattern, meaning = CHECKED[name]
        if not re.fullmatch(pattern, value):
            raise ValueError(f"results {place}?{name}=…: {name} is {meaning}")
    return ObjectStore(scheme, bucket, "/".join(segments), tuple(sorted(options)), anonymous)
