"""URIs of data: an archive on a web server or in an object store, or all objects below a prefix of a store.

URIs are checked without connecting. They end up in logs and files, so a URI with a secret is refused, and the refusal
does not repeat it.
"""

import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, unquote

ALLOWED = (
    "a local path, s3://BUCKET/KEY.zip, gs://BUCKET/KEY.zip, http[s]://HOST/FILE.zip, and s3://BUCKET/PREFIX/ or "
    "gs://BUCKET/PREFIX/ for all objects below it, each with #sha256=DIGEST or without"
)
_ENDPOINT = r"(https?://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?"
OPTIONS = {
    "s3": {"region": r"[A-Za-z0-9_-]+", "endpoint_override": _ENDPOINT, "scheme": "https?"},
    "gs": {"endpoint_override": _ENDPOINT, "scheme": "https?"},
}
"""Scheme -> query parameter -> pattern of its decoded value; the names are those of `pyarrow.fs.FileSystem.from_uri`. A
web address may have none: its query could be a signature."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)  # not C:/
_SEGMENT = r"(?!\.{1,2}(/|$))[A-Za-z0-9._~=+!(),%s-]+"  # of a path: neither . nor .., and no @
_WEB, _STORE = _SEGMENT % "%;&$'*", _SEGMENT % " "
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,200}[a-z0-9]"
_PLACES = {  # scheme -> (host, path)
    "s3": (_BUCKET, _STORE),
    "gs": (f"(anonymous@)?{_BUCKET}", _STORE),
    "http": (r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", _WEB),
}
_PLACES["https"] = _PLACES["http"]
_FRAGMENT = re.compile(r"#sha256=[0-9A-Fa-f]{64}")
LONGEST = 100  # characters of the name of a local copy


@dataclass(frozen=True)
class Address:
    """An archive, or a prefix of an object store.

    scheme: s3, gs, http or https.  host: the bucket, or the server with its port.  path: without the first slash; of a
    prefix "" (the whole bucket) or with a slash at its end.  sha256: the content's digest, 64 lower-case hexadecimal
    digits, or None.  anonymous: read without credentials (gs only).
    """

    scheme: str
    host: str
    path: str
    options: tuple[tuple[str, str], ...] = ()
    anonymous: bool = False
    sha256: str | None = None

    @property
    def is_web(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_prefix(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def uri(self) -> str:
        """The URI without the digest."""
        query = "&".join(f"{name}={value}" for name, value in self.options)
        host = f"anonymous@{self.host}" if self.anonymous else self.host
        return f"{self.scheme}://{host}/{self.path}{f'?{query}' if query else ''}"

    def pinned(self, sha256: str) -> str:
        """The URI with this digest."""
        return f"{self.uri}#sha256={sha256}"

    @property
    def name(self) -> str:
        """Name of the local copy: the last part of the path in letters, digits, '_', '.' and '-'; not hidden."""
        last = self.path.rstrip("/").rpartition("/")[2] or self.host
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", unquote(last))[-LONGEST:].lstrip(".") or "data"

    @property
    def stem(self) -> str:
        return self.name if self.is_prefix else Path(self.name).stem

    def key(self, version: str | None) -> str:
        """24 hexadecimal digits that stand for this URI and this version of its content."""
        return blake2b(repr((self.uri, version)).encode(), digest_size=12).hexdigest()


def is_uri(place: str | os.PathLike) -> bool:
    """Whether a place is a URI and not a path of this machine."""
    return _URI.match(os.fspath(place)) is not None and not Path(place).exists()


def parse(uri: str | os.PathLike, what: str = "the data root") -> Address:
    """Parse and check a URI. Raises ValueError, whose message begins with `what` and does not repeat the URI."""
    match = _URI.fullmatch(os.fspath(uri))
    if match is None:
        raise ValueError(f"{what} is no URI; {ALLOWED} are allowed")
    scheme, slash, host, path, query, fragment = match.groups(default="")
    scheme = scheme.lower()
    options = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    if reason := _reason(scheme, slash, host, path, options if scheme in OPTIONS or not query else None, fragment):
        raise ValueError(
            f"{what} is a URI {scheme}:/{slash}… that is not allowed: {reason}. It is not repeated here, as it may "
            f"hold a secret. Allowed are {ALLOWED}"
        )
    anonymous, _, bucket = host.rpartition("@")
    sha256 = fragment.removeprefix("#sha256=").lower() or None
    return Address(scheme, bucket, path[1:], tuple(sorted(options)), bool(anonymous), sha256)


def _reason(
    scheme: str, slash: str, host: str, path: str, options: list[tuple[str, str]] | None, fragment: str
) -> str | None:
    """The first reason to refuse a URI of these parts, else None. options: None for a query that is never allowed."""
    if scheme not in _PLACES:
        return "its kind is unknown"
    if not slash:
        return "it has one slash; give it as text, pathlib.Path takes one of two out"
    host_pattern, segment = _PLACES[scheme]
    if not re.fullmatch(host_pattern, host) or not path:
        place = "HOST or HOST:PORT" if scheme.startswith("http") else "a bucket's name, 3 or more of a-z 0-9 . _ -"
        return f"{place}, and / come first; credentials belong into the environment, the store's own files or a role"
    if not re.fullmatch(f"/({segment}/)*({segment})?", path):
        return "its path has a part that is empty, '.' or '..', or one of the characters that are not allowed in it"
    if options is None:
        return "a web address with a query may be signed"
    known = OPTIONS.get(scheme, {})
    if not all(name in known and re.fullmatch(known[name], value) for name, value in options):
        return f"a query parameter is unknown or has a wrong value; {', '.join(known)} are known"
    if fragment and not _FRAGMENT.fullmatch(fragment):
        return "behind # there may be sha256= and 64 hexadecimal digits only"
    if path.endswith("/") and scheme.startswith("http"):
        return "a web server cannot list all files below an address"
    if not path.endswith("/") and not path.lower().endswith(".zip"):
        return "it is neither an archive (.zip) nor a prefix, which ends in /"
    return None
