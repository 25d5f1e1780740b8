"""URIs of data: an archive on a web server or in an object store, or all objects below a prefix of a store.

URIs are checked without connecting. They end up in logs and files, so a URI with a secret is refused, and the refusal
does not repeat it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

ALLOWED = (
    "s3://BUCKET/KEY.zip, gs://BUCKET/KEY.zip, http[s]://HOST/FILE.zip, and s3://BUCKET/PREFIX/ or gs://BUCKET/PREFIX/ "
    "for all objects below it, each with #sha256=DIGEST or without; of query parameters a bucket has region, "
    "endpoint_override and scheme; credentials belong into the environment"
)
_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?"
OPTIONS = {"region": r"[A-Za-z0-9_-]+", "endpoint_override": rf"(https?://)?{_HOST}/?", "scheme": "https?"}
"""Query parameter -> pattern of its decoded value; the names are those of `pyarrow.fs.FileSystem.from_uri`. A web
address has none: its query could be a signature."""

_ANY = re.compile(r"(^|/)[A-Za-z][A-Za-z0-9+.-]+:/")  # not C:/; or one that was made an absolute path
_PART = r"(?!\.{1,2}(/|$))[A-Za-z0-9._~=+!(),%;&$'* -]+"  # of a path: neither . nor .., and no @
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,200}[a-z0-9]"
_DIGEST = r"(#sha256=(?P<sha256>[0-9A-Fa-f]{64}))?"
_WEB = re.compile(rf"(?P<scheme>https?)://(?P<host>{_HOST})/(?P<path>({_PART}/)*{_PART}\.zip){_DIGEST}", re.IGNORECASE)
_STORE = re.compile(
    rf"(?P<scheme>s3|gs)://(?P<host>((?<=gs://)anonymous@)?{_BUCKET})/(?P<path>({_PART}/)*({_PART}\.(?i:zip))?)"
    rf"(\?(?P<query>[^#]*))?{_DIGEST}"
)
LONGEST = 100  # characters of the name of a local copy


@dataclass(frozen=True)
class Address:
    """An archive, or a prefix of an object store.

    uri: without the digest.  scheme: s3, gs, http or https.  host: the bucket (of gs: anonymous@bucket, read without
    credentials), or the server with its port.  path: without the first slash; of a prefix "" (the whole bucket) or with
    a slash at its end.  sha256: the content's digest, 64 lower-case hexadecimal digits, or None.
    """

    uri: str
    scheme: str
    host: str
    path: str
    options: dict[str, str]
    sha256: str | None

    @property
    def is_web(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_prefix(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def bucket(self) -> str:
        return self.host.removeprefix("anonymous@")

    def pinned(self, sha256: str) -> str:
        """The URI with this digest."""
        return f"{self.uri}#sha256={sha256}"

    @property
    def name(self) -> str:
        """Name of the local copy: the last part of the path in letters, digits, '_', '.' and '-'; not hidden."""
        last = self.path.rstrip("/").rpartition("/")[2] or self.bucket
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", unquote(last))[-LONGEST:].lstrip(".") or "data"

    @property
    def stem(self) -> str:
        return self.name if self.is_prefix else Path(self.name).stem


def local_path(place: str | os.PathLike, what: str) -> Path:
    """The absolute path of `place`, with ~ expanded.

    Raises ValueError for a URI, without repeating it, as it may hold a secret.
    """
    if is_uri(place):
        raise ValueError(f"{what} is a URI, which is not repeated here; a file or directory of this machine is needed")
    return Path(os.path.expanduser(place)).absolute()


def is_uri(place: str | os.PathLike) -> bool:
    """Whether a place is a URI and not a path of this machine."""
    return _ANY.search(os.fspath(place)) is not None and not Path(place).exists()


def parse(uri: str | os.PathLike, what: str = "the data root") -> Address:
    """Parse and check a URI. Raises ValueError, whose message begins with `what` and does not repeat the URI."""
    match = _STORE.fullmatch(os.fspath(uri)) or _WEB.fullmatch(os.fspath(uri))
    parts = match.groupdict() if match else {}
    options = dict(parse_qsl(parts.get("query") or "", keep_blank_values=True))
    unknown = [name for name, value in options.items() if not re.fullmatch(OPTIONS.get(name, "(?!)"), value)]
    if not match or unknown or ("region" in options and parts["scheme"] == "gs"):
        raise ValueError(
            f"{what} is a URI that is not allowed. It is not repeated here, as it may hold a secret. Allowed: {ALLOWED}"
        )
    sha256 = parts["sha256"] and parts["sha256"].lower()
    address = os.fspath(uri).partition("#")[0]
    return Address(address, parts["scheme"].lower(), parts["host"], parts["path"], options, sha256)
