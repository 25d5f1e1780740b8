"""Checks addresses of results, a folder or an object store's prefix, without accessing the place."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import url2pathname

ALLOWED = "a local path, file:///FOLDER, s3://BUCKET/PREFIX and gs://BUCKET/PREFIX are"
SCHEME, HOST = "https?", r"(https?://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?"
OPTIONS = {
    "s3": {"region": "[A-Za-z0-9_-]+", "endpoint_override": HOST, "scheme": SCHEME},
    "gs": {"endpoint_override": HOST, "scheme": SCHEME, "retry_limit_seconds": r"\d{1,6}(\.\d+)?"},
}
"""Query parameters that a URI may have, with the meaning of `pyarrow.fs.FileSystem.from_uri`, and patterns of their
decoded values, strict enough to exclude secrets and further parameters."""

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

    def uri(self, **more: str) -> str:
        """The URI with these query parameters, where it has none of the name."""
        query = urlencode(more | dict(self.options), safe="/:[]" if not more else "")
        return f"{self.scheme}://{'anonymous@' * self.anonymous}{self.path}{f'?{query}' if query else ''}"


def check_location(results: str | Path) -> Path | str:
    """Return the folder that `results` names, or the object store's URI, without checking that it exists.

    Raises ValueError for any other location, and for credentials in a URI; the message does not repeat them.
    """
    place = parse(results)
    return place if isinstance(place, Path) else place.uri()


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
    anonymous, known = scheme == "gs" and rest.startswith("anonymous@"), OPTIONS[scheme]
    rest = rest.removeprefix("anonymous@") if anonymous else rest
    path, _, query = rest.partition("?")
    if "@" in rest or ":" in path:  # a secret may hold any character, so no message repeats a part of the URI
        instead = "the store's own environment variables, its configuration file, or the machine's role"
        refused = f"credentials in a results URI ({scheme}://…@…) are refused, they would end up in logs and files"
        raise ValueError(f"{refused}; give them as {instead}")
    bucket, _, prefix = path.partition("/")
    prefix, options = prefix.strip("/"), parse_qsl(query, keep_blank_values=True)
    parts = BUCKET.fullmatch(bucket) and all(map(SEGMENT.fullmatch, prefix.split("/") if prefix else ()))
    if not parts or not all(re.fullmatch(known.get(name, "(?!)"), value) for name, value in options):
        named = f"{scheme}://…" if set("?#") & set(rest) else repr(f"{scheme}://{rest}")
        allowed = f"{scheme}://BUCKET/PREFIX is, BUCKET of 3 or more of a-z 0-9 . _ -, PREFIX of names of A-Z a-z 0-9"
        allowed += f" . _ ~ = - except . and .., ?NAME=VALUE&… behind it, NAME of {', '.join(known)}"
        raise ValueError(f"results {named} is not allowed; {allowed}")
    return ObjectStore(scheme, bucket, prefix, tuple(sorted(options)), anonymous)
